"""Make the sites and load what is read, in a process that has the product's settings; answers with the ground.

``python -m bench.prepare ADDRESS PEERS_DSN``, run by ``bench.stage`` with ``MEMORY_SITE_STATE`` set.
"""

import sys
import uuid
from typing import Any

import django
import msgspec

django.setup()

# Everything below knows models, and models know settings.
from django.conf import settings  # noqa: E402
from django.db import connection, transaction  # noqa: E402

from bench.ground import Ground, Tenant  # noqa: E402
from bench.memories import NAMESPACE, RECORDS, SESSION, bundle_text, record_key, value  # noqa: E402
from bench.workloads import LISTED, SIZES, payload, read_conversation  # noqa: E402
from checkpoints import bundles, checkpoints, records  # noqa: E402
from checkpoints.contracts import PutRecord  # noqa: E402
from conversations import contracts, log  # noqa: E402
from conversations.models import conversation_key  # noqa: E402
from memory_site.database.embedded import connection_url  # noqa: E402
from memory_site.sites.models import Credential, Site  # noqa: E402

LOAD_CONVERSATIONS = """
INSERT INTO conversation
    (id, site_id, conversation_id, generation, first_seq, next_seq, created_at, last_appended_at)
SELECT id, %(site)s::uuid, conversation_id, 0, 0, size,
       now() - interval '2 days', now() - interval '1 day' + position * interval '1 second'
FROM unnest(%(ids)s::uuid[], %(names)s::text[], %(sizes)s::bigint[])
    WITH ORDINALITY AS loaded (id, conversation_id, size, position)
"""
LOAD_ITEMS = """
INSERT INTO item (conversation_id, generation, seq, recorded_at, payload)
SELECT id, 0, seq, now() - interval '2 days' + seq * interval '1 millisecond', %(payload)s::text
FROM unnest(%(ids)s::uuid[], %(sizes)s::bigint[]) AS loaded (id, size), generate_series(0, size - 1) AS seq
"""


def make_tenant(slug: str) -> tuple[Site, Tenant]:
    """Create a site with a credential."""
    site = Site.objects.create(slug=slug, name="Benchmark")
    return site, Tenant(str(site.id), slug, Credential.issue(site=site)[1])


def load(site: Site) -> None:
    """Load the conversations that are read, among as many others as are listed."""
    sizes = {read_conversation(size): size for size in SIZES}
    sizes |= {f"bench-listed-{number}": 1 for number in range(LISTED - len(sizes))}
    parameters: dict[str, Any] = {
        "site": site.id,
        "ids": [conversation_key(site, name) for name in sizes],
        "names": list(sizes),
        "sizes": list(sizes.values()),
        "payload": payload(),
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', '0', true)")
        cursor.execute(LOAD_CONVERSATIONS, parameters)
        cursor.execute(LOAD_ITEMS, parameters)
    with connection.cursor() as cursor:
        # Here and now, rather than by autovacuum in the middle of a round. Not the receipts, which are none yet: of an
        # empty table that was vacuumed PostgreSQL remembers that it is empty, plans to read all of it, and keeps that
        # plan while it grows. Autovacuum never does that to a server that people use.
        for table in ("conversation", "item", "record", "checkpoint", "checkpoint_session", "namespace"):
            cursor.execute(f"VACUUM ANALYZE {table}")


def load_memories(site: Site) -> None:
    """Load the records and the checkpoint that are read; the namespace has been there before the first round."""
    for number in range(RECORDS):
        records.put(site, PutRecord(namespace=NAMESPACE, key=record_key(number), value=msgspec.Raw(value().encode())))
    body = f'{{"namespace":"{NAMESPACE}",' + bundle_text("checkpoint-1", SESSION, 0)[1:]
    checkpoints.save(site, msgspec.json.decode(body, type=bundles.SaveCheckpoint))


def list_statement(site: Site) -> tuple[str, list[Any]]:
    """Return what the product asks for the first page of a list, which the ORM writes."""
    asked: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        asked.append((sql, parameters))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(note):
        log.list_conversations(site, contracts.ListConversations())
    ((sql, parameters),) = asked
    return sql, [str(value) if isinstance(value, uuid.UUID) else value for value in parameters]


def main(address: str, peers_dsn: str) -> None:
    written, writer = make_tenant("bench-writer")
    site, reader = make_tenant("bench-reader")
    for one in (written, site):
        load_memories(one)
    load(site)
    list_sql, list_parameters = list_statement(site)
    ground = Ground(
        address=address,
        dsn=connection_url(settings.STATE),
        peers_dsn=peers_dsn,
        writer=writer,
        reader=reader,
        statements={
            "append": log.APPEND,
            "recall": log.RECALL,
            "replay": log.REPLAY,
            "list": list_sql,
            "put": records.PUT,
            "get": records.GET,
            "save": checkpoints.SAVE,
            "restore": checkpoints.READ_LATEST,
        },
        list_parameters=list_parameters,
        max_items=contracts.MAX_ITEMS,
        max_bytes=settings.MAX_RESPONSE_BYTES,
    )
    print(ground.dump())


if __name__ == "__main__":
    main(*sys.argv[1:])
