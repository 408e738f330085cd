"""Sites at the console."""

import secrets

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memory_site.sites.models import Credential, Site
from tests.conftest import Tenant
from tests.console.conftest import entries

SITES = "/admin/sites/site/"
NO_CREDENTIALS = {"credentials-TOTAL_FORMS": "0", "credentials-INITIAL_FORMS": "0"}


def page(site: Site, name: str) -> str:
    return f"{SITES}{site.pk}/{name}/"


def test_a_site_is_created_named_and_logged(console: Client, operator: User) -> None:
    slug = f"made-{secrets.token_hex(4)}"
    response = console.post(SITES + "add/", {"slug": slug, "name": "Made by hand"}, follow=True)
    assert "It needs a credential before anybody can use it" in response.text
    site = Site.objects.get(slug=slug)
    console.post(page(site, "change"), {"name": "Renamed", "slug": "another", **NO_CREDENTIALS})
    site.refresh_from_db()
    assert (site.slug, site.name) == (slug, "Renamed")
    assert len(entries(operator)) == 2


@pytest.mark.parametrize("slug", ["", "Upper", "-first", "with space", "a" * 64, "ü", "a\x00b", "a\n"])
def test_a_slug_that_does_not_fit_is_refused_beside_its_field(console: Client, slug: str) -> None:
    before = Site.objects.count()
    response = console.post(SITES + "add/", {"slug": slug})
    if slug == "a\n":
        # The form strips it, as it does for everybody who pastes.
        assert response.status_code in (200, 302)
        return
    assert response.status_code == 200
    assert "errorlist" in response.text
    assert Site.objects.count() == before


def test_disabling_says_what_it_does_and_does_it_at_once(
    console: Client, operator: User, tenant: Tenant, client: httpx.Client
) -> None:
    said = console.get(page(tenant.site, "disable")).text
    assert "1 live credential)" in said
    assert client.get("/v1/conversations").status_code == 200, "a page that asks changes nothing"
    console.post(page(tenant.site, "disable"))
    assert client.get("/v1/conversations").status_code == 401
    assert "was disabled already" in console.post(page(tenant.site, "disable"), follow=True).text
    console.post(page(tenant.site, "enable"))
    assert client.get("/v1/conversations").status_code == 200
    assert entries(operator) == ["Enabled.", "Disabled."]


def test_the_effect_and_its_entry_stand_or_fall_together(
    console: Client, operator: User, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the log is full")

    monkeypatch.setattr("memory_site.sites.admin.SiteAdmin.log_change", fail)
    with pytest.raises(RuntimeError):
        console.post(page(tenant.site, "disable"))
    tenant.site.refresh_from_db()
    assert tenant.site.disabled_at is None
    assert entries(operator) == []


def test_a_search_finds_slug_and_name_and_a_filter_the_state(console: Client, tenant: Tenant) -> None:
    there = page(tenant.site, "change")
    assert there in console.get(SITES, {"q": tenant.site.slug[5:]}).text
    assert there not in console.get(SITES, {"q": tenant.site.slug, "state": "disabled"}).text
    tenant.site.disable()
    assert there in console.get(SITES, {"q": tenant.site.slug, "state": "disabled"}).text


def test_who_may_only_look_sees_no_button_and_changes_nothing(watching: Client, tenant: Tenant, viewer: User) -> None:
    looked_at = watching.get(page(tenant.site, "change"))
    assert looked_at.status_code == 200
    for button in ("/disable/", "/enable/", "credential/add", "_save", 'type="submit" value="Save"'):
        assert button not in looked_at.text
    assert "site/add" not in watching.get(SITES).text
    for name in ("disable", "enable"):
        assert watching.get(page(tenant.site, name)).status_code == 403
        assert watching.post(page(tenant.site, name)).status_code == 403
    assert watching.post(page(tenant.site, "change"), {"name": "mine"}).status_code == 403
    assert watching.post(SITES + "add/", {"slug": "mine-now"}).status_code == 403
    tenant.site.refresh_from_db()
    assert (tenant.site.name, tenant.site.disabled_at) == ("A site", None)
    assert entries(viewer) == []


def test_a_site_is_never_deleted(console: Client, tenant: Tenant) -> None:
    assert console.post(page(tenant.site, "delete"), {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [str(tenant.site.pk)], "post": "yes"}
    console.post(SITES, chosen)
    assert Site.objects.filter(pk=tenant.site.pk).exists()


def test_the_list_and_a_page_cost_the_same_for_few_and_many(console: Client, tenant: Tenant) -> None:
    def cost(address: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert console.get(address).status_code == 200
        return len(captured)

    cost(SITES)
    few = cost(SITES), cost(page(tenant.site, "change"))
    for _ in range(30):
        Credential.issue(site=tenant.site)
        Site.objects.create(slug=f"many-{secrets.token_hex(8)}")
    assert (cost(SITES), cost(page(tenant.site, "change"))) == few
    assert max(few) <= 10
