"""Records: put, get, list, delete.

The rule above all: the revisions of a key only grow, through deletion, expiry and pruning, so that nobody overwrites
what he has not seen. An expired record is gone at once; that it is removed later is the pruner's business alone.
"""

from typing import Any, NamedTuple

import msgspec

from checkpoints import contracts
from checkpoints.filters import RecordFilter
from checkpoints.models import Record, namespace_key
from checkpoints.structure import structure_of
from memory_site.database import statements
from memory_site.database.expressions import RFC3339_TEXT, Rfc3339
from memory_site.problems import Problem
from memory_site.sites.models import Site
from memory_site.wire.pagination import decode_cursor, encode_cursor

LIVE = "{0}.deleted_at IS NULL AND ({0}.expires_at IS NULL OR {0}.expires_at > clock_timestamp())"
STORED = f"revision, {RFC3339_TEXT.format('updated_at')}, {RFC3339_TEXT.format('expires_at')}, size"

# One statement in autocommit. It answers one row, or none when a condition refused it or the namespace is not there.
#
# - The namespace's row is share-locked: whoever removes rows holds it alone, so that a revision floor read here is
#   above every revision that has gone, also when this statement waited. A snapshot would be the one before the wait.
# - ON CONFLICT DO UPDATE waits for the row's lock and judges the conditions, and reads the clock, on what it finds
#   then. An expired record is as good as none, and a put on it begins a new life.
# - A record that must exist is not created: the guard keeps a condition on nothing from inserting.
PUT = f"""
INSERT INTO record AS r
    (namespace_id, key, revision, first_revision, value, size, updated_at, expires_at, kind, tags, topics, event_time)
SELECT n.id, %(key)s::text, n.revision_floor + 1, n.revision_floor + 1, %(value)s::text, %(size)s::integer,
       clock.now, clock.now + coalesce(%(ttl)s::integer, n.default_ttl) * interval '1 second',
       %(kind)s::text, %(tags)s::text[], %(topics)s::text[], %(event_time)s::timestamptz
FROM (
    SELECT id, revision_floor, default_ttl FROM namespace
    WHERE id = %(namespace)s::uuid AND (max_records IS NULL OR %(evicting)s::boolean) FOR SHARE
) AS n, (SELECT clock_timestamp() AS now) AS clock
WHERE NOT %(must_exist)s::boolean
   OR EXISTS (SELECT FROM record WHERE namespace_id = %(namespace)s::uuid AND key = %(key)s::text)
ON CONFLICT (namespace_id, key) DO UPDATE SET
    (revision, first_revision, updated_at, expires_at) = (
        SELECT r.revision + 1, CASE WHEN {LIVE.format("r")} THEN r.first_revision ELSE r.revision + 1 END,
               clock.now, clock.now + (excluded.expires_at - excluded.updated_at)
        FROM (SELECT greatest(clock_timestamp(), r.updated_at) AS now OFFSET 0) AS clock
    ),
    value = excluded.value, size = excluded.size, deleted_at = NULL,
    kind = excluded.kind, tags = excluded.tags, topics = excluded.topics, event_time = excluded.event_time
WHERE CASE WHEN {LIVE.format("r")}
           THEN NOT %(must_be_new)s::boolean
                AND (%(matching)s::bigint[] IS NULL OR r.revision = ANY (%(matching)s::bigint[]))
           ELSE NOT %(must_exist)s::boolean END
RETURNING first_revision, {STORED}
"""

EXPLAIN_REFUSAL = f"""
SELECT n.max_records, n.id IS NOT NULL, r.revision
FROM (SELECT %(namespace)s::uuid AS id, %(key)s::text AS key) AS asked
LEFT JOIN namespace AS n ON n.id = asked.id
LEFT JOIN record AS r ON r.namespace_id = asked.id AND r.key = asked.key AND {LIVE.format("r")}
"""

CREATE_NAMESPACE = """
INSERT INTO namespace (id, site_id, name, revision_floor)
VALUES (%(namespace)s::uuid, %(site)s::uuid, %(name)s::text, 0)
ON CONFLICT (id) DO NOTHING RETURNING id
"""

LOCK_NAMESPACE = "SELECT max_records FROM namespace WHERE id = %(namespace)s::uuid FOR NO KEY UPDATE"

# The oldest written go; the one just put never does, whatever the clock did meanwhile. At most a thousand a call: a
# limit that was lowered far below what is there is reached over several, or by the pruner.
EVICT = f"""
WITH gone AS (
    DELETE FROM record WHERE ctid IN (
        SELECT ctid FROM record AS r
        WHERE namespace_id = %(namespace)s::uuid AND {LIVE.format("r")} AND key IS DISTINCT FROM %(key)s::text
        ORDER BY updated_at, key
        LIMIT (
            SELECT least(greatest(count(*) - %(max_records)s::bigint, 0), 1000) FROM record AS r
            WHERE namespace_id = %(namespace)s::uuid AND {LIVE.format("r")}
        )
    )
    RETURNING revision
)
UPDATE namespace SET revision_floor = greatest(revision_floor, (SELECT max(revision) FROM gone))
WHERE id = %(namespace)s::uuid AND EXISTS (SELECT FROM gone)
RETURNING (SELECT count(*) FROM gone)
"""

GET = f"""
SELECT {STORED}, value FROM record AS r
WHERE namespace_id = %(namespace)s::uuid AND key = %(key)s::text AND {LIVE.format("r")}
"""

DELETE = f"""
UPDATE record AS r
SET deleted_at = greatest(clock_timestamp(), updated_at), value = NULL, size = 0, expires_at = NULL,
    kind = NULL, tags = NULL, topics = NULL, event_time = NULL
WHERE namespace_id = %(namespace)s::uuid AND key = %(key)s::text AND {LIVE.format("r")}
  AND (%(matching)s::bigint[] IS NULL OR revision = ANY (%(matching)s::bigint[]))
RETURNING revision
"""


class Put(NamedTuple):
    """What a put answers, and whether there was no record before."""

    record: contracts.StoredRecord
    created: bool


def put(site: Site, call: contracts.PutRecord) -> Put:
    """Keep a value under a key, with a revision above every one that the key ever had: it is on disk.

    The expiry is set anew by every put. In a namespace with a maximum the oldest written record goes in the same
    transaction. Raises ``precondition_failed`` with the current revision, 0 for no record; nothing is written then.
    """
    structure = structure_of(call.value)
    parameters = {
        "namespace": namespace_key(site, call.namespace),
        "key": call.key,
        "value": bytes(call.value).decode(),
        "size": call.size,
        "ttl": call.ttl,
        **structure._asdict(),
        "must_be_new": call.must_be_new,
        "must_exist": call.if_match is not None,
        "matching": contracts.revisions_of("if_match", call.if_match),
        "evicting": False,
    }
    for _ in range(3):
        rows = statements.write(PUT, parameters)
        if not rows:
            ((max_records, exists, current),) = statements.read(EXPLAIN_REFUSAL, parameters)
            check_condition(call, current)
            if not exists:
                statements.write(
                    CREATE_NAMESPACE,
                    {"namespace": parameters["namespace"], "site": site.id, "name": call.namespace},
                )
            elif max_records is not None:
                rows = put_and_evict({**parameters, "evicting": True})
        if rows:
            first_revision, *stored = rows[0]
            return Put(contracts.StoredRecord(call.key, *stored), created=stored[0] == first_revision)
        # What refused it has gone meanwhile: once more.
    raise Problem("timeout", "The record changed while the value was being placed. Nothing was written.")


def check_condition(call: contracts.PutRecord | contracts.DeleteRecord, current: int | None) -> None:
    """Raise ``precondition_failed`` if the call's conditions do not hold for the current revision, None for none."""
    matching = contracts.revisions_of("if_match", call.if_match)
    if call.if_match is not None and (current is None or (matching is not None and current not in matching)):
        words = "There is no record under this key." if current is None else f"The record has revision {current}."
    elif isinstance(call, contracts.PutRecord) and call.must_be_new and current is not None:
        words = f"There is a record under this key already, with revision {current}."
    else:
        return
    raise Problem("precondition_failed", words + " Nothing was changed.", current_revision=current or 0)


def put_and_evict(parameters: dict[str, Any]) -> list[statements.Row]:
    """Put a record where there is a maximum: writers of such a namespace take turns, so that each can count."""
    with statements.transaction() as run:
        ((max_records,),) = run(LOCK_NAMESPACE, parameters)
        rows = run(PUT, parameters)
        if rows and max_records is not None:
            run(EVICT, {**parameters, "max_records": max_records})
        return rows


def get(site: Site, call: contracts.GetRecord) -> contracts.Record:
    """Return the record under a key; raise ``not_found`` if there is none, or none any more."""
    rows = statements.read(GET, {"namespace": namespace_key(site, call.namespace), "key": call.key})
    if not rows:
        raise Problem("not_found", "There is no record under this key.")
    revision, updated_at, expires_at, size, value = rows[0]
    return contracts.Record(call.key, revision, updated_at, expires_at, size, msgspec.Raw(value))


def delete(site: Site, call: contracts.DeleteRecord) -> contracts.Deleted:
    """Remove the record under a key, if there is one; its revision is remembered.

    Raises ``precondition_failed`` when ``if_match`` does not hold, which it never does for no record.
    """
    parameters = {
        "namespace": namespace_key(site, call.namespace),
        "key": call.key,
        "matching": contracts.revisions_of("if_match", call.if_match),
    }
    for _ in range(2):
        if statements.write(DELETE, parameters):
            return contracts.Deleted(deleted=True)
        if call.if_match is None:
            return contracts.Deleted(deleted=False)
        ((_, _, current),) = statements.read(EXPLAIN_REFUSAL, parameters)
        check_condition(call, current)
    raise Problem("timeout", "The record changed while it was being removed. Nothing was written.")


def list_records(site: Site, call: contracts.ListRecords, *, max_bytes: int) -> contracts.Records:
    """Return a page of a namespace's records by key, without their values.

    A key that exists throughout is listed exactly once; the pages together are not a snapshot. Raises
    ``invalid_cursor`` for a cursor of another namespace, site or filters, and ``response_too_large`` when the
    answer's JSON would pass ``max_bytes``.
    """
    filters = {
        "prefix": call.prefix,
        "kind": call.kind,
        "tags": call.tags,
        "topics": call.topics,
        "event_after": call.event_after,
        "event_before": call.event_before,
    }
    bound_to = ("records", site.id, call.namespace, filters)
    listed = Record.objects.in_namespace(site, call.namespace).live().order_by("key")
    if call.cursor is not None:
        (key,) = decode_cursor(call.cursor, tuple[str], bound_to=bound_to)
        listed = listed.filter(key__gt=key)
    page = (
        RecordFilter(filters, queryset=listed)
        .qs.annotate(updated=Rfc3339("updated_at"), expires=Rfc3339("expires_at"), event=Rfc3339("event_time"))
        .values_list("key", "revision", "updated", "expires", "size", "kind", "tags", "topics", "event")
    )
    rows = list(page[: call.limit + 1])
    records = [
        contracts.ListedRecord(key, revision, updated, expires, size, kind, tags or [], topics or [], event)
        for key, revision, updated, expires, size, kind, tags, topics, event in rows[: call.limit]
    ]
    more = len(rows) > call.limit
    answer = contracts.Records(records, encode_cursor((records[-1].key,), bound_to=bound_to) if more else None)
    check_size(answer, max_bytes=max_bytes)
    return answer


def check_size(answer: contracts.Records, *, max_bytes: int) -> None:
    """Raise ``response_too_large``, with the largest ``limit`` that fits, for an answer over the limit."""
    if len(msgspec.json.encode(answer)) <= max_bytes:
        return
    # A page that is cut has a cursor, whose key is at most the longest one.
    left = max_bytes - len(msgspec.json.encode(contracts.Records([], "x" * 1024)))
    fits = 0
    for record in answer.records:
        left -= len(msgspec.json.encode(record)) + 1
        fits += left >= 0
    raise Problem(
        "response_too_large",
        f"The answer would pass {max_bytes} bytes. Ask for a smaller `limit`: {fits} fits.",
        limit=max_bytes,
        largest_limit=fits,
    )
