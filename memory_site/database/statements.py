"""The one write path, and its counterpart for reads: SQL in, rows out, a database error in the client's words."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

from django.db import Error as DatabaseError
from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.db.transaction import atomic

from memory_site.database import failures
from memory_site.problems import Problem

Row: TypeAlias = tuple[Any, ...]


class Run(Protocol):
    """What runs a statement of a transaction."""

    def __call__(self, sql: str, parameters: Mapping[str, Any], *, known: tuple[str, ...] = ()) -> list[Row]: ...


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
    with _open() as cursor:
        return _run(cursor, sql, parameters, known=known, committing=True)


@contextmanager
def transaction() -> Iterator[Run]:
    """Run several statements that are on disk together or not at all; give what runs one and returns its rows.

    For what a single statement cannot do: ``write()`` holds its locks for less time. Errors are those of ``write()``;
    after one of them the transaction must be left, since PostgreSQL answers its COMMIT with a silent rollback.
    """
    if connection.in_atomic_block:
        raise RuntimeError("transaction() commits by itself: it has no place inside another")
    committing = failed = False

    def run(sql: str, parameters: Mapping[str, Any], *, known: tuple[str, ...] = ()) -> list[Row]:
        nonlocal failed
        try:
            with connection.cursor() as cursor:
                return _run(cursor, sql, parameters, known=known, committing=False)
        except (Problem, Refused):
            failed = True
            raise

    try:
        with atomic():
            yield run
            if failed:
                raise RuntimeError("a statement failed and the transaction went on")
            committing = True
    except DatabaseError as error:
        raise failures.problem_of(error, committing=committing) from error


def read(sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Run one statement that changes nothing, and return its rows; a database error is a ``Problem``."""
    with _open() as cursor:
        return _run(cursor, sql, parameters, known=(), committing=False)


def _open() -> CursorWrapper:
    """Return a cursor; that there is no connection means that nothing was sent."""
    try:
        return connection.cursor()
    except DatabaseError as error:
        raise failures.problem_of(error, committing=False) from error


def _run(
    cursor: CursorWrapper, sql: str, parameters: Mapping[str, Any], *, known: tuple[str, ...], committing: bool
) -> list[Row]:
    try:
        cursor.execute(sql, parameters)
        rows: list[Row] = cursor.fetchall()
        return rows
    except DatabaseError as error:
        constraint = failures.constraint_of(error)
        if constraint is not None and constraint in known:
            raise Refused(constraint) from None
        raise failures.problem_of(error, committing=committing) from error
