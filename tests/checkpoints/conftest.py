"""A namespace of its own for every test, and the database's clock moved for records."""

import secrets
from collections.abc import Iterator

import httpx
import pytest
from django.db import connection

from tests.conftest import Server, Tenant


@pytest.fixture
def namespace() -> str:
    """The name of a namespace that no other test uses."""
    return f"namespace-{secrets.token_hex(8)}"


@pytest.fixture
def served(server: Server, tenant: Tenant) -> Iterator[httpx.Client]:
    """The first site's client of a running server: in process, httpx sends no address but an ASCII one rightly."""
    with tenant.client(server.address) as client:
        yield client


def expire(key: str) -> None:
    """Let the records of a key expire now, as if their time had passed."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE record SET expires_at = clock_timestamp() WHERE key = %s", [key])
        assert cursor.rowcount
