"""What goes over the wire for records: one struct per call, used by REST and MCP alike, with its bounds."""

import re
import unicodedata
from typing import Annotated

import msgspec
from msgspec import Meta

from memory_site.problems import Problem
from memory_site.wire.structs import MAX_INT64, PointInTime, ValidationFailed

MAX_VALUE_BYTES = 256 * 1024  # UTF-8 bytes of one value's JSON text
MAX_KEY_BYTES = 512
MAX_TTL = 315_360_000  # seconds: ten years of 365 days
MAX_PAGE = 1000  # records in one answer
MAX_LABELS = 64  # tags, and topics, of one record that lists filter by
MAX_LABEL_BYTES = 256  # of a kind, tag or topic that lists filter by
RESERVED = "checkpoint/"

NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
ENTITY_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')
ENTITY_TAGS = re.compile(rf"\s*{ENTITY_TAG.pattern}\s*(,\s*{ENTITY_TAG.pattern}\s*)*")
REVISION = re.compile(r"0|[1-9][0-9]{0,18}")

# The structs judge these themselves, wherever a value comes from; the schemas say the same.
NamespaceName = Annotated[
    str,
    Meta(
        description="1 to 64 letters, digits, `_`, `.` and `-`; appears with the first write.",
        examples=["project-atlas"],
        extra_json_schema={"minLength": 1, "maxLength": 64, "pattern": r"^(?!\.\.?$)[A-Za-z0-9_.-]{1,64}$"},
    ),
]
Key = Annotated[
    str,
    Meta(
        description="1 to 512 bytes of UTF-8 without control characters. A slash is part of it, a last one too; none "
        "of the parts between slashes is `.` or `..`.",
        examples=["decisions/database"],
        extra_json_schema={
            "minLength": 1,
            "maxLength": 512,
            "pattern": r"^(?!(.*/)?\.\.?(/|$))[^\u0000-\u001f\u007f-\u009f]{1,512}$",
        },
    ),
]
Revision = Annotated[
    int, Meta(ge=0, le=MAX_INT64, description="Grows with every write of the key, across deletion and expiry too.")
]
EntityTags = Annotated[
    str, Meta(extra_json_schema={"pattern": r'^(\*|(0|[1-9][0-9]{0,18})|"[!#-~]*"(, ?"[!#-~]*")*)$'})
]
IfMatch = Annotated[
    int | EntityTags | None,
    Meta(
        description="Refuse with `precondition_failed` unless the record has this revision now: `7`, or `*` for any.",
        examples=['"7"'],
    ),
]
Label = Annotated[
    str,
    Meta(
        extra_json_schema={"minLength": 1, "maxLength": MAX_LABEL_BYTES, "pattern": r"^[^\u0000]*$"},
        examples=["database"],
    ),
]
Time = Annotated[
    str, Meta(description="RFC 3339, UTC, microseconds.", examples=["2026-01-31T12:00:00.000000Z"], min_length=27)
]
Size = Annotated[int, Meta(ge=0, description="Bytes of the value's JSON text.")]


def fault_of_namespace(namespace: str) -> str | None:
    """Say why a text is no name of a namespace, if it is none."""
    if namespace in (".", ".."):
        return "A namespace is not `.` or `..`, which clients resolve in addresses."
    if not NAMESPACE.fullmatch(namespace):
        return "A namespace is 1 to 64 letters, digits, `_`, `.` and `-`."
    return None


def fault_of_key(key: str) -> str | None:
    """Say why a text is no key, if it is none."""
    length = len(key.encode())
    if not 1 <= length <= MAX_KEY_BYTES:
        return f"A key has 1 to {MAX_KEY_BYTES} bytes; this one has {length}."
    if any(unicodedata.category(character) == "Cc" for character in key):
        return "A key has no control characters."
    if any(part in (".", "..") for part in key.split("/")):
        return "No part of a key is `.` or `..`, which clients resolve in addresses."
    return None


def check(field: str, fault: str | None) -> None:
    """Refuse a field that has a fault."""
    if fault is not None:
        raise ValidationFailed(field, fault)


def check_label(field: str, label: str) -> None:
    """Refuse a kind, tag or topic that no record can have in a list."""
    if "\0" in label or not 1 <= len(label.encode()) <= MAX_LABEL_BYTES:
        raise ValidationFailed(field, f"`{field}` is 1 to {MAX_LABEL_BYTES} bytes without NUL.")


def revisions_of(field: str, tags: int | str | None) -> list[int] | None:
    """Return the revisions that entity tags name (RFC 9110, section 8.8.3), or None for ``*`` or no tags at all.

    Beside ``"7"`` a bare ``7`` is taken, as a number or a text: nothing else can be meant. A weak tag names none
    where the strong comparison is asked for, and here it always is: weak ones are made by what changes bodies.
    """
    if tags is None or tags == "*":
        return None
    if isinstance(tags, int):
        return [tags] if 0 <= tags <= MAX_INT64 else []
    if REVISION.fullmatch(tags):
        return [int(tags)] if int(tags) <= MAX_INT64 else []
    if not ENTITY_TAGS.fullmatch(tags):
        raise ValidationFailed(field, 'A condition is a revision in quotation marks, such as "7", or `*` for any.')
    named = [opaque for weak, opaque in ENTITY_TAG.findall(tags) if not weak]
    return [int(name) for name in named if REVISION.fullmatch(name) and int(name) <= MAX_INT64]


class PutRecord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Keep a JSON value under a key, in place of the one before."""

    namespace: NamespaceName
    key: Key
    value: Annotated[msgspec.Raw, Meta(description="Any JSON, kept byte for byte; at most 256 KiB.")]
    ttl: (
        Annotated[
            int, Meta(ge=1, le=MAX_TTL, description="Seconds to live. Without it the namespace's default, or for ever.")
        ]
        | None
    ) = None
    if_match: IfMatch = None
    if_none_match: Annotated[
        bool | Annotated[str, Meta(extra_json_schema={"const": "*"})] | None,
        Meta(description="`*`: refuse with `precondition_failed` if there is a record under the key."),
    ] = None

    def __post_init__(self) -> None:
        check("namespace", fault_of_namespace(self.namespace))
        check("key", fault_of_key(self.key))
        revisions_of("if_match", self.if_match)
        if self.if_none_match not in (None, True, False, "*"):
            raise ValidationFailed("if_none_match", "The condition that there is no record is written `*`.")
        if self.size > MAX_VALUE_BYTES:
            raise Problem(
                "payload_too_large",
                f"The value has {self.size} bytes; at most {MAX_VALUE_BYTES} are taken.",
                field="/value",
                limit=MAX_VALUE_BYTES,
            )
        check_not_reserved(self.key)

    @property
    def size(self) -> int:
        return len(memoryview(self.value))

    @property
    def must_be_new(self) -> bool:
        return bool(self.if_none_match)


def check_not_reserved(key: str) -> None:
    """Refuse a write under the reserved prefix."""
    if key.startswith(RESERVED):
        raise Problem("reserved_key", f"Keys under `{RESERVED}` are reserved: checkpoints have calls of their own.")


class StoredRecord(msgspec.Struct):
    """What is known of a record beside its value."""

    key: Key
    revision: Revision
    updated_at: Time
    expires_at: Time | None
    size: Size


class GetRecord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Read the value under a key."""

    namespace: NamespaceName
    key: Key
    if_none_match: Annotated[
        EntityTags | None,
        Meta(description='Answer 304 if the record still has this revision: `"7"`, or `*` for any.', examples=['"7"']),
    ] = None

    def __post_init__(self) -> None:
        check("namespace", fault_of_namespace(self.namespace))
        check("key", fault_of_key(self.key))
        revisions_of("if_none_match", self.if_none_match)

    def has(self, revision: int) -> bool:
        """Say whether the caller has this revision already (the weak comparison: W/ makes no difference)."""
        if self.if_none_match is None:
            return False
        known = revisions_of("if_none_match", self.if_none_match.replace('W/"', '"'))
        return known is None or revision in known


class Record(StoredRecord):
    """A record with its value."""

    value: Annotated[msgspec.Raw, Meta(description="The JSON, byte for byte as it was sent.")]


class DeleteRecord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Remove the record under a key, if there is one."""

    namespace: NamespaceName
    key: Key
    if_match: IfMatch = None

    def __post_init__(self) -> None:
        check("namespace", fault_of_namespace(self.namespace))
        check("key", fault_of_key(self.key))
        revisions_of("if_match", self.if_match)
        check_not_reserved(self.key)


class ListRecords(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """List the records of a namespace by key."""

    namespace: NamespaceName
    prefix: Annotated[
        Annotated[str, Meta(extra_json_schema={"maxLength": MAX_KEY_BYTES, "pattern": r"^[^\u0000]*$"})] | None,
        Meta(description="Only keys that begin so.", examples=["decisions/"]),
    ] = None
    kind: Annotated[Label | None, Meta(description="Only values with this `kind`.", examples=["decision"])] = None
    tag: Annotated[
        Label | Annotated[list[Label], Meta(extra_json_schema={"maxItems": MAX_LABELS})] | None,
        Meta(description="Only values with this tag, or with all of these."),
    ] = None
    topic: Annotated[
        Label | Annotated[list[Label], Meta(extra_json_schema={"maxItems": MAX_LABELS})] | None,
        Meta(description="Only values with this topic, or with all of these."),
    ] = None
    event_after: Annotated[PointInTime | None, Meta(description="Only values whose event came after this time.")] = None
    event_before: Annotated[PointInTime | None, Meta(description="Only values whose event came before this time.")] = (
        None
    )
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="How many at most.")] = 100
    cursor: Annotated[str | None, Meta(description="`next_cursor` of the page before.")] = None

    def __post_init__(self) -> None:
        check("namespace", fault_of_namespace(self.namespace))
        if self.prefix is not None and ("\0" in self.prefix or len(self.prefix.encode()) > MAX_KEY_BYTES):
            raise ValidationFailed("prefix", f"`prefix` is at most {MAX_KEY_BYTES} bytes without NUL.")
        if self.kind is not None:
            check_label("kind", self.kind)
        for field, labels in (("tag", self.tags), ("topic", self.topics)):
            if len(labels) > MAX_LABELS:
                raise ValidationFailed(field, f"`{field}` can be given {MAX_LABELS} times at most.")
            for label in labels:
                check_label(field, label)

    @property
    def tags(self) -> list[str]:
        return [self.tag] if isinstance(self.tag, str) else self.tag or []

    @property
    def topics(self) -> list[str]:
        return [self.topic] if isinstance(self.topic, str) else self.topic or []


class ListedRecord(StoredRecord):
    """One record of a list: everything but its value."""

    kind: str | None
    tags: list[str]
    topics: list[str]
    event_time: Annotated[Time | None, Meta(description="The value's `event_time`, or else its `observed_at`.")]


class Records(msgspec.Struct):
    """A page of a list."""

    records: list[ListedRecord]
    next_cursor: Annotated[str | None, Meta(description="Where the next page begins; null at the end.")]


class Deleted(msgspec.Struct):
    """What a removal found."""

    deleted: Annotated[bool, Meta(description="Whether there was something to remove; either way it is gone.")]
