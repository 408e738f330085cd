"""The operators' pages of namespaces, records and checkpoints."""

import re
import secrets
from html import unescape
from io import StringIO
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from checkpoints.models import namespace_key
from tests.calls import bundle, put_record, save
from tests.conftest import Server, Tenant
from tests.console.conftest import signed_in

NAMESPACES = "/admin/checkpoints/namespace/"
PAGES = ("change", "records", "record", "sessions", "chain", "checkpoint")


@pytest.fixture
def name() -> str:
    return f"namespace-{secrets.token_hex(8)}"


@pytest.fixture
def key(tenant: Tenant, name: str) -> UUID:
    return namespace_key(tenant.site, name)


def page(console: Client, key: UUID, which: str, /, **query: Any) -> str:
    response = console.get(f"{NAMESPACES}{key}/{which}/", query)
    assert response.status_code == 200, response.status_code
    return response.text


def test_a_namespace_is_found_and_says_its_policy(
    console: Client, client: httpx.Client, tenant: Tenant, name: str, key: UUID
) -> None:
    put_record(client, name, "a", "1")
    listed = console.get(NAMESPACES, {"q": name[:20]}).text
    assert str(key) in listed
    assert "kept until deleted" in page(console, key, "change")
    call_command(
        "set_namespace", tenant.site.slug, name, "--max-records", "1500", "--default-ttl", "60", stdout=StringIO()
    )
    text = page(console, key, "change")
    assert "live 60 s" in text
    assert "1,500 at most" in text


def test_every_key_is_listed_and_leads_to_its_value(
    console: Client, server: Server, tenant: Tenant, name: str, key: UUID
) -> None:
    keys = ["a/b", "100%", "a b/", "?x=1&y#z", "é\N{GRINNING FACE}", "<b>bold</b>", "%2F", "+"]
    with tenant.client(server.address) as client:
        for number, one in enumerate(keys):
            assert (
                put_record(client, name, one, f'{{"number":{number},"kind":"fact","tags":["<i>"]}}').status_code == 201
            )
    text = page(console, key, "records")
    assert "<b>bold" not in text
    assert "<i>" not in text
    links = re.findall(r'href="([^"]*/record/\?key=[^"]*)"', text)
    assert len(links) == len(keys)
    found = {}
    for link in links:
        response = console.get(unescape(link))
        assert response.status_code == 200
        (number,) = re.findall(r"&quot;number&quot;: (\d)", response.text)
        found[int(number)] = response.text
        (raw,) = re.findall(r'href="(\?key=[^"]*raw)"', response.text)
        sent = console.get(unescape(link).partition("?")[0] + unescape(raw))
        assert sent["Content-Type"].startswith("text/plain")
        assert sent.content.startswith(b'{"number":%d,' % int(number))
    assert sorted(found) == list(range(len(keys)))
    assert "&lt;b&gt;bold&lt;/b&gt;" in found[5]
    assert "é\N{GRINNING FACE}" in found[4]


def test_records_are_paged_and_filtered(console: Client, client: httpx.Client, name: str, key: UUID) -> None:
    for number in range(60):
        put_record(client, name, f"k{number:02}", '{"kind":"%s"}' % ("fact" if number % 2 else "task"))
    first = page(console, key, "records")
    assert "50 records" in first
    (following,) = re.findall(r'href="\?([^"]*)" rel="next"', first)
    second = console.get(f"{NAMESPACES}{key}/records/?{unescape(following)}").text
    assert "10 records" in second
    assert 'rel="next"' not in second
    assert "30 records" in page(console, key, "records", kind="fact")
    assert "10 records" in page(console, key, "records", key="k0")
    assert "No record fits this search." in page(console, key, "records", key="x")
    assert "cursor is not one of this list" in page(console, key, "records", cursor="x")


def test_a_checkpoint_can_be_read(console: Client, client: httpx.Client, name: str, key: UUID) -> None:
    put_record(client, name, "ok", "1")
    put_record(client, name, "changed", "1")
    references = [{"namespace": name, "key": one, "revision": 1} for one in ("ok", "changed", "missing")]
    body = bundle("checkpoint-1", goal="Reach <b>it</b>\u202e", references=references, details={"a": [1, "<script>"]})
    body["capsule"]["constraints"] = ["No downtime", "<img>"]
    assert save(client, name, body).status_code == 201
    put_record(client, name, "changed", "2")
    text = page(console, key, "checkpoint", id="checkpoint-1")
    assert "Reach &lt;b&gt;it&lt;/b&gt;" in text
    assert "U+202E" in text
    assert "No downtime" in text
    for markup in ("<b>it", "<img>", "<script>"):
        assert markup not in text
    assert re.findall(r'<span class="state[^"]*">(\w+)</span>', text) == ["ok", "changed", "missing"]
    assert ", now 2" in text


def test_the_chain_of_a_session_is_shown_with_what_was_deleted(
    console: Client, client: httpx.Client, name: str, key: UUID
) -> None:
    for number in range(60):
        assert save(client, name, bundle(f"checkpoint-{number:02}", expected_revision=number)).status_code == 201
    client.delete(f"/v1/namespaces/{name}/checkpoints/checkpoint-58")
    assert "checkpoint-59" in page(console, key, "sessions")
    text = page(console, key, "chain", agent="coder", session="one")
    assert len(re.findall(r"/checkpoint/\?id=checkpoint-\d\d", text)) == 49
    assert text.index("checkpoint-59") < text.index("checkpoint-58") < text.index("checkpoint-57")
    assert (text.count(">deleted<"), text.count(">latest<")) == (1, 1)
    (following,) = re.findall(r'href="\?([^"]*)" rel="next"', text)
    rest = console.get(f"{NAMESPACES}{key}/chain/?{unescape(following)}").text
    assert len(re.findall(r"/checkpoint/\?id=checkpoint-\d\d", rest)) == 10
    assert console.get(f"{NAMESPACES}{key}/checkpoint/", {"id": "checkpoint-58"}).status_code == 404


def test_sessions_are_paged(console: Client, client: httpx.Client, name: str, key: UUID) -> None:
    for number in range(55):
        save(client, name, bundle(f"checkpoint-{number}", agent_id=f"agent-{number % 5}", session_id=f"s{number:02}"))
    first = page(console, key, "sessions")
    (following,) = re.findall(r'href="\?([^"]*)" rel="next"', first)
    second = console.get(f"{NAMESPACES}{key}/sessions/?{unescape(following)}").text
    seen = re.findall(r"session=(s\d\d)", first)[:-1] + re.findall(r"session=(s\d\d)", second)
    assert len(seen) == len(set(seen)) == 55


def test_what_is_not_there_is_not_found(console: Client, client: httpx.Client, name: str, key: UUID) -> None:
    put_record(client, name, "a", "1")
    for which, query in (
        ("record", {}),
        ("record", {"key": "b"}),
        ("record", {"key": "\0"}),
        ("record", {"key": ".."}),
        ("checkpoint", {}),
        ("checkpoint", {"id": "checkpoint-9"}),
        ("checkpoint", {"id": "\0"}),
        ("chain", {}),
        ("chain", {"agent": "a", "session": "\0"}),
        ("chain", {"agent": "a", "session": "b", "before": "x" * 50}),
    ):
        assert console.get(f"{NAMESPACES}{key}/{which}/", query).status_code == 404, (which, query)
    for which in PAGES[1:]:
        assert console.get(f"{NAMESPACES}{UUID(int=5)}/{which}/").status_code == 404
        assert console.get(f"{NAMESPACES}nonsense/{which}/").status_code == 404


def test_who_may_look_can_change_nothing_and_others_see_nothing(
    watching: Client, make_staff: Any, client: httpx.Client, name: str, key: UUID
) -> None:
    put_record(client, name, "a", "1")
    save(client, name, bundle("checkpoint-1"))
    queries = {
        "record": {"key": "a"},
        "chain": {"agent": "coder", "session": "one"},
        "checkpoint": {"id": "checkpoint-1"},
    }
    nobody: User = make_staff()
    for which in PAGES:
        address = f"{NAMESPACES}{key}/{which}/"
        text = page(watching, key, which, **queries.get(which, {}))
        assert 'name="_save"' not in text
        assert signed_in(nobody).get(address, queries.get(which, {})).status_code == 403
        assert Client(headers={"host": "localhost"}).get(address).status_code == 302
    assert watching.post(f"{NAMESPACES}{key}/change/", {"max_records": "1"}).status_code == 403
    assert watching.get(f"{NAMESPACES}add/").status_code == 403
    assert watching.post(f"{NAMESPACES}{key}/delete/", {"post": "yes"}).status_code == 403
