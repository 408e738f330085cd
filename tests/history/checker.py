"""The history check: what clients wrote down, held against what the log promises.

Clients record every call with what they know of its fate. ``violations`` compares that with a reading of everything
that was made in the end, when nothing moves any more. Whatever was done to the server meanwhile, the list is empty,
or a promise was broken. All times are of one monotonic clock, so "before" is meant across processes.
"""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import msgspec


class Fate(StrEnum):
    """What a client knows of its append."""

    OK = "ok"
    REFUSED = "refused"
    """Surely not written: a 4xx or a 503, and no attempt before it that broke off."""
    UNKNOWN = "unknown"
    """A dropped connection or a 504, and no retry that told."""


class Answer(NamedTuple):
    first_seq: int
    last_seq: int
    generation: int


class Stored(NamedTuple):
    seq: int
    recorded_at: str
    payload: str


Log: TypeAlias = tuple[str, str]
"""A site and a conversation id."""


class Append(msgspec.Struct, frozen=True, tag=True):
    """One append, with all its retries."""

    call: str
    log: Log
    size: int
    fate: Fate
    began: float
    ended: float
    answers: tuple[Answer, ...] = ()
    """Every 2xx, in order: more than one when a client repeated a keyed call that had been answered."""
    expected_seq: int | None = None
    broken: int = 0
    """How many attempts ended with a broken connection or a 504."""


class Read(msgspec.Struct, frozen=True, tag=True):
    """A stretch of a log as it was read."""

    log: Log
    began: float
    ended: float
    items: tuple[Stored, ...]
    to_the_end: bool
    """Whether nothing followed when it was read, so that what was acknowledged before must be in it."""


class Surprise(msgspec.Struct, frozen=True, tag=True):
    """An answer that no client may get, such as a 500."""

    text: str


Event: TypeAlias = Append | Read | Surprise


class Kind(StrEnum):
    """The promises, by how they are broken."""

    SURPRISE = "an answer that must not be"
    LOST = "an acknowledged batch is missing"
    TWICE = "an item is there more than once"
    TORN = "a batch is there in part, or not in one piece"
    MISPLACED = "a batch is not where its answer says"
    REFUSED = "a refused batch is there"
    FOREIGN = "something is there that was not sent there, or not so"
    HOLE = "a sequence number is missing"
    CLOCK = "recorded_at goes back, or differs within a batch"
    OTHER_ANSWER = "a repeated key got another answer"
    FENCE = "expected_seq was not kept"
    ORDER = "a batch stands before one that was answered before it was sent"
    UNSTABLE = "a read is no part of a later one"
    STALE = "a read lacks what was acknowledged or read before it"
    LISTING = "the list names other conversations than have items"


class Violation(NamedTuple):
    kind: Kind
    detail: str


class Final(NamedTuple):
    """Everything, read when all was over: the items of every log, and the conversations that each site lists."""

    items: dict[Log, list[Stored]]
    listed: dict[str, list[str]]
    refused: list[str]
    """Reads that were not answered."""


def payload_of(call: str, index: int, size: int) -> str:
    """Return the JSON text that the client sends as this item: nobody else sends the same."""
    # The spacing, the number's spelling and the escape would not survive being parsed and printed.
    return f'{{"call":"{call}", "item":{index},"of":{size},"as-sent":1.0,"text":"\\u00e9{"é" * (index % 7 * 9)}"}}'


def violations(events: Iterable[Event], final: Final) -> list[Violation]:
    """Return every promise that this history breaks."""
    appends: dict[Log, list[Append]] = defaultdict(list)
    reads: dict[Log, list[Read]] = defaultdict(list)
    found = [Violation(Kind.SURPRISE, text) for text in final.refused]
    for event in events:
        match event:
            case Append():
                appends[event.log].append(event)
            case Read():
                reads[event.log].append(event)
            case Surprise():
                found.append(Violation(Kind.SURPRISE, event.text))
    for log in appends.keys() | reads.keys() | final.items.keys():
        items = final.items.get(log, [])
        found += [
            Violation(kind, f"{'/'.join(log)}: {detail}")
            for check in (
                _check_sequence(items),
                _check_batches(appends[log], items),
                _check_order(appends[log]),
                _check_reads(reads[log], appends[log], items),
            )
            for kind, detail in check
        ]
    for site, listed in final.listed.items():
        expected = sorted(name for (owner, name), items in final.items.items() if owner == site and items)
        if sorted(listed) != expected:
            found.append(Violation(Kind.LISTING, f"{site}: {sorted(listed)} instead of {expected}"))
    return found


Faults: TypeAlias = Iterator[tuple[Kind, str]]


def _check_sequence(items: list[Stored]) -> Faults:
    for expected, item in enumerate(items):
        if item.seq != expected:
            yield Kind.HOLE, f"{item.seq} in place of {expected}"
            break
    for earlier, later in pairwise(items):
        if later.recorded_at < earlier.recorded_at:
            yield Kind.CLOCK, f"{later.seq} is of {later.recorded_at}, {earlier.seq} of {earlier.recorded_at}"


def _check_batches(appends: list[Append], items: list[Stored]) -> Faults:
    sizes = {append.call: append.size for append in appends}
    places: dict[str, list[tuple[int, Stored]]] = defaultdict(list)
    for item in items:
        sent = json.loads(item.payload)
        call, index = str(sent.get("call")), sent.get("item", -1)
        if call not in sizes or not 0 <= index < sizes[call] or item.payload != payload_of(call, index, sizes[call]):
            yield Kind.FOREIGN, f"{item.seq} holds {item.payload}"
        else:
            places[call].append((index, item))
    for append in appends:
        yield from _check_answers(append)
        found = places[append.call]
        if not found:
            if append.fate is Fate.OK:
                yield Kind.LOST, f"{append.call}, answered with {append.answers[0]}"
            continue
        first = found[0][1].seq
        if append.fate is Fate.REFUSED:
            yield Kind.REFUSED, f"{append.call} at {first}"
        if len(found) > len({index for index, _ in found}):
            yield Kind.TWICE, f"{append.call} has {len(found)} items of {append.size}"
        elif [(index, item.seq) for index, item in found] != [(i, first + i) for i in range(append.size)]:
            yield Kind.TORN, f"{append.call}, {append.size} items, is at {[item.seq for _, item in found]}"
        if append.fate is Fate.OK and first != append.answers[0].first_seq:
            yield Kind.MISPLACED, f"{append.call} is at {first}, answered with {append.answers[0]}"
        if len({item.recorded_at for _, item in found}) > 1:
            yield Kind.CLOCK, f"{append.call} has several times"


def _check_answers(append: Append) -> Faults:
    for answer in append.answers:
        if answer != append.answers[0]:
            yield Kind.OTHER_ANSWER, f"{append.call}: {answer} after {append.answers[0]}"
        if answer.last_seq - answer.first_seq + 1 != append.size:
            yield Kind.MISPLACED, f"{append.call}: {answer} for {append.size} items"
        if append.expected_seq not in (None, answer.first_seq):
            yield Kind.FENCE, f"{append.call} expected {append.expected_seq} and got {answer}"


def _check_order(appends: list[Append]) -> Faults:
    latest: Append | None = None
    acknowledged = [append for append in appends if append.fate is Fate.OK]
    for append in sorted(acknowledged, key=lambda append: append.answers[0].first_seq):
        if latest is not None and append.ended < latest.began:
            yield Kind.ORDER, f"{append.call} stands behind {latest.call}, which was sent after its answer"
        if latest is None or append.began > latest.began:
            latest = append


def _check_reads(reads: list[Read], appends: list[Append], items: list[Stored]) -> Faults:
    known = [(append.ended, append.answers[0].last_seq + 1) for append in appends if append.fate is Fate.OK]
    known += [(read.ended, read.items[-1].seq + 1) for read in reads if read.items]
    known.sort()
    times, ends = [time for time, _ in known], [0]
    for _, end in known:
        ends.append(max(ends[-1], end))
    for read in reads:
        if read.items:
            start, end = read.items[0].seq, read.items[-1].seq + 1
            if list(read.items) != items[start:end]:
                yield Kind.UNSTABLE, f"{start} to {end - 1} was read otherwise than in the end"
        else:
            end = 0
        if read.to_the_end and end < (least := ends[bisect_left(times, read.began)]):
            yield Kind.STALE, f"a read ended at {end}, when {least} items were known of"
