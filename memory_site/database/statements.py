"""The one write path, and its counterpart for reads: SQL in, rows out, a database error in the client's words."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from django.db import Error as DatabaseError
from django.db import connection

from memory_site.database import failures

Row: TypeAlias = tuple[Any, ...]


class Refused(Exception):
    """A statement broke a constraint that the caller knows by name; nothing was written."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.constraint = constraint


def write(sql: str, parameters: Mapping[str, Any], *, known: tuple[str, ...] = ()) -> list[Row]:
    """Run one statement that commits itself, and return its rows: they are on disk.

    Raises ``Refused`` for a constraint in ``known``. Any other error is a ``Problem``: 503 when nothing was written,
    504 ``outcome_unknown`` when the statement was sent and no answer came. Must not be called inside a transaction,
    where returning would promise too much.
    """
    if connection.in_atomic_block:
        raise RuntimeError("write() commits by itself: it has no place inside a transaction")
    try:
        connection.ensure_connection()
        cursor = connection.cursor()
    except DatabaseError as error:
        raise failures.problem_of(error, committing=False) from error
    try:
        with cursor:
            cursor.execute(sql, parameters)
            rows: list[Row] = cursor.fetchall()
            return rows
    except DatabaseError as error:
        constraint = failures.constraint_of(error)
        if constraint is not None and constraint in known:
            raise Refused(constraint) from None
        raise failures.problem_of(error, committing=True) from error


def read(sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Run one statement that changes nothing, and return its rows; a database error is a ``Problem``."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            rows: list[Row] = cursor.fetchall()
            return rows
    except DatabaseError as error:
        raise failures.problem_of(error, committing=False) from error
