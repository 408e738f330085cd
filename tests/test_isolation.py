"""Every route of the URL table, with the other site's credential, without the permission and without a credential.

A new route without an example here fails.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from memory_site.sites.models import PERMISSIONS
from tests.calls import append, assert_problem, bundle, new_id, put_record, save
from tests.conftest import Tenant, make_tenant

SECRET = "xylophone"
"""A word in everything that the first site stores."""


@dataclass(frozen=True)
class Route:
    """One method of one address of the API."""

    method: str
    address: str
    permission: str

    def __str__(self) -> str:
        return f"{self.method} /{self.address}"


@dataclass(frozen=True)
class Example:
    """A call that would work for the site that owns what ``id`` names."""

    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, client: httpx.Client, method: str, id: str) -> httpx.Response:  # noqa: A002
        return client.request(method, self.path.format(id=id), json=self.body, headers=self.headers)


NAMESPACE = "v1/namespaces/<str:namespace>"

# The id is that of the first site's conversation, and of its namespace.
EXAMPLES: dict[tuple[str, str], Example] = {
    ("GET", "v1/conversations"): Example("/v1/conversations?limit=1000"),
    ("POST", "v1/conversations/<str:conversation_id>/items"): Example(
        "/v1/conversations/{id}/items", {"items": [{}], "expected_seq": 0}, {"Idempotency-Key": "k"}
    ),
    ("GET", "v1/conversations/<str:conversation_id>/recall"): Example("/v1/conversations/{id}/recall?count=1000"),
    ("GET", "v1/conversations/<str:conversation_id>/replay"): Example("/v1/conversations/{id}/replay"),
    ("GET", f"{NAMESPACE}/records"): Example("/v1/namespaces/{id}/records"),
    ("GET", f"{NAMESPACE}/records/<key:key>"): Example("/v1/namespaces/{id}/records/a/b"),
    ("PUT", f"{NAMESPACE}/records/<key:key>"): Example("/v1/namespaces/{id}/records/a/b", [1], {"If-Match": '"1"'}),
    ("DELETE", f"{NAMESPACE}/records/<key:key>"): Example("/v1/namespaces/{id}/records/a/b"),
    ("POST", f"{NAMESPACE}/checkpoints"): Example(
        "/v1/namespaces/{id}/checkpoints", bundle("checkpoint-3", expected_revision=2)
    ),
    ("GET", f"{NAMESPACE}/checkpoints/<str:checkpoint_id>"): Example("/v1/namespaces/{id}/checkpoints/checkpoint-1"),
    ("DELETE", f"{NAMESPACE}/checkpoints/<str:checkpoint_id>"): Example("/v1/namespaces/{id}/checkpoints/checkpoint-1"),
    ("GET", f"{NAMESPACE}/sessions/<str:agent_id>/<str:session_id>/latest"): Example(
        "/v1/namespaces/{id}/sessions/coder/one/latest"
    ),
}


def store(client: httpx.Client, id: str) -> None:  # noqa: A002
    """Store something of every kind under an id, with the secret word in it."""
    append(client, id, f'{{"a":"{SECRET}"}}', f'{{"b":"{SECRET}"}}', key="k")
    put_record(client, id, "a/b", f'"{SECRET}"')
    for revision in range(2):
        save(client, id, bundle(f"checkpoint-{revision + 1}", expected_revision=revision, goal=SECRET))


def everything(client: httpx.Client, id: str) -> list[Any]:  # noqa: A002
    """Return all that a site can read."""
    return [
        example.send(client, method, id).json() for (method, _), example in sorted(EXAMPLES.items()) if method == "GET"
    ]


def patterns(found: list[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for entry in found:
        address = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from patterns(entry.url_patterns, address)
        elif isinstance(entry, URLPattern):
            yield address, entry.callback


def routes() -> list[Route]:
    """Return every operation in the URL table."""
    found = []
    for address, view in patterns(get_resolver().url_patterns):
        for method, action in getattr(view, "actions", {}).items():
            if method != "head":
                found.append(Route(method.upper(), address, getattr(view.cls, action).operation.permission))
    return found


ROUTES = routes()


@pytest.fixture(params=ROUTES, ids=str)
def route(request: pytest.FixtureRequest) -> Route:
    found: Route = request.param
    return found


@pytest.fixture
def example(route: Route) -> Example:
    assert (route.method, route.address) in EXAMPLES, f"{route} needs an example in this file"
    return EXAMPLES[route.method, route.address]


@pytest.fixture
def owned(client: httpx.Client) -> str:
    """The id under which the first site has stored something of every kind."""
    owned = new_id()
    store(client, owned)
    return owned


def test_the_url_table_is_known_and_every_other_address_is_meant_to_be_open_or_guards_itself() -> None:
    assert set(EXAMPLES) == {(route.method, route.address) for route in ROUTES}
    others = {address for address, view in patterns(get_resolver().url_patterns) if not hasattr(view, "actions")}
    guarded = {address for address in others if address.startswith(("admin", "mcp"))}
    assert others - guarded == {"v1/schema", "v1/schema/page", "healthz", "readyz", "metrics"}


def test_another_site_sees_what_it_would_see_of_an_unknown_id(
    route: Route, example: Example, owned: str, client: httpx.Client, other_client: httpx.Client
) -> None:
    before = everything(client, owned)
    assert SECRET in str(before)
    seen = example.send(other_client, route.method, owned)
    with make_tenant().client() as stranger:
        unknown_id = new_id()
        unknown = example.send(stranger, route.method, unknown_id)
    assert SECRET not in seen.text
    assert (seen.status_code, seen.text.replace(owned, unknown_id)) == (unknown.status_code, unknown.text)
    assert everything(client, owned) == before


def test_what_another_site_does_with_the_same_id_is_its_own(
    route: Route, example: Example, owned: str, client: httpx.Client, other_client: httpx.Client
) -> None:
    before = everything(client, owned)
    store(other_client, owned)
    for _ in range(2):
        example.send(other_client, route.method, owned)
    assert everything(client, owned) == before


def test_without_its_permission_a_call_is_refused_and_changes_nothing(
    route: Route, example: Example, owned: str, client: httpx.Client, tenant: Tenant
) -> None:
    before = everything(client, owned)
    others = [permission for permission in PERMISSIONS if permission != route.permission]
    with tenant.with_permissions(*others).client() as lacking:
        response = example.send(lacking, route.method, owned)
    problem = assert_problem(response, "permission_denied", permission=route.permission)
    assert f"`{route.permission}`" in problem["detail"]
    assert SECRET not in response.text
    assert everything(client, owned) == before


def test_without_credentials_a_call_is_refused_and_changes_nothing(
    route: Route, example: Example, owned: str, client: httpx.Client
) -> None:
    before = everything(client, owned)
    with httpx.Client(base_url="http://localhost", transport=client._transport) as nobody:
        response = example.send(nobody, route.method, owned)
    assert_problem(response, "authentication_required")
    assert everything(client, owned) == before


def test_a_reader_can_call_what_reads_and_nothing_else(
    route: Route, example: Example, owned: str, read_only_client: httpx.Client
) -> None:
    response = example.send(read_only_client, route.method, owned)
    if route.permission in ("get", "list"):
        assert response.is_success, response.text
    else:
        assert_problem(response, "permission_denied")
