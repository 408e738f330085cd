"""Finding a conversation among all of all sites."""

import re
import secrets
from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from conversations.inspection import Search, find_conversations
from tests.calls import append
from tests.conftest import Tenant
from tests.console.conftest import fill, signed_in

CONVERSATIONS = "/admin/conversations/conversation/"
LINK = re.compile(r"/admin/conversations/conversation/([0-9a-f-]{36})/change/")
NEXT = re.compile(r'href="\?([^"]*)" rel="next"')


def listed(console: Client, **query: Any) -> list[UUID]:
    response = console.get(CONVERSATIONS, query)
    assert response.status_code == 200
    return [UUID(key) for key in LINK.findall(response.text)]


def add_conversations(tenant: Tenant, count: int, *, prefix: str = "counted-", minutes_apart: int = 1) -> None:
    """Store conversations without items; the first of them was appended to last."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO conversation"
            " (id, site_id, conversation_id, generation, first_seq, next_seq, created_at, last_appended_at)"
            " SELECT gen_random_uuid(), %s::uuid, %s::text || lpad(n::text, 6, '0'), 0, 0, 1,"
            "        now() - n * %s::int * interval '1 minute', now() - n * %s::int * interval '1 minute'"
            " FROM generate_series(1, %s::int) AS n",
            [tenant.site.id, prefix, minutes_apart, minutes_apart, count],
        )


def test_the_newest_of_all_sites_come_first(
    console: Client, spoken: Callable[..., UUID], other_client: httpx.Client
) -> None:
    first = spoken("{}")
    append(other_client, f"between-{secrets.token_hex(4)}")
    last = spoken("{}")
    found = listed(console)
    assert found[0] == last
    assert found[2] == first


def test_pages_hold_every_conversation_once(console: Client, tenant: Tenant) -> None:
    add_conversations(tenant, 120)
    query: dict[str, Any] = {"site": tenant.site.slug}
    seen = []
    for _ in range(3):
        response = console.get(CONVERSATIONS, query)
        seen += LINK.findall(response.text)
        following = NEXT.search(response.text)
        query = dict(httpx.QueryParams(following[1].replace("&amp;", "&"))) if following else {}
    assert not following
    assert len(seen) == len(set(seen)) == 120


def test_conversations_of_the_same_moment_and_id_in_two_sites_are_both_listed(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    prefix = f"tied-{secrets.token_hex(4)}-"
    add_conversations(tenant, 30, prefix=prefix, minutes_apart=0)
    add_conversations(other_tenant, 30, prefix=prefix, minutes_apart=0)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE conversation SET created_at = '3000-01-01Z', last_appended_at = '3000-01-01Z'"
            " WHERE conversation_id LIKE %s::text",
            [prefix + "%"],
        )
    for search in (Search(), Search(prefix=prefix)):
        seen: list[object] = []
        cursor_text = None
        while len(seen) < 60:
            found = find_conversations(search, cursor=cursor_text, limit=7)
            seen += [conversation.pk for conversation in found.conversations][: 60 - len(seen)]
            cursor_text = found.next_cursor
        assert len(set(seen)) == 60
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM conversation WHERE conversation_id LIKE %s::text", [prefix + "%"])


def test_an_id_is_found_by_its_beginning_in_every_site(
    console: Client, client: httpx.Client, other_client: httpx.Client
) -> None:
    prefix = f"Look_{secrets.token_hex(4)}-"
    append(client, prefix + "b")
    append(client, prefix + "a")
    append(other_client, prefix + "c")
    append(client, prefix.replace("_", "x") + "d")
    assert len(listed(console, q=prefix)) == 3, "_ stands for itself"
    assert listed(console, q=prefix.lower()) == []
    assert len(listed(console, q=prefix + "a")) == 1


def test_filters_narrow_by_site_and_time(console: Client, tenant: Tenant, other_tenant: Tenant) -> None:
    add_conversations(tenant, 3, minutes_apart=45)
    add_conversations(other_tenant, 1)
    slug = tenant.site.slug
    assert len(listed(console, site=slug)) == 3
    assert len(listed(console, site=slug, within="hour")) == 1
    assert len(listed(console, site=slug, within="day")) == 3
    assert len(listed(console, site=slug, q="counted-000002", within="day")) == 1
    assert listed(console, site=slug, until="2020-01-01T00:00") == []
    assert len(listed(console, site=slug, since="2020-01-01T00:00")) == 3


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"q": "two words"}, "Ids have letters"),
        ({"q": "%"}, "Ids have letters"),
        ({"q": "x" * 65}, "Ids have letters"),
        ({"q": "a\x00"}, "Null characters"),
        ({"site": "no-such-site"}, "There is no site with this slug."),
        ({"within": "century"}, "Select a valid choice"),
        ({"since": "yesterday"}, "Enter a valid date/time."),
        ({"within": "day", "since": "2026-01-01T00:00"}, "Choose a period"),
        ({"cursor": "made-up"}, "not one of this search"),
    ],
)
def test_a_search_that_cannot_be_done_says_why(console: Client, query: dict[str, str], says: str) -> None:
    response = console.get(CONVERSATIONS, query)
    assert response.status_code == 200
    assert says in response.text
    assert LINK.findall(response.text) == []


def test_too_many_to_look_through_still_finds_the_one_with_exactly_that_id(
    console: Client, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = f"exactly-{secrets.token_hex(4)}"
    append(client, exact)
    append(client, exact + "-more")
    # As with a billion conversations, which no statement can read in its time: cancelled, with the same SQLSTATE.
    slow = "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(30) LIMIT {limit}"
    monkeypatch.setattr("conversations.inspection.BY_ID", slow)
    response = console.get(CONVERSATIONS, {"q": exact})
    assert "too many conversations to look through" in response.text
    assert len(LINK.findall(response.text)) == 1


def test_no_conversation_at_all_says_what_will_come(console: Client, tenant: Tenant) -> None:
    assert "No conversation fits this search." in console.get(CONVERSATIONS, {"site": tenant.site.slug}).text


def test_a_page_of_many_costs_what_a_page_of_few_does(console: Client, tenant: Tenant) -> None:
    def cost(**query: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            listed(console, **query)
        return len(captured)

    add_conversations(tenant, 3)
    slug = tenant.site.slug
    cost()
    few = cost(), cost(site=slug), cost(q="counted-", site=slug)
    add_conversations(tenant, 10_000, prefix="more-")
    assert (cost(), cost(site=slug), cost(q="counted-", site=slug)) == few
    assert max(few) <= 6


def test_the_facts_of_a_conversation_cost_the_same_at_any_size(
    console: Client, spoken: Callable[..., UUID], tenant: Tenant
) -> None:
    def cost(key: UUID) -> int:
        with CaptureQueriesContext(connection) as captured:
            response = console.get(f"{CONVERSATIONS}{key}/change/")
        assert response.status_code == 200
        return len(captured)

    small, large = spoken("{}"), fill(tenant, items=10_000)
    cost(small)
    assert cost(small) == cost(large) <= 5
    assert "0 to 9,999" in console.get(f"{CONVERSATIONS}{large}/change/").text


def test_a_conversation_is_not_changed_here_by_anybody(console: Client, spoken: Callable[..., UUID]) -> None:
    key = spoken("{}")
    assert console.post(f"{CONVERSATIONS}{key}/change/", {"conversation_id": "another"}).status_code == 403
    assert console.get(f"{CONVERSATIONS}{key}/delete/").status_code == 403
    assert console.get(f"{CONVERSATIONS}add/").status_code == 403
    assert console.get(f"{CONVERSATIONS}{UUID(int=1)}/transcript/").status_code == 404
    assert console.get(f"{CONVERSATIONS}no-uuid/transcript/").status_code == 404


def test_who_has_no_permission_sees_none_of_it(make_staff: Callable[..., User], spoken: Callable[..., UUID]) -> None:
    nosy = signed_in(make_staff("view_site"))
    key = spoken('{"role":"user","content":"private"}')
    for address in ("", f"{key}/change/", f"{key}/transcript/", f"{key}/items/0/", f"{key}/export/"):
        assert nosy.get(CONVERSATIONS + address).status_code == 403, address
    assert CONVERSATIONS not in nosy.get("/admin/").text
