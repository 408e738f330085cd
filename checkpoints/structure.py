"""What lists filter by, read from values that have it: kind, tags, topics and the time of the event."""

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from checkpoints.contracts import MAX_LABEL_BYTES, MAX_LABELS
from memory_site.wire.structs import TIME


class Structure(NamedTuple):
    """The columns that are filled from a value; None for what it does not have."""

    kind: str | None = None
    tags: list[str] | None = None
    topics: list[str] | None = None
    event_time: datetime | None = None


class Structured(msgspec.Struct):
    """The members of an object that are looked at, each uncut: any of them may be anything."""

    kind: msgspec.Raw = msgspec.Raw(b"null")
    tags: msgspec.Raw = msgspec.Raw(b"null")
    topics: msgspec.Raw = msgspec.Raw(b"null")
    event_time: msgspec.Raw = msgspec.Raw(b"null")
    observed_at: msgspec.Raw = msgspec.Raw(b"null")


members = msgspec.json.Decoder(Structured)
text = msgspec.json.Decoder(str)
texts = msgspec.json.Decoder(list[str])


def structure_of(value: msgspec.Raw) -> Structure:
    """Return what a valid JSON value says of itself; any JSON is accepted, so what does not fit is not there.

    A kind, tag or topic that no filter can name (empty, longer than a filter takes, with a NUL) and those behind
    the first 64 are left out of lists; the value keeps them.
    """
    try:
        found = members.decode(value)
    except (msgspec.ValidationError, RecursionError):
        return Structure()
    return Structure(
        kind=kind_of(found.kind),
        tags=labels_of(found.tags),
        topics=labels_of(found.topics),
        event_time=time_of(found.event_time) or time_of(found.observed_at),
    )


def kind_of(member: msgspec.Raw) -> str | None:
    try:
        kind = text.decode(member)
    except msgspec.ValidationError:
        return None
    return kind if is_label(kind) else None


def labels_of(member: msgspec.Raw) -> list[str] | None:
    try:
        labels = texts.decode(member)
    except (msgspec.ValidationError, RecursionError):
        return None
    return [label for label in dict.fromkeys(labels) if is_label(label)][:MAX_LABELS] or None


def is_label(label: str) -> bool:
    return "\0" not in label and 1 <= len(label.encode()) <= MAX_LABEL_BYTES


def time_of(member: msgspec.Raw) -> datetime | None:
    """Return a time with an offset (RFC 3339) in UTC; anything else is no point in time."""
    try:
        given = text.decode(member)
        return msgspec.convert(given, datetime).astimezone(UTC) if TIME.fullmatch(given) else None
    except (msgspec.ValidationError, OverflowError, ValueError):
        return None
