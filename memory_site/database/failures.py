"""What a database error means to a client: decided by SQLSTATE and by whether the commit was under way.

Django's exception classes do not tell these apart: ``OperationalError`` covers a lock that was waited for too long
as well as an index row that is too long. And a lost connection means "nothing was written" before the committing
statement was sent, but "nobody knows" after.
"""

import logging
import traceback

import psycopg
from django.db import Error as DatabaseError
from django.db import connection

from memory_site.problems import Problem

log = logging.getLogger("memory_site.database")

# SQLSTATEs and classes: PostgreSQL documentation, appendix A.
WAITED_TOO_LONG = {"55P03", "40P01", "40001", "57014", "25P03", "25P04"}
NOT_THERE = {"57P01", "57P02", "57P03", "57P05", "53300", "25006"}
NOT_THERE_CLASS = "08"
STORAGE = {"53000", "53100", "53200", "53400", "XX001", "XX002"}
STORAGE_CLASS = "58"
# What psycopg itself refuses to send (a NUL in a text, say): no SQLSTATE, and the connection stands.
REFUSED_HERE = (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError)
STALE_PLAN = "0A000"  # "cached plan must not change result type", after a migration


def cause_of(error: BaseException) -> psycopg.Error | None:
    """Return the psycopg error that a chain of exceptions comes from.

    The deepest is taken: when the reply to COMMIT is lost and the reconnect fails too, leaving ``atomic()`` raises
    the reconnect's error on top of the commit's.
    """
    found = None
    seen: set[int] = set()
    step: BaseException | None = error
    while step is not None and id(step) not in seen:
        seen.add(id(step))
        if isinstance(step, psycopg.Error):
            found = step
        step = step.__cause__ or step.__context__
    return found


def constraint_of(error: BaseException) -> str | None:
    """Return the name of the constraint that refused a statement, if one did."""
    cause = cause_of(error)
    return cause.diag.constraint_name if cause is not None else None


def problem_of(error: DatabaseError, *, committing: bool) -> Problem:
    """Return the problem for a database error; ``committing`` says that the statement that commits was sent.

    Answered with severity ERROR, it was rolled back. Answered with FATAL, or not at all, it may have been committed.
    """
    cause = cause_of(error)
    sqlstate = cause.sqlstate if cause is not None else None
    if sqlstate is None and isinstance(cause, REFUSED_HERE):
        return unexpected(error, sqlstate)
    if sqlstate is None or cause is None or cause.diag.severity_nonlocalized != "ERROR":
        # The connection is of no more use; the next request opens another one.
        connection.close()
        if committing:
            log.warning("outcome unknown", extra={"sqlstate": sqlstate})
            return Problem(
                "outcome_unknown",
                "The connection to the database broke while it was committing. Send the same call again, with the "
                "same Idempotency-Key where it takes one: what was written is then answered or refused, what was not "
                "is written once.",
            )
        log.warning("database unavailable", extra={"sqlstate": sqlstate, "error": type(error).__qualname__})
        return Problem("unavailable", "The database cannot be reached just now. Nothing was written.")
    if sqlstate in WAITED_TOO_LONG:
        return Problem("timeout", "Waited too long for a row that others write to. Nothing was written.")
    if sqlstate in NOT_THERE or sqlstate.startswith(NOT_THERE_CLASS):
        log.warning("database unavailable", extra={"sqlstate": sqlstate})
        connection.close()
        return Problem("unavailable", "The database cannot take this just now. Nothing was written.")
    if sqlstate == STALE_PLAN:
        connection.close()
        return Problem("unavailable", "The database has just been upgraded. Nothing was written.")
    if sqlstate in STORAGE or sqlstate.startswith(STORAGE_CLASS):
        log.error("storage failure", extra={"sqlstate": sqlstate})
        return Problem("io_error", "The database could not store this. Nothing was written.")
    return unexpected(error, sqlstate)


def unexpected(error: DatabaseError, sqlstate: str | None) -> Problem:
    """Log a value or a constraint that validation should have caught. Never its text: that quotes the row."""
    log.error(
        "unexpected database error",
        extra={
            "sqlstate": sqlstate,
            "constraint": constraint_of(error),
            "where": "".join(traceback.format_tb(error.__traceback__)),
        },
    )
    return Problem("internal_error", "Something went wrong here. It has been logged.")
