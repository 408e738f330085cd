"""The life of a credential: issued, used beside another, revoked; and the site's own switch."""

import httpx
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory_site.sites.models import Credential, Site
from tests.calls import append, assert_problem
from tests.conftest import Server, Tenant


def credential_of(tenant: Tenant) -> Credential:
    return Credential.objects.for_site(tenant.site).get(hint=tenant.secret[:8])


def test_two_secrets_are_live_at_once_and_a_revoked_one_fails_on_the_very_next_request(
    server: Server, tenant: Tenant, conversation_id: str
) -> None:
    new = tenant.with_permissions("put", "get", "list", "delete")
    with tenant.client(server.address) as before, new.client(server.address) as after:
        for _ in range(4):  # each of the workers has seen both
            assert append(before, conversation_id).status_code == 201
            assert append(after, conversation_id).status_code == 201
        assert credential_of(tenant).revoke() is True
        assert_problem(append(before, conversation_id), "invalid_credentials")
        assert append(after, conversation_id).status_code == 201
        assert credential_of(tenant).revoke() is False
        assert after.get(f"/v1/conversations/{conversation_id}/recall").json()["items"][-1]["seq"] == 8


def test_a_disabled_site_is_closed_from_the_next_request_on_and_loses_nothing(
    client: httpx.Client, tenant: Tenant, conversation_id: str
) -> None:
    append(client, conversation_id)
    Site.objects.filter(pk=tenant.site.pk).update(disabled_at="2026-01-01T00:00:00Z")
    assert_problem(append(client, conversation_id), "invalid_credentials")
    Site.objects.filter(pk=tenant.site.pk).update(disabled_at=None)
    assert append(client, conversation_id).json()["first_seq"] == 1


def test_its_use_is_noted_at_most_every_ten_minutes(client: httpx.Client, tenant: Tenant) -> None:
    assert credential_of(tenant).last_used_at is None
    client.get("/v1/conversations")
    first = credential_of(tenant).last_used_at
    assert first is not None
    client.get("/v1/conversations")
    assert credential_of(tenant).last_used_at == first
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE credential SET last_used_at = now() - interval '11 minutes' WHERE site_id = %s::uuid",
            [tenant.site.id],
        )
    client.get("/v1/conversations")
    later = credential_of(tenant).last_used_at
    assert later is not None
    assert later >= first


def test_a_permission_that_is_taken_away_is_gone_on_the_next_request(
    client: httpx.Client, tenant: Tenant, conversation_id: str
) -> None:
    append(client, conversation_id)
    Credential.objects.for_site(tenant.site).update(permissions=["get"])
    assert_problem(append(client, conversation_id), "permission_denied", permission="put")


def test_a_wrong_secret_costs_one_query_like_a_right_one(tenant: Tenant) -> None:
    with tenant.client() as client:
        client.get("/v1/conversations")
        with CaptureQueriesContext(connection) as right:
            client.get("/v1/conversations/abcdefgh/recall")
        with CaptureQueriesContext(connection) as wrong:
            client.get("/v1/conversations/abcdefgh/recall", auth=(tenant.site.slug, "msk_wrong"))
        with CaptureQueriesContext(connection) as unknown:
            client.get("/v1/conversations/abcdefgh/recall", auth=("nobody", "msk_wrong"))
    assert (len(right), len(wrong), len(unknown)) == (2, 1, 1)
