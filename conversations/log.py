"""The conversation log: append, recall, replay, list.

The rule above all: an acknowledged append is durable, atomic and in order; an unacknowledged one is safe to retry.
"""

import hashlib
from datetime import datetime
from operator import itemgetter
from typing import Any

import msgspec

from conversations import contracts
from conversations.filters import ConversationFilter
from conversations.models import Conversation, conversation_key
from memory_site.database import statements
from memory_site.database.expressions import RFC3339_TEXT, Rfc3339
from memory_site.problems import Problem
from memory_site.sites.models import Site
from memory_site.wire.pagination import decode_cursor, encode_cursor
from memory_site.wire.structs import Written

RECEIPT_KEY = "receipt_pkey"
MAX_INT64 = 2**63 - 1

# One statement in autocommit: it is its own transaction, and the row of the conversation is locked for as short as
# can be. It answers one row, or none when a condition refused it: why, EXPLAIN_REFUSAL says.
#
# - The receipt is looked up first, so that a retry writes nothing. Two calls with the same key at the same moment
#   both find none; then the second one's receipt breaks the primary key and takes its items back with it.
# - ON CONFLICT DO UPDATE waits for the row's lock and sees what the writer before it committed; the conditions in
#   its WHERE are judged on that. So are the clocks in SET: now() would be the time before the wait.
# - The batch is sent in PostgreSQL's binary form (%()b): as text psycopg escapes every quotation mark by itself, and
#   JSON is full of them (a batch of 50 ordinary items took seven times as long).
# - A conversation that does not exist yet is in generation 0 and expects number 0: the guards keep any other
#   expectation from creating it.
APPEND = """
WITH place AS (
    INSERT INTO conversation AS c
        (id, site_id, conversation_id, generation, first_seq, next_seq, created_at, last_appended_at)
    SELECT %(id)s::uuid, %(site)s::uuid, %(conversation_id)s::text, 0, 0, %(count)s::bigint,
           clock, clock
    FROM (SELECT clock_timestamp() AS clock) AS now
    WHERE NOT EXISTS (
            SELECT FROM receipt WHERE conversation_id = %(id)s::uuid AND key_digest = %(key_digest)s::bytea
          )
      AND (
            (coalesce(%(expected_seq)s::bigint, 0) = 0 AND coalesce(%(expected_generation)s::bigint, 0) = 0)
            OR EXISTS (SELECT FROM conversation WHERE id = %(id)s::uuid)
          )
    ON CONFLICT (id) DO UPDATE SET
        next_seq = c.next_seq + %(count)s::bigint,
        (created_at, last_appended_at) = (
            SELECT coalesce(c.created_at, clock), greatest(c.last_appended_at, clock)
            FROM (SELECT clock_timestamp() AS clock) AS now
        )
    WHERE c.next_seq - c.first_seq + %(count)s::bigint <= %(max_items)s::bigint
      AND c.next_seq = coalesce(%(expected_seq)s::bigint, c.next_seq)
      AND c.generation = coalesce(%(expected_generation)s::bigint, c.generation)
    RETURNING generation, next_seq - %(count)s::bigint AS first_seq, last_appended_at AS recorded_at
), stored AS (
    INSERT INTO item (conversation_id, generation, seq, recorded_at, payload)
    SELECT %(id)s::uuid, generation, first_seq + position - 1, recorded_at, payload
    FROM place, unnest(%(payloads)b::text[]) WITH ORDINALITY AS batch (payload, position)
), remembered AS (
    INSERT INTO receipt
        (conversation_id, key_digest, content_digest, generation, first_seq, last_seq, recorded_at)
    SELECT %(id)s::uuid, %(key_digest)s::bytea, %(content_digest)s::bytea,
           generation, first_seq, first_seq + %(count)s::bigint - 1, recorded_at
    FROM place WHERE %(key_digest)s::bytea IS NOT NULL
)
SELECT first_seq, first_seq + %(count)s::bigint - 1, generation FROM place
"""

EXPLAIN_REFUSAL = """
SELECT r.content_digest, r.first_seq, r.last_seq, r.generation,
       coalesce(c.generation, 0), coalesce(c.first_seq, 0), coalesce(c.next_seq, 0)
FROM (SELECT %(id)s::uuid AS id) AS asked
LEFT JOIN conversation AS c ON c.id = asked.id
LEFT JOIN receipt AS r ON r.conversation_id = asked.id AND r.key_digest = %(key_digest)s::bytea
"""

# The range is bounded on both sides, which gapless numbers allow: a generic plan of "seq >= … LIMIT n" alone would
# become a bitmap scan and a sort of everything behind. LATERAL keeps the conversation's row when no item is found,
# or a hole at the end could not be told from the end. There is no ORDER BY outside: the page comes in its own order,
# and sorting its payloads once more was a quarter of a replay; page_of() makes sure of the order.
#
# ``bytes`` counts the answer's JSON up to each item (what stands around a payload has 63 bytes and the digits of seq,
# and a comma follows); the first item that passes the limit is the last one sent here, so that a call for a thousand
# large items does not fill the memory of the server before it is refused.
READ_PAGE = """
SELECT c.range_start, c.range_end, i.seq, i.recorded_at, i.payload, i.bytes
FROM (
    SELECT generation, {bounds} FROM conversation WHERE id = %(id)s::uuid
) AS c
LEFT JOIN LATERAL (
    SELECT seq, recorded_at, payload, bytes, size FROM (
        SELECT seq, {time} AS recorded_at, payload,
               octet_length(payload) + length(seq::text) + 64 AS size,
               sum(octet_length(payload) + length(seq::text) + 64) OVER (ORDER BY seq {direction}) AS bytes
        FROM (
            SELECT seq, recorded_at, payload FROM item
            WHERE conversation_id = %(id)s::uuid AND generation = c.generation
              AND seq >= c.range_start AND seq < c.range_end
            ORDER BY seq {direction} LIMIT %(limit)s::bigint
        ) AS page
    ) AS counted
    WHERE bytes - size <= %(max_bytes)s::bigint
) AS i ON true
"""
BY_SEQ = itemgetter(2)
EMPTY_ANSWER = len(b'{"items":[]}') - 1  # the last item has no comma behind it

RECALL = READ_PAGE.format(
    bounds="greatest(first_seq, next_seq - %(limit)s::bigint) AS range_start, next_seq AS range_end",
    direction="DESC",
    time=RFC3339_TEXT.format("recorded_at"),
)
REPLAY = READ_PAGE.format(
    bounds="greatest(first_seq, %(offset)s::bigint) AS range_start,"
    " least(next_seq, greatest(first_seq, %(offset)s::bigint) + %(limit)s::bigint) AS range_end",
    direction="ASC",
    time=RFC3339_TEXT.format("recorded_at"),
)


def append(site: Site, call: contracts.AppendItems) -> Written[contracts.Appended]:
    """Append a batch, all of it or nothing, and return the numbers that it got: it is on disk.

    Numbers are gapless from 0 in each generation, in the order of the appends, under any number of writers. The time
    of a batch is the database's, read with the conversation locked, and never goes back along the numbers.

    Raises ``idempotency_key_reused``, ``stale_generation``, ``seq_conflict`` and ``conversation_full``, judged in
    this order; nothing is stored then. After ``outcome_unknown`` the batch is there whole or not at all.
    """
    payloads = [bytes(item).decode() for item in call.items]
    parameters = {
        "id": conversation_key(site, call.conversation_id),
        "site": site.id,
        "conversation_id": call.conversation_id,
        "count": len(payloads),
        "payloads": payloads,
        "max_items": contracts.MAX_ITEMS,
        "expected_seq": call.expected_seq,
        "expected_generation": call.expected_generation,
        "key_digest": None if call.idempotency_key is None else digest_key(call.idempotency_key),
        "content_digest": None if call.idempotency_key is None else digest_content("append", payloads),
    }
    for _ in range(2):
        try:
            rows = statements.write(APPEND, parameters, known=(RECEIPT_KEY,))
        except statements.Refused:
            rows = []  # the same key has just been committed by another call
        if rows:
            return Written(contracts.Appended(*rows[0]))
        replay = explain_refusal(call, parameters)
        if replay is not None:
            return Written(replay, replayed=True)
        # What refused it has gone meanwhile (the conversation was reset, say): once more.
    raise Problem("timeout", "The conversation changed while the batch was being placed. Nothing was written.")


def explain_refusal(call: contracts.AppendItems, parameters: dict[str, Any]) -> contracts.Appended | None:
    """Return the first answer to the call's key, or raise what refused the call, or return None if nothing does now."""
    (row,) = statements.read(EXPLAIN_REFUSAL, {"id": parameters["id"], "key_digest": parameters["key_digest"]})
    content_digest, first, last, first_generation, generation, first_seq, next_seq = row
    if content_digest is not None:
        if bytes(content_digest) != parameters["content_digest"]:
            raise Problem(
                "idempotency_key_reused",
                "This Idempotency-Key was sent before with other content. Use a new key for a new call.",
            )
        return contracts.Appended(first, last, first_generation)
    if call.expected_generation not in (None, generation):
        raise Problem(
            "stale_generation",
            f"The conversation is in generation {generation}: it was reset or deleted since.",
            current_generation=generation,
        )
    if call.expected_seq not in (None, next_seq):
        raise Problem(
            "seq_conflict",
            f"The next sequence number is {next_seq}, not {call.expected_seq}.",
            next_seq=next_seq,
        )
    if next_seq - first_seq + len(call.items) > contracts.MAX_ITEMS:
        raise Problem(
            "conversation_full",
            f"The conversation holds {next_seq - first_seq} items and takes {contracts.MAX_ITEMS}. Start another one.",
            limit=contracts.MAX_ITEMS,
        )
    return None


def digest_key(key: str) -> bytes:
    """Return what is kept of an Idempotency-Key."""
    return hashlib.sha256(key.encode()).digest()


def digest_content(operation: str, parts: list[str]) -> bytes:
    """Return a digest of a call's operation and content, each part with its length, so that no two run together."""
    state = hashlib.sha256(operation.encode())
    for part in parts:
        encoded = part.encode()
        state.update(b"\n%d:" % len(encoded))
        state.update(encoded)
    return state.digest()


def recall(site: Site, call: contracts.RecallItems, *, max_bytes: int) -> contracts.Items:
    """Return the last ``count`` items, oldest first; an unknown conversation is an empty one.

    Raises ``response_too_large`` when the answer's JSON would pass ``max_bytes``, and ``corrupted`` at a hole.
    """
    key = conversation_key(site, call.conversation_id)
    rows = statements.read(RECALL, {"id": key, "limit": call.count, "max_bytes": max_bytes})
    return page_of(rows, newest_first=True, asked="count", max_bytes=max_bytes)


def replay(site: Site, call: contracts.ReplayItems, *, max_bytes: int) -> contracts.Items:
    """Return up to ``limit`` items from ``offset`` on; past the end it is an empty list.

    A smaller ``offset`` than the first number that retention kept starts there. Raises as ``recall`` does.
    """
    key = conversation_key(site, call.conversation_id)
    # A larger number than an int64 would reach the database as numeric: another statement, and a sequential scan.
    offset = min(call.offset, MAX_INT64 - contracts.MAX_PAGE)
    rows = statements.read(REPLAY, {"id": key, "offset": offset, "limit": call.limit, "max_bytes": max_bytes})
    return page_of(rows, newest_first=False, asked="limit", max_bytes=max_bytes)


def page_of(rows: list[statements.Row], *, newest_first: bool, asked: str, max_bytes: int) -> contracts.Items:
    """Return the items of a page, oldest first, having checked that it is whole and not too large."""
    if not rows:
        return contracts.Items([])
    start, end = rows[0][0], rows[0][1]
    found = [] if rows[0][2] is None else sorted(rows, key=BY_SEQ, reverse=newest_first)
    too_large = bool(found) and found[-1][5] + EMPTY_ANSWER > max_bytes
    if too_large:
        # What is behind was not sent.
        start, end = (found[-1][2], end) if newest_first else (start, found[-1][2] + 1)
    if len(found) < end - start:
        raise corrupted(min(set(range(start, end)).difference(row[2] for row in found)))
    if too_large:
        fits = sum(row[5] + EMPTY_ANSWER <= max_bytes for row in found)
        raise Problem(
            "response_too_large",
            f"The answer would pass {max_bytes} bytes. Ask for a smaller `{asked}`: {fits} fits.",
            limit=max_bytes,
            **{f"largest_{asked}": fits},
        )
    items = [contracts.Item(row[2], row[3], msgspec.Raw(row[4])) for row in found]
    return contracts.Items(items[::-1] if newest_first else items)


def corrupted(seq: int) -> Problem:
    """Return the problem for a hole, by its first missing number: it is never closed silently."""
    return Problem("corrupted", f"Item {seq} is missing from this conversation. Restore it from a backup.", seq=seq)


def list_conversations(site: Site, call: contracts.ListConversations) -> contracts.Conversations:
    """Return a page of the site's conversations with at least one item, most recently appended first, ties by id.

    A conversation that does not change meanwhile is listed exactly once, at any number of them; one that is appended
    to meanwhile moves to the front, may be missed or met again by a running listing, and never hides another.
    Raises ``invalid_cursor`` for a cursor of another site or other filters.
    """
    filters = {"appended_after": call.appended_after, "appended_before": call.appended_before}
    bound_to = ("conversations", site.id, filters)
    listed = Conversation.objects.for_site(site).listed()
    if call.cursor is not None:
        listed = listed.after(*decode_cursor(call.cursor, tuple[datetime, str], bound_to=bound_to))
    if call.limit == 0:
        return contracts.Conversations([], None)
    # Only where there is one: making the filter set's form is a fifth of a call.
    found = ConversationFilter(filters, queryset=listed).qs if any(filters.values()) else listed
    page = found.annotate(created=Rfc3339("created_at"), last_appended=Rfc3339("last_appended_at")).values_list(
        "conversation_id", "created", "last_appended", "last_appended_at"
    )
    rows = list(page[: call.limit + 1])
    more = len(rows) > call.limit
    conversations = [contracts.ListedConversation(*row[:3]) for row in rows[: call.limit]]
    last = rows[call.limit - 1] if more else None
    return contracts.Conversations(
        conversations, encode_cursor((last[3], last[0]), bound_to=bound_to) if last is not None else None
    )
