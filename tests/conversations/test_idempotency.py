"""Idempotency-Key: a retry is answered as the first time and stores nothing, whatever happened in between."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from conversations.models import Receipt
from tests.calls import append, assert_problem, new_id, payloads_of, post, recall, stored
from tests.conftest import Server, Tenant


def test_a_repeated_key_gets_the_first_answer_and_stores_nothing(client: httpx.Client, conversation_id: str) -> None:
    first = append(client, conversation_id, '{"a":1}', '{"a":2}', key="k")
    assert first.status_code == 201
    assert "Idempotent-Replayed" not in first.headers
    append(client, conversation_id, '{"a":3}')
    again = append(client, conversation_id, '{"a":1}', '{"a":2}', key="k")
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["Idempotent-Replayed"] == "true"
    assert stored(client, conversation_id) == ['{"a":1}', '{"a":2}', '{"a":3}']


@pytest.mark.parametrize(
    "other",
    [
        ['{"a":2}'],
        ['{"a": 1}'],
        ['{"a":1.0}'],
        ['{"a":1}', "{}"],
        ["{}", '{"a":1}'],
    ],
)
def test_a_key_with_other_content_is_refused_and_stores_nothing(
    client: httpx.Client, conversation_id: str, other: list[str]
) -> None:
    append(client, conversation_id, '{"a":1}', key="k")
    assert_problem(append(client, conversation_id, *other, key="k"), "idempotency_key_reused")
    assert stored(client, conversation_id) == ['{"a":1}']


def test_blanks_and_the_order_of_fields_around_the_items_are_no_other_content(
    client: httpx.Client, conversation_id: str
) -> None:
    first = post(client, conversation_id, b'{"items":[{"a":1},{}],"expected_seq":0}', key="k")
    again = post(client, conversation_id, b'{"expected_seq":0, "items" : [ {"a":1} , {} ] }', key="k")
    assert (again.status_code, again.json()) == (200, first.json())


def test_a_key_belongs_to_one_conversation(client: httpx.Client) -> None:
    one, two = new_id(), new_id()
    assert append(client, one, '{"a":1}', key="k").status_code == 201
    assert append(client, two, '{"a":2}', key="k").status_code == 201
    assert (stored(client, one), stored(client, two)) == (['{"a":1}'], ['{"a":2}'])


def test_a_key_belongs_to_one_site(client: httpx.Client, other_client: httpx.Client, conversation_id: str) -> None:
    assert append(client, conversation_id, '{"a":1}', key="k").status_code == 201
    assert append(other_client, conversation_id, '{"a":2}', key="k").status_code == 201
    assert stored(client, conversation_id) == ['{"a":1}']
    assert stored(other_client, conversation_id) == ['{"a":2}']


def test_the_key_is_looked_up_before_the_expectations_are_judged(client: httpx.Client, conversation_id: str) -> None:
    first = append(client, conversation_id, key="k", expected_seq=0, expected_generation=0)
    append(client, conversation_id)
    again = append(client, conversation_id, key="k", expected_seq=0, expected_generation=0)
    assert (again.status_code, again.json()) == (200, first.json())
    again = append(client, conversation_id, key="k", expected_seq=77, expected_generation=5)
    assert (again.status_code, again.json()) == (200, first.json())
    response = append(client, conversation_id, '{"b":1}', key="k", expected_seq=77)
    assert_problem(response, "idempotency_key_reused")


def test_a_refused_call_does_not_use_its_key_up(client: httpx.Client, conversation_id: str) -> None:
    assert_problem(append(client, conversation_id, key="k", expected_seq=3), "seq_conflict")
    assert_problem(append(client, conversation_id, key="k", expected_generation=3), "stale_generation")
    assert_problem(append(client, conversation_id, "1", key="k"), "invalid_item")
    assert append(client, conversation_id, '{"a":1}', key="k").status_code == 201


@pytest.mark.parametrize("key", ["!", "~" * 255, "a,b", '"quoted"', "0"])
def test_a_key_is_any_visible_ascii_up_to_255_characters(client: httpx.Client, conversation_id: str, key: str) -> None:
    assert append(client, conversation_id, key=key).status_code == 201
    assert append(client, conversation_id, key=key).status_code == 200
    assert len(recall(client, conversation_id)) == 1


@pytest.mark.parametrize("key", ["", "~" * 256, "with blank", "tab\tbed", "\x7f", "caf\u00e9"])
def test_a_key_that_does_not_fit_is_refused_and_named(server: Server, tenant: Tenant, key: str) -> None:
    conversation_id = new_id()
    with tenant.client(server.address) as client:
        response = client.post(
            f"/v1/conversations/{conversation_id}/items",
            json={"items": [{}]},
            headers=[(b"Idempotency-Key", key.encode("latin-1"))],
        )
        if response.headers.get("content-type") is None:
            # The HTTP server itself refuses what may not stand in a header.
            assert response.status_code == 400
        else:
            assert_problem(response, "invalid_parameter", field="Idempotency-Key")
        assert stored(client, conversation_id) == []


def test_a_call_that_does_not_take_a_key_refuses_it(client: httpx.Client, conversation_id: str) -> None:
    headers = {"Idempotency-Key": "k"}
    for path in (
        f"/v1/conversations/{conversation_id}/recall",
        f"/v1/conversations/{conversation_id}/replay",
        "/v1/conversations",
    ):
        assert_problem(client.get(path, headers=headers), "invalid_parameter", field="Idempotency-Key")


def test_neither_key_nor_content_is_kept_with_the_receipt(client: httpx.Client, conversation_id: str) -> None:
    append(client, conversation_id, '{"word":"xylophone"}', key="telling-key")
    receipt = Receipt.objects.get(conversation__conversation_id=conversation_id)
    said = repr([bytes(value) if isinstance(value, memoryview) else value for value in vars(receipt).values()])
    assert "telling" not in said
    assert "xylophone" not in said
    assert len(receipt.key_digest) == len(receipt.content_digest) == 32


@pytest.mark.parametrize("known", [False, True], ids=["new conversation", "known conversation"])
def test_twenty_posts_with_one_key_at_once_make_one_batch_and_one_answer(
    server: Server, tenant: Tenant, conversation_id: str, known: bool
) -> None:
    posts = 20
    barrier = threading.Barrier(posts)
    with tenant.client(server.address, limits=httpx.Limits(max_connections=posts)) as client:
        if known:
            append(client, conversation_id)

        def send(_: int) -> httpx.Response:
            barrier.wait()
            return append(client, conversation_id, '{"a":1}', '{"a":2}', key="k")

        with ThreadPoolExecutor(posts) as pool:
            responses = list(pool.map(send, range(posts)))
        after = recall(client, conversation_id)
    assert sorted(response.status_code for response in responses) == [200] * (posts - 1) + [201]
    assert len({response.text for response in responses}) == 1
    first = responses[0].json()["first_seq"]
    assert payloads_of(after)[first:] == ['{"a":1}', '{"a":2}']


def test_one_key_with_different_contents_at_once_stores_exactly_one_of_them(
    server: Server, tenant: Tenant, conversation_id: str
) -> None:
    posts = 12
    barrier = threading.Barrier(posts)
    with tenant.client(server.address, limits=httpx.Limits(max_connections=posts)) as client:

        def send(number: int) -> httpx.Response:
            barrier.wait()
            return append(client, conversation_id, f'{{"a":{number}}}', key="k")

        with ThreadPoolExecutor(posts) as pool:
            responses = list(pool.map(send, range(posts)))
        after = stored(client, conversation_id)
    winners = [number for number, response in enumerate(responses) if response.status_code == 201]
    assert len(winners) == 1
    assert after == [f'{{"a":{winners[0]}}}']
    for number, response in enumerate(responses):
        if number not in winners:
            assert_problem(response, "idempotency_key_reused")
