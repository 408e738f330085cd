"""What goes over the wire: one struct per call, used by REST and MCP alike, with its bounds and their reasons."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from memory_site.problems import Problem
from memory_site.wire.structs import Int64, PointInTime, Uint64, ValidationFailed, check_uint64

MAX_BATCH = 250  # items
MAX_PAYLOAD_BYTES = 256 * 1024  # UTF-8 bytes of one payload's JSON text
MAX_BATCH_BYTES = 1024 * 1024  # of the payloads of one batch together
MAX_ITEMS = 100_000  # kept per conversation and generation
MAX_PAGE = 1000  # items or conversations in one answer

CONVERSATION_ID = re.compile(r"[A-Za-z0-9_-]*")
IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}")

# The struct judges these two itself, because their faults have codes of their own; the schema says the same.
ConversationId = Annotated[
    str,
    Meta(
        description="Chosen by the client: 8 to 64 letters, digits, hyphens and underscores.",
        examples=["support-7f3k2m9q"],
        extra_json_schema={"minLength": 8, "maxLength": 64, "pattern": "^[A-Za-z0-9_-]{8,64}$"},
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Meta(
        description="Makes a retry safe: the same key and content is stored once and answered as the first time. "
        "1 to 255 visible ASCII characters; kept for at least 24 hours.",
        extra_json_schema={"minLength": 1, "maxLength": 255, "pattern": "^[!-~]{1,255}$"},
    ),
]
# The text of an object, cut out of the request and never parsed.
JsonObject = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]
Generation = Annotated[
    Int64 | None,
    Meta(description="Refuse with `stale_generation` unless the conversation is in this generation."),
]


def check_conversation_id(conversation_id: str) -> None:
    """Raise ``invalid_conversation_id`` with its reason; never fall back to another conversation."""
    length = len(conversation_id)
    if length < 8:
        reason, words = "too_short", f"it has {length} characters, at least 8 are needed"
    elif length > 64:
        reason, words = "too_long", f"it has {length} characters, at most 64 are allowed"
    elif not CONVERSATION_ID.fullmatch(conversation_id):
        reason, words = "invalid_characters", "only letters, digits, hyphens and underscores are allowed"
    else:
        return
    raise Problem(
        "invalid_conversation_id", f"The conversation id does not fit: {words}.", field="conversation_id", reason=reason
    )


def check_idempotency_key(key: str | None) -> None:
    """Refuse a key that could not have been sent as a header."""
    if key is not None and not IDEMPOTENCY_KEY.fullmatch(key):
        raise ValidationFailed("idempotency_key", "An idempotency key is 1 to 255 visible ASCII characters.")


class AppendItems(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Append a batch to a conversation: all of it or nothing."""

    conversation_id: ConversationId
    items: Annotated[
        list[JsonObject],
        Meta(
            description="1 to 250 JSON objects, kept byte for byte.",
            examples=[[{"role": "user", "content": "Hello"}]],
            extra_json_schema={"minItems": 1, "maxItems": MAX_BATCH},
        ),
    ]
    expected_seq: Annotated[
        Int64 | None,
        Meta(description="The number that the first item must get; otherwise `seq_conflict` and nothing is stored."),
    ] = None
    expected_generation: Generation = None
    idempotency_key: IdempotencyKey = None

    def __post_init__(self) -> None:
        check_conversation_id(self.conversation_id)
        check_idempotency_key(self.idempotency_key)
        if not self.items:
            raise Problem("empty_batch", "A batch has at least one item.", field="/items")
        if len(self.items) > MAX_BATCH:
            raise Problem(
                "too_many_items",
                f"The batch has {len(self.items)} items; at most {MAX_BATCH} are taken.",
                field="/items",
                limit=MAX_BATCH,
            )
        total = 0
        for index, item in enumerate(self.items):
            total += check_payload(memoryview(item), f"/items/{index}")
        if total > MAX_BATCH_BYTES:
            raise Problem(
                "batch_too_large",
                f"The payloads have {total} bytes together; at most {MAX_BATCH_BYTES} are taken.",
                field="/items",
                limit=MAX_BATCH_BYTES,
            )


def check_payload(payload: memoryview, field: str) -> int:
    """Return the size in bytes of one payload; refuse what is not an object, or too large."""
    if not payload or payload[0] != ord("{"):
        raise Problem("invalid_item", f"The item at `{field}` is not a JSON object.", field=field)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise Problem(
            "payload_too_large",
            f"The item at `{field}` has {len(payload)} bytes; at most {MAX_PAYLOAD_BYTES} are taken.",
            field=field,
            limit=MAX_PAYLOAD_BYTES,
        )
    return len(payload)


class Appended(msgspec.Struct):
    """The numbers that a batch got."""

    first_seq: Annotated[Uint64, Meta(description="Of the first item of the batch.", examples=[0])]
    last_seq: Annotated[Uint64, Meta(description="Of the last item of the batch.", examples=[1])]
    generation: Annotated[int, Meta(ge=0, description="Counts the resets and deletions of the conversation.")]


class RecallItems(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Read the last items of a conversation, oldest first."""

    conversation_id: ConversationId
    count: Annotated[int, Meta(ge=0, le=MAX_PAGE, description="How many of the last items.")] = 50

    def __post_init__(self) -> None:
        check_conversation_id(self.conversation_id)


class ReplayItems(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Read items from a sequence number on, oldest first."""

    conversation_id: ConversationId
    limit: Annotated[int, Meta(ge=0, le=MAX_PAGE, description="How many items at most.")] = MAX_PAGE
    offset: Annotated[Uint64, Meta(description="The first sequence number to read.")] = 0

    def __post_init__(self) -> None:
        check_conversation_id(self.conversation_id)
        check_uint64(offset=self.offset)


class Item(msgspec.Struct):
    """One record of a conversation."""

    seq: Annotated[Uint64, Meta(description="0, 1, 2, … in the order of the appends.", examples=[0])]
    recorded_at: Annotated[
        str,
        Meta(
            description="When it was stored, by the database's clock: RFC 3339, UTC, microseconds.",
            examples=["2026-01-31T12:00:00.000000Z"],
        ),
    ]
    payload: Annotated[
        JsonObject,
        Meta(description="The object, byte for byte as it was sent.", examples=[{"role": "user", "content": "Hello"}]),
    ]


class Items(msgspec.Struct):
    """A stretch of a conversation, oldest first."""

    items: list[Item]


class ListConversations(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """List the site's conversations, most recently appended first."""

    limit: Annotated[int, Meta(ge=0, le=MAX_PAGE, description="How many at most.")] = 50
    cursor: Annotated[str | None, Meta(description="`next_cursor` of the page before.")] = None
    appended_after: Annotated[PointInTime | None, Meta(description="Only those appended to after this time.")] = None
    appended_before: Annotated[
        PointInTime | None, Meta(description="Only those last appended to before this time.")
    ] = None


class ListedConversation(msgspec.Struct):
    """One conversation of a list; nothing of its contents."""

    conversation_id: ConversationId
    created_at: Annotated[
        str, Meta(description="When its first item was stored.", examples=["2026-01-31T12:00:00.000000Z"])
    ]
    last_appended_at: Annotated[
        str, Meta(description="When its last item was stored.", examples=["2026-01-31T12:00:00.000000Z"])
    ]


class Conversations(msgspec.Struct):
    """A page of a list."""

    conversations: list[ListedConversation]
    next_cursor: Annotated[str | None, Meta(description="Where the next page begins; null at the end.")]
