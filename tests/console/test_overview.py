"""The home page: figures of this moment at a price that does not grow."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from uuid import UUID

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from conversations import activity
from conversations.activity import HOUR, Hour, HourlyCounts, spans
from memory_site import chart
from memory_site.database.facts import count_rows
from memory_site.overview import Console
from tests.console.conftest import fill

LONG_AGO = datetime(2001, 2, 3, 12, 30, tzinfo=UTC)


@pytest.fixture
def hourly() -> HourlyCounts:
    return HourlyCounts()


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    site = admin.site._wrapped if hasattr(admin.site, "_wrapped") else admin.site
    assert isinstance(site, Console)
    site.hourly = HourlyCounts()


def record(key: UUID, at: datetime, count: int) -> None:
    """Store items of a time in the past."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO item (conversation_id, generation, seq, recorded_at, payload)"
            " SELECT %s::uuid, 99, extract(epoch FROM %s::timestamptz)::bigint * 1000 + n, %s::timestamptz, '{}'"
            " FROM generate_series(1, %s::int) AS n",
            [key, at, at, count],
        )


def test_figures_and_chart_say_what_was_appended(console: Client, spoken: Callable[..., UUID]) -> None:
    spoken(*["{}"] * 7)
    text = unescape(console.get("/admin/").text)
    for name in ("Sites", "Live credentials", "Conversations", "Items appended today", "Database", "Durable settings"):
        assert f"<dt>{name}</dt>" in text
    assert re.search(r"PostgreSQL \d\d\.", text)
    assert re.search(r'<svg viewBox="0 0 \d+ \d+" role="img" aria-labelledby="chart-title chart-summary">', text)
    assert "<title id=" in text
    assert "<desc id=" in text
    assert text.count('<tr><th scope="row">') == 48
    running = re.search(r'<rect class="running" .*?<title>.*? UTC: ([\d,]+) so far', text)
    assert running
    assert int(running[1].replace(",", "")) >= 7


def test_a_setting_that_loses_items_is_said_loudly(console: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_site.database.facts.lacking_durability", lambda: ["synchronous_commit"])
    text = console.get("/admin/").text
    assert "would lose acknowledged items in a crash: synchronous_commit is off" in text
    assert "not safe" in text


def test_the_page_costs_the_same_at_any_size(console: Client, tenant: object) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert console.get("/admin/").status_code == 200
        return len(captured)

    cost()
    few = cost()
    fill(tenant, items=20_000)  # type: ignore[arg-type]  # a Tenant
    assert cost() == few <= 14


def test_hours_are_counted_once_when_they_are_over(hourly: HourlyCounts, spoken: Callable[..., UUID]) -> None:
    key = spoken("{}")
    record(key, LONG_AGO - 3 * HOUR, 5)
    record(key, LONG_AGO, 2)
    counted = hourly.last(48, now=LONG_AGO, seconds=5)
    assert len(counted) == 48
    assert all(hour.exact for hour in counted)
    assert counted[-1] == Hour(LONG_AGO.replace(minute=0), 2)
    assert counted[-4].items == 5
    record(key, LONG_AGO - 3 * HOUR + timedelta(minutes=1), 1)
    record(key, LONG_AGO + timedelta(minutes=1), 1)
    again = hourly.last(48, now=LONG_AGO + timedelta(minutes=2), seconds=5)
    assert (again[-1].items, again[-4].items) == (3, 5), "the running hour is counted again, the others are over"
    # An hour whose last appends may still be committing is not over.
    edge = LONG_AGO.replace(hour=20, minute=0, second=30)
    record(key, edge - timedelta(minutes=1), 1)
    assert hourly.last(2, now=edge, seconds=5)[0].items == 1
    record(key, edge - timedelta(minutes=1) + timedelta(seconds=1), 1)
    assert hourly.last(2, now=edge, seconds=5)[0].items == 2


def test_what_is_too_much_to_count_is_estimated(
    hourly: HourlyCounts, spoken: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = datetime(2002, 2, 3, 12, 30, tzinfo=UTC)
    record(spoken("{}"), at - HOUR, 3_000)
    monkeypatch.setattr(
        activity,
        "COUNT",
        "SELECT now(), 1::bigint FROM pg_sleep(30) WHERE %(start)s::timestamptz < %(end)s::timestamptz",
    )
    guessed = hourly.last(48, now=at, seconds=0.2)
    assert not any(hour.exact for hour in guessed)
    assert guessed[-2].items == pytest.approx(3_000, rel=0.5)
    assert guessed[-1].items == 0


def test_a_count_out_of_time_says_that_it_does_not_know(hourly: HourlyCounts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "SAMPLE_SECONDS", 0.0)
    assert {hour.items for hour in hourly.last(48, now=LONG_AGO, seconds=0)} == {None}


def test_spans_cover_what_is_missing_once_newest_first() -> None:
    starts = [LONG_AGO.replace(minute=0) - HOUR * back for back in range(48) if back not in (5, 6, 20)]
    cut = list(spans(starts))
    assert [start for span in cut for start in span] == starts
    assert [len(span) for span in cut[:3]] == [1, 2, 2]
    for span in cut:
        assert span[0] - span[-1] == HOUR * (len(span) - 1)


def test_an_append_needs_no_more_than_it_did(spoken: Callable[..., UUID]) -> None:
    """The only index for the chart is one that notes stretches of the table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT am.amname FROM pg_index AS x JOIN pg_class AS c ON c.oid = x.indexrelid"
            " JOIN pg_am AS am ON am.oid = c.relam WHERE x.indrelid = 'item'::regclass ORDER BY 1"
        )
        assert cursor.fetchall() == [("brin",), ("btree",)]


def test_rows_are_counted_while_few_and_estimated_beyond(tenant: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_rows("site").exact
    fill(tenant, items=200)  # type: ignore[arg-type]  # a Tenant
    monkeypatch.setattr("memory_site.database.facts.COUNTED", 100)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE item")
    found = count_rows("item")
    assert not found.exact
    assert found.rows >= 200


@pytest.mark.parametrize(
    ("largest", "top"), [(0, 4), (1, 4), (4, 4), (5, 8), (9, 20), (41, 80), (99, 200), (1_000_001, 2_000_000)]
)
def test_the_scale_holds_the_largest_bar(largest: int, top: int) -> None:
    assert chart.scale(largest) == top


def test_bars_stay_within_the_chart() -> None:
    hours = [Hour(LONG_AGO.replace(minute=0) + HOUR * n, n * n * 1_000) for n in range(48)]
    drawn = chart.draw(hours)
    for bar in drawn.bars:
        assert bar.x >= drawn.left
        assert bar.x + bar.width <= drawn.right
        assert bar.y >= 0
        assert bar.y + bar.height == pytest.approx(drawn.base, abs=0.02)
    assert drawn.bars[1].height >= 2, "one among many can still be seen"
    assert "2,209,000" in drawn.summary
