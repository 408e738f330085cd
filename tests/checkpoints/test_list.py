"""Lists of records: order, pages, filters."""

import json
import secrets
import threading
from typing import Any

import httpx
import pytest
from django.db import connection

from tests.calls import assert_problem, put_record


def keys(client: httpx.Client, namespace: str, **query: Any) -> list[str]:
    """Return the keys of a whole list, page by page."""
    found: list[str] = []
    cursor = None
    while True:
        params = {**query, **({} if cursor is None else {"cursor": cursor})}
        response = client.get(f"/v1/namespaces/{namespace}/records", params=params)
        assert response.status_code == 200, response.text
        page = response.json()
        found += [record["key"] for record in page["records"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def test_keys_come_in_the_order_of_their_bytes_on_pages_of_any_size(served: httpx.Client, namespace: str) -> None:
    given = ["b", "a", "B", "a/b", "a b", "ab", "é", "\uffff", "\N{GRINNING FACE}", "Z", "_", "-", "10", "9"]
    for key in given:
        assert put_record(served, namespace, key, "1").status_code == 201
    expected = sorted(given, key=str.encode)
    for limit in (1, 2, 13, 14, 15, 1000):
        assert keys(served, namespace, limit=limit) == expected


@pytest.mark.parametrize(
    "prefix", ["a", "a/", "a/b", "é", "\N{GRINNING FACE}", "%", "_", "\\", "\U0010ffff", "\ud7ff", ""]
)
def test_a_prefix_is_taken_literally(served: httpx.Client, namespace: str, prefix: str) -> None:
    given = [
        "a",
        "a/",
        "a/b",
        "a/b/c",
        "aa",
        "b",
        "é",
        "éa",
        "\N{GRINNING FACE}",
        "%a",
        "a%",
        "_",
        "a_",
        "\\a",
        "\U0010ffff",
    ]
    given += ["\U0010ffffa", "\ud7ff", "\ud7ffa", "\ue000"]
    for key in given:
        put_record(served, namespace, key, "1")
    expected = sorted((key for key in given if key.startswith(prefix)), key=str.encode)
    assert keys(served, namespace, prefix=prefix, limit=2) == expected


def test_a_list_says_everything_but_the_value(client: httpx.Client, namespace: str) -> None:
    value = {
        "schema_version": 1,
        "kind": "decision",
        "content": "xylophone",
        "source": {"type": "conversation", "locator": "x"},
        "observed_at": "2026-01-31T13:00:00.5+01:00",
        "tags": ["b", "a", "b"],
        "topics": ["t"],
    }
    stored = put_record(client, namespace, "a", json.dumps(value), query="?ttl=60").json()
    response = client.get(f"/v1/namespaces/{namespace}/records")
    assert "xylophone" not in response.text
    (record,) = response.json()["records"]
    assert record == {
        **stored,
        "kind": "decision",
        "tags": ["b", "a"],
        "topics": ["t"],
        "event_time": "2026-01-31T12:00:00.500000Z",
    }


@pytest.mark.parametrize(
    ("value", "kind", "tags", "topics", "event_time"),
    [
        ('{"kind":"k"}', "k", [], [], None),
        ('{"kind":1,"tags":"x","topics":{"a":1},"event_time":5}', None, [], [], None),
        ('{"kind":"","tags":["",1],"topics":["","a"]}', None, [], ["a"], None),
        ('{"kind":"a\\u0000b","tags":["\\u0000","b"]}', None, ["b"], [], None),
        ('{"kind":"a","kind":"b"}', "b", [], [], None),
        ('{"tags":null,"event_time":"2026-01-31T12:00:00"}', None, [], [], None),
        (
            '{"event_time":"yesterday","observed_at":"2026-01-31T12:00:00Z"}',
            None,
            [],
            [],
            "2026-01-31T12:00:00.000000Z",
        ),
        ('{"event_time":"2026-01-01T00:00:00Z","observed_at":"x"}', None, [], [], "2026-01-01T00:00:00.000000Z"),
        ('{"event_time":"0001-01-01T00:00:00+14:00"}', None, [], [], None),
        ('{"event_time":"9999-12-31T23:59:59.999999Z"}', None, [], [], "9999-12-31T23:59:59.999999Z"),
        ('{"kind":"' + "é" * 128 + '"}', "é" * 128, [], [], None),
        ('{"kind":"' + "é" * 129 + '"}', None, [], [], None),
        ('[{"kind":"k"}]', None, [], [], None),
        ('{"nested":{"kind":"k"}}', None, [], [], None),
        ('"kind"', None, [], [], None),
        ("null", None, [], [], None),
        ('{"tags":' + json.dumps([str(n) for n in range(70)]) + "}", None, [str(n) for n in range(64)], [], None),
        ('{"tags":' + "[" * 200 + "]" * 200 + "}", None, [], [], None),
    ],
)
def test_structure_is_read_from_values_that_have_it(
    client: httpx.Client, namespace: str, value: str, kind: Any, tags: Any, topics: Any, event_time: Any
) -> None:
    assert put_record(client, namespace, "a", value).status_code == 201
    (record,) = client.get(f"/v1/namespaces/{namespace}/records").json()["records"]
    assert (record["kind"], record["tags"], record["topics"], record["event_time"]) == (kind, tags, topics, event_time)
    assert client.get(f"/v1/namespaces/{namespace}/records/a").text == value


def test_filters_combine(client: httpx.Client, namespace: str) -> None:
    for number in range(8):
        value = {
            "kind": ["fact", "task"][number % 2],
            "tags": [f"tag {number % 3}", "all"],
            "topics": [" topic "],
            "event_time": f"2026-01-0{number + 1}T00:00:00Z",
        }
        put_record(client, namespace, f"k{number}", json.dumps(value))
    put_record(client, namespace, "other", "{}")
    assert keys(client, namespace, kind="fact") == ["k0", "k2", "k4", "k6"]
    assert keys(client, namespace, tag="tag 1") == ["k1", "k4", "k7"]
    assert keys(client, namespace, tag=["tag 1", "all"], kind="task") == ["k1", "k7"]
    assert keys(client, namespace, tag=["tag 1", "tag 2"]) == []
    assert keys(client, namespace, topic=" topic ", prefix="k7") == ["k7"]
    assert keys(client, namespace, topic="topic") == []
    # Both bounds are exclusive, and what has no time is neither before nor after one.
    after, before = "2026-01-03T00:00:00Z", "2026-01-06T01:00:00+01:00"
    assert keys(client, namespace, event_after=after, event_before=before) == ["k3", "k4"]
    assert keys(client, namespace, event_before="2100-01-01T00:00:00Z") == [f"k{number}" for number in range(8)]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=1.0", "limit"),
        ("limit=1&limit=1", "limit"),
        ("kind=", "kind"),
        ("kind=a&kind=b", "kind"),
        ("tag=", "tag"),
        ("tag=a&tag=", "tag"),
        ("tag=%00", "tag"),
        ("&".join(["topic=a"] * 65), "topic"),
        ("kind=" + "x" * 257, "kind"),
        ("prefix=%00", "prefix"),
        ("prefix=" + "x" * 513, "prefix"),
        ("event_after=2026-01-31T12:00:00", "event_after"),
        ("event_before=now", "event_before"),
        ("unknown=1", "unknown"),
    ],
)
def test_a_parameter_that_does_not_fit_is_named(client: httpx.Client, namespace: str, query: str, field: str) -> None:
    response = client.get(f"/v1/namespaces/{namespace}/records?{query}")
    assert_problem(response, "invalid_parameter", field=field)


def test_a_cursor_is_bound_to_its_list(client: httpx.Client, other_client: httpx.Client, namespace: str) -> None:
    for key in "abc":
        put_record(client, namespace, key, "1")
    address = f"/v1/namespaces/{namespace}/records"
    cursor = client.get(address, params={"limit": 1}).json()["next_cursor"]
    assert client.get(address, params={"limit": 2, "cursor": cursor}).json()["records"][0]["key"] == "b"
    for response in (
        client.get(address, params={"cursor": cursor, "kind": "fact"}),
        client.get(f"/v1/namespaces/{namespace}x/records", params={"cursor": cursor}),
        other_client.get(address, params={"cursor": cursor}),
        client.get(address, params={"cursor": cursor[:-1]}),
        client.get(address, params={"cursor": "\N{GRINNING FACE}"}),
    ):
        assert_problem(response, "invalid_cursor")


def test_a_key_that_exists_throughout_is_listed_exactly_once_while_others_come_and_go(
    client: httpx.Client, namespace: str, tenant: Any
) -> None:
    staying = sorted(f"key/{number:03}" for number in range(60))
    for key in staying:
        put_record(client, namespace, key, "1")
    stop = threading.Event()

    def write() -> None:
        with tenant.client() as writer:
            while not stop.is_set():
                key = f"key/{secrets.randbelow(60):03}x"
                put_record(writer, namespace, key, "1")
                put_record(writer, namespace, secrets.choice(staying), "2")
                writer.delete(f"/v1/namespaces/{namespace}/records/{key}")
        connection.close()

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            found = keys(client, namespace, limit=7)
            assert [key for key in found if not key.endswith("x")] == staying
            assert len(found) == len(set(found))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_an_answer_that_would_be_too_large_names_the_limit_that_fits(client: httpx.Client, namespace: str) -> None:
    labels = json.dumps({"tags": [f"{number:03}" + "\\" * 253 for number in range(64)]})
    with connection.cursor() as cursor:
        put_record(client, namespace, "000", labels)
        cursor.execute(
            "INSERT INTO record (namespace_id, key, revision, first_revision, value, size, updated_at, tags)"
            " SELECT namespace_id, lpad(n::text, 3, '0'), 1, 1, value, size, updated_at, tags"
            " FROM record, generate_series(1, 700) AS n WHERE key = '000'"
            " AND namespace_id = (SELECT id FROM namespace WHERE name = %s)",
            [namespace],
        )
    address = f"/v1/namespaces/{namespace}/records"
    problem = assert_problem(client.get(address, params={"limit": 700}), "response_too_large", limit=16 * 1024 * 1024)
    fits = problem["largest_limit"]
    assert 100 < fits < 700
    page = client.get(address, params={"limit": fits})
    assert len(page.json()["records"]) == fits
    assert len(page.content) <= 16 * 1024 * 1024
    assert_problem(client.get(address, params={"limit": fits + 2}), "response_too_large")
