"""The product with one promise broken, as a WSGI application: what the history check must find.

``MEMORY_SITE_TEST_MUTANT`` names the mutant. Each is a mistake that somebody could make, or has made elsewhere, and
changes the product only in the process that imports this module.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
from django.db import connection

from memory_site.wsgi import application

from conversations import log  # isort: skip  # models need an application first
from conversations.models import ConversationQuerySet  # isort: skip
from memory_site.database import failures, statements  # isort: skip

__all__ = ["application"]

Parameters = Mapping[str, Any]
write = statements.write
APPEND = log.APPEND


def mutated(text: str, *changes: tuple[str, str]) -> str:
    """Return the text with each change made; a text that has moved on fails, or its mutant would be none."""
    for old, new in changes:
        if text.count(old) != 1:
            raise RuntimeError(f"the mutant does not fit any more: {text.count(old)} times {old!r}")
        text = text.replace(old, new)
    return text


def instead_of_append(replacement: Callable[[Parameters], list[statements.Row]]) -> None:
    """Run this in place of the statement that appends."""

    def replaced(sql: str, parameters: Parameters, *, known: tuple[str, ...] = ()) -> list[statements.Row]:
        return replacement(parameters) if sql == APPEND else write(sql, parameters, known=known)

    statements.write = replaced


MAX_PLUS_ONE = (
    "next_seq - %(count)s::bigint AS first_seq",
    "(SELECT coalesce(max(seq) + 1, 0) FROM item AS i WHERE i.conversation_id = c.id) AS first_seq",
)


def number_by_maximum() -> None:
    """Number by MAX(seq) + 1, which every statement reads from before its wait; the primary key refuses the second."""
    log.APPEND = mutated(APPEND, MAX_PLUS_ONE)


def number_by_maximum_and_ignore_conflicts() -> None:
    """The same, with the errors of the primary key silenced."""
    end = "WITH ORDINALITY AS batch (payload, position)"
    log.APPEND = mutated(APPEND, MAX_PLUS_ONE, (end, f"{end} ON CONFLICT DO NOTHING"))


def receipt_in_a_second_transaction() -> None:
    """Write what was appended, then that it was."""
    without = mutated(APPEND, ("FROM place WHERE %(key_digest)s::bytea IS NOT NULL", "FROM place WHERE false"))
    receipt = """
        INSERT INTO receipt (conversation_id, key_digest, content_digest, generation, first_seq, last_seq, recorded_at)
        VALUES (%(id)s, %(key_digest)s, %(content_digest)s, %(generation)s, %(first_seq)s, %(last_seq)s, now())
        ON CONFLICT DO NOTHING RETURNING 1
    """

    def append(parameters: Parameters) -> list[statements.Row]:
        rows = write(without, parameters)
        if rows and parameters["key_digest"] is not None:
            numbers = dict(zip(("first_seq", "last_seq", "generation"), rows[0], strict=True))
            write(receipt, {**parameters, **numbers})
        return rows

    instead_of_append(append)


def batch_in_two_transactions() -> None:
    """Append the first half, then the second."""

    def append(parameters: Parameters) -> list[statements.Row]:
        payloads, half = parameters["payloads"], len(parameters["payloads"]) // 2
        if half == 0:
            return write(APPEND, parameters, known=(log.RECEIPT_KEY,))
        rows = write(APPEND, {**parameters, "payloads": payloads[:half], "count": half, "key_digest": None})
        rest = {**parameters, "payloads": payloads[half:], "count": len(payloads) - half, "expected_seq": None}
        more = write(APPEND, rest, known=(log.RECEIPT_KEY,)) if rows else []
        return [(rows[0][0], rows[0][0] + len(payloads) - 1, rows[0][2])] if more else []

    instead_of_append(append)


def answer_before_the_commit() -> None:
    """Answer at once, and commit a little later."""
    settings = connection.get_connection_params()
    names = {name: settings[name] for name in ("dbname", "user", "host", "port", "password") if name in settings}

    def append(parameters: Parameters) -> list[statements.Row]:
        late = psycopg.connect(**names)

        def commit() -> None:
            time.sleep(0.02)
            late.commit()
            late.close()

        rows = late.execute(APPEND, parameters).fetchall()
        threading.Thread(target=commit).start()
        return rows

    instead_of_append(append)


def expected_seq_before_the_lock() -> None:
    """Compare expected_seq with what was read before, not with what is locked."""
    without = mutated(APPEND, ("AND c.next_seq = coalesce(%(expected_seq)s::bigint, c.next_seq)", ""))

    def append(parameters: Parameters) -> list[statements.Row]:
        found = statements.read("SELECT next_seq FROM conversation WHERE id = %(id)s", {"id": parameters["id"]})
        if parameters["expected_seq"] not in (None, found[0][0] if found else 0):
            return []
        return write(without, parameters, known=(log.RECEIPT_KEY,))

    instead_of_append(append)


def time_before_the_lock() -> None:
    """Take the time of the statement's start, which is before its wait for the lock."""
    log.APPEND = mutated(APPEND, ("greatest(c.last_appended_at, clock)", "now()"))


def list_without_the_site() -> None:
    """Forget the site in one read."""

    def every_site(self: ConversationQuerySet, site: object) -> ConversationQuerySet:
        return self.all()

    ConversationQuerySet.for_site = every_site  # type: ignore[method-assign, assignment]


def conversations_without_a_site() -> None:
    """Forget the site in the key of a conversation."""
    log.conversation_key = lambda site, conversation_id: uuid.uuid5(uuid.NAMESPACE_URL, conversation_id)  # type: ignore[attr-defined]


def a_lost_answer_means_nothing_was_written() -> None:
    """Take a connection that broke while committing for one that could not be made."""
    problem_of = failures.problem_of
    failures.problem_of = lambda error, *, committing: problem_of(error, committing=False)


def keys_are_forgotten() -> None:
    """Keep no receipts at all."""
    log.APPEND = mutated(APPEND, ("FROM place WHERE %(key_digest)s::bytea IS NOT NULL", "FROM place WHERE false"))


if mutant := os.environ.get("MEMORY_SITE_TEST_MUTANT"):
    globals()[mutant]()
