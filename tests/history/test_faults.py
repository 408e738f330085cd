"""Whatever dies, nothing acknowledged is lost: twelve writers at work while parts of a whole server are killed.

Each test takes a few seconds. ``MEMORY_SITE_TEST_SECONDS`` makes each go on for so long, with a fault every three.
"""

import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import LiteralString

import psutil
import psycopg
import pytest
from psycopg.sql import SQL

from tests.history.checker import Append, Event, Fate, Kind, violations
from tests.history.clients import Account, Connection, Load, load, read_everything
from tests.history.servers import Up, running_up, until

SECONDS = float(os.environ.get("MEMORY_SITE_TEST_SECONDS", "0"))
FAULTS_EVERY = 3.0

pytestmark = pytest.mark.timeout(180 + 10 * SECONDS)


@pytest.fixture(scope="module")
def server() -> Iterator[Up]:
    with running_up() as server:
        yield server


@pytest.fixture(scope="module")
def all_accounts(server: Up) -> Iterator[Account]:
    return iter(server.make_accounts(40))


@pytest.fixture
def up(server: Up) -> Up:
    """The server of all these tests, running whatever the test before this one left behind."""
    if server.up.poll() is not None:
        server.start()
    return server


@pytest.fixture
def accounts(all_accounts: Iterator[Account]) -> list[Account]:
    """Two sites, whose conversations have the same ids."""
    return [next(all_accounts), next(all_accounts)]


@contextmanager
def history_kept(up: Up, accounts: list[Account]) -> Iterator[Load]:
    """Run the clients; in the end the server serves again, and what they saw is what is there."""
    with load(up.port, accounts, name=f"run-{secrets.token_hex(4)}") as clients:
        clients.wait_for(50)
        yield clients
        up.wait_until_ready()
        clients.wait_for(30)
        events = clients.finish()
    final = read_everything(up.port, accounts, events)
    assert violations(events, final) == []
    # Enough went on for the check to mean something.
    assert sum(len(items) for items in final.items.values()) > 300
    assert {event.fate for event in appends(events)} >= {Fate.OK, Fate.REFUSED}


def appends(events: list[Event]) -> list[Append]:
    return [event for event in events if isinstance(event, Append)]


def broken(clients: Load) -> int:
    """Return how many attempts lost their answer."""
    return sum(append.broken for append in appends(clients.events))


def rounds(number: int) -> Iterator[int]:
    """Count to a number, or for as long as the environment asks for."""
    began = time.monotonic()
    count = 0
    while count < number or time.monotonic() < began + SECONDS:
        yield count
        count += 1


def test_nothing_is_lost_when_web_workers_are_killed(up: Up, accounts: list[Account]) -> None:
    with history_kept(up, accounts) as clients:
        for count in rounds(2):
            time.sleep(FAULTS_EVERY / 2 if SECONDS == 0 else FAULTS_EVERY)
            workers = up.workers()
            up.kill(workers if count % 2 else workers[:1])
            clients.wait_for(30)
    assert len(up.workers()) == 2
    assert broken(clients) > 0


def test_nothing_is_lost_when_postgresql_dies_in_any_way(up: Up, accounts: list[Account]) -> None:
    def immediate_shutdown() -> None:
        up.postgres()[0].send_signal(signal.SIGQUIT)

    def no_postmaster() -> None:
        up.postgres()[0].kill()

    def no_process_at_all() -> None:
        # What only its memory holds is gone, the write-ahead log's buffers included.
        up.kill(up.postgres())

    with history_kept(up, accounts) as clients:
        for count in rounds(3):
            postmaster = up.postgres()[0]
            (no_process_at_all, immediate_shutdown, no_postmaster)[count % 3]()
            psutil.wait_procs([postmaster], timeout=30)
            up.wait_until_ready()
            clients.wait_for(50)
    assert broken(clients) > 0


def test_nothing_is_lost_when_backends_are_terminated(up: Up, accounts: list[Account]) -> None:
    with history_kept(up, accounts) as clients, up.connect(user="postgres") as administrator:
        for _ in rounds(10):
            time.sleep(0.15)
            administrator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'memory-site'"
            )
    assert broken(clients) > 0


def test_nothing_is_lost_when_the_whole_server_is_killed(up: Up, accounts: list[Account]) -> None:
    with history_kept(up, accounts) as clients:
        for count in rounds(2):
            if count % 2:
                # Workers and database stay, without an owner, and go on answering until the next start ends them.
                up.up.kill()
                up.up.wait()
                clients.wait_for(20)
            else:
                up.kill_everything()
            up.start()
            clients.wait_for(50)
    assert broken(clients) > 0


def test_without_synchronous_commit_the_same_check_is_red(up: Up, accounts: list[Account]) -> None:
    """Or the test before this one would prove nothing: an acknowledgement before the flush is lost with the memory."""
    kinds: set[Kind] = set()
    with up.connect(user="postgres") as administrator:
        set_for_new_connections(administrator, "SET synchronous_commit = off")
    assert up.ask("/readyz")["reason"] == "not_durable"
    for _ in range(4):
        with load(up.port, accounts, name=f"run-{secrets.token_hex(4)}") as clients:
            clients.wait_for(100)
            victims = up.postgres()
            up.kill(victims)
            psutil.wait_procs(victims[:1], timeout=30)
            clients.wait_for(20)
            events = clients.finish()
        kinds = {violation.kind for violation in violations(events, read_everything(up.port, accounts, events))}
        if Kind.LOST in kinds:
            break
    with up.connect(user="postgres") as administrator:
        set_for_new_connections(administrator, "RESET synchronous_commit")
    assert Kind.LOST in kinds


def set_for_new_connections(administrator: psycopg.Connection, change: LiteralString) -> None:
    """Change the application's role, and let every connection be a new one."""
    administrator.execute(SQL("ALTER ROLE memory_site {}").format(SQL(change)))
    administrator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'memory_site'")


def test_sigterm_under_load_loses_nothing(up: Up, accounts: list[Account]) -> None:
    with history_kept(up, accounts) as clients:
        for _ in rounds(1):
            assert up.terminate() == 0
            assert up.postgres() == []
            up.start()
            clients.wait_for(50)


def test_sigterm_lets_running_requests_finish(up: Up, accounts: list[Account]) -> None:
    path, content = "/v1/conversations/conversation/items", '{"items":[{}]}'
    connection = Connection(up.port, accounts[0])
    assert connection.call("POST", path, content).status == 201
    locker = up.connect()
    locker.execute("BEGIN")
    locker.execute("SELECT FROM conversation WHERE conversation_id = 'conversation' FOR UPDATE")
    with ThreadPoolExecutor() as threads:
        running = threads.submit(connection.call, "POST", path, content)
        wait_until_somebody_waits(up)
        # It holds the lock until well after the signal, and then everything must come to its end.
        threading.Timer(1, locker.close).start()
        assert up.terminate() == 0
        reply = running.result()
    assert (reply.status, reply.answer.first_seq) == (201, 1)
    up.start()
    assert len(Connection(up.port, accounts[0]).call("GET", "/v1/conversations/conversation/recall").items) == 2


def wait_until_somebody_waits(up: Up) -> None:
    """Return when a request waits for a lock."""
    with up.connect() as watcher:
        waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        until(lambda: watcher.execute(waiting).rowcount > 0)
