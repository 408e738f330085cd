"""One command to a running server, and every way in which it is stopped or killed and started again."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest
from django.core.management import CommandError, call_command

from memory_site.database import embedded, processes
from tests.embedded.runs import Run, living, manage, new_state, remove, until

CONVERSATION = "/v1/conversations/first-conversation"


@pytest.fixture(scope="module")
def first() -> Iterator[Run]:
    """A first run that goes on running, for the tests that leave it as it is."""
    state = new_state()
    try:
        run = Run(state)
        yield run
        assert run.stop() == 0
    finally:
        remove(state)


@pytest.fixture
def state() -> Iterator[Path]:
    state = new_state()
    yield state
    remove(state)


@dataclass
class Kept:
    """A database that outlives its servers, and what was acknowledged to be in it."""

    state: Path
    secret: str = ""
    acknowledged: int = 0
    runs: list[Run] = field(default_factory=list)

    def start(self, *options: str, port: int | None = None) -> Run:
        """Start a server on it."""
        run = Run(self.state, *options, port=port)
        self.runs.append(run)
        return run

    def append(self, run: Run) -> None:
        """Append one item and count it if the server said that it has it."""
        answer = httpx.post(
            f"{run.address}{CONVERSATION}/items",
            auth=("default", self.secret),
            json={"items": [{"n": self.acknowledged}]},
            timeout=20,
        )
        answer.raise_for_status()
        self.acknowledged += 1

    def assert_complete(self, run: Run) -> None:
        """Check that every acknowledged item is there, once and in order."""
        answer = httpx.get(f"{run.address}{CONVERSATION}/replay", auth=("default", self.secret), timeout=20)
        found = [item["payload"]["n"] for item in answer.raise_for_status().json()["items"]]
        assert found == list(range(self.acknowledged))


@pytest.fixture(scope="module")
def one_database() -> Iterator[Kept]:
    """One database with one item, made by a first run that was stopped."""
    kept = Kept(new_state())
    try:
        run = kept.start()
        kept.secret = run.shown("Basic secret")
        kept.append(run)
        assert run.stop() == 0
        yield kept
    finally:
        remove(kept.state)


@pytest.fixture
def kept(one_database: Kept) -> Iterator[Kept]:
    """The database, for a test that starts servers on it; none is left, however the test ends."""
    yield one_database
    for run in one_database.runs:
        if run.process.poll() is None:
            run.kill()
    one_database.runs.clear()


def test_the_first_run_shows_a_curl_line_that_works(first: Run) -> None:
    line = re.search(r"^ +(curl .*)$", first.said, re.MULTILINE)
    assert line, first.said
    for seq in (0, 1):
        done = subprocess.run(["sh", "-c", line[1]], capture_output=True, check=True)
        assert json.loads(done.stdout)["first_seq"] == seq
    user = (first.shown("Basic user"), first.shown("Basic secret"))
    answer = httpx.get(f"{first.address}{CONVERSATION}/replay", auth=user).raise_for_status()
    assert [item["payload"] for item in answer.json()["items"]] == [{"hello": "world"}] * 2


def test_the_first_run_shows_an_operator_that_can_log_in(first: Run) -> None:
    admin = first.shown("Admin")
    with httpx.Client(follow_redirects=True) as browser:
        page = browser.get(admin)
        answer = browser.post(
            page.url,
            data={
                "csrfmiddlewaretoken": browser.cookies["csrftoken"],
                "username": first.shown("Admin login"),
                "password": first.shown("Admin password"),
                "next": "/admin/",
            },
            headers={"Referer": str(page.url)},
        )
    assert answer.status_code == 200
    assert str(answer.url) == admin
    assert "Log out" in answer.text


def test_the_first_credential_may_not_manage(first: Run) -> None:
    listed = manage(
        first.state,
        "shell",
        "-c",
        "from memory_site.sites.models import *; print(Credential.objects.get().permissions)",
    )
    assert "['put', 'get', 'list', 'delete']" in listed.stdout


def test_a_second_server_at_the_same_time_is_refused_in_plain_words(first: Run) -> None:
    second = manage(first.state, "up", "--port", "9")
    assert second.returncode == 1
    assert f"already running: process {first.process.pid} at {first.address}" in second.stderr
    assert "Traceback" not in second.stderr
    assert first.ready()


def test_a_port_that_something_else_has_is_named_and_nothing_is_started(state: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = manage(state, "up", "--port", str(port))
    assert refused.returncode == 1
    assert f"Port {port} of 127.0.0.1 is taken" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (state / "data").exists()


@pytest.mark.parametrize("option", ["--port=0", "--port=65536", "--port=http", "--workers=0", "--threads=-1"])
def test_an_option_that_does_not_fit_is_refused(option: str) -> None:
    name = option.split("=")[0]
    with pytest.raises(CommandError, match=f"argument {name}: must be a whole number from 1 to"):
        call_command("up", option)


def test_a_command_beside_the_running_server_uses_its_database(first: Run) -> None:
    done = manage(first.state, "shell", "-c", "from memory_site.sites.models import *; print(Site.objects.get())")
    assert done.returncode == 0, done.stderr
    assert "default" in done.stdout
    assert first.ready()


def test_its_options_are_used(kept: Kept) -> None:
    run = kept.start("--workers", "3", "--host", "localhost")
    assert f"ready at http://localhost:{run.port} " in run.said
    assert len(run.workers) == 3
    assert run.stop() == 0


def test_a_second_run_finds_its_data_and_shows_no_new_secrets(kept: Kept) -> None:
    run = kept.start()
    kept.assert_complete(run)
    assert "secret" not in run.said.lower()
    assert run.stop() == 0


def test_sigterm_finishes_what_runs_and_stops_everything(kept: Kept) -> None:
    run = kept.start()
    started = living(psutil.Process(run.process.pid).children(recursive=True))
    names = {process.name() for process in started}
    assert "postgres" in names
    with psycopg.connect(embedded.connection_url(kept.state)) as blocker:
        # A request that cannot end before the row is let go (or the role's lock_timeout has passed).
        blocker.execute("SELECT FROM conversation FOR UPDATE")
        appending = threading.Thread(target=kept.append, args=[run])
        before = kept.acknowledged
        appending.start()
        until(lambda: waits_for_a_lock(kept.state), what="the request runs")
        run.process.terminate()
        until(lambda: "Stopping" in run.said or not accepts(run.port), what="it stops")
        assert run.process.poll() is None
        blocker.rollback()
    appending.join()
    assert run.process.wait(30) == 0
    assert kept.acknowledged == before + 1
    # One of them, multiprocessing's, ends when it sees that its parent has.
    until(lambda: not living(started), what="nothing is left", seconds=3)
    again = kept.start()
    kept.assert_complete(again)
    assert again.stop() == 0


def waits_for_a_lock(state: Path) -> bool:
    with psycopg.connect(embedded.connection_url(state)) as connection:
        waiting = connection.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return bool(waiting.rowcount)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_what_a_terminal_sends_to_the_whole_group_stops_everything(kept: Kept, number: int) -> None:
    run = kept.start()
    started = living(psutil.Process(run.process.pid).children(recursive=True))
    os.killpg(run.process.pid, number)
    assert run.process.wait(30) == 0, run.said
    # One of them, multiprocessing's, ends when it sees that its parent has.
    until(lambda: not living(started), what="nothing is left", seconds=3)
    assert "Traceback" not in run.said


def test_sigterm_while_it_starts_leaves_nothing_running(state: Path) -> None:
    run = Run(state, ready=False)
    until(lambda: (state / "data" / "postmaster.pid").exists(), what="PostgreSQL starts")
    assert run.stop() == 0, run.said
    assert processes.postgres_of(state / "data") == []
    assert "Traceback" not in run.said


def test_a_worker_that_is_killed_is_replaced_however_often(kept: Kept) -> None:
    run = kept.start("--workers", "1")
    # Within the five seconds in which Granian by itself would end the server.
    for _ in range(3):
        (worker,) = until(lambda: run.workers, what="there is a worker")
        worker.kill()
        until(lambda worker=worker: run.workers and run.workers != [worker], what="it is replaced")  # type: ignore[misc]
    until(run.ready, what="it serves again")
    kept.append(run)
    kept.assert_complete(run)
    assert run.stop() == 0


def test_postgresql_that_is_killed_is_started_again(kept: Kept) -> None:
    run = kept.start()
    kept.append(run)
    killed = run.postmaster
    killed.kill()
    until(lambda: not killed.is_running() and run.ready(), what="it serves again")
    kept.append(run)
    kept.assert_complete(run)
    assert "PostgreSQL is back" in run.said
    assert run.stop() == 0


def test_after_up_was_killed_the_next_one_ends_what_it_left_and_serves(kept: Kept) -> None:
    run = kept.start()
    left = [*run.workers, run.postmaster]
    kept.append(run)
    run.kill()
    assert len(living(left)) == 3
    again = kept.start(port=run.port)
    assert living(left) == []
    kept.append(again)
    kept.assert_complete(again)
    assert again.stop() == 0


def test_a_command_between_a_kill_and_the_next_start_ends_the_workers_too(kept: Kept) -> None:
    run = kept.start()
    left = [*run.workers, run.postmaster]
    run.kill()
    assert manage(kept.state, "migrate", "--check").returncode == 0
    assert living(left) == []
    again = kept.start(port=run.port)
    kept.assert_complete(again)
    assert again.stop() == 0


def test_after_everything_was_killed_at_once_the_next_one_serves(kept: Kept) -> None:
    run = kept.start()
    kept.append(run)
    for process in (psutil.Process(run.process.pid), *run.workers, *processes.postgres_of(kept.state / "data")):
        process.kill()
    run.process.wait()
    again = kept.start(port=run.port)
    kept.append(again)
    kept.assert_complete(again)
    assert again.stop() == 0


def test_a_start_that_was_killed_halfway_is_no_obstacle(state: Path) -> None:
    # At three points: while the data is made, while PostgreSQL starts, while it migrates.
    for reached in ("data.new", "data/postmaster.pid", "data/.s.PGSQL.5432"):
        run = Run(state, ready=False)
        until(lambda reached=reached: (state / reached).exists(), what=f"{reached} is there")  # type: ignore[misc]
        run.kill()
    run = Run(state)
    assert run.shown("Basic secret")
    assert run.stop() == 0


def test_a_stranger_with_the_number_of_a_killed_server_is_left_alone(kept: Kept) -> None:
    run = kept.start()
    run.kill()
    stranger = subprocess.Popen(["sleep", "60"], user=run.postmaster.uids().effective)
    try:
        run.postmaster.kill()
        until(lambda: processes.postgres_of(kept.state / "data") == [], what="PostgreSQL is gone")
        pid_file = kept.state / "data" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
        again = kept.start(port=run.port)
        kept.assert_complete(again)
        assert stranger.poll() is None
        assert again.stop() == 0
    finally:
        stranger.kill()
        stranger.wait()


def test_stopping_does_not_wait_for_connections_that_do_nothing(kept: Kept) -> None:
    run = kept.start()
    with httpx.Client(base_url=run.address) as client:
        assert client.get("/healthz").status_code == 200
        began = time.monotonic()
        assert run.stop() == 0
    assert time.monotonic() - began < 10
