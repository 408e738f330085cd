"""The PostgreSQL that the tests run on: as durable as the product's, started before the settings are read.

Loaded with ``-p tests.postgres_plugin``. ``MEMORY_SITE_TEST_DATABASE_URL`` names another server, on which the tests
make and drop databases of their own.
"""

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from memory_site.database.embedded import ROLE, PostgreSQL
from memory_site.database.state import Hold, prepare

STARTED = "MEMORY_SITE_TEST_SERVER"
"""Set for the processes that find a server in the environment: pytest-xdist's workers, and nested runs."""
SHORT = Path("/tmp")
"""Where the state folder is, for the sake of the socket's path."""


class Server:
    """One embedded server in a temporary state folder, for one run of the tests."""

    def __init__(self) -> None:
        self.state = Path(tempfile.mkdtemp(prefix="memory-site-", dir=SHORT))
        prepare(self.state)
        self.hold = Hold(self.state)
        self.postgresql = PostgreSQL(self.state, settings={"max_connections": "300"})
        self.stopped = False

    def start(self) -> None:
        """Start it, and let everything in this process and its children find it."""
        self.hold.take()
        self.hold.write(command="pytest")
        # However this run ends: a failing import comes before there is a hook for the end.
        atexit.register(self.stop)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        self.postgresql.start()
        with self.postgresql.administer() as connection:
            # For the test databases; the product's own role may not.
            connection.execute(f"ALTER ROLE {ROLE} CREATEDB")
        os.environ["MEMORY_SITE_STATE"] = str(self.state)

    def stop(self) -> None:
        """Stop it and leave nothing behind."""
        if not self.stopped:
            self.stopped = True
            self.postgresql.stop()
            self.hold.release()
            shutil.rmtree(self.state)


_server: Server | None = None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(args: list[str]) -> Generator[None, object, object]:
    """Start the server before pytest-django loads the settings, which it does in this hook too."""
    global _server
    if STARTED not in os.environ and not {"-h", "--help", "-V", "--version"} & set(args):
        os.environ[STARTED] = str(os.getpid())
        # Never the database that DATABASE_URL names: somebody may work with it.
        os.environ.pop("DATABASE_URL", None)
        if named := os.environ.get("MEMORY_SITE_TEST_DATABASE_URL"):
            os.environ["DATABASE_URL"] = named
        else:
            _server = Server()
            _server.start()
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Stop the server after everything that might still be connected."""
    if _server is not None:
        _server.stop()
