"""The official conformance suite of MCP against a running server, at both revisions of the protocol.

``make conformance`` installs the suite and runs this. The baselines name every check that is expected to fail, with
the reason; one that fails besides, and one that passes unexpectedly, fails the run.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.conformance.proxy import with_credentials
from tests.conftest import Server, Tenant

SUITE = Path(os.environ["MEMORY_SITE_TEST_CONFORMANCE"])  # where make has put it
HERE = Path(__file__).parent


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_everything_that_the_revision_requires_and_this_server_offers(
    server: Server, tenant: Tenant, revision: str, tmp_path: Path
) -> None:
    with with_credentials(server.address, tenant.auth) as address:
        run = subprocess.run(
            [str(SUITE / "node_modules/.bin/conformance"), "server", "--url", address + "/mcp"]
            + ["--requirements", revision, "--output-dir", str(tmp_path)]
            + ["--expected-failures", str(HERE / f"baseline-{revision}.yml")],
            env={**os.environ, "PATH": f"{SUITE / 'bin'}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
    print(run.stdout[run.stdout.find("=== SUMMARY") :])
    assert run.returncode == 0, run.stdout + run.stderr
    assert "server-initialize" in run.stdout or "server-stateless" in run.stdout
