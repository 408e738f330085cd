"""Somebody else holds what an append needs: it is refused in time, nothing is written, and it says whether to retry."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import LiteralString

import httpx
import psycopg
import pytest
from django.db import connection

from tests.conftest import Server, Tenant
from tests.faults import database_url
from tests.history.servers import until

LOCK_TIMEOUT = 3.0


@pytest.fixture
def outside() -> Iterator[psycopg.Connection]:
    """A connection to the test database that is not the server's."""
    with psycopg.connect(database_url(), autocommit=True) as other:
        yield other


@pytest.fixture
def http(server: Server, tenant: Tenant) -> Iterator[httpx.Client]:
    with tenant.client(server.address) as client:
        yield client


@contextmanager
def held(outside: psycopg.Connection, statement: LiteralString, *parameters: object) -> Iterator[None]:
    """Hold what the statement locks, for as long as the block runs."""
    with outside.transaction():
        outside.execute(statement, parameters)
        yield


def append(http: httpx.Client, conversation_id: str, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return http.post(
        f"/v1/conversations/{conversation_id}/items", json={"items": [{"a": 1}, {"a": 2}]}, headers=headers
    )


def stored(http: httpx.Client, conversation_id: str) -> int:
    return len(http.get(f"/v1/conversations/{conversation_id}/recall").json()["items"])


def assert_refused(response: httpx.Response, code: str) -> None:
    assert (response.status_code, response.json()["code"]) == (503, code)
    assert response.json()["retryable"] is True
    assert "Retry-After" in response.headers


LOCK_ROW: LiteralString = "SELECT FROM conversation WHERE conversation_id = %s FOR UPDATE"


def test_a_held_conversation_is_a_timeout_and_reads_go_on(
    outside: psycopg.Connection, http: httpx.Client, conversation_id: str
) -> None:
    assert append(http, conversation_id).status_code == 201
    with held(outside, LOCK_ROW, conversation_id):
        refused = append(http, conversation_id, "key")
        assert_refused(refused, "timeout")
        assert LOCK_TIMEOUT - 0.5 < refused.elapsed.total_seconds() < LOCK_TIMEOUT * 3
        assert stored(http, conversation_id) == 2
        # Writers of one conversation never wait for those of another.
        assert append(http, f"{conversation_id}-x").status_code == 201
    assert stored(http, conversation_id) == 2
    assert append(http, conversation_id, "key").json() == {"first_seq": 2, "last_seq": 3, "generation": 0}
    assert stored(http, conversation_id) == 4


def test_a_held_table_is_a_timeout_for_writes_and_reads(
    outside: psycopg.Connection, http: httpx.Client, conversation_id: str
) -> None:
    assert append(http, conversation_id).status_code == 201
    with held(outside, "LOCK TABLE item IN ACCESS EXCLUSIVE MODE"), ThreadPoolExecutor() as threads:
        reading = threads.submit(http.get, f"/v1/conversations/{conversation_id}/recall")
        assert_refused(append(http, conversation_id), "timeout")
        assert_refused(reading.result(), "timeout")
    assert stored(http, conversation_id) == 2
    assert append(http, conversation_id).json()["first_seq"] == 2


@contextmanager
def waiting_append(
    outside: psycopg.Connection, http: httpx.Client, conversation_id: str
) -> Iterator[tuple[Future[httpx.Response], int]]:
    """Let an append with the key ``key`` wait for its conversation; give its answer to come, and its backend."""
    assert append(http, conversation_id).status_code == 201
    with held(outside, LOCK_ROW, conversation_id), ThreadPoolExecutor() as threads:
        answer = threads.submit(append, http, conversation_id, "key")
        blocked: list[int] = []

        def somebody_waits() -> bool:
            who = "SELECT pid FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
            blocked.extend(pid for (pid,) in outside.execute(who))
            return bool(blocked)

        until(somebody_waits)
        yield answer, blocked[0]


def test_a_cancelled_statement_wrote_nothing(
    outside: psycopg.Connection, http: httpx.Client, conversation_id: str
) -> None:
    with waiting_append(outside, http, conversation_id) as (answer, backend):
        outside.execute("SELECT pg_cancel_backend(%s)", [backend])
        assert_refused(answer.result(), "timeout")
    assert stored(http, conversation_id) == 2
    assert append(http, conversation_id, "key").status_code == 201


def test_a_terminated_backend_leaves_the_outcome_unknown_until_the_key_tells(
    outside: psycopg.Connection, http: httpx.Client, conversation_id: str
) -> None:
    with waiting_append(outside, http, conversation_id) as (answer, backend):
        outside.execute("SELECT pg_terminate_backend(%s)", [backend])
        response = answer.result()
        assert (response.status_code, response.json()["code"]) == (504, "outcome_unknown")
    assert append(http, conversation_id, "key").status_code == 201
    assert append(http, conversation_id, "key").status_code == 200
    assert stored(http, conversation_id) == 4


def test_no_connection_left_is_unavailable(
    outside: psycopg.Connection, client: httpx.Client, conversation_id: str
) -> None:
    assert append(client, conversation_id).status_code == 201
    name = psycopg.sql.Identifier(outside.info.dbname)
    # What PostgreSQL says is the same as for max_connections, and other tests keep theirs.
    outside.execute(psycopg.sql.SQL("ALTER DATABASE {} CONNECTION LIMIT 0").format(name))
    try:
        connection.close()
        assert_refused(append(client, conversation_id), "unavailable")
        assert_refused(client.get(f"/v1/conversations/{conversation_id}/recall"), "unavailable")
    finally:
        outside.execute(psycopg.sql.SQL("ALTER DATABASE {} CONNECTION LIMIT -1").format(name))
    assert stored(client, conversation_id) == 2
