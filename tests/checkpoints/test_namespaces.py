"""The policy of a namespace: default lifetime, maximum, and checkpoints that want neither."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tests.calls import assert_problem, bundle, put_record, save
from tests.conftest import Tenant


@pytest.fixture
def set_namespace(tenant: Tenant, namespace: str) -> Callable[..., Any]:
    def run(*options: str) -> Any:
        out = StringIO()
        call_command("set_namespace", tenant.site.slug, namespace, "--json", *options, stdout=out)
        return json.loads(out.getvalue())

    return run


def keys(client: httpx.Client, namespace: str) -> list[str]:
    return [record["key"] for record in client.get(f"/v1/namespaces/{namespace}/records").json()["records"]]


def test_the_command_says_what_is_set_and_changes_what_is_named(
    set_namespace: Callable[..., Any], tenant: Tenant, namespace: str
) -> None:
    nothing = {"site": tenant.site.slug, "namespace": namespace, "default_ttl": None, "max_records": None}
    assert set_namespace() == {**nothing, "dry_run": False}
    assert set_namespace("--default-ttl", "60", "--dry-run") == {**nothing, "default_ttl": 60, "dry_run": True}
    assert set_namespace() == {**nothing, "dry_run": False}
    assert set_namespace("--default-ttl", "60") == {**nothing, "default_ttl": 60, "dry_run": False}
    both = {**nothing, "default_ttl": 60, "max_records": 5, "dry_run": False}
    assert set_namespace("--max-records", "5") == both
    assert set_namespace("--default-ttl", "none", "--max-records", "none") == {**nothing, "dry_run": False}
    out = StringIO()
    call_command("set_namespace", tenant.site.slug, namespace, "--max-records", "7", stdout=out)
    assert "no default lifetime, 7 at most" in out.getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-site", "name"],
        ["SITE", "bad/name", "--max-records", "1"],
        ["SITE", "..", "--max-records", "1"],
        ["SITE", "name", "--max-records", "0"],
        ["SITE", "name", "--max-records", "100001"],
        ["SITE", "name", "--default-ttl", "0"],
        ["SITE", "name", "--default-ttl", "315360001"],
        ["SITE", "name", "--default-ttl", "soon"],
    ],
)
def test_the_command_says_what_does_not_fit(tenant: Tenant, arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        call_command("set_namespace", *[tenant.site.slug if part == "SITE" else part for part in arguments])


def test_a_default_lifetime_is_for_puts_without_one(
    client: httpx.Client, set_namespace: Callable[..., Any], namespace: str
) -> None:
    put_record(client, namespace, "before", "1")
    set_namespace("--default-ttl", "60")
    assert put_record(client, namespace, "a", "1").json()["expires_at"] is not None
    assert client.get(f"/v1/namespaces/{namespace}/records/before").headers.get("X-Expires-At") is None
    longer = put_record(client, namespace, "a", "1", query="?ttl=6000").json()
    assert longer["expires_at"] > put_record(client, namespace, "b", "1").json()["expires_at"]
    set_namespace("--default-ttl", "none")
    assert put_record(client, namespace, "a", "1").json()["expires_at"] is None


def test_the_oldest_written_goes_when_a_put_passes_the_maximum(
    client: httpx.Client, set_namespace: Callable[..., Any], namespace: str
) -> None:
    set_namespace("--max-records", "3")
    for key in "abc":
        assert put_record(client, namespace, key, "1").status_code == 201
    assert put_record(client, namespace, "a", "2").status_code == 200
    assert keys(client, namespace) == ["a", "b", "c"]
    put_record(client, namespace, "d", "1")
    assert keys(client, namespace) == ["a", "c", "d"]
    assert_problem(client.get(f"/v1/namespaces/{namespace}/records/b"), "not_found")
    again = put_record(client, namespace, "b", "2")
    assert (again.status_code, again.json()["revision"]) == (201, 2), "revisions grow across eviction"
    assert keys(client, namespace) == ["a", "b", "d"]
    refused = put_record(client, namespace, "e", "1", if_match='"1"')
    assert_problem(refused, "precondition_failed", current_revision=0)
    assert keys(client, namespace) == ["a", "b", "d"]
    client.delete(f"/v1/namespaces/{namespace}/records/a")
    put_record(client, namespace, "e", "1")
    assert keys(client, namespace) == ["b", "d", "e"]


def test_what_has_expired_takes_no_place(
    client: httpx.Client, set_namespace: Callable[..., Any], namespace: str
) -> None:
    set_namespace("--max-records", "2")
    put_record(client, namespace, "a", "1")
    put_record(client, namespace, "b", "1", query="?ttl=60")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE record SET expires_at = now() WHERE key = 'b' AND namespace_id ="
            " (SELECT id FROM namespace WHERE name = %s)",
            [namespace],
        )
    put_record(client, namespace, "c", "1")
    assert keys(client, namespace) == ["a", "c"]


def test_a_lowered_maximum_is_reached_with_the_next_put(
    client: httpx.Client, set_namespace: Callable[..., Any], namespace: str
) -> None:
    for key in "abcdef":
        put_record(client, namespace, key, "1")
    set_namespace("--max-records", "2")
    assert keys(client, namespace) == list("abcdef")
    put_record(client, namespace, "a", "2")
    assert keys(client, namespace) == ["a", "f"]


def test_putting_at_once_never_passes_the_maximum(
    tenant: Tenant, client: httpx.Client, set_namespace: Callable[..., Any], namespace: str
) -> None:
    set_namespace("--max-records", "4")

    def write(number: int) -> None:
        with tenant.client() as writer:
            for step in range(6):
                key = f"{number}-{step}"
                assert put_record(writer, namespace, key, "1").status_code == 201
                assert len(keys(writer, namespace)) <= 4
        connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    assert len(keys(client, namespace)) == 4


def test_a_namespace_with_a_policy_takes_no_checkpoints(
    client: httpx.Client, set_namespace: Callable[..., Any], namespace: str
) -> None:
    for option, value in (("--default-ttl", "60"), ("--max-records", "5")):
        set_namespace("--default-ttl", "none", "--max-records", "none")
        set_namespace(option, value)
        assert_problem(save(client, namespace, bundle("checkpoint-1")), "namespace_not_durable")
    set_namespace("--max-records", "none")
    assert save(client, namespace, bundle("checkpoint-1")).status_code == 201


def test_a_namespace_with_checkpoints_takes_no_policy(
    client: httpx.Client, set_namespace: Callable[..., Any], namespace: str
) -> None:
    refused = save(client, namespace, bundle("checkpoint-0", expected_revision=1))
    assert_problem(refused, "revision_conflict")
    set_namespace("--max-records", "5")
    set_namespace("--max-records", "none")
    save(client, namespace, bundle("checkpoint-1"))
    for options in (["--default-ttl", "60"], ["--max-records", "5"], ["--max-records", "5", "--dry-run"]):
        with pytest.raises(CommandError, match="checkpoints"):
            set_namespace(*options)
    set_namespace("--max-records", "none")
    assert put_record(client, namespace, "a", "1", query="?ttl=60").json()["expires_at"] is not None


def test_a_policy_and_a_first_checkpoint_at_once_never_both_win(tenant: Tenant, namespace: str) -> None:
    def checkpoint(name: str) -> bool:
        with tenant.client() as client:
            response = save(client, name, bundle("checkpoint-1"))
        connection.close()
        assert response.status_code in (201, 409), response.text
        return response.status_code == 201

    def policy(name: str) -> bool:
        try:
            call_command("set_namespace", tenant.site.slug, name, "--max-records", "5", stdout=StringIO())
        except CommandError:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(4) as pool:
        for number in range(40):
            name = f"{namespace}-{number}"
            asked = [pool.submit(checkpoint, name), pool.submit(policy, name)][:: 1 if number % 2 else -1]
            assert sorted(one.result() for one in asked) == [False, True]
