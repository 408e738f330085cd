"""Append, over HTTP: all of a batch or nothing, in order, byte for byte, within its bounds."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx
import psycopg
import pytest
from django.db import connection

from conversations.models import Conversation
from tests.calls import append, assert_problem, body_of, items_address, new_id, post, recall, replay, stored
from tests.conftest import Server, Tenant
from tests.faults import Database

KIBIBYTE = 1024
MAX_PAYLOAD = 256 * KIBIBYTE
MAX_BATCH = KIBIBYTE * KIBIBYTE


def payload_of(size: int) -> str:
    """Return a JSON object of exactly this many bytes."""
    return '{"a":"' + "x" * (size - len('{"a":""}')) + '"}'


def test_a_batch_gets_the_next_numbers_and_comes_back_byte_for_byte(client: httpx.Client, conversation_id: str) -> None:
    payload = '{"b" : 1.0,"a":1E400,"a":"\\u0000\u00e9"}'
    response = append(client, conversation_id, payload, "{}")
    assert (response.status_code, response.json()) == (201, {"first_seq": 0, "last_seq": 1, "generation": 0})
    response = append(client, conversation_id, "{}")
    assert (response.status_code, response.json()) == (201, {"first_seq": 2, "last_seq": 2, "generation": 0})
    assert stored(client, conversation_id) == [payload, "{}", "{}"]
    assert [item.seq for item in recall(client, conversation_id)] == [0, 1, 2]


def test_the_items_of_a_batch_keep_their_order(client: httpx.Client, conversation_id: str) -> None:
    payloads = [f'{{"n":{number}}}' for number in range(250)]
    assert append(client, conversation_id, *payloads).json()["last_seq"] == 249
    assert stored(client, conversation_id) == payloads


def test_a_batch_has_one_time_in_utc_with_microseconds(client: httpx.Client, conversation_id: str) -> None:
    append(client, conversation_id, "{}", "{}")
    first, second = recall(client, conversation_id)
    assert first.recorded_at == second.recorded_at
    recorded_at = datetime.strptime(first.recorded_at, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert abs(datetime.now(UTC) - recorded_at) < timedelta(minutes=1)


def test_the_clock_never_goes_back_along_the_numbers(client: httpx.Client, conversation_id: str) -> None:
    append(client, conversation_id)
    ahead = datetime(2099, 1, 1, tzinfo=UTC)
    # As after a fail-over to a host whose clock is behind.
    Conversation.objects.filter(conversation_id=conversation_id).update(last_appended_at=ahead)
    append(client, conversation_id)
    assert recall(client, conversation_id, count=1)[0].recorded_at == "2099-01-01T00:00:00.000000Z"


# -- Bounds ---------------------------------------------------------------------------------------------------


def test_a_payload_of_256_kib_is_taken_and_one_byte_more_is_not(client: httpx.Client, conversation_id: str) -> None:
    assert append(client, conversation_id, payload_of(MAX_PAYLOAD)).status_code == 201
    response = append(client, conversation_id, "{}", payload_of(MAX_PAYLOAD + 1))
    assert_problem(response, "payload_too_large", field="/items/1", limit=MAX_PAYLOAD)
    assert stored(client, conversation_id) == [payload_of(MAX_PAYLOAD)]


def test_sizes_are_bytes_not_characters(client: httpx.Client, conversation_id: str) -> None:
    fits = '{"a":"' + "€" * ((MAX_PAYLOAD - 8) // 3) + '"}'
    assert MAX_PAYLOAD - 3 < len(fits.encode()) <= MAX_PAYLOAD
    assert append(client, conversation_id, fits).status_code == 201
    passes = '{"a":"' + "€" * ((MAX_PAYLOAD - 8) // 3 + 1) + '"}'
    assert len(passes) < MAX_PAYLOAD
    assert_problem(append(client, conversation_id, passes), "payload_too_large")


def test_blanks_around_a_payload_do_not_count_and_those_inside_do(client: httpx.Client, conversation_id: str) -> None:
    assert append(client, conversation_id, " \n" + payload_of(MAX_PAYLOAD) + "\t ").status_code == 201
    assert stored(client, conversation_id) == [payload_of(MAX_PAYLOAD)]
    inside = "{ " + payload_of(MAX_PAYLOAD)[1:]
    assert_problem(append(client, conversation_id, inside), "payload_too_large")


def test_a_batch_of_1_mib_is_taken_and_one_byte_more_is_not(client: httpx.Client, conversation_id: str) -> None:
    assert append(client, conversation_id, *[payload_of(MAX_PAYLOAD)] * 4).status_code == 201
    batch = [payload_of(MAX_PAYLOAD)] * 3 + [payload_of(MAX_PAYLOAD - 7)]
    response = append(client, conversation_id, *batch, payload_of(8))
    assert_problem(response, "batch_too_large", field="/items", limit=MAX_BATCH)
    assert len(recall(client, conversation_id)) == 4


def test_250_items_are_taken_and_251_are_not(client: httpx.Client, conversation_id: str) -> None:
    assert append(client, conversation_id, *["{}"] * 250).status_code == 201
    assert_problem(append(client, conversation_id, *["{}"] * 251), "too_many_items", field="/items", limit=250)
    assert len(stored(client, conversation_id)) == 250


def test_a_batch_without_items_is_refused(client: httpx.Client, conversation_id: str) -> None:
    assert_problem(post(client, conversation_id, b'{"items":[]}'), "empty_batch", field="/items")


@pytest.mark.parametrize("item", ["1", "-0.5", '"{}"', "null", "true", "[]", "[{}]", '""'])
def test_what_is_not_an_object_is_refused_with_its_index(client: httpx.Client, conversation_id: str, item: str) -> None:
    assert_problem(append(client, conversation_id, "{}", f" {item} ", "{}"), "invalid_item", field="/items/1")
    assert stored(client, conversation_id) == []


def test_the_first_item_that_breaks_a_rule_is_named(client: httpx.Client, conversation_id: str) -> None:
    large = payload_of(MAX_PAYLOAD + 1)
    assert_problem(append(client, conversation_id, "{}", large, "1"), "payload_too_large", field="/items/1")
    assert_problem(append(client, conversation_id, "{}", "1", large), "invalid_item", field="/items/1")
    # Each item before their sum.
    full = [payload_of(MAX_PAYLOAD)] * 5
    assert_problem(append(client, conversation_id, *full, "1"), "invalid_item", field="/items/5")
    assert_problem(append(client, conversation_id, *full, "{}"), "batch_too_large")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("a" * 7, "too_short"),
        ("!", "too_short"),
        ("a" * 65, "too_long"),
        ("!" * 65, "too_long"),
        ("with a blank", "invalid_characters"),
        ("dotted.name", "invalid_characters"),
        ("thirteen%E2%82%AC", "invalid_characters"),
        ("%D9%A1%D9%A2%D9%A3%D9%A4%D9%A5%D9%A6%D9%A7%D9%A8", "invalid_characters"),
        ("abcdefgh%0A", "invalid_characters"),
        ("abcdefgh%00", "invalid_characters"),
        ("%FF%FE%FF%FE%FF%FE%FF%FE", "invalid_characters"),
    ],
)
def test_an_id_that_does_not_fit_is_refused_with_its_reason(
    server: Server, tenant: Tenant, value: str, reason: str
) -> None:
    with tenant.client(server.address) as client:
        for response in (
            append(client, value),
            client.get(f"/v1/conversations/{value}/recall"),
            client.get(f"/v1/conversations/{value}/replay"),
        ):
            assert_problem(response, "invalid_conversation_id", field="conversation_id", reason=reason)
        assert client.get("/v1/conversations").json()["conversations"] == []


@pytest.mark.parametrize("value", ["a" * 8, "Z" * 64, "_-_-_-_-", "00000000"])
def test_an_id_at_its_bounds_is_taken(client: httpx.Client, value: str) -> None:
    assert append(client, value).status_code == 201
    assert len(recall(client, value)) == 1


def test_ids_that_differ_in_case_are_two_conversations(client: httpx.Client) -> None:
    append(client, "Conversation", '{"a":1}')
    append(client, "conversation", '{"a":2}')
    assert stored(client, "Conversation") == ['{"a":1}']
    assert stored(client, "conversation") == ['{"a":2}']


@pytest.mark.parametrize("path", ["abcdefgh%2Fijk", "abcdefgh/", "/abcdefgh", ""])
def test_an_id_with_a_slash_is_no_other_conversation(client: httpx.Client, path: str) -> None:
    assert_problem(append(client, path), "not_found")
    assert client.get("/v1/conversations").json()["conversations"] == []


def fill(conversation_id: str, count: int) -> None:
    """Bring a conversation of one item to ``count`` items."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE conversation SET next_seq = %(count)s::bigint WHERE conversation_id = %(id)s::text",
            {"id": conversation_id, "count": count},
        )
        cursor.execute(
            "INSERT INTO item (conversation_id, generation, seq, recorded_at, payload)"
            " SELECT id, 0, n, now(), '{}' FROM conversation, generate_series(1, %(count)s::bigint - 1) AS n"
            " WHERE conversation_id = %(id)s::text",
            {"id": conversation_id, "count": count},
        )


def test_a_batch_that_would_pass_100_000_items_stores_nothing(client: httpx.Client, conversation_id: str) -> None:
    append(client, conversation_id)
    fill(conversation_id, 99_999)
    assert_problem(append(client, conversation_id, "{}", "{}", key="k"), "conversation_full", limit=100_000)
    assert len(replay(client, conversation_id, offset=99_990)) == 9
    assert append(client, conversation_id, key="k").json()["last_seq"] == 99_999
    assert_problem(append(client, conversation_id), "conversation_full", limit=100_000)
    assert [item.seq for item in recall(client, conversation_id, count=1)] == [99_999]


def test_a_full_conversation_still_answers_the_keys_that_it_knows(client: httpx.Client, conversation_id: str) -> None:
    append(client, conversation_id, key="first")
    fill(conversation_id, 100_000)
    response = append(client, conversation_id, key="first")
    assert (response.status_code, response.json()["first_seq"]) == (200, 0)


# -- Many writers ---------------------------------------------------------------------------------------------


def test_32_first_appends_at_once_make_one_conversation_without_hole_or_duplicate(
    server: Server, tenant: Tenant, conversation_id: str
) -> None:
    writers, batches, size = 32, 4, 3
    barrier = threading.Barrier(writers)

    with tenant.client(server.address, limits=httpx.Limits(max_connections=writers)) as client:

        def write(writer: int) -> list[tuple[int, list[str]]]:
            barrier.wait()
            acknowledged = []
            for batch in range(batches):
                payloads = [f'{{"of":"{writer}-{batch}-{part}"}}' for part in range(size)]
                response = append(client, conversation_id, *payloads)
                assert response.status_code == 201, response.text
                acknowledged.append((response.json()["first_seq"], payloads))
            return acknowledged

        with ThreadPoolExecutor(writers) as pool:
            acknowledged = [entry for entries in pool.map(write, range(writers)) for entry in entries]
        items = replay(client, conversation_id)
        listed = client.get("/v1/conversations").json()["conversations"]
    assert [item.seq for item in items] == list(range(writers * batches * size))
    assert [entry["conversation_id"] for entry in listed] == [conversation_id]
    texts = [bytes(item.payload).decode() for item in items]
    for first, payloads in acknowledged:
        assert texts[first : first + size] == payloads
    times = [item.recorded_at for item in items]
    assert times == sorted(times)
    # A later batch of one writer is behind its earlier one.
    for writer in range(writers):
        own = [text for text in texts if f'"{writer}-' in text]
        assert own == [f'{{"of":"{writer}-{batch}-{part}"}}' for batch in range(batches) for part in range(size)]


# -- Failures of the database ---------------------------------------------------------------------------------


@pytest.fixture
def poison() -> str:
    """A word that makes the triggers below refuse the item that holds it."""
    return new_id()


@pytest.fixture
def refusing(poison: str) -> Iterator[Callable[[str], None]]:
    """Let the database refuse items with the poison, with an SQLSTATE."""

    def refuse(sqlstate: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE OR REPLACE FUNCTION refuse_item() RETURNS trigger LANGUAGE plpgsql AS $$"
                " BEGIN RAISE EXCEPTION 'refused %', NEW.payload USING ERRCODE = TG_ARGV[0]; END $$"
            )
            cursor.execute("DROP TRIGGER IF EXISTS refuse_item ON item")
            cursor.execute(
                f"CREATE TRIGGER refuse_item BEFORE INSERT ON item FOR EACH ROW"
                f" WHEN (NEW.payload LIKE '%{poison}%') EXECUTE FUNCTION refuse_item('{sqlstate}')"
            )

    yield refuse
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER refuse_item ON item")


def test_a_storage_failure_is_an_io_error_and_nothing_is_stored(
    client: httpx.Client, conversation_id: str, poison: str, refusing: Callable[[str], None]
) -> None:
    for sqlstate in ("53100", "53200", "58030"):
        refusing(sqlstate)
        response = append(client, conversation_id, "{}", f'{{"a":"{poison}"}}', key="k")
        assert_problem(response, "io_error")
    assert stored(client, conversation_id) == []
    assert client.get("/v1/conversations").json()["conversations"] == []
    assert append(client, conversation_id, key="k").status_code == 201


def test_an_unexpected_refusal_of_the_database_says_nothing_of_the_payload(
    client: httpx.Client,
    conversation_id: str,
    poison: str,
    refusing: Callable[[str], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusing("23514")
    response = append(client, conversation_id, f'{{"a":"{poison}"}}')
    problem = assert_problem(response, "internal_error")
    assert poison not in json.dumps(problem)
    said = [record for record in caplog.records if record.name == "memory_site.database"]
    assert said
    assert poison not in "".join(str(vars(record)) for record in caplog.records)
    assert stored(client, conversation_id) == []


def test_an_append_that_waits_too_long_for_its_conversation_times_out_and_stores_nothing(
    client: httpx.Client, conversation_id: str, database: Database
) -> None:
    append(client, conversation_id)
    with psycopg.connect(database.url) as other, other.cursor() as cursor:
        cursor.execute("SELECT FROM conversation WHERE conversation_id = %s FOR UPDATE", [conversation_id])
        # Another conversation is not held up.
        assert append(client, new_id()).status_code == 201
        started = time.monotonic()
        assert_problem(append(client, conversation_id, key="k"), "timeout")
        assert 2 < time.monotonic() - started < 6
        # Reads do not wait.
        assert len(recall(client, conversation_id)) == 1
    response = append(client, conversation_id, key="k")
    assert (response.status_code, response.json()["first_seq"]) == (201, 1)


@pytest.mark.parametrize(
    ("end", "code"), [("pg_cancel_backend", "timeout"), ("pg_terminate_backend", "outcome_unknown")]
)
def test_an_append_that_is_ended_while_it_waits_stores_nothing(
    server: Server, tenant: Tenant, conversation_id: str, database: Database, end: str, code: str
) -> None:
    with tenant.client(server.address) as client, ThreadPoolExecutor(1) as pool:
        append(client, conversation_id)
        with psycopg.connect(database.url) as other:
            other.execute("SELECT FROM conversation WHERE conversation_id = %s FOR UPDATE", [conversation_id])
            answer = pool.submit(append, client, conversation_id, "{}", key="k")
            ended = False
            while not ended and not answer.done():
                with connection.cursor() as cursor:
                    cursor.execute(
                        f"SELECT {end}(pid) FROM pg_stat_activity WHERE datname = current_database()"
                        " AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO conversation%'"
                    )
                    ended = bool(cursor.fetchall())
            assert ended
        if code == "timeout":
            assert_problem(answer.result(), "timeout")
        else:
            # The server cannot know how far the statement had come.
            assert_problem(answer.result(), "outcome_unknown")
        assert len(recall(client, conversation_id)) == 1
        assert append(client, conversation_id, "{}", key="k").status_code == 201


def test_a_database_without_a_free_connection_is_unavailable(
    client: httpx.Client, conversation_id: str, database: Database
) -> None:
    with database.without_connections():
        assert_problem(append(client, conversation_id), "unavailable")
    assert append(client, conversation_id).json()["first_seq"] == 0


def test_a_database_that_cannot_be_reached_is_unavailable(
    client: httpx.Client, conversation_id: str, database: Database
) -> None:
    with database.at_port(1):
        assert_problem(append(client, conversation_id), "unavailable")
        assert_problem(client.get(f"/v1/conversations/{conversation_id}/recall"), "unavailable")
        assert_problem(client.get("/v1/conversations"), "unavailable")
        assert_problem(client.get("/readyz"), "unavailable")
        assert client.get("/healthz").status_code == 200
    assert append(client, conversation_id).json()["first_seq"] == 0


def test_a_read_only_database_is_unavailable_for_writes_and_still_reads(
    client: httpx.Client, conversation_id: str, database: Database
) -> None:
    append(client, conversation_id)
    with database.read_only():
        assert_problem(append(client, conversation_id), "unavailable")
        assert len(recall(client, conversation_id)) == 1
    assert append(client, conversation_id).status_code == 201


def test_a_connection_that_the_database_closed_while_it_was_idle_costs_nobody_an_error(
    client: httpx.Client, conversation_id: str, database: Database
) -> None:
    append(client, conversation_id)
    database.terminate_backend()
    assert append(client, conversation_id).status_code == 201
    database.terminate_backend()
    assert len(recall(client, conversation_id)) == 2


def test_an_answer_that_is_lost_after_the_commit_is_an_unknown_outcome_and_a_retry_gets_the_first_answer(
    client: httpx.Client, conversation_id: str, database: Database
) -> None:
    append(client, conversation_id)
    with database.losing("after-the-commit", forward=True):
        response = append(client, conversation_id, '{"a":"after-the-commit"}', key="k")
    assert_problem(response, "outcome_unknown")
    retried = append(client, conversation_id, '{"a":"after-the-commit"}', key="k")
    assert (retried.status_code, retried.json()["first_seq"]) == (200, 1)
    assert retried.headers["Idempotent-Replayed"] == "true"
    assert stored(client, conversation_id) == ["{}", '{"a":"after-the-commit"}']


def test_a_connection_that_breaks_before_the_commit_is_an_unknown_outcome_and_a_retry_stores_it_once(
    client: httpx.Client, conversation_id: str, database: Database
) -> None:
    append(client, conversation_id)
    with database.losing("before-the-commit", forward=False):
        response = append(client, conversation_id, '{"a":"before-the-commit"}', key="k")
    assert_problem(response, "outcome_unknown")
    assert stored(client, conversation_id) == ["{}"]
    retried = append(client, conversation_id, '{"a":"before-the-commit"}', key="k")
    assert (retried.status_code, retried.json()["first_seq"]) == (201, 1)
    assert stored(client, conversation_id) == ["{}", '{"a":"before-the-commit"}']


def test_a_read_whose_answer_is_lost_is_unavailable_never_an_unknown_outcome(
    client: httpx.Client, conversation_id: str, database: Database
) -> None:
    with database.losing("to_char", forward=True):
        response = client.get(f"/v1/conversations/{conversation_id}/recall")
    assert_problem(response, "unavailable")


# -- Bodies ---------------------------------------------------------------------------------------------------


def test_unknown_fields_and_parameters_are_refused(client: httpx.Client, conversation_id: str) -> None:
    response = post(client, conversation_id, body_of("{}", metadata={}))
    assert_problem(response, "validation_failed", field="/metadata")
    # What is in the address is no field of the body.
    response = post(client, conversation_id, body_of("{}", conversation_id=conversation_id))
    assert_problem(response, "validation_failed", field="/conversation_id")
    response = post(client, conversation_id, body_of("{}", idempotency_key="k"))
    assert_problem(response, "validation_failed", field="/idempotency_key")
    response = client.post(items_address(conversation_id) + "?dry_run=true", json={"items": [{}]})
    assert_problem(response, "invalid_parameter", field="dry_run")
    assert stored(client, conversation_id) == []


@pytest.mark.parametrize("body", [b"{}", b'{"items":null}', b'{"items":{}}', b'{"items":"{}"}'])
def test_items_are_required_and_an_array(client: httpx.Client, conversation_id: str, body: bytes) -> None:
    assert_problem(post(client, conversation_id, body), "validation_failed", field="/items")


@pytest.mark.parametrize("body", [b"null", b"[]", b'"items"', b"1", b"true"])
def test_a_body_is_an_object(client: httpx.Client, conversation_id: str, body: bytes) -> None:
    assert_problem(post(client, conversation_id, body), "validation_failed", field="")


def test_the_id_is_judged_after_the_json_and_before_the_items(client: httpx.Client) -> None:
    assert_problem(post(client, "short", b'{"items":['), "invalid_json")
    assert_problem(post(client, "short", b'{"items":1}'), "validation_failed")
    assert_problem(post(client, "short", b'{"items":[1]}'), "invalid_conversation_id")
