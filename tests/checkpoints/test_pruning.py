"""prune_records: what it removes, what it leaves, and that nobody can tell but by the space."""

import json
from io import StringIO
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from checkpoints import retention
from tests.calls import assert_problem, bundle, put_record, save
from tests.checkpoints.conftest import expire
from tests.conftest import Tenant


@pytest.fixture(autouse=True)
def _swept() -> None:
    """Nothing is left by other tests: what a run removes is counted over all sites."""
    retention.prune()


def prune(*options: str) -> Any:
    out = StringIO()
    call_command("prune_records", "--json", *options, stdout=out)
    return json.loads(out.getvalue())


def rows(namespace: str) -> int:
    """Return how many rows a namespace has, tombstones among them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM record WHERE namespace_id = (SELECT id FROM namespace WHERE name = %s)", [namespace]
        )
        (found,) = cursor.fetchone()
        return int(found)


def test_expired_records_and_tombstones_go_and_the_living_stay(client: httpx.Client, namespace: str) -> None:
    for key in ("living", "long", f"{namespace}/expired", "deleted"):
        put_record(client, namespace, key, "1", query="?ttl=6000" if key == "long" else "")
    expire(f"{namespace}/expired")
    client.delete(f"/v1/namespaces/{namespace}/records/deleted")
    assert prune("--dry-run") == {"expired": 1, "tombstones": 1, "evicted": 0, "dry_run": True}
    assert rows(namespace) == 4
    assert prune("--older-than", "3600") == {"expired": 0, "tombstones": 0, "evicted": 0, "dry_run": False}
    assert prune() == {"expired": 1, "tombstones": 1, "evicted": 0, "dry_run": False}
    assert rows(namespace) == 2
    assert prune() == {"expired": 0, "tombstones": 0, "evicted": 0, "dry_run": False}
    out = StringIO()
    call_command("prune_records", stdout=out)
    assert out.getvalue() == "Removed 0 expired, 0 tombstones, 0 evicted.\n"
    with pytest.raises(CommandError):
        prune("--older-than", "-1")


def test_revisions_grow_across_pruned_tombstones(client: httpx.Client, namespace: str) -> None:
    for _ in range(5):
        etag = put_record(client, namespace, "a", "1").headers["ETag"]
    client.delete(f"/v1/namespaces/{namespace}/records/a")
    prune()
    assert rows(namespace) == 0
    again = put_record(client, namespace, "a", "2")
    assert (again.status_code, again.json()["revision"]) == (201, 6)
    assert_problem(put_record(client, namespace, "a", "3", if_match=etag), "precondition_failed", current_revision=6)
    # The floor is the namespace's: it is above what has gone, and holds back nobody.
    assert put_record(client, namespace, "b", "1").json()["revision"] > 0
    assert put_record(client, namespace, "b", "1").status_code == 200
    put_record(client, namespace, "c", "1", query="?ttl=60")
    before = put_record(client, namespace, "c", "1").json()["revision"]
    put_record(client, namespace, "c", "1", query="?ttl=60")
    expire("c")
    prune()
    assert put_record(client, namespace, "c", "1").json()["revision"] > before + 1


def test_a_reference_to_what_was_pruned_is_missing(client: httpx.Client, namespace: str) -> None:
    key = f"{namespace}/a"
    put_record(client, namespace, key, "1", query="?ttl=60")
    save(client, namespace, bundle("checkpoint-1", references=[{"namespace": namespace, "key": key, "revision": 1}]))
    address = f"/v1/namespaces/{namespace}/checkpoints/checkpoint-1"
    assert client.get(address).json()["references"][0]["status"] == "ok"
    expire(key)
    assert client.get(address).json()["references"][0]["status"] == "expired"
    prune()
    assert client.get(address).json()["references"][0]["status"] == "missing"


def test_it_works_in_batches_over_many_namespaces(
    client: httpx.Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 4)
    for number in range(13):
        key = f"{namespace}/{number}"
        name = f"{namespace}-{number % 3}"
        put_record(client, name, key, "1")
        if number % 2:
            expire(key)
        else:
            client.delete(f"/v1/namespaces/{name}/records/{key}")
    steps: list[int] = []
    pruned = retention.prune(progress=lambda done: steps.append(done.expired + done.tombstones))
    assert (pruned.expired, pruned.tombstones) == (6, 7)
    assert len(steps) > 4
    assert [rows(f"{namespace}-{number}") for number in range(3)] == [0, 0, 0]


def test_what_is_over_a_maximum_goes_without_a_put(client: httpx.Client, tenant: Tenant, namespace: str) -> None:
    for key in "abcd":
        put_record(client, namespace, key, "1")
    call_command("set_namespace", tenant.site.slug, namespace, "--max-records", "2", stdout=StringIO())
    assert prune("--dry-run")["evicted"] == 2
    assert prune()["evicted"] == 2
    listed = client.get(f"/v1/namespaces/{namespace}/records").json()["records"]
    assert [record["key"] for record in listed] == ["c", "d"]
    assert put_record(client, namespace, "a", "1").json()["revision"] == 2


def test_it_goes_around_a_row_that_somebody_holds(client: httpx.Client, namespace: str) -> None:
    for key in ("held", "free"):
        put_record(client, namespace, f"{namespace}/{key}", "1")
        expire(f"{namespace}/{key}")
    other = connection.copy()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT 1 FROM record WHERE key = %s FOR UPDATE", [f"{namespace}/held"])
            assert prune()["expired"] == 1
    finally:
        other.close()
    assert prune()["expired"] == 1
