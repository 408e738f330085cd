"""Migrations take turns, are not cut off, and do not lock each other up."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import connection, transaction

from memory_site.database import embedded
from memory_site.database.migrating import MIGRATE_LOCK, migrating_alone
from memory_site.database.on_demand import database_for
from memory_site.environment import PROJECT
from tests.embedded.runs import environment, manage, new_state, remove, until
from tests.faults import database_url


@pytest.fixture
def state() -> Iterator[Path]:
    state = new_state()
    yield state
    remove(state)


def start_migrate(state: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "manage.py", "migrate"],
        cwd=PROJECT,
        env=environment(state),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_first_migrations_at_the_same_time_all_succeed_without_a_running_server(state: Path) -> None:
    together = [start_migrate(state) for _ in range(3)]
    said = [process.communicate(timeout=120) for process in together]
    assert [process.returncode for process in together] == [0, 0, 0], said
    assert sum("Applying" in output for output, _ in said) == 1
    assert manage(state, "migrate", "--check").returncode == 0


def test_a_migration_waits_for_the_one_that_has_the_lock(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SITE_STATE", str(state))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with (
        database_for(["migrate"]),
        psycopg.connect(embedded.connection_url(state)) as other,
    ):
        other.execute("SET idle_in_transaction_session_timeout = 0")
        other.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATE_LOCK])
        waiting = start_migrate(state)
        assert waiting.stderr is not None
        assert "another process migrates" in waiting.stderr.readline()
        assert waiting.poll() is None
        assert other.execute("SELECT to_regclass('django_migrations')").fetchone() == (None,)
        other.rollback()
        assert waiting.wait(60) == 0
        assert other.execute("SELECT to_regclass('site') IS NOT NULL").fetchone() == (True,)
        waiting.communicate()


def timeouts() -> tuple[str, ...]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('lock_timeout'), current_setting('statement_timeout'), "
            "current_setting('idle_in_transaction_session_timeout')"
        )
        row: tuple[str, ...] = cursor.fetchone()
        return row


def test_timeouts_are_lifted_while_it_migrates_and_only_then() -> None:
    before = timeouts()
    assert "0" not in before
    with migrating_alone(connection):
        assert timeouts() == ("0", "0", "0")
        with transaction.atomic():
            assert timeouts() == ("0", "0", "0")
    assert timeouts() == before


def test_neither_holding_nor_waiting_for_the_lock_holds_up_an_index_created_concurrently(state: Path) -> None:
    with psycopg.connect(database_url(), autocommit=True) as other:
        other.execute("CREATE TABLE IF NOT EXISTS indexed_concurrently (n int)")
        with migrating_alone(connection):
            waiting = subprocess.Popen(
                [sys.executable, "-c", WAIT_FOR_THE_LOCK],
                cwd=PROJECT,
                env={**environment(state), "DATABASE_URL": database_url(), "MEMORY_SITE_DATABASE_DIRECT": "true"},
            )
            until(lambda: transactions_that_wait(other), what="another process waits for the lock")
            other.execute("SET lock_timeout = '2s'")
            other.execute("CREATE INDEX CONCURRENTLY ON indexed_concurrently (n)")
            assert waiting.poll() is None
        assert waiting.wait(30) == 0
        other.execute("DROP TABLE indexed_concurrently")


WAIT_FOR_THE_LOCK = """
import django, os
os.environ["DJANGO_SETTINGS_MODULE"] = "memory_site.settings"
django.setup()
from django.db import connection
from memory_site.database.migrating import migrating_alone
with migrating_alone(connection):
    pass
"""


def transactions_that_wait(other: "psycopg.Connection") -> bool:
    return bool(
        other.execute(
            "SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() "
            "AND query LIKE 'SELECT pg_try_advisory_xact_lock%%' AND backend_start > now() - interval '1 minute'"
        ).rowcount
        >= 2
    )
