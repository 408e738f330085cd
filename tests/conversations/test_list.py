"""The list of conversations, over HTTP: most recent first, each once, at any size, by cursor."""

import base64
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from django.db import connection

from conversations.models import Conversation
from tests.calls import append, assert_problem, new_id
from tests.conftest import Server, Tenant

START = datetime(2026, 1, 1, tzinfo=UTC)


def page(client: httpx.Client, **query: Any) -> tuple[list[str], str | None]:
    """Return the ids of a page and the cursor of the next one."""
    response = client.get("/v1/conversations", params={name: value for name, value in query.items() if value})
    assert response.status_code == 200, response.text
    found = response.json()
    assert found.keys() == {"conversations", "next_cursor"}
    return [entry["conversation_id"] for entry in found["conversations"]], found["next_cursor"]


def walk(client: httpx.Client, **query: Any) -> list[list[str]]:
    """Return every page of a listing, to its end."""
    ids, cursor = page(client, **query)
    pages = [ids]
    while cursor is not None:
        ids, cursor = page(client, **query, cursor=cursor)
        pages.append(ids)
    return pages


def ids_of(pages: list[list[str]]) -> list[str]:
    return [conversation_id for ids in pages for conversation_id in ids]


def make(tenant: Tenant, count: int, *, of_one_time: int = 1) -> list[str]:
    """Store conversations of one item each, ``of_one_time`` of them at the same moment; return them as listed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO conversation"
            " (id, site_id, conversation_id, generation, first_seq, next_seq, created_at, last_appended_at)"
            " SELECT gen_random_uuid(), %(site)s::uuid, 'listed-' || lpad(n::text, 6, '0'), 0, 0, 1, t, t"
            " FROM generate_series(0, %(count)s::int - 1) AS n,"
            " LATERAL (SELECT %(start)s::timestamptz - (n / %(each)s::int) * interval '1 s' AS t) AS at",
            {"site": tenant.site.id, "count": count, "each": of_one_time, "start": START},
        )
    return [f"listed-{number:06}" for number in range(count)]


def test_the_most_recently_appended_come_first(client: httpx.Client) -> None:
    one, two, three = new_id(), new_id(), new_id()
    for conversation_id in (one, two, three, one):
        append(client, conversation_id)
    assert page(client) == ([one, three, two], None)


def test_an_entry_says_when_and_nothing_of_what(client: httpx.Client, conversation_id: str) -> None:
    append(client, conversation_id, '{"word":"xylophone"}')
    (first,) = client.get("/v1/conversations").json()["conversations"]
    append(client, conversation_id)
    (entry,) = client.get("/v1/conversations").json()["conversations"]
    assert entry.keys() == {"conversation_id", "created_at", "last_appended_at"}
    recorded = client.get(f"/v1/conversations/{conversation_id}/recall").json()["items"]
    assert entry["created_at"] == first["created_at"] == recorded[0]["recorded_at"]
    assert entry["last_appended_at"] == recorded[1]["recorded_at"]


def test_a_generation_was_created_when_its_first_item_was_recorded_to_the_microsecond(
    client: httpx.Client, conversation_id: str
) -> None:
    for generation in range(12):
        append(client, conversation_id)
        (entry,) = client.get("/v1/conversations").json()["conversations"]
        (item,) = client.get(f"/v1/conversations/{conversation_id}/recall").json()["items"]
        assert entry["created_at"] == entry["last_appended_at"] == item["recorded_at"]
        # As a reset leaves it.
        Conversation.objects.filter(conversation_id=conversation_id).update(
            generation=generation + 1, next_seq=0, created_at=None, last_appended_at=None
        )
    for _ in range(12):
        new = new_id()
        append(client, new)
        entry = client.get("/v1/conversations?limit=1").json()["conversations"][0]
        (item,) = client.get(f"/v1/conversations/{new}/recall").json()["items"]
        assert entry["created_at"] == entry["last_appended_at"] == item["recorded_at"]


def test_equal_times_are_in_the_order_of_their_ids(client: httpx.Client, tenant: Tenant) -> None:
    listed = make(tenant, 25, of_one_time=10)
    assert ids_of(walk(client)) == listed
    assert ids_of(walk(client, limit=3)) == listed


def test_ids_are_in_the_order_of_their_bytes(client: httpx.Client, tenant: Tenant) -> None:
    ids = ["aaaaaaaa", "Zzzzzzzz", "00000000", "________", "--------", "zzzzzzzz", "AAAAAAAA", "aaaaaaaaa"]
    for conversation_id in ids:
        append(client, conversation_id)
    Conversation.objects.for_site(tenant.site).update(last_appended_at=START)
    assert ids_of(walk(client, limit=2)) == sorted(ids)


@pytest.mark.parametrize(("count", "limit", "sizes"), [(6, 3, [3, 3]), (7, 3, [3, 3, 1]), (2, 3, [2]), (0, 3, [0])])
def test_the_last_page_has_no_next_cursor(
    client: httpx.Client, tenant: Tenant, count: int, limit: int, sizes: list[int]
) -> None:
    make(tenant, count)
    assert [len(ids) for ids in walk(client, limit=limit)] == sizes


def test_fifty_are_the_default_and_a_thousand_the_most(client: httpx.Client, tenant: Tenant) -> None:
    listed = make(tenant, 1001)
    assert page(client)[0] == listed[:50]
    assert page(client, limit=1000)[0] == listed[:1000]
    assert page(client, limit=1)[0] == listed[:1]


def test_a_limit_of_nought_is_an_empty_page_without_a_cursor(client: httpx.Client, conversation_id: str) -> None:
    append(client, conversation_id)
    response = client.get("/v1/conversations?limit=0")
    assert response.json() == {"conversations": [], "next_cursor": None}
    assert_problem(client.get("/v1/conversations?limit=0&cursor=x"), "invalid_cursor")


@pytest.mark.parametrize("limit", ["-1", "1001", "1.0", "", "ten", str(2**64)])
def test_a_limit_out_of_bounds_is_refused(client: httpx.Client, limit: str) -> None:
    assert_problem(client.get("/v1/conversations", params={"limit": limit}), "invalid_parameter", field="limit")


def test_a_conversation_without_an_item_is_not_listed(client: httpx.Client, tenant: Tenant) -> None:
    listed = make(tenant, 3)
    # One that only has settings, and one whose items were all removed.
    Conversation.objects.filter(site=tenant.site, conversation_id=listed[0]).update(
        created_at=None, last_appended_at=None, next_seq=0
    )
    Conversation.objects.filter(site=tenant.site, conversation_id=listed[1]).update(first_seq=1)
    assert page(client) == ([listed[2]], None)


def test_while_others_append_every_unchanged_conversation_is_listed_exactly_once(
    server: Server, tenant: Tenant
) -> None:
    listed = make(tenant, 3000, of_one_time=7)
    busy, unchanged = listed[::5], [entry for number, entry in enumerate(listed) if number % 5]
    stop = threading.Event()

    def write() -> None:
        try:
            with tenant.client(server.address) as writer:
                while not stop.is_set():
                    for conversation_id in busy:
                        if not stop.is_set():
                            # By the table, as the keys of these rows are not derived from their ids.
                            Conversation.objects.filter(site=tenant.site, conversation_id=conversation_id).update(
                                last_appended_at=datetime.now(UTC)
                            )
                            append(writer, new_id())
        finally:
            connection.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        with tenant.client(server.address) as client:
            found = ids_of(walk(client, limit=97))
    finally:
        stop.set()
        thread.join()
    assert [entry for entry in found if entry in set(unchanged)] == unchanged


# -- Filters --------------------------------------------------------------------------------------------------


def test_both_bounds_of_time_are_exclusive(client: httpx.Client, tenant: Tenant) -> None:
    listed = make(tenant, 5)
    second = timedelta(seconds=1)

    def text(time: datetime) -> str:
        return time.isoformat().replace("+00:00", "Z")

    assert page(client, appended_after=text(START - 2 * second))[0] == listed[:2]
    assert page(client, appended_before=text(START - 2 * second))[0] == listed[3:]
    assert page(client, appended_after=text(START - 3 * second), appended_before=text(START))[0] == listed[1:3]
    assert page(client, appended_after=text(START))[0] == []
    microsecond = timedelta(microseconds=1)
    assert page(client, appended_after=text(START - microsecond))[0] == listed[:1]


def test_filtered_pages_cover_what_the_filter_lets_through(client: httpx.Client, tenant: Tenant) -> None:
    listed = make(tenant, 40, of_one_time=3)
    pages = walk(client, limit=4, appended_before="2026-01-01T00:00:00Z", appended_after="2025-12-31T23:59:50Z")
    assert ids_of(pages) == listed[3:30]
    assert [len(ids) for ids in pages] == [4] * 6 + [3]


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01t00:00:00z",
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T00:00:00.000000000Z",
        "2026-01-01T01:00:00+01:00",
        "2025-12-31T19:00:00-05:00",
        "2026-01-01T00:00:00-00:00",
    ],
)
def test_every_spelling_of_a_time_is_the_same_moment(client: httpx.Client, tenant: Tenant, time: str) -> None:
    listed = make(tenant, 3)
    assert page(client, appended_before=time)[0] == listed[1:]


@pytest.mark.parametrize(
    ("time", "early"),
    [
        ("0001-01-01T00:00:00Z", True),
        ("0001-01-01T23:59:00+23:59", True),
        ("1970-01-01T00:00:00-23:59", True),
        ("2026-01-01T15:59:59+16:00", True),
        ("2100-01-01T00:00:00+23:59", False),
        ("9999-12-31T23:59:59.999999Z", False),
        ("9999-12-31T00:00:00.999999-23:59", False),
    ],
)
def test_a_time_at_the_ends_of_the_calendar_or_of_the_offsets_is_one_like_others(
    client: httpx.Client, tenant: Tenant, time: str, early: bool
) -> None:
    listed = make(tenant, 1)
    assert page(client, appended_after=time)[0] == (listed if early else [])
    assert page(client, appended_before=time)[0] == ([] if early else listed)


@pytest.mark.parametrize(
    "time",
    [
        *("", "yesterday", "0", "1767225600", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z"),
        *("2026-01-01T00:00Z", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z"),
        *("2026-01-01T00:00:00+0100", "2026-01-01T00:00:00+25:00", "2026-01-01T00:00:00.Z", "20260101T000000Z"),
        *("2026-01-01T00:00:00Z\n", "\u0662026-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z"),
        *("0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "2026-01-01T00:00:00+24:00"),
    ],
)
@pytest.mark.parametrize("name", ["appended_after", "appended_before"])
def test_what_is_no_point_in_time_is_refused(client: httpx.Client, name: str, time: str) -> None:
    response = client.get("/v1/conversations", params={name: time})
    assert_problem(response, "invalid_parameter", field=name)


def test_a_plus_that_is_not_encoded_is_refused_with_what_to_do(client: httpx.Client) -> None:
    response = client.get("/v1/conversations?appended_after=2026-01-01T01:00:00+01:00")
    assert "%2B" in assert_problem(response, "invalid_parameter", field="appended_after")["detail"]


@pytest.mark.parametrize("query", ["tenant=x", "appended_after=2026-01-01T00:00:00Z&order=asc", "conversation_id=x"])
def test_an_unknown_filter_is_refused_not_ignored(client: httpx.Client, query: str) -> None:
    assert_problem(client.get(f"/v1/conversations?{query}"), "invalid_parameter")


# -- Cursors --------------------------------------------------------------------------------------------------


def test_a_cursor_opens_only_the_list_that_it_was_made_by(
    client: httpx.Client, tenant: Tenant, other_client: httpx.Client, other_tenant: Tenant
) -> None:
    listed = make(tenant, 5)
    make(other_tenant, 5)
    _, plain = page(client, limit=2)
    _, filtered = page(client, limit=2, appended_after="2025-01-01T00:00:00Z")
    address = "/v1/conversations"
    assert_problem(other_client.get(address, params={"cursor": plain}), "invalid_cursor")
    assert_problem(client.get(address, params={"cursor": filtered}), "invalid_cursor")
    for other in ({"appended_after": "2025-01-01T00:00:00Z"}, {"appended_before": "2027-01-01T00:00:00Z"}):
        assert_problem(client.get(address, params={"cursor": plain, **other}), "invalid_cursor")
    other = {"appended_after": "2025-01-02T00:00:00Z"}
    assert_problem(client.get(address, params={"cursor": filtered, **other}), "invalid_cursor")
    # The size of a page is no filter, and another spelling of a time is the same one.
    assert page(client, limit=1000, cursor=plain)[0] == listed[2:]
    assert page(client, cursor=filtered, appended_after="2025-01-01T01:00:00+01:00")[0] == listed[2:]


def test_a_damaged_or_made_up_cursor_is_refused(client: httpx.Client, tenant: Tenant) -> None:
    make(tenant, 5)
    _, cursor = page(client, limit=2)
    assert cursor is not None
    raw = base64.urlsafe_b64decode(cursor + "==")
    made_up = [
        *("", "x", "null", "%", "=", "\u20ac" * 20, "\0", "a" * 5000),
        cursor[:-1],
        cursor + "A",
        cursor + "\n",
        cursor + "==",
        base64.urlsafe_b64encode(raw[:16] + b'["2026-01-01T00:00:00Z","listed-000003"]').decode().rstrip("="),
        base64.urlsafe_b64encode(bytes(16) + raw[16:]).decode().rstrip("="),
    ]
    for text in made_up:
        assert_problem(client.get("/v1/conversations", params={"cursor": text}), "invalid_cursor")
    assert_problem(client.get(f"/v1/conversations?cursor={cursor}&cursor={cursor}"), "invalid_parameter")
