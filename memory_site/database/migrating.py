"""Migrating alone, and without the time-outs that are meant for requests."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("memory_site.database")

MIGRATE_LOCK = 0x6D656D6D69  # "memmi": one number for every process that migrates this database.
WITHOUT_TIMEOUTS = (
    "SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true), "
    "set_config('idle_in_transaction_session_timeout', '0', true)"
)
"""For one transaction: a change of the session would reach other clients through a pooler."""


@contextmanager
def migrating_alone(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Hold the database's migration lock, waiting for whoever has it, and lift the time-outs of each transaction.

    The lock is on a connection of its own, in a transaction that stays open: through a pooler in transaction mode
    that is the only kind of lock that stays with its holder. A migration with ``atomic = False`` keeps the role's
    time-outs and has to lift them itself.
    """
    # A copy, because the migrations need to commit on theirs.
    keeper = connection.copy()
    try:
        keeper.set_autocommit(False)
        with keeper.cursor() as cursor:
            cursor.execute(WITHOUT_TIMEOUTS)
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s::bigint)", [MIGRATE_LOCK])
            if not cursor.fetchone()[0]:
                logger.warning("another process migrates this database; waiting until it has finished")
                cursor.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [MIGRATE_LOCK])
        with connection.execute_wrapper(_lift_timeouts):
            yield
    finally:
        keeper.close()


def _lift_timeouts(execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: dict[str, Any]) -> Any:
    connection: BaseDatabaseWrapper = context["connection"]
    if connection.in_atomic_block and connection.connection is not None:
        # On the driver's own cursor, since Django's would come here again.
        connection.connection.execute(WITHOUT_TIMEOUTS)
    return execute(sql, parameters, many, context)
