"""The check is red when a promise is broken: a check that cannot fail proves nothing.

Each mutant serves the same clients as the product does, without a fault from outside unless one is named.
``synchronous_commit = off`` is in ``test_faults.py``, where there is a database to kill.
"""

import secrets
from contextlib import ExitStack

import pytest

from tests.conftest import free_port, make_tenant
from tests.faults import database_url
from tests.history.checker import Kind, Violation, violations
from tests.history.clients import Account, load, read_everything
from tests.history.proxy import Act, Proxy
from tests.history.servers import serving
from tests.history.test_lost_replies import connect_to_postgresql

ATTEMPTS = 4
"""How often the clients may try: some mistakes need two of them at the same moment."""

MUTANTS = {
    "number_by_maximum": {Kind.SURPRISE},
    "number_by_maximum_and_ignore_conflicts": {Kind.LOST, Kind.TORN, Kind.MISPLACED},
    "receipt_in_a_second_transaction": {Kind.TWICE},
    "batch_in_two_transactions": {Kind.TORN},
    "answer_before_the_commit": {Kind.STALE},
    "expected_seq_before_the_lock": {Kind.FENCE},
    "time_before_the_lock": {Kind.CLOCK},
    "list_without_the_site": {Kind.LISTING},
    "conversations_without_a_site": {Kind.FOREIGN},
    "a_lost_answer_means_nothing_was_written": {Kind.REFUSED},
    "keys_are_forgotten": {Kind.TWICE},
}


def run_clients(port: int) -> list[Violation]:
    accounts = [Account(tenant.site.slug, tenant.secret) for tenant in (make_tenant(), make_tenant())]
    with load(port, accounts, name=f"run-{secrets.token_hex(4)}", writers=6, readers=1) as clients:
        clients.wait_for(150)
        events = clients.finish()
    return violations(events, read_everything(port, accounts, events))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_finds(mutant: str) -> None:
    port, database = free_port(), database_url()
    with ExitStack() as running:
        if mutant == "a_lost_answer_means_nothing_was_written":
            proxy = running.enter_context(Proxy(connect_to_postgresql))
            proxy.at_random(0.1, Act.SWALLOW)
            database = proxy.in_front_of(database)
        running.enter_context(
            serving("tests.history.mutants:application", database=database, port=port, MEMORY_SITE_TEST_MUTANT=mutant)
        )
        found: set[Kind] = set()
        for _ in range(ATTEMPTS):
            found = {violation.kind for violation in run_clients(port)}
            if found & MUTANTS[mutant]:
                return
    pytest.fail(f"{mutant} was taken for the product: {found}")


def test_the_check_finds_nothing_in_the_product_itself() -> None:
    port = free_port()
    with serving("tests.history.mutants:application", database=database_url(), port=port):
        assert run_clients(port) == []
