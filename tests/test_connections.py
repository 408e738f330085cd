"""The log keeps its promises however the database is reached: the log's whole suite again, in runs of their own."""

import os
import subprocess
import sys

import pytest

from memory_site.environment import PROJECT
from tests.connections import PGBOUNCER, UNPREPARED


@pytest.mark.parametrize("mode", [UNPREPARED, PGBOUNCER])
def test_the_suite_of_the_log_passes(mode: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.postgres_plugin", "-q", "-x", "tests/conversations"],
        cwd=PROJECT,
        env={**os.environ, "MEMORY_SITE_TEST_CONNECTION": mode},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    assert " passed" in run.stdout
    assert "skipped" not in run.stdout
