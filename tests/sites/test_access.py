"""Who gets in, over HTTP: Basic credentials of an enabled site, and nobody else."""

from base64 import b64encode

import httpx
import pytest
from pytest_django import Settings

from memory_site.sites.models import DEFAULT_PERMISSIONS, Credential, Site
from memory_site.wsgi import application
from tests.calls import append, assert_problem, new_id, stored
from tests.conftest import Tenant

ADDRESSES = iter(range(1, 2**16))


def from_address(address: str | None = None, **options: object) -> httpx.Client:
    """Return a client at an address of its own, so that its failures are nobody else's."""
    number = next(ADDRESSES)
    transport = httpx.WSGITransport(app=application, remote_addr=address or f"10.1.{number // 256}.{number % 256}")
    return httpx.Client(base_url="http://localhost", transport=transport, verify=False)


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/conversations/abcdefgh/recall"])
def test_without_credentials_nobody_gets_in(path: str) -> None:
    with from_address() as client:
        for headers in ({}, {"Authorization": ""}, {"Authorization": "  "}):
            response = client.get(path, headers=headers)
            assert_problem(response, "authentication_required")
            assert response.headers["WWW-Authenticate"].startswith("Basic realm=")


@pytest.mark.parametrize(
    "header", ["Bearer abc", "bearer", "Digest x", "Token msk_x", "Negotiate x", "Basics x", "msk_x"]
)
def test_any_scheme_but_basic_is_refused_with_a_basic_challenge(header: str) -> None:
    with from_address() as client:
        response = client.get("/v1/conversations", headers={"Authorization": header})
        assert_problem(response, "unsupported_auth_scheme")
        assert response.headers["WWW-Authenticate"].startswith("Basic realm=")


def test_the_scheme_is_read_in_any_case(tenant: Tenant) -> None:
    header = basic(*tenant.auth)["Authorization"]
    with from_address() as client:
        for scheme in ("basic", "BASIC", "Basic "):
            answered = client.get("/v1/conversations", headers={"Authorization": header.replace("Basic", scheme)})
            assert answered.status_code == 200


def test_every_way_to_fail_is_the_same_answer(tenant: Tenant, other_tenant: Tenant) -> None:
    slug, secret = tenant.auth
    revoked = tenant.with_permissions("get")
    Credential.objects.for_site(tenant.site).get(hint=revoked.secret[:8]).revoke()
    disabled, disabled_secret = other_tenant.auth
    Site.objects.filter(pk=other_tenant.site.pk).update(disabled_at="2026-01-01T00:00:00Z")
    attempts = [
        basic("nobody", secret),
        basic(slug, "msk_wrong"),
        basic(slug, ""),
        basic("", secret),
        basic(slug, secret[:-1]),
        basic(slug, secret + "x"),
        basic(slug, secret.swapcase()),
        basic(slug.upper(), secret),
        basic(slug + "\0", secret),
        basic(disabled, secret),
        basic(disabled, disabled_secret),
        basic(*revoked.auth),
        {"Authorization": "Basic"},
        {"Authorization": "Basic ?"},
        {"Authorization": "Basic " + b64encode(b"\xff\xfe:\xff").decode()},
        {"Authorization": "Basic " + b64encode(slug.encode()).decode()},
        {"Authorization": "Basic " + b64encode(f"{slug}:{secret}".encode()).decode() + " x"},
    ]
    answers = set()
    with from_address() as client:
        for headers in attempts:
            response = client.get("/v1/conversations", headers=headers)
            assert_problem(response, "invalid_credentials")
            response.headers.pop("X-Request-ID")
            answers.add((response.text, tuple(sorted(response.headers.items()))))
    assert len(answers) == 1
    assert b"Basic realm=" in dict(response.headers.raw)[b"WWW-Authenticate"]


def test_a_secret_opens_no_other_site(tenant: Tenant, other_tenant: Tenant) -> None:
    with from_address() as client:
        response = client.get("/v1/conversations", headers=basic(other_tenant.site.slug, tenant.secret))
        assert_problem(response, "invalid_credentials")


# -- Permissions ----------------------------------------------------------------------------------------------


def test_a_missing_permission_is_named_and_nothing_is_written(tenant: Tenant, conversation_id: str) -> None:
    with tenant.client() as client:
        append(client, conversation_id)
        calls = {
            "put": ("POST", f"/v1/conversations/{conversation_id}/items"),
            "get": ("GET", f"/v1/conversations/{conversation_id}/recall"),
            "list": ("GET", "/v1/conversations"),
        }
        for permission, (method, path) in calls.items():
            others = [name for name in DEFAULT_PERMISSIONS if name != permission]
            with tenant.with_permissions(*others).client() as lacking:
                response = lacking.request(method, path, json={"items": [{}]} if method == "POST" else None)
                assert_problem(response, "permission_denied", permission=permission)
            with tenant.with_permissions(permission).client() as having:
                response = having.request(method, path, json={"items": [{}]} if method == "POST" else None)
                assert response.is_success
        assert len(stored(client, conversation_id)) == 2


# -- Failures are throttled by address ------------------------------------------------------------------------


def test_the_21st_failure_of_an_address_in_a_minute_is_throttled_and_the_right_secret_still_passes(
    tenant: Tenant,
) -> None:
    wrong, right = basic(tenant.site.slug, "msk_wrong"), basic(*tenant.auth)
    with from_address() as client:
        for _ in range(20):
            assert_problem(client.get("/v1/conversations", headers=wrong), "invalid_credentials")
            assert client.get("/v1/conversations", headers=right).status_code == 200
        for _ in range(3):
            response = client.get("/v1/conversations", headers=wrong)
            assert_problem(response, "too_many_failures")
            assert 1 <= int(response.headers["Retry-After"]) <= 60
        assert client.get("/v1/conversations", headers=right).status_code == 200
        # What shows no secret is no attempt.
        assert_problem(client.get("/v1/conversations"), "authentication_required")
    with from_address() as elsewhere:
        assert_problem(elsewhere.get("/v1/conversations", headers=wrong), "invalid_credentials")


def fail(client: httpx.Client, times: int, forwarded: str) -> list[int]:
    headers = {**basic("nobody", "msk_wrong"), "X-Forwarded-For": forwarded}
    return [client.get("/v1/conversations", headers=headers).status_code for _ in range(times)]


def test_a_forwarded_address_is_not_believed_without_a_configured_proxy() -> None:
    with from_address() as client:
        statuses = [fail(client, 1, f"192.0.2.{number}")[0] for number in range(21)]
    assert statuses == [401] * 20 + [429]


def test_of_forwarded_addresses_only_that_of_the_configured_number_of_proxies_counts(settings: Settings) -> None:
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "NUM_PROXIES": 1}
    marker = new_id()  # no other test's address
    with from_address() as client:
        # What stands further left was written by the client itself.
        statuses = [fail(client, 1, f"made-up-{number}, {marker}")[0] for number in range(21)]
        assert statuses == [401] * 20 + [429]
        assert fail(client, 1, f"{marker}, {new_id()}") == [401]
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "NUM_PROXIES": 2}
    marker = new_id()
    with from_address() as client:
        statuses = [fail(client, 1, f"made-up-{number}, {marker}, 10.0.0.1")[0] for number in range(21)]
        assert statuses == [401] * 20 + [429]
