"""A conversation as people read it: pages of items, with role and content where an item has them, all of it as text.

Stored text was written by anybody. It is shown as text and never as markup, and what it could hide behind (controls,
marks that turn the reading direction) is made visible.
"""

import re
from dataclasses import dataclass
from typing import Any

import msgspec
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from conversations import contracts, log
from conversations.inspection import next_kept
from conversations.models import Conversation
from memory_site.problems import Problem

PAGE = 50  # items
MAX_BYTES = 2 * PAGE * contracts.MAX_PAYLOAD_BYTES
FOLDED = 1_500  # characters: a longer text is folded
CUT = 20_000  # characters: of a longer one the page has the beginning, and a link to all of it
PRETTY = 16 * 1024  # characters, and levels: what is larger or deeper is shown as it is
PRETTY_LEVELS = 32
MAX_SEQ = 2**63 - 1

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', re.DOTALL)
# Controls but tab and line feed; marks of direction; what has no width (but joiners, which emoji and many scripts
# are made with); line and paragraph separators; tags.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
ROLES = ("user", "assistant", "system", "tool")


class Glance(msgspec.Struct):
    """What is looked at in a payload, wherever it comes from."""

    role: msgspec.Raw = msgspec.Raw()
    content: msgspec.Raw = msgspec.Raw()


class Part(msgspec.Struct):
    """A part of a content that is a list, as several APIs have it."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text with everything in it visible, and how it is shown."""

    html: SafeString
    folded: bool
    cut: bool
    length: int
    beginning: SafeString


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of the page."""

    seq: int
    recorded_at: str
    size: int
    role: str | None
    known_role: str | None
    content: Text | None
    payload: Text


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch of a transcript, and the ways to the others."""

    entries: list[Entry]
    start: int
    problem: Problem | None
    behind_hole: int | None
    first: int | None
    previous: int | None
    next: int | None
    last: int | None

    @property
    def end(self) -> int:
        """The number of the last item shown."""
        return self.entries[-1].seq if self.entries else self.start


def read_page(conversation: Conversation, start: int | None) -> Page:
    """Return the page that begins at a number, or the last one; past the end it is the last one too.

    Any page costs the same, at the start and at the end. A hole is told of, with what stands before it.
    """
    first, last = conversation.first_seq, max(conversation.first_seq, conversation.next_seq - PAGE)
    start = last if start is None or start >= conversation.next_seq else max(first, start)
    items, problem, behind = read_items(conversation, start)
    following = start + PAGE if problem is None else behind
    return Page(
        entries=[entry_of(item) for item in items],
        start=start,
        problem=problem,
        behind_hole=behind,
        first=first if start > first else None,
        previous=max(first, start - PAGE) if start > first else None,
        next=following if following is not None and following < conversation.next_seq else None,
        last=last if start < last else None,
    )


def read_items(conversation: Conversation, start: int) -> tuple[list[contracts.Item], Problem | None, int | None]:
    """Return items from a number on up to the end of the page or a hole, and what is wrong there."""
    try:
        return replay(conversation, start, PAGE), None, None
    except Problem as problem:
        if problem.code == "corrupted":
            hole: int = problem.members["seq"]
            before = replay(conversation, start, hole - start) if hole > start else []
            return before, problem, next_kept(conversation, hole)
        if problem.code == "response_too_large":
            # Only what came in past the limits can be so large.
            return [], problem, start + 1
        raise


def replay(conversation: Conversation, start: int, limit: int) -> list[contracts.Item]:
    call = contracts.ReplayItems(conversation_id=conversation.conversation_id, offset=start, limit=limit)
    return log.replay(conversation.site, call, max_bytes=MAX_BYTES).items


def entry_of(item: contracts.Item) -> Entry:
    """Return an item as it is shown: its JSON always, role and content when it has them."""
    payload = bytes(item.payload)
    role, content = glance(payload)
    return Entry(
        seq=item.seq,
        recorded_at=item.recorded_at,
        size=len(payload),
        role=None if role is None else show(role[:64]),
        known_role=role if role in ROLES else None,
        content=None if content is None else text_of(content),
        payload=text_of(pretty(payload.decode(errors="replace")), folded=True),
    )


def glance(payload: bytes) -> tuple[str | None, str | None]:
    """Return role and content of a payload, each if it is what chat APIs mean by it."""
    try:
        seen = msgspec.json.decode(payload, type=Glance)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None, None
    content = decoded(seen.content, str)
    if content is None:
        parts = decoded(seen.content, list[Part])
        content = "\n\n".join(part.text for part in parts) if parts else None
    return decoded(seen.role, str), content


def decoded(raw: msgspec.Raw, kind: Any) -> Any:
    """Return a value if it is of a kind, else None."""
    if not bytes(raw):
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def pretty(payload: str) -> str:
    """Return JSON indented, every token as it was written; what is large or deep stays as it is.

    Indenting deep nesting would make a page of gigabytes out of a payload of kilobytes.
    """
    if len(payload) > PRETTY or levels(payload) > PRETTY_LEVELS:
        return payload
    try:
        return msgspec.json.format(payload, indent=2)
    except (msgspec.MsgspecError, RecursionError):
        return payload


def levels(payload: str) -> int:
    """Return how deep brackets are nested."""
    depth = deepest = 0
    for token in TOKEN.finditer(payload):
        match token[0][0]:
            case "{" | "[":
                depth += 1
                deepest = max(deepest, depth)
            case "}" | "]":
                depth -= 1
    return deepest


def text_of(text: str, *, folded: bool | None = None) -> Text:
    """Return a text as it is shown: folded when it is long, cut when it is huge."""
    return Text(
        html=show(text[:CUT]),
        folded=len(text) > FOLDED if folded is None else folded,
        cut=len(text) > CUT,
        length=len(text),
        beginning=show(" ".join(text[:160].split())),
    )


def show(text: str) -> SafeString:
    """Return a text as HTML that shows every character of it, those too that nobody sees."""
    return mark_safe(HIDDEN.sub(mark, escape(text)))  # noqa: S308  # escaped; the marks are ours


def mark(hidden: re.Match[str]) -> str:
    return f'<span class="hidden-character">U+{ord(hidden[0]):04X}</span>'
