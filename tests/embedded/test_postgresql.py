"""The embedded server: durable, private, and not confused by what was left in its folder."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from memory_site.database import embedded, postgres_account, processes, state
from memory_site.database.embedded import PostgreSQL, StateError
from memory_site.environment import PROJECT
from tests.embedded.runs import environment, living, new_state, remove, until

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A state folder of its own."""
    folder = new_state()
    yield folder
    remove(folder)


@pytest.fixture(scope="module")
def one_server() -> Iterator[PostgreSQL]:
    """One server, for the tests that only look at it."""
    server = PostgreSQL(new_state())
    try:
        server.start()
        yield server
    finally:
        server.stop()
        remove(server.state)


def start_and_stop(folder: Path) -> None:
    """Start a server, see that the application's role reaches its database, and stop it."""
    server = PostgreSQL(folder)
    try:
        server.start()
        with psycopg.connect(embedded.connection_url(folder)) as connection:
            assert connection.execute("SELECT current_user, current_database()").fetchone() == (
                "memory_site",
                "memory_site",
            )
    finally:
        server.stop()
    assert processes.postgres_of(folder / "data") == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("data_checksums", "on"),
        ("lock_timeout", "3s"),
        ("statement_timeout", "10s"),
        ("idle_in_transaction_session_timeout", "15s"),
        ("listen_addresses", ""),
        ("TimeZone", "UTC"),
        ("is_superuser", "off"),
    ],
)
def test_the_applications_role_finds_it_durable_bounded_and_private(
    one_server: PostgreSQL, setting: str, value: str
) -> None:
    with psycopg.connect(embedded.connection_url(one_server.state)) as connection:
        assert connection.execute(f"SHOW {setting}").fetchone() == (value,)


def test_durability_cannot_be_lost_in_a_file_of_settings(folder: Path) -> None:
    start_and_stop(folder)
    with (folder / "data" / "postgresql.auto.conf").open("a") as file:
        file.write("fsync = off\nsynchronous_commit = off\n")
    server = PostgreSQL(folder)
    try:
        server.start()
        with server.administer() as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    finally:
        server.stop()


def test_text_sorts_by_code_point_whatever_the_machine(one_server: PostgreSQL) -> None:
    with one_server.administer() as connection:
        row = connection.execute(
            "SELECT datlocprovider, datlocale, pg_encoding_to_char(encoding) FROM pg_database "
            "WHERE datname = 'memory_site'"
        ).fetchone()
    assert row == ("b", "C.UTF-8", "UTF8")


def test_nobody_else_can_enter_the_data_or_read_the_log(one_server: PostgreSQL) -> None:
    assert (one_server.data.stat().st_mode & 0o777) == 0o700
    assert ((one_server.data / ".s.PGSQL.5432").stat().st_mode & 0o777) == 0o700
    assert ((one_server.state / "postgresql.log").stat().st_mode & 0o777) == 0o600


@only_root
def test_it_has_a_user_of_its_own_without_roots_groups(one_server: PostgreSQL) -> None:
    for process in processes.postgres_of(one_server.data):
        assert process.uids().effective == one_server.data.stat().st_uid != 0
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert next(line for line in status.splitlines() if line.startswith("Groups:")).split()[1:] == []


def test_a_failing_statement_leaves_nothing_of_its_text_in_the_log(one_server: PostgreSQL) -> None:
    with psycopg.connect(embedded.connection_url(one_server.state)) as connection:
        connection.execute("CREATE TABLE once (secret text PRIMARY KEY)")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO once VALUES ('Rosebud'), ('Rosebud')")
        connection.rollback()
    said = (one_server.state / "postgresql.log").read_text()
    assert "once_pkey" in said
    assert "Rosebud" not in said


@pytest.mark.parametrize("name", ["x" * 120, "with a space", "with a 'quote' and ünïcode", "with,comma"])
def test_any_path_will_do(folder: Path, name: str) -> None:
    folder.chmod(0o755)
    deep = folder / name / "state"
    deep.parent.mkdir(mode=0o755)
    start_and_stop(deep)
    start_and_stop(deep)


def test_a_socket_folder_that_somebody_else_made_is_refused(folder: Path) -> None:
    folder.chmod(0o755)
    deep = folder / ("x" * 120)
    squatted = embedded.socket_folder(deep)
    squatted.mkdir(mode=0o777)
    squatted.chmod(0o777)
    try:
        with pytest.raises(StateError, match="somebody else's"):
            PostgreSQL(deep).start()
    finally:
        squatted.rmdir()


def test_a_database_that_a_killed_first_start_did_not_make_is_made_by_the_next(folder: Path) -> None:
    server = PostgreSQL(folder)
    server.start()
    with server.administer() as connection:
        connection.execute("DROP DATABASE memory_site")
        connection.execute("DROP ROLE memory_site")
    server.stop()
    start_and_stop(folder)


def test_data_that_was_only_half_made_is_made_again(folder: Path) -> None:
    state.prepare(folder)
    (folder / "data.new" / "base").mkdir(parents=True)
    (folder / "data.new" / "PG_VERSION").write_text("18\n")
    start_and_stop(folder)
    assert not (folder / "data.new").exists()


def test_data_of_another_version_is_refused_in_words(folder: Path) -> None:
    start_and_stop(folder)
    (folder / "data" / "PG_VERSION").write_text("17\n")
    with pytest.raises(StateError, match="written by PostgreSQL 17"):
        PostgreSQL(folder).start()


def test_a_start_that_fails_says_what_postgresql_said(folder: Path) -> None:
    start_and_stop(folder)
    (folder / "data" / "global" / "pg_control").unlink()
    with pytest.raises(StateError, match="pg_control"):
        PostgreSQL(folder).start()


def test_a_server_without_owner_is_stopped_by_the_next_start(folder: Path) -> None:
    orphan = PostgreSQL(folder)
    orphan.start()
    left = processes.postgres_of(folder / "data")
    # What the next owner sees after a kill of this one, within one process.
    orphan._process = None
    start_and_stop(folder)
    assert living(left) == []


HOLD_THE_LOCK = """
import pathlib, sys, time
from memory_site.database.state import Hold
hold = Hold(pathlib.Path(sys.argv[1]))
hold.take()
hold.write(command="test")
print(flush=True)
time.sleep(60)
"""


def test_the_lock_goes_with_its_holder_however_that_ends(folder: Path) -> None:
    hold = state.Hold(folder)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(folder)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        env=environment(folder),
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    assert not hold.take()
    assert hold.holder() == {"pid": holder.pid, "command": "test"}
    holder.kill()
    holder.wait()
    assert until(hold.take, what="the lock is free")
    assert hold.left_behind["pid"] == holder.pid
    hold.release()
    assert hold.holder() == {}


def test_a_key_is_made_once_and_for_its_owner_alone(folder: Path) -> None:
    assert state.read_secret_key(folder) is None
    state.ensure_secret_key(folder)
    key = state.read_secret_key(folder)
    assert key is not None
    assert len(key) >= 50
    state.ensure_secret_key(folder)
    assert state.read_secret_key(folder) == key
    assert ((folder / "secret_key").stat().st_mode & 0o777) == 0o600
    assert sorted(file.name for file in folder.iterdir()) == ["secret_key"]


@only_root
def test_below_a_closed_folder_the_state_is_elsewhere_and_nothing_is_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, elsewhere = folder / "home", folder / "lib"
    project = home / "clone"
    project.mkdir(parents=True)
    home.chmod(0o700)
    monkeypatch.setattr(state, "PROJECT", project)
    monkeypatch.setattr(state, "ELSEWHERE", elsewhere)
    monkeypatch.delenv("MEMORY_SITE_STATE", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    folder.chmod(0o755)
    before = {path: path.stat().st_mode for path in (folder, home, project)}
    chosen = state.state_folder()
    assert chosen.parent == elsewhere
    start_and_stop(chosen)
    assert (project / "var").resolve() == chosen == state.state_folder()
    assert {path: path.stat().st_mode for path in before} == before


@only_root
def test_a_state_folder_that_cannot_be_reached_is_refused_and_not_opened(folder: Path) -> None:
    inner = folder / "state"
    inner.mkdir()
    folder.chmod(0o700)
    with pytest.raises(StateError, match="cannot enter"):
        PostgreSQL(inner).start()
    assert (folder.stat().st_mode & 0o777) == 0o700


@only_root
def test_binaries_below_a_closed_folder_are_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binaries = postgres_account.binaries(folder, None)
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    package = closed / postgres_account.WHEEL
    shutil.copytree(binaries.parent, package / binaries.parent.name, symlinks=True)
    libraries = binaries.parents[2] / f"{postgres_account.WHEEL}.libs"
    shutil.copytree(libraries, closed / libraries.name, symlinks=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(closed)
    folder.chmod(0o755)
    start_and_stop(folder)
    copies = list(folder.glob("postgresql-*/"))
    assert len(copies) == 1
    assert (closed.stat().st_mode & 0o777) == 0o700
