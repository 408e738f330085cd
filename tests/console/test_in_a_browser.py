"""The console as people have it: a real browser, the real policy, both colour schemes, wide and narrow."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import axe_playwright_python
import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection
from playwright.sync_api import Browser, Page

from checkpoints.models import namespace_key
from memory_site.sites.models import Credential
from tests.browser import browser, page_of
from tests.calls import bundle, put_record, save
from tests.conftest import Server, Tenant, make_tenant
from tests.console.conftest import PASSWORD, fill, make_hole
from tests.console.test_transcript import HOSTILE

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
SERIOUS = ("serious", "critical")
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as patch, browser() as started:
        # Playwright keeps a loop in this thread, and Django would take these tests for asynchronous code.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield started
        # While the loop runs, Django keeps a connection of its own for this thread.
        connection.close()


def log_in(page: Page, server: Server, user: User) -> None:
    page.goto(server.address + "/admin/")
    page.fill("#id_username", user.username)
    page.fill("#id_password", PASSWORD)
    page.click("input[type=submit]")
    page.wait_for_selector("#user-tools")


def keep(page: Page, name: str) -> None:
    """Take a picture, for whoever asks for pictures."""
    if folder := os.environ.get("MEMORY_SITE_TEST_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"console-{name}.png", full_page=True)


def speak(client: httpx.Client, conversation_id: str, *payloads: str) -> None:
    body = '{"items":[' + ",".join(payloads) + "]}"
    headers = {"Content-Type": "application/json"}
    client.post(f"/v1/conversations/{conversation_id}/items", content=body, headers=headers).raise_for_status()


def memory_pages(tenant: Tenant, client: httpx.Client) -> dict[str, str]:
    """The address of every kind of page about records and checkpoints."""
    name = f"project-{tenant.site.slug}"
    put_record(client, name, "decisions/database", HOSTILE["markup"])
    put_record(client, name, "k" * 512, '{"kind":"fact","tags":["a","b"],"content":"short"}', query="?ttl=600")
    references = [{"namespace": name, "key": one, "revision": 1} for one in ("decisions/database", "k" * 512, "gone")]
    hostile = "</pre><script>alert(1)</script>\u202e" + "W" * 300
    body = bundle("checkpoint-1", goal=hostile, references=references, details={"branch": "main", "failing": [hostile]})
    body["capsule"] |= {"constraints": ["No downtime", hostile], "open_tasks": ["Write the documentation"]}
    save(client, name, body)
    save(client, name, bundle("checkpoint-2", expected_revision=1))
    namespaces = "/admin/checkpoints/namespace/"
    namespace = f"{namespaces}{namespace_key(tenant.site, name)}"
    return {
        "namespaces": f"{namespaces}?q={name}",
        "namespace": f"{namespace}/change/",
        "records": f"{namespace}/records/",
        "records-none": f"{namespace}/records/?key=nothing",
        "record": f"{namespace}/record/?key=decisions/database",
        "sessions": f"{namespace}/sessions/",
        "chain": f"{namespace}/chain/?agent=coder&session=one",
        "checkpoint": f"{namespace}/checkpoint/?id=checkpoint-1",
    }


@pytest.fixture
def pages(tenant: Tenant, client: httpx.Client, spoken: Callable[..., UUID]) -> dict[str, str]:
    """The address of every kind of page, of a site that has something to show."""
    (live,) = Credential.objects.filter(site=tenant.site)
    revoked, _ = Credential.issue(site=tenant.site, name="of yesterday")
    revoked.revoke()
    hostile, broken = spoken(*HOSTILE.values()), spoken(*['{"role":"user","content":"x"}'] * 9)
    make_hole(broken, 5)
    conversations, site = "/admin/conversations/conversation/", f"/admin/sites/site/{tenant.site.pk}"
    credentials = "/admin/sites/credential/"
    return {
        "overview": "/admin/",
        "sites": "/admin/sites/site/",
        "site": f"{site}/change/",
        "site-add": "/admin/sites/site/add/",
        "site-disable": f"{site}/disable/",
        "site-history": f"{site}/history/",
        "credentials": f"{credentials}?q={tenant.site.slug}",
        "credential": f"{credentials}{live.pk}/change/",
        "credential-revoked": f"{credentials}{revoked.pk}/change/",
        "credential-add": f"{credentials}add/?site={tenant.site.pk}",
        "rotate": f"{credentials}{live.pk}/rotate/",
        "revoke": f"{credentials}{live.pk}/revoke/",
        "conversations": f"{conversations}?site={tenant.site.slug}",
        "conversations-none": f"{conversations}?q=nothing-begins-so",
        "conversations-wrong": f"{conversations}?q=a+b&site=nowhere&within=day&since=2026-01-01T00:00",
        "conversation": f"{conversations}{hostile}/change/",
        "transcript": f"{conversations}{hostile}/transcript/",
        "transcript-broken": f"{conversations}{broken}/transcript/",
        "export": f"{conversations}{broken}/export/",
        **memory_pages(tenant, client),
        "log": "/admin/admin/logentry/",
        "users": "/admin/auth/user/",
        "user-add": "/admin/auth/user/add/",
        "groups": "/admin/auth/group/add/",
        "password": "/admin/password_change/",
        "app": "/admin/sites/",
    }


def test_no_page_breaks_the_policy_or_runs_over_its_edge(
    running: Browser, server: Server, operator: User, pages: dict[str, str]
) -> None:
    for scheme, width in (("light", 1280), ("dark", 390)):
        size = {"width": width, "height": 900}
        with page_of(running, scheme=scheme, viewport=size) as page:  # type: ignore[arg-type]  # one of both
            page.goto(server.address + "/admin/")
            keep(page, f"login-{scheme}-{width}")
            log_in(page, server, operator)
            for name, address in {**pages, "user": f"/admin/auth/user/{operator.pk}/change/"}.items():
                answer = page.goto(server.address + address)
                assert answer is not None
                assert answer.status == 200, name
                keep(page, f"{name}-{scheme}-{width}")
                assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_axe_finds_nothing_serious(
    running: Browser, server: Server, operator: User, pages: dict[str, str], scheme: Scheme, width: int
) -> None:
    # Only axe is let past the policy; the test above has no such context.
    context = running.new_context(
        bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    page = context.new_page()
    found: dict[str, list[Any]] = {}
    try:
        page.goto(server.address + "/admin/")
        check(page, "login", found)
        log_in(page, server, operator)
        everything = {**pages, "user": f"/admin/auth/user/{operator.pk}/change/", "not-found": "/admin/nothing/"}
        for name, address in everything.items():
            page.goto(server.address + address)
            check(page, name, found)
    finally:
        context.close()
    assert found == {}


def check(page: Page, name: str, found: dict[str, list[Any]]) -> None:
    # The policy's own test does not see closed folds: open them.
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")
    page.evaluate(AXE)
    violations = page.evaluate("axe.run({resultTypes: ['violations']}).then(result => result.violations)")
    serious = [
        (violation["id"], violation["nodes"][0]["html"][:200], violation["nodes"][0]["failureSummary"])
        for violation in violations
        if violation["impact"] in SERIOUS
    ]
    if serious:
        found[name] = serious


def test_a_credential_s_whole_life(running: Browser, server: Server, operator: User, tenant: Tenant) -> None:
    with page_of(running, accept_downloads=True) as page:
        log_in(page, server, operator)
        page.goto(f"{server.address}/admin/sites/site/{tenant.site.pk}/change/")
        page.click("text=Create a credential")
        page.fill("#id_name", "A robot")
        page.uncheck("text=delete: remove single things")
        page.click("text=Save")
        secret = page.input_value("#secret")
        keep(page, "secret")
        robot = Tenant(tenant.site, secret)
        with robot.client(server.address) as client:
            speak(client, "life-of-a-credential", '{"role":"user","content":"hello"}')
            page.click("text=I have it")
            assert secret not in page.content()
            page.fill("#id_name", "Robot one")
            page.click("text=Save")
            page.click("text=Robot one >> nth=-1")
            page.click("text=Rotate")
            page.click("button:has-text('Create the new secret')")
            successor = page.input_value("#secret")
            page.go_back()
            page.go_back()
            page.click("text=Revoke")
            keep(page, "revoke-in-life")
            page.click("button.grave")
            page.wait_for_selector("text=is revoked: its secret is refused from now on")
            assert client.get("/v1/conversations").status_code == 401
        with Tenant(tenant.site, successor).client(server.address) as client:
            assert client.get("/v1/conversations").status_code == 200


def test_an_operator_reads_and_exports_a_long_conversation(
    running: Browser, server: Server, operator: User, tenant: Tenant, tmp_path: Path
) -> None:
    fill(tenant, items=2_000)
    with page_of(running, accept_downloads=True) as page:
        log_in(page, server, operator)
        page.goto(f"{server.address}/admin/conversations/conversation/")
        page.fill("#id_site", tenant.site.slug)
        page.click("button:has-text('Search')")
        page.click("td >> text=Transcript")
        page.wait_for_selector("#item-1999")
        page.click("text=First >> nth=0")
        page.wait_for_selector("#item-0")
        page.click("text=Next >> nth=-1")
        page.wait_for_selector("#item-50")
        page.fill("#from", "1,234")
        page.click("button:has-text('Go')")
        page.wait_for_selector("#item-1234")
        assert page.locator("li.entry").count() == 50
        page.click("#item-1240 summary")
        assert '"content": "number 1240"' in page.locator("#item-1240 pre").inner_text()
        page.click(".breadcrumbs a >> nth=-1")
        page.click("text=Export")
        with page.expect_download() as download:
            page.click("button:has-text('Export')")
        saved = tmp_path / "export.jsonl"
        download.value.save_as(saved)
        lines = saved.read_text().splitlines()
        assert len(lines) == 2_000
        assert json.loads(lines[-1])["payload"]["content"] == "number 1999"


def test_stored_text_runs_nothing(running: Browser, server: Server, operator: User, pages: dict[str, str]) -> None:
    with page_of(running) as page:
        opened: list[str] = []
        page.on("dialog", lambda dialog: opened.append(dialog.message))
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        log_in(page, server, operator)
        page.goto(server.address + pages["transcript"])
        assert page.locator("ol.transcript script, ol.transcript img").count() == 0
        assert page.locator("li.entry").count() == len(HOSTILE)
        assert opened == []
        assert [url for url in requests if not url.startswith(server.address)] == []


def test_the_theme_is_the_operator_s_choice(running: Browser, server: Server, operator: User) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with page_of(running, scheme="light") as page:
        log_in(page, server, operator)
        light = page.evaluate(colour)
        page.click(".theme-toggle >> nth=0")
        dark = page.evaluate(colour)
        assert dark != light
        page.reload()
        assert page.evaluate(colour) == dark
        page.click(".theme-toggle >> nth=0")
        assert page.evaluate(colour) == light


def test_of_two_operators_each_sees_what_both_did(
    running: Browser, server: Server, operator: User, viewer: User, pages: dict[str, str]
) -> None:
    site = make_tenant().site
    with page_of(running) as acting, page_of(running) as looking:
        log_in(acting, server, operator)
        log_in(looking, server, viewer)
        acting.goto(f"{server.address}/admin/sites/site/{site.pk}/disable/")
        acting.click("button:has-text('Disable the site')")
        acting.wait_for_selector("text=is disabled: its credentials are refused")
        looking.goto(f"{server.address}/admin/admin/logentry/?q={site.slug}")
        assert "Disabled." in looking.content()
        assert operator.username in looking.content()
        looking.goto(f"{server.address}/admin/sites/site/{site.pk}/change/")
        assert "disabled since" in looking.content()
        assert looking.locator("text=Enable").count() == 0
        assert looking.locator("#content input:not([type=hidden]), #content button").count() == 0
