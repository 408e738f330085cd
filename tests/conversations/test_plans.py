"""The plans of the log's reads, as PostgreSQL keeps them for a prepared statement that it knows no values of."""

import re
import uuid
from typing import Any

import pytest
from django.db import connection

from conversations import log
from conversations.models import conversation_key
from tests.conftest import Tenant

LOAD = """
INSERT INTO item (conversation_id, generation, seq, recorded_at, payload)
SELECT id, 0, seq, now(), '{}' FROM unnest(%(ids)s::uuid[]) AS id, generate_series(0, %(size)s::bigint - 1) AS seq
"""
LOAD_CONVERSATIONS = """
INSERT INTO conversation (id, site_id, conversation_id, generation, first_seq, next_seq, created_at, last_appended_at)
SELECT id, %(site)s::uuid, 'conversation-' || position, 0, 0, %(size)s::bigint, now(), now()
FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS made (id, position)
"""


def generic_plan(sql: str, values: dict[str, Any]) -> str:
    """Return the generic plan of a statement, executed once: rows and loops are what happened."""
    order: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in order:
            order.append(match[1])
        return f"${order.index(match[1]) + 1}"

    numbered = re.sub(r"%\((\w+)\)s", number, sql)
    name = f"plan_{uuid.uuid4().hex}"
    given = ", ".join(f"'{values[field]}'" for field in order)
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('plan_cache_mode', 'force_generic_plan', false)")
        try:
            cursor.execute(f"PREPARE {name} AS {numbered}")
            cursor.execute(
                f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) EXECUTE {name}({given})"
            )
            return "\n".join(row[0] for row in cursor.fetchall())
        finally:
            cursor.execute("SELECT set_config('plan_cache_mode', 'auto', false)")
            cursor.execute(f"DEALLOCATE {name}")


@pytest.fixture
def crowded(tenant: Tenant) -> uuid.UUID:
    """A conversation of 20,000 items among ten such, in a table that has just been analysed."""
    ids = [conversation_key(tenant.site, f"conversation-{number}") for number in range(1, 11)]
    with connection.cursor() as cursor:
        cursor.execute(LOAD_CONVERSATIONS, {"ids": ids, "site": tenant.site.id, "size": 20_000})
        cursor.execute(LOAD, {"ids": ids, "size": 20_000})
        cursor.execute("ANALYZE item")
        cursor.execute("ANALYZE conversation")
    return ids[4]


@pytest.mark.parametrize("offset", [0, 10_000, 19_500])
def test_a_page_reads_a_bounded_range_of_the_primary_key_wherever_it_is(crowded: uuid.UUID, offset: int) -> None:
    plan = generic_plan(log.REPLAY, {"id": crowded, "offset": offset, "limit": 500, "max_bytes": 10**8})
    assert "Seq Scan on item" not in plan, plan
    assert "item_pkey" in plan, plan
    # Everything that the scan touched is on the page: not a row behind it was read and thrown away.
    scanned = [float(rows) for rows in re.findall(r"(?:Index|Bitmap Heap) Scan .*item.*?rows=([\d.]+)", plan)]
    assert scanned == [500.0], plan
    assert "Rows Removed by Filter" not in plan.partition("item_pkey")[2], plan


def test_the_tail_reads_as_many_rows_as_were_asked_for(crowded: uuid.UUID) -> None:
    plan = generic_plan(log.RECALL, {"id": crowded, "limit": 50, "max_bytes": 10**8})
    assert "Seq Scan on item" not in plan, plan
    scanned = [float(rows) for rows in re.findall(r"(?:Index|Bitmap Heap) Scan .*item.*?rows=([\d.]+)", plan)]
    assert scanned == [50.0], plan
