"""expected_seq and expected_generation: a writer that came too late writes nothing and is told where things stand."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from conversations.models import Conversation
from tests.calls import append, assert_problem, body_of, post, replay, stored
from tests.conftest import Server, Tenant


def test_the_expected_number_is_the_one_of_the_first_item(client: httpx.Client, conversation_id: str) -> None:
    assert append(client, conversation_id, "{}", "{}", expected_seq=0).json()["last_seq"] == 1
    assert append(client, conversation_id, "{}", expected_seq=2).json()["first_seq"] == 2


@pytest.mark.parametrize("expected", [0, 1, 3, 4, 2**63 - 1])
def test_any_other_expected_number_conflicts_and_stores_nothing(
    client: httpx.Client, conversation_id: str, expected: int
) -> None:
    append(client, conversation_id, "{}", "{}")
    response = append(client, conversation_id, '{"late":true}', expected_seq=expected)
    assert_problem(response, "seq_conflict", next_seq=2)
    assert stored(client, conversation_id) == ["{}", "{}"]


def test_an_expectation_beyond_an_unknown_conversation_does_not_create_it(
    client: httpx.Client, conversation_id: str
) -> None:
    assert_problem(append(client, conversation_id, expected_seq=1), "seq_conflict", next_seq=0)
    assert_problem(append(client, conversation_id, expected_generation=1), "stale_generation", current_generation=0)
    assert not Conversation.objects.filter(conversation_id=conversation_id).exists()
    assert client.get("/v1/conversations").json()["conversations"] == []


def test_of_writers_that_expect_one_number_exactly_one_wins(
    server: Server, tenant: Tenant, conversation_id: str
) -> None:
    writers = 16
    barrier = threading.Barrier(writers)
    with tenant.client(server.address, limits=httpx.Limits(max_connections=writers)) as client:

        def write(number: int) -> list[httpx.Response]:
            responses = []
            for expected in range(4):
                barrier.wait()
                responses.append(append(client, conversation_id, f'{{"a":{number}}}', expected_seq=expected))
            return responses

        with ThreadPoolExecutor(writers) as pool:
            responses = list(pool.map(write, range(writers)))
        after = stored(client, conversation_id)
    for expected in range(4):
        of_round = [entry[expected] for entry in responses]
        winners = [number for number, response in enumerate(of_round) if response.status_code == 201]
        assert len(winners) == 1
        assert after[expected] == f'{{"a":{winners[0]}}}'
        for number, response in enumerate(of_round):
            if number not in winners:
                assert_problem(response, "seq_conflict", next_seq=expected + 1)
    assert len(after) == 4


def test_a_writer_of_an_older_generation_is_refused_and_told_the_current_one(
    client: httpx.Client, conversation_id: str
) -> None:
    append(client, conversation_id, '{"old":1}')
    # As a reset leaves it.
    Conversation.objects.filter(conversation_id=conversation_id).update(generation=3, first_seq=0, next_seq=0)
    for expected in (0, 2, 4, 2**31, 2**63 - 1):
        response = append(client, conversation_id, expected_generation=expected)
        assert_problem(response, "stale_generation", current_generation=3)
    response = append(client, conversation_id, '{"new":1}', expected_generation=3)
    assert (response.status_code, response.json()) == (201, {"first_seq": 0, "last_seq": 0, "generation": 3})
    assert stored(client, conversation_id) == ['{"new":1}']


def test_the_generation_is_judged_before_the_number(client: httpx.Client, conversation_id: str) -> None:
    response = append(client, conversation_id, expected_seq=7, expected_generation=7)
    assert_problem(response, "stale_generation")


def test_null_expects_nothing(client: httpx.Client, conversation_id: str) -> None:
    append(client, conversation_id)
    assert append(client, conversation_id, expected_seq=None, expected_generation=None).status_code == 201
    assert len(replay(client, conversation_id)) == 2


@pytest.mark.parametrize("field", ["expected_seq", "expected_generation"])
@pytest.mark.parametrize(
    "number",
    ["1.0", "0.0", "1e2", "1E400", "true", '"1"', "-1", str(2**63), str(2**64), "9" * 10_000, "[]", "{}"],
)
def test_what_is_no_whole_number_up_to_2_63_is_refused(
    client: httpx.Client, conversation_id: str, field: str, number: str
) -> None:
    body = body_of("{}")[:-1] + f',"{field}":{number}}}'.encode()
    problem: dict[str, Any] = assert_problem(post(client, conversation_id, body), "validation_failed")
    assert problem["field"] == f"/{field}"
    assert len(problem["detail"]) < 500
    assert stored(client, conversation_id) == []
