"""Checkpoints: save, restore, delete.

The rule above all: what was saved comes back whole or not at all, and an older state never takes the place of a
newer one.
"""

import hashlib
from typing import Any

import msgspec
from django.conf import settings

from checkpoints import bundles
from checkpoints.contracts import Deleted
from checkpoints.models import namespace_key
from checkpoints.records import LIVE
from memory_site.database import statements
from memory_site.database.expressions import RFC3339_TEXT
from memory_site.problems import Problem
from memory_site.sites.models import Site
from memory_site.wire.structs import MAX_INT64, Written

CHECKPOINT_KEY = "checkpoint_pkey"
SOME_TIME = "2026-01-31T12:00:00.000000Z"  # as long as any other

# One statement in autocommit: the pointer of the session and the bundle are on disk together or not at all. It
# answers one row, or none when a condition refused it.
#
# - The id is looked up first, so that a retry writes nothing. Two calls with one id at the same moment both find
#   none; then the second one's bundle breaks the primary key and takes its pointer back with it.
# - ON CONFLICT DO UPDATE waits for the pointer's lock and compares with what the winner set.
# - A session that does not exist yet expects 0: the guard keeps any other expectation from creating it.
# - That a namespace is durable is never taken back, so a look at it needs no lock.
SAVE = """
WITH pointer AS (
    INSERT INTO checkpoint_session AS s
        (namespace_id, agent_id, session_id, revision, checkpoint_id, updated_at)
    SELECT id, %(agent_id)s::text, %(session_id)s::text, 1, %(checkpoint_id)s::text, clock_timestamp()
    FROM namespace
    WHERE id = %(namespace)s::uuid AND first_checkpoint_at IS NOT NULL
      AND NOT EXISTS (
            SELECT FROM checkpoint WHERE namespace_id = %(namespace)s::uuid AND checkpoint_id = %(checkpoint_id)s::text
          )
      AND (
            %(expected_revision)s::bigint = 0
            OR EXISTS (
                SELECT FROM checkpoint_session WHERE namespace_id = %(namespace)s::uuid
                AND agent_id = %(agent_id)s::text AND session_id = %(session_id)s::text
            )
          )
    ON CONFLICT (namespace_id, agent_id, session_id) DO UPDATE SET
        revision = s.revision + 1,
        checkpoint_id = excluded.checkpoint_id,
        updated_at = greatest(s.updated_at, clock_timestamp())
    WHERE s.revision = %(expected_revision)s::bigint
    RETURNING namespace_id, agent_id, session_id, revision, checkpoint_id, updated_at
)
INSERT INTO checkpoint
    (namespace_id, agent_id, session_id, revision, checkpoint_id, created_at,
     digest, capsule, reference_list, details)
SELECT namespace_id, agent_id, session_id, revision, checkpoint_id, updated_at,
       %(digest)s::bytea, %(capsule)s::text, %(reference_list)s::text, %(details)s::text
FROM pointer
RETURNING revision
"""

# The namespace becomes one with checkpoints, for ever, unless it has a policy.
OPEN_NAMESPACE = """
INSERT INTO namespace AS n (id, site_id, name, revision_floor, first_checkpoint_at)
VALUES (%(namespace)s::uuid, %(site)s::uuid, %(name)s::text, 0, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET first_checkpoint_at = coalesce(n.first_checkpoint_at, clock_timestamp())
WHERE n.default_ttl IS NULL AND n.max_records IS NULL
RETURNING id
"""

EXPLAIN_REFUSAL = """
SELECT c.digest, c.deleted_at IS NOT NULL, c.revision, coalesce(s.revision, 0), n.first_checkpoint_at IS NOT NULL
FROM (SELECT %(namespace)s::uuid AS id) AS asked
LEFT JOIN namespace AS n ON n.id = asked.id
LEFT JOIN checkpoint AS c ON c.namespace_id = asked.id AND c.checkpoint_id = %(checkpoint_id)s::text
LEFT JOIN checkpoint_session AS s
    ON s.namespace_id = asked.id AND s.agent_id = %(agent_id)s::text AND s.session_id = %(session_id)s::text
"""

READ = f"""
SELECT c.checkpoint_id, c.revision, {RFC3339_TEXT.format("c.created_at")}, c.agent_id, c.session_id,
       c.capsule, c.reference_list, c.details
FROM {{place}}
"""
READ_BY_ID = READ.format(
    place="checkpoint AS c WHERE c.namespace_id = %(namespace)s::uuid AND c.checkpoint_id = %(checkpoint_id)s::text"
)
READ_LATEST = READ.format(
    place="checkpoint_session AS s"
    " JOIN checkpoint AS c ON c.namespace_id = s.namespace_id AND c.checkpoint_id = s.checkpoint_id"
    " WHERE s.namespace_id = %(namespace)s::uuid AND s.agent_id = %(agent_id)s::text"
    " AND s.session_id = %(session_id)s::text"
)

READ_STATUSES = f"""
SELECT r.revision, {LIVE.format("r")}, r.deleted_at IS NULL
FROM unnest(%(namespaces)s::uuid[], %(keys)s::text[]) WITH ORDINALITY AS asked (namespace_id, key, position)
LEFT JOIN record AS r ON r.namespace_id = asked.namespace_id AND r.key = asked.key
ORDER BY asked.position
"""

# A pointer moves to new checkpoints only: what is not the latest never is again, so the look at it needs no lock.
DELETE = """
UPDATE checkpoint AS c
SET deleted_at = clock_timestamp(), capsule = NULL, reference_list = NULL, details = NULL
WHERE namespace_id = %(namespace)s::uuid AND checkpoint_id = %(checkpoint_id)s::text AND deleted_at IS NULL
  AND NOT EXISTS (
        SELECT FROM checkpoint_session AS s
        WHERE s.namespace_id = c.namespace_id AND s.agent_id = c.agent_id AND s.session_id = c.session_id
          AND s.checkpoint_id = c.checkpoint_id
      )
RETURNING checkpoint_id
"""
IS_THERE = """
SELECT EXISTS (
    SELECT FROM checkpoint WHERE namespace_id = %(namespace)s::uuid AND checkpoint_id = %(checkpoint_id)s::text
    AND deleted_at IS NULL
)
"""

references_decoder = msgspec.json.Decoder(list[bundles.Reference])


def save(site: Site, call: bundles.SaveCheckpoint) -> Written[bundles.Saved]:
    """Save a bundle as its session's latest checkpoint, and return its revision: both are on disk.

    The id is looked up first: with the same bundle it is a retry and gets the first answer. Raises
    ``bundle_too_large``, ``checkpoint_deleted``, ``checkpoint_conflict``, ``revision_conflict`` with the current
    revision, and ``namespace_not_durable``, judged in this order; nothing is stored then.
    """
    check_bundle(call)
    parameters = {
        "namespace": namespace_key(site, call.namespace),
        "checkpoint_id": call.checkpoint_id,
        "agent_id": call.agent_id,
        "session_id": call.session_id,
        "expected_revision": call.expected_revision,
        "digest": digest(call),
        "capsule": bytes(call.capsule).decode(),
        "reference_list": msgspec.json.encode(call.references).decode(),
        "details": bytes(call.details).decode(),
    }
    for _ in range(3):
        try:
            rows = statements.write(SAVE, parameters, known=(CHECKPOINT_KEY,))
            if not rows:
                replay, opened = explain_refusal(call, parameters)
                if replay is not None:
                    return Written(replay, replayed=True)
                if not opened:
                    rows = save_first(site, call, parameters)
        except statements.Refused:
            continue  # the same id has just been committed by another call
        if rows:
            return Written(saved(call, rows[0][0]))
    raise Problem("timeout", "The session changed while the checkpoint was being placed. Nothing was written.")


def save_first(site: Site, call: bundles.SaveCheckpoint, parameters: dict[str, Any]) -> list[statements.Row]:
    """Save the first checkpoint of a namespace, which from then on takes no policy."""
    with statements.transaction() as run:
        if not run(OPEN_NAMESPACE, {"namespace": parameters["namespace"], "site": site.id, "name": call.namespace}):
            raise Problem(
                "namespace_not_durable",
                "Records of this namespace expire or are evicted by its policy, so it takes no checkpoints.",
            )
        return run(SAVE, parameters, known=(CHECKPOINT_KEY,))


def saved(call: bundles.SaveCheckpoint, revision: int) -> bundles.Saved:
    """Return what a save answers."""
    locator = bundles.Locator(call.namespace, call.agent_id, call.session_id, call.checkpoint_id)
    return bundles.Saved(call.checkpoint_id, revision, locator)


def explain_refusal(call: bundles.SaveCheckpoint, parameters: dict[str, Any]) -> tuple[bundles.Saved | None, bool]:
    """Raise what refused a save; else return the first answer to it, if any, and whether its namespace is open."""
    (row,) = statements.read(EXPLAIN_REFUSAL, parameters)
    known_digest, deleted, revision, current, opened = row
    if deleted:
        raise checkpoint_deleted()
    if known_digest is not None:
        if bytes(known_digest) != parameters["digest"]:
            raise Problem(
                "checkpoint_conflict",
                "This checkpoint id was used before with other content. Use a new id for a new checkpoint.",
            )
        return saved(call, revision), opened
    if current != call.expected_revision:
        raise Problem(
            "revision_conflict",
            f"The session's latest checkpoint has revision {current}, not {call.expected_revision}. Restore it first.",
            current_revision=current,
        )
    return None, opened


def checkpoint_deleted() -> Problem:
    return Problem("checkpoint_deleted", "This checkpoint was deleted. Its id is never free again.")


def check_bundle(call: bundles.SaveCheckpoint) -> None:
    """Raise ``bundle_too_large`` for a bundle that no budget could restore, once every reference has changed."""
    limit = settings.MAX_BUNDLE_BYTES
    size = len(
        msgspec.json.encode(
            bundles.Restored(
                call.checkpoint_id,
                call.expected_revision + 1,
                SOME_TIME,
                bundles.Locator(call.namespace, call.agent_id, call.session_id, call.checkpoint_id),
                call.capsule,
                [
                    bundles.ReferenceStatus(at.namespace, at.key, at.revision, "changed", MAX_INT64)
                    for at in call.references
                ],
                call.details,
            )
        )
    )
    if size > limit:
        raise Problem(
            "bundle_too_large",
            f"Its restore could have {size} bytes; at most {limit} are taken. Keep what is long in records, and "
            "references to them in the bundle.",
            limit=limit,
        )


def digest(call: bundles.SaveCheckpoint) -> bytes:
    """Return what tells two bundles apart: their content, not the white space or the order of the capsule's parts."""
    try:
        details = msgspec.json.format(call.details, indent=-1)
    except RecursionError:
        details = bytes(call.details)
    content = (call.agent_id, call.session_id, call.decode_capsule(), call.references, msgspec.Raw(details))
    return hashlib.sha256(msgspec.json.encode(content)).digest()


def restore(site: Site, call: bundles.RestoreCheckpoint) -> bundles.Restored:
    """Return a checkpoint, whole and within the call's bytes, with the present status of its references.

    Raises ``not_found``, ``checkpoint_deleted``, and ``restore_budget_exceeded`` with the bytes required.
    """
    parameters = {"namespace": namespace_key(site, call.namespace), "checkpoint_id": call.checkpoint_id}
    rows = statements.read(READ_BY_ID, parameters)
    if not rows:
        raise Problem("not_found", "There is no checkpoint with this id.")
    return restored(site, call, rows[0])


def restore_latest(site: Site, call: bundles.RestoreLatest) -> bundles.Restored:
    """Return the latest checkpoint of a session, as ``restore`` does."""
    parameters = {
        "namespace": namespace_key(site, call.namespace),
        "agent_id": call.agent_id,
        "session_id": call.session_id,
    }
    rows = statements.read(READ_LATEST, parameters)
    if not rows:
        raise Problem("not_found", "This session has no checkpoint.")
    return restored(site, call, rows[0])


def restored(
    site: Site, call: bundles.RestoreCheckpoint | bundles.RestoreLatest, row: statements.Row
) -> bundles.Restored:
    """Return the answer of a restore from the row of its checkpoint."""
    checkpoint_id, revision, created_at, agent_id, session_id, capsule, reference_list, details = row
    if capsule is None:
        raise checkpoint_deleted()
    locator = bundles.Locator(call.namespace, agent_id, session_id, checkpoint_id)
    answer = bundles.Restored(checkpoint_id, revision, created_at, locator, msgspec.Raw(capsule))
    if call.include is None:
        answer.references = read_statuses(site, references_decoder.decode(reference_list))
        answer.details = msgspec.Raw(details)
    size = len(msgspec.json.encode(answer))
    if size > call.max_bytes:
        raise Problem(
            "restore_budget_exceeded",
            f"The complete answer has {size} bytes, and {call.max_bytes} were allowed.",
            required_bytes=size,
        )
    return answer


def read_statuses(site: Site, references: list[bundles.Reference]) -> list[bundles.ReferenceStatus]:
    """Return references with what became of their records; a record of another site is missing like any other."""
    if not references:
        return []
    rows = statements.read(
        READ_STATUSES,
        {
            "namespaces": [namespace_key(site, at.namespace) for at in references],
            "keys": [at.key for at in references],
        },
    )
    return [status_of(at, *row) for at, row in zip(references, rows, strict=True)]


def status_of(at: bundles.Reference, revision: int | None, live: bool, kept: bool) -> bundles.ReferenceStatus:
    """Return a reference with its status, from the row of its record."""
    status = bundles.ReferenceStatus(at.namespace, at.key, at.revision, "ok")
    if revision is None or not kept:
        status.status = "missing"
    elif not live:
        status.status = "expired"
    elif revision != at.revision:
        status.status, status.current_revision = "changed", revision
    return status


def delete(site: Site, call: bundles.DeleteCheckpoint) -> Deleted:
    """Remove a checkpoint; its id stays taken. One that is not there, or not any more, is no error.

    Raises ``checkpoint_is_latest`` for the one that its session would go on from.
    """
    parameters = {"namespace": namespace_key(site, call.namespace), "checkpoint_id": call.checkpoint_id}
    for _ in range(2):
        if statements.write(DELETE, parameters):
            return Deleted(deleted=True)
        ((there,),) = statements.read(IS_THERE, parameters)
        if not there:
            return Deleted(deleted=False)
        # Once more, for the case that a newer one has been saved between the two.
    raise Problem(
        "checkpoint_is_latest",
        "This is the latest checkpoint of its session. It can be deleted once a newer one has been saved.",
    )
