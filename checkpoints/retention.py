"""Pruning records: what has expired, tombstones, and what a namespace's maximum leaves no room for.

Reads leave all of it out already, so a missed run is never a bug. What is removed raises its namespace's revision
floor in the same transaction: a key that comes back goes on above every revision that it ever had.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from checkpoints.records import EVICT, LOCK_NAMESPACE
from memory_site.database import statements
from memory_site.database.migrating import FOR_THE_TRANSACTION

BATCH = 1000  # rows of one transaction

# Both kinds in one order, through an index each, from a position on: a run looks at every row once.
CANDIDATES = """
SELECT gone_at, namespace_id, key FROM (
    (
        SELECT expires_at AS gone_at, namespace_id, key FROM record
        WHERE expires_at <= %(before)s::timestamptz AND expires_at >= %(gone_at)s::timestamptz
          AND (expires_at, namespace_id, key) > (%(gone_at)s::timestamptz, %(namespace)s::uuid, %(key)s::text)
        ORDER BY expires_at, namespace_id, key LIMIT %(limit)s::bigint
    ) UNION ALL (
        SELECT deleted_at AS gone_at, namespace_id, key FROM record
        WHERE deleted_at <= %(before)s::timestamptz AND deleted_at >= %(gone_at)s::timestamptz
          AND (deleted_at, namespace_id, key) > (%(gone_at)s::timestamptz, %(namespace)s::uuid, %(key)s::text)
        ORDER BY deleted_at, namespace_id, key LIMIT %(limit)s::bigint
    )
) AS gone
ORDER BY gone_at, namespace_id, key LIMIT %(limit)s::bigint
"""
COUNT = """
SELECT count(*) FILTER (WHERE expires_at IS NOT NULL), count(*) FILTER (WHERE deleted_at IS NOT NULL)
FROM record WHERE expires_at <= %(before)s::timestamptz OR deleted_at <= %(before)s::timestamptz
"""
BEFORE = "SELECT clock_timestamp() - %(older_than)s::bigint * interval '1 second'"

# The namespace is held alone: writers of records hold it shared, so none of them is between reading the floor and
# writing. What one of them wrote before is seen here, and a record that lives on again is left alone.
REMOVE = """
WITH gone AS (
    DELETE FROM record WHERE ctid IN (
        SELECT ctid FROM record
        WHERE namespace_id = %(namespace)s::uuid AND key = ANY (%(keys)s::text[])
          AND (expires_at <= %(before)s::timestamptz OR deleted_at <= %(before)s::timestamptz)
        LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED
    )
    RETURNING revision, deleted_at
), floor AS (
    UPDATE namespace SET revision_floor = greatest(revision_floor, (SELECT max(revision) FROM gone))
    WHERE id = %(namespace)s::uuid AND EXISTS (SELECT FROM gone)
)
SELECT count(*) FILTER (WHERE deleted_at IS NULL), count(*) FILTER (WHERE deleted_at IS NOT NULL) FROM gone
"""

FULL_NAMESPACES = """
SELECT n.id, greatest(stored.live - n.max_records, 0)
FROM namespace AS n, LATERAL (
    SELECT count(*) AS live FROM record AS r WHERE r.namespace_id = n.id
    AND r.deleted_at IS NULL AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
) AS stored
WHERE n.max_records IS NOT NULL AND stored.live > n.max_records
"""


@dataclass
class Pruned:
    """How many records a run removed, or would remove."""

    expired: int = 0
    tombstones: int = 0
    evicted: int = 0


def prune(*, older_than: int = 0, dry_run: bool = False, progress: Callable[[Pruned], None] = lambda _: None) -> Pruned:
    """Remove the records of every site that expired or were deleted more than ``older_than`` seconds ago.

    In short transactions: it can be stopped at any time and run again. Puts into a namespace wait while a batch of
    it is removed. After ``older_than`` a reference to an expired record reads ``missing``. With ``dry_run`` nothing
    is changed.
    """
    pruned = Pruned()
    with statements.transaction() as run:
        run(FOR_THE_TRANSACTION, {})
        ((before,),) = run(BEFORE, {"older_than": older_than})
        full = run(FULL_NAMESPACES, {})
        if dry_run:
            ((pruned.expired, pruned.tombstones),) = run(COUNT, {"before": before})
    if dry_run:
        pruned.evicted = sum(excess for _, excess in full)
        return pruned
    for namespace, keys in candidates(before):
        with statements.transaction() as run:
            run(FOR_THE_TRANSACTION, {})
            run(LOCK_NAMESPACE, {"namespace": namespace})
            ((expired, tombstones),) = run(
                REMOVE, {"namespace": namespace, "keys": keys, "before": before, "limit": BATCH}
            )
        pruned.expired += expired
        pruned.tombstones += tombstones
        progress(pruned)
    for namespace, _ in full:
        while evicted := evict(namespace):
            pruned.evicted += evicted
            progress(pruned)
    return pruned


def candidates(before: datetime) -> Iterator[tuple[UUID, list[str]]]:
    """Give what had gone before this time, oldest first, as keys of one namespace after another."""
    position: dict[str, Any] = {"gone_at": datetime.min.replace(tzinfo=before.tzinfo), "namespace": UUID(int=0)}
    position["key"] = ""
    while True:
        rows = statements.read(CANDIDATES, {**position, "before": before, "limit": BATCH})
        if not rows:
            return
        for namespace, found in groupby(sorted(row[1:] for row in rows), key=lambda row: row[0]):
            yield namespace, [key for _, key in found]
        position = dict(zip(("gone_at", "namespace", "key"), rows[-1], strict=True))


def evict(namespace: UUID) -> int:
    """Remove up to a thousand of the oldest records over a namespace's maximum; return how many."""
    with statements.transaction() as run:
        run(FOR_THE_TRANSACTION, {})
        rows = run(LOCK_NAMESPACE, {"namespace": namespace})
        if not rows or rows[0][0] is None:
            return 0
        gone = run(EVICT, {"namespace": namespace, "key": None, "max_records": rows[0][0]})
    return gone[0][0] if gone else 0
