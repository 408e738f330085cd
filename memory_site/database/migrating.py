"""Migrating alone, and without the time-outs that are meant for requests."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("memory_site.database")

MIGRATE_LOCK = 0x6D656D6D69  # one number for every process that migrates this database
TIMEOUTS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
FOR_THE_TRANSACTION = "SELECT " + ", ".join(f"set_config('{name}', '0', true)" for name in TIMEOUTS)
FOR_THE_SESSION = "SELECT " + ", ".join(f"set_config('{name}', '0', false)" for name in TIMEOUTS)


@contextmanager
def migrating_alone(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Hold the database's migration lock, waiting for whoever has it, and lift the time-outs of requests.

    The lock is on a connection of its own, in a transaction that stays open: through a pooler in transaction mode
    that is the only kind of lock that stays with its holder. Through a pooler the time-outs are lifted within
    transactions only, so a migration with ``atomic = False`` (CREATE INDEX CONCURRENTLY) wants a direct connection.
    """
    # A copy, because the migrations need to commit on theirs.
    keeper = connection.copy()
    try:
        keeper.set_autocommit(False)
        keeper.ensure_connection()
        # Neither the waiting for the lock nor the holding may keep a snapshot, or an index that is created
        # concurrently waits for this transaction: hence asking again and again instead of one call that waits, and
        # the driver's client-side cursor, because the extended protocol leaves its last portal open.
        with psycopg.ClientCursor(keeper.connection) as cursor:
            cursor.execute(FOR_THE_TRANSACTION)
            waiting = False
            while not _take(cursor):
                if not waiting:
                    waiting = True
                    logger.warning("another process migrates this database; waiting until it has finished")
                time.sleep(0.2)
        with connection.execute_wrapper(_lift_timeouts):
            yield
    finally:
        keeper.close()
        if settings.DATABASE_DIRECT and connection.connection is not None and not connection.in_atomic_block:
            for name in TIMEOUTS:
                connection.connection.execute(f"RESET {name}")


def _take(cursor: psycopg.Cursor[tuple[Any, ...]]) -> bool:
    row = cursor.execute("SELECT pg_try_advisory_xact_lock(%s::bigint)", [MIGRATE_LOCK]).fetchone()
    return row is not None and bool(row[0])


def _lift_timeouts(execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: dict[str, Any]) -> Any:
    connection: BaseDatabaseWrapper = context["connection"]
    if connection.connection is not None:
        # On the driver's own cursor, since Django's would come here again.
        if connection.in_atomic_block:
            connection.connection.execute(FOR_THE_TRANSACTION)
        elif settings.DATABASE_DIRECT:
            # Through a pooler it would stay behind for other clients.
            connection.connection.execute(FOR_THE_SESSION)
    return execute(sql, parameters, many, context)
