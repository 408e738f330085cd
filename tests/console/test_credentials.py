"""Credentials at the console: the secret once, rotation without a gap, revocation at once."""

import re
import uuid

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memory_site.sites.credentials import Revoked, rotate
from memory_site.sites.models import Credential
from tests.conftest import Tenant
from tests.console.conftest import entries

CREDENTIALS = "/admin/sites/credential/"
SECRET = re.compile(r"msk_[A-Za-z0-9_-]{43}")


def page(credential: Credential, name: str) -> str:
    return f"{CREDENTIALS}{credential.pk}/{name}/"


def form_of(tenant: Tenant, *permissions: str, **values: str) -> dict[str, object]:
    return {"site": str(tenant.site.pk), "name": "A robot", "permissions": permissions or ("get", "list"), **values}


def secret_in(text: str) -> str:
    found: str = SECRET.findall(text)[0]
    return found


def opens(tenant: Tenant, secret: str) -> bool:
    with Tenant(tenant.site, secret).client() as client:
        return client.get("/v1/conversations").status_code == 200


@pytest.fixture
def credential(tenant: Tenant) -> Credential:
    """The one that a site has from the start."""
    return Credential.objects.get(site=tenant.site)


def test_the_secret_is_shown_once_and_kept_nowhere(console: Client, operator: User, tenant: Tenant) -> None:
    response = console.post(CREDENTIALS + "add/", form_of(tenant, form_id=uuid.uuid4().hex))
    assert response.status_code == 200
    assert "no-store" in response.headers["Cache-Control"]
    secret = secret_in(response.text)
    assert opens(tenant, secret)
    created = Credential.objects.get(site=tenant.site, name="A robot")
    assert created.permissions == ["get", "list"]
    digest = bytes(created.digest).hex()
    for address in (
        CREDENTIALS,
        page(created, "change"),
        page(created, "history"),
        "/admin/",
        "/admin/admin/logentry/",
    ):
        text = console.get(address).text
        assert secret not in text
        assert digest not in text
    assert secret not in repr(console.cookies)
    for session in Session.objects.all():
        assert secret not in repr(session.get_decoded())
    assert entries(operator) == ["Created with permissions get, list."]


def test_a_page_that_is_reloaded_creates_no_second_one(console: Client, tenant: Tenant, credential: Credential) -> None:
    form = form_of(tenant, form_id=uuid.uuid4().hex)
    console.post(CREDENTIALS + "add/", form)
    again = console.post(CREDENTIALS + "add/", form, follow=True)
    assert "had been sent already" in again.text
    assert not SECRET.search(again.text)
    rotation = {"form_id": uuid.uuid4().hex}
    console.post(page(credential, "rotate"), rotation)
    assert "had been sent already" in console.post(page(credential, "rotate"), rotation, follow=True).text
    assert Credential.objects.filter(site=tenant.site).count() == 3


def test_a_credential_without_permissions_or_with_an_unknown_one_is_refused(console: Client, tenant: Tenant) -> None:
    for permissions in ([], ["get", "everything"]):
        form = {**form_of(tenant), "permissions": permissions}
        response = console.post(CREDENTIALS + "add/", form)
        assert response.status_code == 200
        assert "errorlist" in response.text
    assert Credential.objects.filter(site=tenant.site).count() == 1


def test_rotation_leaves_the_old_secret_live(
    console: Client, operator: User, tenant: Tenant, credential: Credential
) -> None:
    assert "stays live until you revoke it" in console.get(page(credential, "rotate")).text
    new = secret_in(console.post(page(credential, "rotate"), {"form_id": uuid.uuid4().hex}).text)
    assert opens(tenant, tenant.secret)
    assert opens(tenant, new)
    successor = Credential.objects.exclude(pk=credential.pk).get(site=tenant.site)
    assert successor.permissions == credential.permissions
    assert entries(operator)[0] == f"Rotated: {successor.hint}… takes its place."


def test_revocation_says_what_it_does_and_is_at_once(
    console: Client, operator: User, tenant: Tenant, credential: Credential
) -> None:
    said = console.get(page(credential, "revoke")).text
    assert f"The secret {credential.hint}… of {tenant.site.slug} is refused from the next request on." in said
    assert opens(tenant, tenant.secret)
    console.post(page(credential, "revoke"))
    assert not opens(tenant, tenant.secret)
    assert entries(operator) == ["Revoked."]


def test_what_is_revoked_is_neither_rotated_nor_changed_nor_revoked_again(
    console: Client, operator: User, tenant: Tenant, credential: Credential
) -> None:
    credential.revoke()
    response = console.post(page(credential, "rotate"), {"form_id": uuid.uuid4().hex}, follow=True)
    assert "is revoked: create a new one" in response.text
    assert "was revoked already" in console.post(page(credential, "revoke"), follow=True).text
    assert console.post(page(credential, "change"), {"name": "x", "permissions": ["manage"]}).status_code == 403
    looked_at = console.get(page(credential, "change")).text
    assert "/revoke/" not in looked_at
    assert "/rotate/" not in looked_at
    with pytest.raises(Revoked):
        rotate(credential)
    assert Credential.objects.filter(site=tenant.site).count() == 1
    assert entries(operator) == []


def test_permissions_are_changed_for_the_next_request(
    console: Client, operator: User, tenant: Tenant, credential: Credential
) -> None:
    console.post(page(credential, "change"), {"name": "", "permissions": ["put"]})
    assert not opens(tenant, tenant.secret)
    credential.refresh_from_db()
    assert credential.permissions == ["put"]
    assert entries(operator) == ["Permissions are now put."]


def test_several_are_revoked_after_a_page_that_names_them(console: Client, operator: User, tenant: Tenant) -> None:
    others = [Credential.issue(site=tenant.site)[0] for _ in range(2)]
    chosen = {"action": "revoke_selected", "_selected_action": [str(other.pk) for other in others]}
    asked = console.post(CREDENTIALS, chosen)
    for other in others:
        assert f"{other.hint}… of {tenant.site.slug}" in asked.text
    assert Credential.objects.filter(site=tenant.site).live().count() == 3
    console.post(CREDENTIALS, {**chosen, "confirmed": "yes"})
    assert Credential.objects.filter(site=tenant.site).live().count() == 1
    assert entries(operator) == ["Revoked.", "Revoked."]


def test_of_several_all_are_revoked_or_none(
    console: Client, operator: User, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [Credential.issue(site=tenant.site)[0] for _ in range(2)]
    seen: list[object] = []

    def fail_at_the_second(_: object, __: object, obj: object, ___: object) -> None:
        seen.append(obj)
        if len(seen) == 2:
            raise RuntimeError("the log is full")

    monkeypatch.setattr("memory_site.sites.admin.CredentialAdmin.log_change", fail_at_the_second)
    chosen = {"action": "revoke_selected", "_selected_action": [str(other.pk) for other in others], "confirmed": "yes"}
    with pytest.raises(RuntimeError):
        console.post(CREDENTIALS, chosen)
    assert Credential.objects.filter(site=tenant.site).live().count() == 3


def test_who_may_only_look_sees_no_button_and_changes_nothing(
    watching: Client, viewer: User, tenant: Tenant, credential: Credential
) -> None:
    listed, looked_at = watching.get(CREDENTIALS), watching.get(page(credential, "change"))
    for button in ("/add/", "revoke_selected", "/rotate/", "/revoke/", "_save"):
        assert button not in listed.text + looked_at.text
    for name in ("rotate", "revoke"):
        assert watching.get(page(credential, name)).status_code == 403
        assert watching.post(page(credential, name), {"form_id": "x"}).status_code == 403
    assert watching.post(page(credential, "change"), {"name": "x", "permissions": ["manage"]}).status_code == 403
    assert watching.post(CREDENTIALS + "add/", form_of(tenant)).status_code == 403
    chosen = {"action": "revoke_selected", "_selected_action": [str(credential.pk)], "confirmed": "yes"}
    watching.post(CREDENTIALS, chosen)
    assert opens(tenant, tenant.secret)
    assert Credential.objects.filter(site=tenant.site).count() == 1
    assert entries(viewer) == []


def test_the_list_costs_the_same_for_few_and_many(console: Client, tenant: Tenant) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert console.get(CREDENTIALS, {"q": tenant.site.slug}).status_code == 200
        return len(captured)

    few = cost()
    for _ in range(40):
        Credential.issue(site=tenant.site)
    assert cost() == few
    assert few <= 8
