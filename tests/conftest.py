"""What every test has at hand: two sites, a read-only credential, an operator, the server in process and outside.

Nothing is rolled back or flushed between tests: each has sites of its own, and isolation between sites is one of the
product's promises. What is written is committed, as in production.
"""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import setup_databases, teardown_databases

from memory_site.sites.models import DEFAULT_PERMISSIONS, Credential, Site
from memory_site.wsgi import application
from tests import connections
from tests.faults import Database, database_url

ADDRESS = "http://localhost"


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_blocker: Any, django_db_modify_db_settings: None
) -> Iterator[None]:
    """Make the test database for every test (pytest-django's own makes it for marked ones only)."""
    with django_db_blocker.unblock():
        connections.name_database()
        made = setup_databases(verbosity=0, interactive=False)
        with connections.reached():
            yield
        teardown_databases(made, verbosity=0)


@pytest.fixture(scope="session", autouse=True)
def _database(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Let every test reach the test database, in autocommit, as a request does."""
    with django_db_blocker.unblock():
        yield


@dataclass(frozen=True)
class Tenant:
    """A site with the secret of a credential that may do everything but manage."""

    site: Site
    secret: str

    @property
    def auth(self) -> tuple[str, str]:
        return self.site.slug, self.secret

    def client(self, address: str | None = None, **options: Any) -> httpx.Client:
        """Return a client of this site: in process, or of the server at ``address``."""
        if address is None:
            options["transport"] = httpx.WSGITransport(app=application)
        # Reading the certificates of the world costs 30 ms a client, and no test speaks TLS.
        options = {"timeout": 30, "verify": False, **options}
        return httpx.Client(base_url=address or ADDRESS, auth=self.auth, **options)

    def with_permissions(self, *permissions: str) -> "Tenant":
        """Return the same site with another credential."""
        return Tenant(self.site, Credential.issue(site=self.site, permissions=permissions)[1])


def make_tenant(*, permissions: tuple[str, ...] = DEFAULT_PERMISSIONS) -> Tenant:
    """Create a site that no other test has."""
    site = Site.objects.create(slug=f"site-{secrets.token_hex(8)}", name="A site")
    return Tenant(site, Credential.issue(site=site, permissions=permissions)[1])


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def other_tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def client(tenant: Tenant) -> Iterator[httpx.Client]:
    """The first site's client, in process: its queries can be counted."""
    with tenant.client() as client:
        yield client


@pytest.fixture
def other_client(other_tenant: Tenant) -> Iterator[httpx.Client]:
    """The second site's client."""
    with other_tenant.client() as client:
        yield client


@pytest.fixture
def read_only_client(tenant: Tenant) -> Iterator[httpx.Client]:
    """A client of the first site that may only read and list."""
    with tenant.with_permissions("get", "list").client() as client:
        yield client


@pytest.fixture
def operator() -> User:
    """A superuser of the admin."""
    return User.objects.create_superuser(f"operator-{secrets.token_hex(4)}", password="correct horse battery")


@pytest.fixture
def conversation_id() -> str:
    """An id that no other test uses."""
    return f"conversation-{secrets.token_hex(8)}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def database() -> Iterator[Database]:
    """The test database as the tests' own process reaches it, to be broken on purpose."""
    yield Database()
    connection.close()


@dataclass(frozen=True)
class Server:
    """A running server: Granian, two workers, on the test database."""

    address: str
    port: int
    process: subprocess.Popen[bytes]


# As ``up`` serves, without what it starts besides.
SERVE = """
from memory_site.management.web import serve
serve(address="127.0.0.1", port={port}, workers={workers}, threads={threads}, on_start=lambda: None)
"""


@pytest.fixture(scope="session")
def start_server(_database: None) -> Iterator[Callable[..., Server]]:
    """Start servers that end with the session; options are environment variables in lower case."""
    started: list[Server] = []

    def start(
        *,
        port: int | None = None,
        workers: int = 2,
        threads: int = 4,
        stderr: IO[bytes] | None = None,
        **environment: str,
    ) -> Server:
        port = port or free_port()
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE.format(port=port, workers=workers, threads=threads)],
            env={
                **os.environ,
                "DATABASE_URL": database_url(),
                "MEMORY_SITE_DATABASE_DIRECT": str(connections.MODE == connections.DIRECT).lower(),
                "MEMORY_SITE_SECRET_KEY": "x" * 50,
                "MEMORY_SITE_LOG_LEVEL": "ERROR",
                **{name.upper(): value for name, value in environment.items()},
            },
            stderr=stderr,
        )
        server = Server(f"http://127.0.0.1:{port}", port, process)
        started.append(server)
        deadline = time.monotonic() + 30
        while True:
            try:
                httpx.get(server.address + "/healthz").raise_for_status()
                return server
            except httpx.TransportError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    yield start
    for server in started:
        server.process.terminate()
    for server in started:
        server.process.wait(30)


@pytest.fixture(scope="session")
def server(start_server: Callable[..., Server]) -> Server:
    """One running server for all tests that only need one."""
    return start_server()
