"""Operators at their console: in process, and in a browser."""

import secrets
from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client

from conversations.models import conversation_key
from tests.calls import append, new_id
from tests.conftest import Tenant

PASSWORD = "correct horse battery"


def signed_in(user: User, **options: Any) -> Client:
    """Return a browser without pictures in which an operator is logged in."""
    console = Client(headers={"host": "localhost"}, **options)
    console.force_login(user)
    return console


@pytest.fixture
def console(operator: User) -> Client:
    """The console as a superuser has it."""
    return signed_in(operator)


@pytest.fixture
def make_staff() -> Callable[..., User]:
    """Make a user of the console who has these permissions."""

    def make(*codenames: str) -> User:
        user = User.objects.create_user(f"staff-{secrets.token_hex(4)}", password=PASSWORD, is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        return user

    return make


@pytest.fixture
def viewer(make_staff: Callable[..., User]) -> User:
    """Somebody who may look at everything."""
    codenames = Permission.objects.filter(codename__startswith="view_").values_list("codename", flat=True)
    return make_staff(*codenames)


@pytest.fixture
def watching(viewer: User) -> Client:
    """The console as somebody has it who may only look."""
    return signed_in(viewer)


@pytest.fixture
def spoken(client: httpx.Client, tenant: Tenant) -> Callable[..., UUID]:
    """Append JSON texts to a new conversation and return its key."""

    def speak(*payloads: str) -> UUID:
        conversation_id = new_id()
        for start in range(0, len(payloads), 250):
            assert append(client, conversation_id, *payloads[start : start + 250]).status_code == 201
        return conversation_key(tenant.site, conversation_id)

    return speak


@pytest.fixture
def hundred_thousand(tenant: Tenant) -> UUID:
    """The key of a full conversation, as if it had been appended."""
    return fill(tenant, items=100_000)


def fill(tenant: Tenant, *, items: int) -> UUID:
    """Store a conversation with so many items and return its key."""
    conversation_id = new_id()
    key = conversation_key(tenant.site, conversation_id)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO conversation"
            " (id, site_id, conversation_id, generation, first_seq, next_seq, created_at, last_appended_at)"
            " VALUES (%s::uuid, %s::uuid, %s::text, 0, 0, %s::bigint, now(), now())",
            [key, tenant.site.id, conversation_id, items],
        )
        cursor.execute(
            "INSERT INTO item (conversation_id, generation, seq, recorded_at, payload)"
            """ SELECT %s::uuid, 0, n, now(), '{"role":"user","content":"number ' || n || '"}'"""
            " FROM generate_series(0, %s::bigint - 1) AS n",
            [key, items],
        )
    return key


def make_hole(key: UUID, *numbers: int) -> None:
    """Take items away, as no part of the product does."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM item WHERE conversation_id = %s::uuid AND seq = ANY(%s::bigint[])", [key, list(numbers)]
        )


def entries(user: User) -> list[str]:
    """Return what the log says that an operator did, newest first."""
    return [entry.get_change_message() for entry in LogEntry.objects.filter(user=user).order_by("-pk")]
