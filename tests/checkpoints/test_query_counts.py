"""How many queries a call costs, the credential's among them: the same at any size."""

from collections.abc import Callable

import httpx
import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints.models import namespace_key
from tests.calls import bundle, put_record, save
from tests.conftest import Tenant


def queries(call: Callable[[], httpx.Response], status: int) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert call().status_code == status
    return len(captured)


@pytest.mark.parametrize("size", [10, 10_000])
def test_a_call_costs_the_same_at_any_size(client: httpx.Client, tenant: Tenant, namespace: str, size: int) -> None:
    put_record(client, namespace, "a", '{"kind":"fact","tags":["t"]}')
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO record (namespace_id, key, revision, first_revision, value, size, updated_at, kind, tags)"
            " SELECT namespace_id, 'k' || n, 1, 1, value, size, updated_at, kind, tags FROM record,"
            " generate_series(2, %s) AS n WHERE namespace_id = %s",
            [size, namespace_key(tenant.site, namespace)],
        )
    at = f"/v1/namespaces/{namespace}"
    assert queries(lambda: put_record(client, namespace, "a", "1"), 200) == 2
    assert queries(lambda: put_record(client, namespace, "new", "1", query="?ttl=60", if_none_match="*"), 201) == 2
    assert queries(lambda: put_record(client, namespace, "new", "1", if_match='"1"'), 200) == 2
    assert queries(lambda: put_record(client, namespace, "new", "1", if_match='"1"'), 412) == 3
    assert queries(lambda: client.get(f"{at}/records/a"), 200) == 2
    assert queries(lambda: client.get(f"{at}/records"), 200) == 2
    assert queries(lambda: client.get(f"{at}/records?limit=1000&tag=t&kind=fact&prefix=k"), 200) == 2
    assert queries(lambda: client.delete(f"{at}/records/new"), 204) == 2
    assert queries(lambda: client.delete(f"{at}/records/new"), 204) == 2
    assert queries(lambda: client.delete(f"{at}/records/a", headers={"If-Match": '"9"'}), 412) == 3

    references = [{"namespace": namespace, "key": f"k{number}", "revision": 1} for number in range(64)]
    # The first of a namespace marks it, in a transaction: BEGIN and COMMIT among them.
    assert queries(lambda: save(client, namespace, bundle("checkpoint-1")), 201) == 7
    body = bundle("checkpoint-2", expected_revision=1, references=references)
    assert queries(lambda: save(client, namespace, body), 201) == 2
    assert queries(lambda: save(client, namespace, body), 200) == 3
    assert queries(lambda: save(client, namespace, {**body, "details": 1}), 409) == 3
    for place in ("checkpoints/checkpoint-2", "sessions/coder/one/latest"):
        assert queries(lambda: client.get(f"{at}/{place}"), 200) == 3  # noqa: B023
        assert queries(lambda: client.get(f"{at}/{place}?include=capsule"), 200) == 2  # noqa: B023
    assert queries(lambda: client.delete(f"{at}/checkpoints/checkpoint-1"), 204) == 2


def test_a_put_where_there_is_a_maximum_is_a_transaction(client: httpx.Client, tenant: Tenant, namespace: str) -> None:
    client.get(f"/v1/namespaces/{namespace}/records")
    assert queries(lambda: put_record(client, namespace, "first", "1"), 201) == 5, "the namespace is made"
    call_command("set_namespace", tenant.site.slug, namespace, "--max-records", "2", "--json")
    for key in "abc":
        assert queries(lambda: put_record(client, namespace, key, "1"), 201) == 8  # noqa: B023


def test_what_does_not_fit_costs_the_credential_alone(client: httpx.Client, namespace: str) -> None:
    client.get(f"/v1/namespaces/{namespace}/records")
    assert queries(lambda: put_record(client, namespace, "x" * 513, "1"), 400) == 1
    assert queries(lambda: put_record(client, namespace, "checkpoint/a", "1"), 403) == 1
    assert queries(lambda: save(client, namespace, bundle("short")), 400) == 1


def test_a_list_reads_an_index_and_as_many_rows_as_it_answers(
    client: httpx.Client, tenant: Tenant, namespace: str
) -> None:
    put_record(client, namespace, "k0", '{"kind":"fact","tags":["t"]}')
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO record (namespace_id, key, revision, first_revision, value, size, updated_at, kind, tags)"
            " SELECT namespace_id, 'k' || n, 1, 1, value, size, updated_at,"
            " CASE WHEN n %% 500 = 0 THEN 'rare' ELSE 'fact' END, ARRAY['t', 'tag ' || n %% 1000]"
            " FROM record, generate_series(1, 20000) AS n WHERE namespace_id = %s",
            [namespace_key(tenant.site, namespace)],
        )
        cursor.execute("ANALYZE record")
    address = f"/v1/namespaces/{namespace}/records"
    for query in ("", "?prefix=k19", "?kind=rare", "?kind=fact", "?tag=tag 7", "?tag=t&limit=50"):
        before = rows_read()
        response = client.get(address + query)
        assert response.json()["records"]
        assert rows_read() - before < 500, query


def rows_read() -> int:
    """Return how many records this connection's scans have met, as the statistics of the server say."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = 'record'"
        )
        (found,) = cursor.fetchone()
        return int(found)
