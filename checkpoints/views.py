"""The REST door of records and checkpoints: which call is at which address. The rules are in the operations."""

from datetime import datetime

import msgspec
from django.conf import settings
from django.utils.http import http_date

from checkpoints import bundles, checkpoints, contracts, records
from memory_site.sites.models import Site
from memory_site.wire.operation import Answer, OperationViewSet, operation
from memory_site.wire.structs import Written

IN_PATH = ("namespace", "key")


def headers_of(record: contracts.StoredRecord) -> dict[str, str]:
    """Return the headers that say of a record what its value does not."""
    headers = {
        "ETag": f'"{record.revision}"',
        "Last-Modified": http_date(datetime.fromisoformat(record.updated_at).timestamp()),
        "X-Revision": str(record.revision),
    }
    if record.expires_at is not None:
        headers["X-Expires-At"] = record.expires_at
    return headers


class RecordViewSet(OperationViewSet):
    """``/v1/namespaces/{namespace}/records``"""

    @operation(
        "get",
        takes=contracts.ListRecords,
        returns=contracts.Records,
        permission="list",
        path=("namespace",),
        problems=("invalid_cursor", "response_too_large"),
    )
    def list(self, site: Site, call: contracts.ListRecords) -> contracts.Records:
        """List a namespace's records by key, without their values."""
        return records.list_records(site, call, max_bytes=settings.MAX_RESPONSE_BYTES)

    @operation(
        "put",
        takes=contracts.PutRecord,
        returns=contracts.StoredRecord,
        permission="put",
        path=IN_PATH,
        query=("ttl",),
        body="value",
        status=201,
        also={200: "The record has been replaced."},
        problems=("payload_too_large", "reserved_key", "precondition_failed"),
    )
    def update(self, site: Site, call: contracts.PutRecord) -> Answer:
        """Keep the body, any JSON, under the key: on disk when it is answered."""
        stored = records.put(site, call)
        return Answer(stored.record, 201 if stored.created else 200, headers_of(stored.record))

    @operation(
        "get",
        takes=contracts.GetRecord,
        returns=msgspec.Raw,
        permission="get",
        path=IN_PATH,
        also={304: "The record still has the revision in `If-None-Match`."},
        problems=("not_found",),
    )
    def retrieve(self, site: Site, call: contracts.GetRecord) -> Answer:
        """Read the value under the key, byte for byte; headers have its revision and times."""
        record = records.get(site, call)
        if call.has(record.revision):
            return Answer(None, 304, headers_of(record))
        return Answer(bytes(record.value), headers=headers_of(record))

    @operation(
        "delete",
        takes=contracts.DeleteRecord,
        returns=None,
        permission="delete",
        path=IN_PATH,
        status=204,
        problems=("reserved_key", "precondition_failed", "outcome_unknown"),
    )
    def destroy(self, site: Site, call: contracts.DeleteRecord) -> Answer:
        """Remove the record under the key, whether or not there is one."""
        records.delete(site, call)
        return Answer(None)


class CheckpointViewSet(OperationViewSet):
    """``/v1/namespaces/{namespace}/checkpoints``"""

    @operation(
        "post",
        takes=bundles.SaveCheckpoint,
        returns=bundles.Saved,
        permission="put",
        path=("namespace",),
        status=201,
        also={200: "The first answer to the same bundle under the same id."},
        problems=(
            "capsule_too_large",
            "bundle_too_large",
            "too_many_references",
            "checkpoint_conflict",
            "checkpoint_deleted",
            "revision_conflict",
            "namespace_not_durable",
        ),
    )
    def create(self, site: Site, call: bundles.SaveCheckpoint) -> Written[bundles.Saved]:
        """Save the state of a task as its session's latest checkpoint: whole, or not at all."""
        return checkpoints.save(site, call)

    @operation(
        "get",
        takes=bundles.RestoreCheckpoint,
        returns=bundles.Restored,
        permission="get",
        path=("namespace", "checkpoint_id"),
        problems=("not_found", "checkpoint_deleted", "restore_budget_exceeded"),
    )
    def retrieve(self, site: Site, call: bundles.RestoreCheckpoint) -> bundles.Restored:
        """Restore a checkpoint: the complete answer within `max_bytes`, or a refusal that names the bytes required."""
        return checkpoints.restore(site, call)

    @operation(
        "delete",
        takes=bundles.DeleteCheckpoint,
        returns=None,
        permission="delete",
        path=("namespace", "checkpoint_id"),
        status=204,
        problems=("checkpoint_is_latest", "outcome_unknown"),
    )
    def destroy(self, site: Site, call: bundles.DeleteCheckpoint) -> Answer:
        """Remove a checkpoint that is not its session's latest; its id is never free again."""
        checkpoints.delete(site, call)
        return Answer(None)


class SessionViewSet(OperationViewSet):
    """``/v1/namespaces/{namespace}/sessions``"""

    @operation(
        "get",
        takes=bundles.RestoreLatest,
        returns=bundles.Restored,
        permission="get",
        path=("namespace", "agent_id", "session_id"),
        problems=("not_found", "restore_budget_exceeded"),
    )
    def latest(self, site: Site, call: bundles.RestoreLatest) -> bundles.Restored:
        """Restore the latest checkpoint of a session, as by its id."""
        return checkpoints.restore_latest(site, call)
