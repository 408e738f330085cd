"""Schemathesis against a running server, with every check on: a short run here, a long one as ``make fuzz``."""

import os
import subprocess
import sys

from tests.conftest import Server, Tenant

LONG = os.environ.get("MEMORY_SITE_TEST_FUZZ_EXAMPLES")  # per call and phase, with ``make fuzz``
SHORT = ["--max-examples", "15", "--generation-deterministic"]  # the same requests in every run


def test_the_server_is_what_its_description_says(server: Server, tenant: Tenant) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", server.address + "/v1/schema"]
        + ["--auth", ":".join(tenant.auth), "--checks", "all"]
        + (["--max-examples", LONG, "--generation-database", "none"] if LONG else SHORT)
        + ["--mode", "all", "--request-timeout", "10", "--no-color"],
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.wire.schemathesis_hooks"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Test cases" in run.stdout, "nothing was run:\n" + run.stdout
