"""A database that breaks in the middle: what was written and what was not is told apart, and a retry mends it."""

import httpx
import pytest
from django.core.management import call_command
from django.db import connection

from tests.calls import assert_problem, bundle, put_record, save
from tests.conftest import Tenant
from tests.faults import Database

FIRST = "first_checkpoint_at = coalesce"
"""Stands in the statement that begins the transaction of a namespace's first checkpoint, and in no other."""


@pytest.mark.parametrize("forward", [True, False])
def test_a_save_whose_answer_is_lost_is_unknown_and_the_same_call_again_settles_it(
    client: httpx.Client, namespace: str, database: Database, forward: bool
) -> None:
    save(client, namespace, bundle("checkpoint-1"))
    body = bundle("checkpoint-2", expected_revision=1, details="the-lost-one")
    with database.losing("the-lost-one", forward=forward):
        assert_problem(save(client, namespace, body), "outcome_unknown")
    again = save(client, namespace, body)
    assert (again.status_code, again.json()["revision"]) == (200 if forward else 201, 2)


@pytest.mark.parametrize("forward", [True, False])
def test_a_first_save_whose_commit_is_not_answered_is_unknown(
    client: httpx.Client, namespace: str, database: Database, forward: bool
) -> None:
    with database.losing("COMMIT", forward=forward):
        assert_problem(save(client, namespace, bundle("checkpoint-1")), "outcome_unknown")
    again = save(client, namespace, bundle("checkpoint-1"))
    assert (again.status_code, again.json()["revision"]) == (200 if forward else 201, 1)


@pytest.mark.parametrize("forward", [True, False])
def test_a_first_save_that_breaks_before_its_commit_wrote_nothing(
    client: httpx.Client, tenant: Tenant, namespace: str, database: Database, forward: bool
) -> None:
    with database.losing(FIRST, forward=forward):
        assert_problem(save(client, namespace, bundle("checkpoint-1")), "unavailable")
    # Not even that the namespace has checkpoints.
    call_command("set_namespace", tenant.site.slug, namespace, "--max-records", "2", "--json")
    call_command("set_namespace", tenant.site.slug, namespace, "--max-records", "none", "--json")
    assert save(client, namespace, bundle("checkpoint-1")).status_code == 201


@pytest.mark.parametrize("forward", [True, False])
def test_a_put_with_a_condition_whose_answer_is_lost_can_be_sent_again(
    client: httpx.Client, namespace: str, database: Database, forward: bool
) -> None:
    put_record(client, namespace, "a", "1")
    with database.losing("the-lost-one", forward=forward):
        assert_problem(put_record(client, namespace, "a", '"the-lost-one"', if_match='"1"'), "outcome_unknown")
    again = put_record(client, namespace, "a", '"the-lost-one"', if_match='"1"')
    if forward:
        assert_problem(again, "precondition_failed", current_revision=2)
    else:
        assert again.status_code == 200
    assert client.get(f"/v1/namespaces/{namespace}/records/a").text == '"the-lost-one"'


@pytest.mark.parametrize("forward", [True, False])
def test_a_put_that_evicts_commits_both_or_neither(
    client: httpx.Client, tenant: Tenant, namespace: str, database: Database, forward: bool
) -> None:
    call_command("set_namespace", tenant.site.slug, namespace, "--max-records", "2", "--json")
    for key in "ab":
        put_record(client, namespace, key, "1")
    with database.losing("COMMIT", forward=forward):
        assert_problem(put_record(client, namespace, "c", "1"), "outcome_unknown")
    listed = client.get(f"/v1/namespaces/{namespace}/records").json()["records"]
    assert [record["key"] for record in listed] == (["b", "c"] if forward else ["a", "b"])


def test_a_namespace_that_somebody_holds_is_waited_for_and_then_given_up(client: httpx.Client, namespace: str) -> None:
    put_record(client, namespace, "a", "1")
    holder = connection.copy()
    try:
        holder.set_autocommit(False)
        with holder.cursor() as cursor:
            cursor.execute("SELECT 1 FROM namespace WHERE name = %s FOR UPDATE", [namespace])
        assert_problem(put_record(client, namespace, "a", "2"), "timeout")
        assert client.get(f"/v1/namespaces/{namespace}/records/a").content == b"1"
    finally:
        holder.close()
    assert put_record(client, namespace, "a", "2").json()["revision"] == 2


def test_a_database_that_takes_no_writes_still_restores(
    client: httpx.Client, namespace: str, database: Database
) -> None:
    put_record(client, namespace, "a", "1")
    save(client, namespace, bundle("checkpoint-1"))
    with database.read_only():
        assert_problem(put_record(client, namespace, "a", "2"), "unavailable")
        assert_problem(save(client, namespace, bundle("checkpoint-2", expected_revision=1)), "unavailable")
        assert client.get(f"/v1/namespaces/{namespace}/sessions/coder/one/latest").status_code == 200
        assert client.get(f"/v1/namespaces/{namespace}/records").status_code == 200
