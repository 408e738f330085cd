"""The catalogue of errors is a promise: documented, and every code of it comes from a test."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from memory_site.environment import PROJECT
from memory_site.problems import CATALOGUE

ROW = re.compile(r"^\| `(?P<code>[a-z_]+)` \| (?P<status>\d{3}) \| (?P<retryable>yes|no) \| \S", re.MULTILINE)
RETRYABLE = {
    *("timeout", "outcome_unknown", "unavailable", "io_error", "model_unavailable", "too_many_failures", "turn_active")
}


def documented() -> dict[str, tuple[int, bool]]:
    """Return status and retryable of every code in the table of docs/api.md."""
    found = [
        (row["code"], (int(row["status"]), row["retryable"] == "yes"))
        for row in ROW.finditer((PROJECT / "docs" / "api.md").read_text())
    ]
    assert len(found) == len(dict(found)), "a code has two rows"
    return dict(found)


def test_the_table_of_codes_and_the_catalogue_say_the_same() -> None:
    catalogue = {code: (kind.status, kind.retry_after is not None) for code, kind in CATALOGUE.items()}
    assert documented() == catalogue


def test_nothing_but_what_a_retry_can_help_is_retryable() -> None:
    assert {code for code, kind in CATALOGUE.items() if kind.retry_after is not None} <= RETRYABLE
    assert {code for code, kind in CATALOGUE.items() if kind.retry_after is None}.isdisjoint(RETRYABLE)


@cache
def provoked() -> set[str]:
    """Return the codes that a test claims an answer to have, by ``assert_problem`` or its like."""
    found: set[str] = set()
    for path in Path(PROJECT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "").startswith("assert_"):
                found.update(
                    argument.value
                    for argument in node.args
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                )
    return found


@pytest.mark.parametrize("code", CATALOGUE)
def test_every_code_is_provoked_by_a_test(code: str) -> None:
    assert code in provoked()
