"""Health: whether the process lives, and whether it would keep its promises."""

import secrets
from collections.abc import Callable, Iterator
from urllib.parse import quote

import httpx
import psycopg
import pytest

from tests.calls import assert_problem
from tests.conftest import Server
from tests.faults import Database


def test_a_server_in_order_is_alive_and_ready_for_anybody(server: Server) -> None:
    for path, said in (("/healthz", "ok"), ("/readyz", "ready")):
        response = httpx.get(server.address + path)
        assert (response.status_code, response.json()) == (200, {"status": said})


@pytest.fixture
def empty_database(database: Database) -> Iterator[str]:
    """The URL of a database that nobody has migrated."""
    name = f"test_empty_{secrets.token_hex(4)}"
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        usual = connection.info.dbname
    yield database.url.replace(f"/{usual}?", f"/{name}?")
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_database_that_is_not_migrated_is_not_ready_and_stays_as_it_is(
    start_server: Callable[..., Server], empty_database: str
) -> None:
    server = start_server(workers=1, threads=1, database_url=empty_database)
    assert_problem(httpx.get(server.address + "/readyz"), "unavailable", reason="not_migrated")
    assert httpx.get(server.address + "/healthz").status_code == 200
    with psycopg.connect(empty_database) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert found == (0,)


def test_a_database_that_would_lose_acknowledged_writes_is_not_ready(
    start_server: Callable[..., Server], database: Database
) -> None:
    options = quote("-c synchronous_commit=off")
    separator = "&" if "?" in database.url else "?"
    server = start_server(workers=1, threads=1, database_url=f"{database.url}{separator}options={options}")
    problem = assert_problem(httpx.get(server.address + "/readyz"), "unavailable", reason="not_durable")
    assert "synchronous_commit" in problem["detail"]


def test_a_database_that_is_away_is_not_ready_and_a_problem_for_every_call(
    start_server: Callable[..., Server],
) -> None:
    server = start_server(workers=1, threads=1, database_url="postgres://nobody@127.0.0.1:1/nothing")
    assert_problem(httpx.get(server.address + "/readyz"), "unavailable")
    assert_problem(httpx.get(server.address + "/v1/conversations", auth=("a", "b")), "unavailable")
    assert httpx.get(server.address + "/healthz").status_code == 200
