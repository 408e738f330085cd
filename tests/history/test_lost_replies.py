"""The answer of the committing statement gets lost, or the statement itself: the client is told what is known.

Between server and database is a proxy that does either, to a statement that was prepared and to one that was not.
"""

import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from django.db import connection

from tests.conftest import Tenant, free_port, make_tenant
from tests.faults import database_url
from tests.history.checker import Append, violations
from tests.history.clients import Account, load, read_everything
from tests.history.proxy import Act, Proxy
from tests.history.servers import serving


def connect_to_postgresql() -> socket.socket:
    settings = connection.settings_dict
    host, port = str(settings["HOST"]), settings["PORT"] or 5432
    if not host.startswith("/"):
        return socket.create_connection((host, int(port)))
    upstream = socket.socket(socket.AF_UNIX)
    upstream.connect(f"{host}/.s.PGSQL.{port}")
    return upstream


@dataclass
class Behind:
    """A server whose database is behind a proxy."""

    proxy: Proxy
    port: int


@pytest.fixture(scope="module", params=["prepared", "unprepared"])
def behind(request: pytest.FixtureRequest) -> Iterator[Behind]:
    with Proxy(connect_to_postgresql) as proxy:
        database = proxy.in_front_of(database_url())
        port = free_port()
        direct = "true" if request.param == "prepared" else "false"
        with serving("memory_site.wsgi:application", database=database, port=port, MEMORY_SITE_DATABASE_DIRECT=direct):
            yield Behind(proxy, port)


@pytest.fixture
def proxy(behind: Behind) -> Iterator[Proxy]:
    yield behind.proxy
    behind.proxy.decide = lambda: Act.PASS
    behind.proxy.refusing = False


@pytest.fixture
def http(behind: Behind, tenant: Tenant) -> Iterator[httpx.Client]:
    with tenant.client(f"http://127.0.0.1:{behind.port}") as client:
        yield client


def append(http: httpx.Client, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return http.post("/v1/conversations/conversation/items", json={"items": [{"a": 1}, {"a": 2}]}, headers=headers)


def stored(http: httpx.Client) -> int:
    return len(http.get("/v1/conversations/conversation/recall").json()["items"])


def assert_outcome_unknown(response: httpx.Response) -> None:
    assert response.status_code == 504, response.text
    assert (response.json()["code"], response.json()["retryable"]) == ("outcome_unknown", True)
    assert "Retry-After" in response.headers


def test_after_a_swallowed_answer_the_key_brings_the_first_one(proxy: Proxy, http: httpx.Client) -> None:
    assert append(http).status_code == 201
    proxy.once(Act.SWALLOW)
    assert_outcome_unknown(append(http, "key"))
    for _ in range(2):
        again = append(http, "key")
        assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
        assert again.json() == {"first_seq": 2, "last_seq": 3, "generation": 0}
    assert stored(http) == 4


def test_after_a_dropped_statement_the_key_writes_it_once(proxy: Proxy, http: httpx.Client) -> None:
    assert append(http).status_code == 201
    proxy.once(Act.DROP)
    assert_outcome_unknown(append(http, "key"))
    assert stored(http) == 2
    again = append(http, "key")
    assert (again.status_code, "Idempotent-Replayed" in again.headers) == (201, False)
    assert append(http, "key").status_code == 200
    assert stored(http) == 4


@pytest.mark.parametrize("act", [Act.SWALLOW, Act.DROP])
def test_a_lost_answer_is_unknown_even_if_no_new_connection_can_be_made(
    proxy: Proxy, http: httpx.Client, act: Act
) -> None:
    def and_then_nothing() -> Act:
        proxy.refusing = True
        return act

    assert append(http).status_code == 201
    proxy.decide = and_then_nothing
    assert_outcome_unknown(append(http, "key"))
    proxy.cut_all()
    refused = append(http, "key")
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    proxy.refusing, proxy.decide = False, lambda: Act.PASS
    again = append(http, "key")
    assert (again.status_code, again.json()["first_seq"]) == (200 if act is Act.SWALLOW else 201, 2)
    assert stored(http) == 4


def test_a_connection_that_broke_while_idle_costs_no_request(proxy: Proxy, http: httpx.Client) -> None:
    assert append(http).status_code == 201
    proxy.cut_all()
    assert append(http).status_code == 201
    assert stored(http) == 4


def test_without_a_database_nothing_is_written_and_both_doors_say_so(proxy: Proxy, http: httpx.Client) -> None:
    assert append(http).status_code == 201
    proxy.refusing = True
    proxy.cut_all()
    for response in (append(http), http.get("/v1/conversations"), http.get("/v1/conversations/conversation/recall")):
        assert (response.status_code, response.json()["code"]) == (503, "unavailable")
        assert "Retry-After" in response.headers
    proxy.refusing = False
    assert stored(http) == 2


def test_a_history_in_which_every_tenth_append_loses_its_answer_or_itself_is_kept(behind: Behind, proxy: Proxy) -> None:
    accounts = [Account(tenant.site.slug, tenant.secret) for tenant in (make_tenant(), make_tenant())]
    with load(behind.port, accounts, name=f"run-{secrets.token_hex(4)}", writers=6, readers=1) as clients:
        clients.wait_for(50)
        proxy.at_random(0.1, Act.DROP, Act.SWALLOW)
        clients.wait_for(200)
        events = clients.finish()
    proxy.decide = lambda: Act.PASS
    assert violations(events, read_everything(behind.port, accounts, events)) == []
    assert {Act.DROP, Act.SWALLOW} <= set(proxy.acted)
    assert sum(event.broken for event in events if isinstance(event, Append)) > 10
