"""Save, restore and delete a checkpoint, over HTTP."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.calls import JSON, assert_problem, bundle, put_record, save
from tests.checkpoints.conftest import expire
from tests.conftest import Server, Tenant

CAPSULE = (
    '{"open_tasks" : [],"goal":"g\\u0000\\ud83d\\ude00é",  "summary":"","next_action":"\\n",'
    '"constraints":["a", "a"],"decisions":[]}'
)


def restore(client: httpx.Client, namespace: str, checkpoint_id: str, **query: Any) -> httpx.Response:
    return client.get(f"/v1/namespaces/{namespace}/checkpoints/{checkpoint_id}", params=query)


def latest(client: httpx.Client, namespace: str, session: str = "coder/one", **query: Any) -> httpx.Response:
    return client.get(f"/v1/namespaces/{namespace}/sessions/{session}/latest", params=query)


def test_a_checkpoint_comes_back_whole_by_id_and_by_session(client: httpx.Client, namespace: str) -> None:
    response = save(client, namespace, bundle("checkpoint-1", details={"a": [1.5]}))
    locator = {"namespace": namespace, "agent_id": "coder", "session_id": "one", "checkpoint_id": "checkpoint-1"}
    assert (response.status_code, response.json()) == (
        201,
        {"checkpoint_id": "checkpoint-1", "revision": 1, "locator": locator},
    )
    restored = restore(client, namespace, "checkpoint-1")
    assert restored.status_code == 200
    body = restored.json()
    assert list(body) == ["checkpoint_id", "revision", "created_at", "locator", "capsule", "references", "details"]
    assert (body["revision"], body["locator"], body["references"], body["details"]) == (1, locator, [], {"a": [1.5]})
    assert latest(client, namespace).content == restored.content
    second = save(client, namespace, bundle("checkpoint-2", expected_revision=1))
    assert second.json()["revision"] == 2
    assert latest(client, namespace).json()["checkpoint_id"] == "checkpoint-2"
    assert restore(client, namespace, "checkpoint-1").content == restored.content
    alone = latest(client, namespace, include="capsule").json()
    assert list(alone) == ["checkpoint_id", "revision", "created_at", "locator", "capsule"]


def test_capsule_and_details_come_back_byte_for_byte_from_another_server(
    start_server: Callable[..., Server], tenant: Tenant, namespace: str
) -> None:
    details = '{ "b":1E400, "a":[1.0,"\\u0000"],"a":{}}'
    with tenant.client(start_server(workers=1).address) as client:
        body = json.dumps({**bundle("checkpoint-1"), "capsule": 0, "details": 0})
        body = body.replace('"capsule": 0', f'"capsule": {CAPSULE}').replace('"details": 0', f'"details": {details}')
        response = client.post(f"/v1/namespaces/{namespace}/checkpoints", content=body, headers=JSON)
        assert response.status_code == 201, response.text
        before = restore(client, namespace, "checkpoint-1").content
    with tenant.client(start_server(workers=1).address) as client:
        after = restore(client, namespace, "checkpoint-1").content
        assert f'"capsule":{CAPSULE},'.encode() in after
        assert f'"details":{details}}}'.encode() in after
        assert after == before == latest(client, namespace).content


def test_the_same_bundle_under_the_same_id_is_a_retry(client: httpx.Client, namespace: str) -> None:
    first = save(client, namespace, bundle("checkpoint-1", details={"a": 1}))
    assert save(client, namespace, bundle("checkpoint-2", expected_revision=1)).status_code == 201
    again = save(client, namespace, bundle("checkpoint-1", details={"a": 1}))
    assert (again.status_code, again.content) == (200, first.content)
    # The id is looked up before the revision is compared, and white space is no content.
    spaced = json.dumps(bundle("checkpoint-1", details={"a": 1}, expected_revision=7), indent=3)
    again = client.post(f"/v1/namespaces/{namespace}/checkpoints", content=spaced, headers=JSON)
    assert (again.status_code, again.content) == (200, first.content)
    assert latest(client, namespace).json()["checkpoint_id"] == "checkpoint-2"
    changes: list[dict[str, Any]] = [
        {"details": {"a": 2}},
        {"details": None},
        {"agent_id": "other"},
        {"session_id": "other"},
        {"references": [{"namespace": namespace, "key": "a", "revision": 1}]},
        {"goal": "another"},
    ]
    for change in changes:
        refused = save(client, namespace, bundle("checkpoint-1", **{"details": {"a": 1}, **change}))
        assert_problem(refused, "checkpoint_conflict")
    assert save(client, namespace + "x", bundle("checkpoint-1")).status_code == 201, "unique in the namespace only"


@pytest.mark.parametrize("expected", [0, 2, 2**63 - 1])
def test_a_wrong_expected_revision_stores_nothing(client: httpx.Client, namespace: str, expected: int) -> None:
    refused = save(client, namespace, bundle("checkpoint-0", expected_revision=expected or 5))
    assert_problem(refused, "revision_conflict", current_revision=0)
    assert_problem(latest(client, namespace), "not_found")
    save(client, namespace, bundle("checkpoint-1"))
    refused = save(client, namespace, bundle("checkpoint-2", expected_revision=expected))
    assert_problem(refused, "revision_conflict", current_revision=1)
    assert_problem(restore(client, namespace, "checkpoint-2"), "not_found")
    assert latest(client, namespace).json()["checkpoint_id"] == "checkpoint-1"
    assert save(client, namespace, bundle("checkpoint-2", expected_revision=1)).status_code == 201


def test_sessions_are_apart(client: httpx.Client, namespace: str) -> None:
    for number, (agent, session) in enumerate([("a", "s"), ("a", "t"), ("b", "s"), ("a:b@c.d", "_-")]):
        body = bundle(f"checkpoint-{number}", agent_id=agent, session_id=session)
        assert save(client, namespace, body).json()["revision"] == 1
        assert latest(client, namespace, f"{agent}/{session}").json()["checkpoint_id"] == f"checkpoint-{number}"


def test_a_reference_says_what_became_of_its_record(
    client: httpx.Client, other_client: httpx.Client, namespace: str
) -> None:
    elsewhere = f"{namespace}.elsewhere"
    for key in ("ok", "changed", "deleted", "again"):
        put_record(client, namespace, key, "1")
    put_record(client, elsewhere, f"{namespace}/expired", "1", query="?ttl=60")
    put_record(other_client, namespace, "foreign", "1")
    references = [{"namespace": namespace, "key": key, "revision": 1} for key in ("ok", "changed", "deleted", "again")]
    references += [
        {"namespace": elsewhere, "key": f"{namespace}/expired", "revision": 1},
        {"namespace": namespace, "key": "never", "revision": 0},
        {"namespace": namespace, "key": "foreign", "revision": 1},
        {"namespace": "no-such-namespace", "key": "checkpoint/a", "revision": 1},
        {"namespace": namespace, "key": "ok", "revision": 1},
    ]
    assert save(client, namespace, bundle("checkpoint-1", references=references)).status_code == 201
    put_record(client, namespace, "changed", "2")
    for key in ("deleted", "again"):
        client.delete(f"/v1/namespaces/{namespace}/records/{key}")
    put_record(client, namespace, "again", "2")
    expire(f"{namespace}/expired")
    found = restore(client, namespace, "checkpoint-1").json()["references"]
    statuses = ["ok", "changed", "missing", "changed", "expired", "missing", "missing", "missing", "ok"]
    expected = [{**reference, "status": status} for reference, status in zip(references, statuses, strict=True)]
    expected[1]["current_revision"] = 2
    expected[3]["current_revision"] = 2
    assert found == expected


def test_an_answer_of_exactly_the_budget_passes_and_one_byte_less_names_the_bytes(
    served: httpx.Client, namespace: str
) -> None:
    put_record(served, namespace, "é", "1")
    references = [{"namespace": namespace, "key": "é", "revision": 1}]
    save(
        served,
        namespace,
        bundle("checkpoint-1", goal="é" * 300, references=references, details="\N{GRINNING FACE}" * 99),
    )
    for include in (None, "capsule"):
        query = {} if include is None else {"include": include}
        size = len(restore(served, namespace, "checkpoint-1", **query).content)
        assert size > 512
        assert len(restore(served, namespace, "checkpoint-1", max_bytes=size, **query).content) == size
        assert len(latest(served, namespace, max_bytes=size, **query).content) == size
        for refused in (
            restore(served, namespace, "checkpoint-1", max_bytes=size - 1, **query),
            latest(served, namespace, max_bytes=size - 1, **query),
        ):
            problem = assert_problem(refused, "restore_budget_exceeded", required_bytes=size)
            assert "é" not in json.dumps(problem, ensure_ascii=False)
    put_record(served, namespace, "é", "2")
    grown = len(restore(served, namespace, "checkpoint-1").content)
    assert grown > len(restore(served, namespace, "checkpoint-1", include="capsule").content)


@pytest.mark.parametrize(
    "query", ["max_bytes=511", "max_bytes=1048577", "max_bytes=1e4", "include=all", "include=", "x=1"]
)
def test_a_budget_or_a_part_that_does_not_fit_is_refused(client: httpx.Client, namespace: str, query: str) -> None:
    save(client, namespace, bundle("checkpoint-1"))
    for address in ("checkpoints/checkpoint-1", "sessions/coder/one/latest"):
        response = client.get(f"/v1/namespaces/{namespace}/{address}?{query}")
        assert_problem(response, "invalid_parameter", field=query.partition("=")[0])


def test_the_budget_is_32_kib_by_default(client: httpx.Client, namespace: str) -> None:
    save(client, namespace, bundle("checkpoint-1", details="x" * 40_000))
    problem = assert_problem(restore(client, namespace, "checkpoint-1"), "restore_budget_exceeded")
    size = problem["required_bytes"]
    assert 40_000 < size < 41_000
    assert restore(client, namespace, "checkpoint-1", max_bytes=size).status_code == 200


def test_a_capsule_of_16_kib_fits_and_one_byte_more_does_not(client: httpx.Client, namespace: str) -> None:
    def send(checkpoint_id: str, size: int) -> httpx.Response:
        padded = CAPSULE.replace('"summary":""', '"summary":"' + "é" * ((size - len(CAPSULE.encode())) // 2) + '"')
        padded = padded[:-1] + " " * (size - len(padded.encode())) + "}"
        assert len(padded.encode()) == size
        body = json.dumps({**bundle(checkpoint_id), "capsule": 0}).replace('"capsule": 0', f'"capsule": {padded}')
        return client.post(f"/v1/namespaces/{namespace}/checkpoints", content=body.encode(), headers=JSON)

    assert_problem(send("checkpoint-1", 16 * 1024 + 1), "capsule_too_large", limit=16 * 1024, field="/capsule")
    assert send("checkpoint-1", 16 * 1024).status_code == 201


def test_a_bundle_that_could_not_be_restored_is_refused(client: httpx.Client, namespace: str) -> None:
    def body(size: int) -> dict[str, Any]:
        return bundle("checkpoint-1", details="x" * size)

    assert save(client, namespace + "x", body(0)).status_code == 201
    around = len(restore(client, namespace + "x", "checkpoint-1").content) - 1  # the namespace is one character longer
    largest = 1024 * 1024 - around
    assert_problem(save(client, namespace, body(largest + 1)), "bundle_too_large", limit=1024 * 1024)
    assert save(client, namespace, body(largest)).status_code == 201
    assert len(restore(client, namespace, "checkpoint-1", max_bytes=1024 * 1024).content) == 1024 * 1024


def test_a_bundle_is_judged_with_every_reference_changed(client: httpx.Client, namespace: str) -> None:
    references = [{"namespace": namespace, "key": f"{number:02}" + "k" * 510, "revision": 1} for number in range(64)]
    details = 1024 * 1024 - 64 * (512 + 150)
    while True:
        response = save(client, namespace, bundle("checkpoint-1", references=references, details="x" * details))
        if response.status_code == 201:
            break
        assert_problem(response, "bundle_too_large")
        details -= 64
    for reference in references:
        for value in ("1", "2"):
            put_record(client, namespace, str(reference["key"]), value)
    restored = restore(client, namespace, "checkpoint-1", max_bytes=1024 * 1024)
    assert restored.status_code == 200, restored.text
    assert {reference["status"] for reference in restored.json()["references"]} == {"changed"}


def test_more_than_64_references_are_refused(client: httpx.Client, namespace: str) -> None:
    references = [{"namespace": namespace, "key": str(number), "revision": 1} for number in range(65)]
    refused = save(client, namespace, bundle("checkpoint-1", references=references))
    assert_problem(refused, "too_many_references", limit=64)
    assert save(client, namespace, bundle("checkpoint-1", references=references[:64])).status_code == 201
    assert len(restore(client, namespace, "checkpoint-1").json()["references"]) == 64


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"checkpoint_id": "short"}, "/checkpoint_id"),
        ({"checkpoint_id": "x" * 65}, "/checkpoint_id"),
        ({"checkpoint_id": "with space"}, "/checkpoint_id"),
        ({"checkpoint_id": "newline-\n"}, "/checkpoint_id"),
        ({"agent_id": ""}, "/agent_id"),
        ({"agent_id": ".."}, "/agent_id"),
        ({"agent_id": "x" * 129}, "/agent_id"),
        ({"session_id": "a/b"}, "/session_id"),
        ({"session_id": "é"}, "/session_id"),
        ({"expected_revision": -1}, "/expected_revision"),
        ({"expected_revision": 2**63}, "/expected_revision"),
        ({"expected_revision": "0"}, "/expected_revision"),
        ({"expected_revision": None}, "/expected_revision"),
        ({"capsule": {}}, "/capsule/goal"),
        ({"capsule": None}, "/capsule"),
        ({"capsule": []}, "/capsule"),
        ({"goal": ""}, "/capsule/goal"),
        ({"goal": 5}, "/capsule/goal"),
        ({"references": {}}, "/references"),
        ({"references": [{"namespace": "n", "key": "k"}]}, "/references/0/revision"),
        ({"references": [{"namespace": "n", "key": "", "revision": 1}]}, "/references/0/key"),
        ({"references": [{"namespace": "n", "key": "a/../b", "revision": 1}]}, "/references/0/key"),
        ({"references": [{"namespace": "n/", "key": "k", "revision": 1}]}, "/references/0/namespace"),
        ({"references": [{"namespace": "n", "key": "k", "revision": -1}]}, "/references/0/revision"),
        ({"references": [{"namespace": "n", "key": "k", "revision": 1, "status": "ok"}]}, "/references/0/status"),
        ({"unknown": 1}, "/unknown"),
    ],
)
def test_a_field_that_does_not_fit_is_named(
    client: httpx.Client, namespace: str, change: dict[str, Any], field: str
) -> None:
    assert_problem(
        save(client, namespace, bundle(**{"checkpoint_id": "checkpoint-1", **change})), "validation_failed", field=field
    )


@pytest.mark.parametrize("part", ["goal", "summary", "next_action", "constraints", "decisions", "open_tasks"])
def test_a_capsule_has_all_six_parts_and_no_others(client: httpx.Client, namespace: str, part: str) -> None:
    body = bundle("checkpoint-1")
    body["capsule"]["extra"] = 1
    assert_problem(save(client, namespace, body), "validation_failed", field="/capsule/extra")
    body = bundle("checkpoint-1")
    del body["capsule"][part]
    assert_problem(save(client, namespace, body), "validation_failed", field=f"/capsule/{part}")
    body["capsule"][part] = [1]
    assert save(client, namespace, body).json()["field"].startswith(f"/capsule/{part}")


def test_the_latest_cannot_go_until_a_newer_one_exists_and_an_id_is_never_free_again(
    client: httpx.Client, namespace: str
) -> None:
    address = f"/v1/namespaces/{namespace}/checkpoints/checkpoint-1"
    assert client.delete(address).status_code == 204
    save(client, namespace, bundle("checkpoint-1"))
    assert_problem(client.delete(address), "checkpoint_is_latest")
    save(client, namespace, bundle("checkpoint-2", expected_revision=1))
    for _ in range(2):
        assert client.delete(address).status_code == 204
    assert_problem(restore(client, namespace, "checkpoint-1"), "checkpoint_deleted")
    for expected in (0, 1, 2):
        body = bundle("checkpoint-1", expected_revision=expected)
        assert_problem(save(client, namespace, body), "checkpoint_deleted")
        assert_problem(save(client, namespace, {**body, "details": 1}), "checkpoint_deleted")
    assert latest(client, namespace).json()["revision"] == 2
    assert_problem(client.delete(f"/v1/namespaces/{namespace}/checkpoints/checkpoint-2"), "checkpoint_is_latest")


@pytest.mark.parametrize("checkpoint_id", ["short", "x" * 65, "with%20space", "new-line%0A"])
def test_an_id_that_does_not_fit_is_refused_everywhere(
    client: httpx.Client, namespace: str, checkpoint_id: str
) -> None:
    address = f"/v1/namespaces/{namespace}/checkpoints/{checkpoint_id}"
    for method in ("GET", "DELETE"):
        assert_problem(client.request(method, address), "invalid_parameter", field="checkpoint_id")
    assert_problem(latest(client, namespace, "a%20/b"), "invalid_parameter", field="agent_id")
    assert_problem(latest(client, namespace, "a/%00"), "invalid_parameter", field="session_id")
