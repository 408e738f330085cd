"""How many queries the hot path costs: the same at any size."""

from collections.abc import Callable

import httpx
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.calls import append, assert_problem, new_id, recall, replay
from tests.conftest import Tenant

SIZES = pytest.mark.parametrize("size", [10, 10_000])


@pytest.fixture(autouse=True)
def _warm(client: httpx.Client) -> None:
    """Note the credential's use, once in ten minutes."""
    client.get("/v1/conversations")


def queries(call: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as captured:
        call()
    return len(captured)


def filled(tenant: Tenant, client: httpx.Client, size: int) -> str:
    """Return a conversation of this many items, of a site that has as many conversations."""
    conversation_id = new_id()
    append(client, conversation_id)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO item (conversation_id, generation, seq, recorded_at, payload)"
            " SELECT id, 0, n, now(), '{}' FROM conversation, generate_series(1, %(size)s::bigint - 1) AS n"
            " WHERE conversation_id = %(id)s::text",
            {"id": conversation_id, "size": size},
        )
        cursor.execute(
            "UPDATE conversation SET next_seq = %(size)s::bigint WHERE conversation_id = %(id)s::text",
            {"id": conversation_id, "size": size},
        )
        cursor.execute(
            "INSERT INTO conversation"
            " (id, site_id, conversation_id, generation, first_seq, next_seq, created_at, last_appended_at)"
            " SELECT gen_random_uuid(), %(site)s::uuid, 'counted-' || n, 0, 0, 1, now(), now()"
            " FROM generate_series(2, %(size)s::bigint) AS n",
            {"site": tenant.site.id, "size": size},
        )
    return conversation_id


@SIZES
def test_an_append_costs_two(client: httpx.Client, tenant: Tenant, size: int) -> None:
    conversation_id = filled(tenant, client, size)
    assert queries(lambda: append(client, new_id())) == 2
    assert queries(lambda: append(client, conversation_id)) == 2
    assert queries(lambda: append(client, conversation_id, *["{}"] * 250)) == 2
    assert queries(lambda: append(client, conversation_id, key="k", expected_generation=0)) == 2


@SIZES
def test_a_replayed_key_or_a_refusal_costs_three(client: httpx.Client, tenant: Tenant, size: int) -> None:
    conversation_id = filled(tenant, client, size)
    append(client, conversation_id, key="k")
    assert queries(lambda: append(client, conversation_id, key="k")) == 3
    assert queries(lambda: append(client, conversation_id, '{"a":1}', key="k")) == 3
    assert queries(lambda: append(client, conversation_id, expected_seq=1)) == 3


@SIZES
def test_a_recall_and_a_replay_cost_two(client: httpx.Client, tenant: Tenant, size: int) -> None:
    conversation_id = filled(tenant, client, size)
    assert queries(lambda: recall(client, conversation_id)) == 2
    assert queries(lambda: recall(client, conversation_id, count=1000)) == 2
    assert queries(lambda: replay(client, conversation_id)) == 2
    assert queries(lambda: replay(client, conversation_id, offset=2**64 - 1)) == 2
    assert queries(lambda: recall(client, new_id())) == 2


@SIZES
def test_a_list_costs_two(client: httpx.Client, tenant: Tenant, size: int) -> None:
    filled(tenant, client, size)
    cursor = client.get("/v1/conversations?limit=5").json()["next_cursor"]
    assert queries(lambda: client.get("/v1/conversations")) == 2
    assert queries(lambda: client.get("/v1/conversations?limit=1000")) == 2
    assert queries(lambda: client.get("/v1/conversations", params={"cursor": cursor})) == 2
    assert queries(lambda: client.get("/v1/conversations?appended_after=2026-01-01T00:00:00Z")) == 2


def test_what_is_refused_by_its_form_costs_the_credential_alone(client: httpx.Client, conversation_id: str) -> None:
    assert queries(lambda: assert_problem(append(client, conversation_id, "1"), "invalid_item")) == 1
    assert queries(lambda: client.get("/v1/conversations?limit=-1")) == 1
    assert queries(lambda: client.get("/v1/nothing")) == 0
    assert queries(lambda: client.get("/healthz")) == 0


def test_pages_read_an_index_and_as_many_rows_as_they_answer(client: httpx.Client, tenant: Tenant) -> None:
    conversation_id = filled(tenant, client, 10_000)
    connection.cursor().execute("ANALYZE item, conversation")
    for call in (
        lambda: recall(client, conversation_id),
        lambda: replay(client, conversation_id, offset=5000, limit=50),
        lambda: client.get("/v1/conversations"),
        lambda: client.get("/v1/conversations?appended_before=2100-01-01T00:00:00Z"),
    ):
        before = rows_read()
        call()
        assert rows_read() - before < 500


def rows_read() -> int:
    """Return how many rows of the big tables this connection's scans have met, as the statistics of the server say."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables"
            " WHERE relname IN ('item', 'conversation')"
        )
        (found,) = cursor.fetchone()
        return int(found)
