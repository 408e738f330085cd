"""What operators look for: conversations of all sites, and what stands behind a hole. Nothing here changes anything."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from conversations.models import Conversation, conversation_key
from memory_site.database import statements
from memory_site.problems import Problem
from memory_site.sites.models import Site
from memory_site.wire.pagination import decode_cursor, encode_cursor

# No index orders the conversations of all sites together, for every append would pay for it. Each site has its own:
# the newest of each are merged. The limit is written out: a plan for any limit would be one for a long page.
BY_RECENCY = """
SELECT c.id, c.last_appended_at, c.conversation_id, s.id FROM site AS s CROSS JOIN LATERAL (
    SELECT id, last_appended_at, conversation_id FROM conversation
    WHERE site_id = s.id AND last_appended_at IS NOT NULL
      AND last_appended_at >= %(start)s::timestamptz AND last_appended_at < %(end)s::timestamptz
      AND last_appended_at <= %(after_time)s::timestamptz
      AND (last_appended_at < %(after_time)s::timestamptz
           OR (conversation_id, s.id) > (%(after_id)s::text COLLATE "C", %(after_site)s::uuid))
    ORDER BY last_appended_at DESC, conversation_id LIMIT {limit}
) AS c
WHERE s.id = coalesce(%(site)s::uuid, s.id)
ORDER BY c.last_appended_at DESC, c.conversation_id, s.id LIMIT {limit}
"""
# Nor has any index the ids: this reads every conversation once (0.2 s for a million), which an operator can wait for
# and an append cannot pay for. A whole id needs no looking for; where there are too many to read, that is what is left.
BY_ID = """
SELECT id, last_appended_at, conversation_id, site_id FROM conversation
WHERE conversation_id >= %(prefix)s::text COLLATE "C" AND conversation_id < %(prefix_end)s::text COLLATE "C"
  AND (conversation_id, site_id) > (%(after_id)s::text COLLATE "C", %(after_site)s::uuid)
  AND site_id = coalesce(%(site)s::uuid, site_id) AND last_appended_at IS NOT NULL
  AND last_appended_at >= %(start)s::timestamptz AND last_appended_at < %(end)s::timestamptz
ORDER BY conversation_id, site_id LIMIT {limit}
"""
BEHIND = "\x7f"  # sorts after every character of an id
NO_SITE = uuid.UUID(int=0)

NEXT_KEPT = """
SELECT seq FROM item WHERE conversation_id = %(id)s::uuid AND generation = %(generation)s::int
AND seq > %(seq)s::bigint AND seq < %(end)s::bigint ORDER BY seq LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Search:
    """What an operator looks for; without anything, everything."""

    site: Site | None = None
    prefix: str = ""
    start: datetime | None = None
    """Last appended to then or later."""
    end: datetime | None = None
    """Last appended to before."""


@dataclass(frozen=True, slots=True)
class Found:
    """A page of conversations, with their sites, and where the next one begins."""

    conversations: list[Conversation]
    next_cursor: str | None = None
    only_exact: bool = False
    """There were too many to look at: this is only what has exactly the id that was asked for."""


def find_conversations(search: Search, *, cursor: str | None = None, limit: int = 50) -> Found:
    """Return a page: most recently appended first, or by id when the search has the beginning of one.

    By recency any page costs the same; by id every conversation is read, and if that takes too long only the one with
    exactly this id is found. Raises ``invalid_cursor`` for a cursor of another search.
    """
    site = search.site.id if search.site is not None else None
    # Not to the times: "the last hour" begins later on the next page, and a position fits any.
    bound_to = ("console", site, search.prefix)
    after_time, after_id, after_site = None, "", NO_SITE
    if cursor is not None:
        after_time, after_id, after_site = decode_cursor(cursor, tuple[datetime, str, uuid.UUID], bound_to=bound_to)
    parameters = {
        "site": site,
        "start": search.start or "-infinity",
        "end": search.end or "infinity",
        "after_time": after_time or "infinity",
        "after_id": after_id,
        "after_site": after_site,
        "prefix": search.prefix,
        "prefix_end": search.prefix + BEHIND,
    }
    try:
        rows = statements.read((BY_ID if search.prefix else BY_RECENCY).format(limit=limit + 1), parameters)
    except Problem as problem:
        if problem.code != "timeout" or not search.prefix:
            raise
        return Found(with_id(search.prefix, sites=[search.site] if search.site else None), only_exact=True)
    keys = [row[0] for row in rows[:limit]]
    by_key = Conversation.objects.select_related("site").in_bulk(keys)
    next_cursor = encode_cursor(rows[limit - 1][1:], bound_to=bound_to) if len(rows) > limit else None
    return Found([by_key[key] for key in keys if key in by_key], next_cursor)


def with_id(conversation_id: str, *, sites: list[Site] | None = None) -> list[Conversation]:
    """Return the conversations that have exactly this id, in these sites or in any: by their keys, at any size."""
    keys = [conversation_key(site, conversation_id) for site in (Site.objects.all() if sites is None else sites)]
    return list(Conversation.objects.filter(pk__in=keys).select_related("site").order_by("site__slug"))


def next_kept(conversation: Conversation, seq: int) -> int | None:
    """Return the first number after a missing one that is there, or None when nothing follows."""
    rows = statements.read(
        NEXT_KEPT,
        {
            "id": conversation.pk,
            "generation": conversation.generation,
            "seq": seq,
            "end": conversation.next_seq,
        },
    )
    return rows[0][0] if rows else None
