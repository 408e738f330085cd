"""A conversation as people read it: any page as quick as any other, and stored text never more than text."""

import json
import re
from collections.abc import Callable
from html import unescape
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from conversations.models import Item
from tests.console.conftest import make_hole

ENTRY = re.compile(r'<li id="item-(\d+)"')
LINKS = re.compile(r'<a href="\?from=(\d+)"[^>]*>(First|Previous|Next|Last)</a>')
DEEP = '{"deep":' + "[" * 500 + "]" * 500 + "}"


def address(key: UUID) -> str:
    return f"/admin/conversations/conversation/{key}/transcript/"


def shown(console: Client, key: UUID, start: object = None) -> list[int]:
    response = console.get(address(key), {} if start is None else {"from": str(start)})
    assert response.status_code == 200
    return [int(number) for number in ENTRY.findall(response.text)]


def ways(console: Client, key: UUID, start: int) -> dict[str, int]:
    text = console.get(address(key), {"from": str(start)}).text
    return {name: int(number) for number, name in LINKS.findall(text)}


def test_it_opens_at_the_end_or_at_a_number(console: Client, hundred_thousand: UUID) -> None:
    assert shown(console, hundred_thousand) == list(range(99_950, 100_000))
    assert shown(console, hundred_thousand, 0) == list(range(50))
    assert shown(console, hundred_thousand, "12,345") == list(range(12_345, 12_395))
    for past in (100_000, 2**63, 10**19, "9" * 20):
        assert shown(console, hundred_thousand, past) == list(range(99_950, 100_000))
    for unreadable in ("-1", "1e3", "٣", "x", "9" * 21, "1\x00"):
        response = console.get(address(hundred_thousand), {"from": unreadable})
        assert "is no sequence number: here is the end" in response.text


def test_pages_lead_to_each_other(console: Client, hundred_thousand: UUID) -> None:
    assert ways(console, hundred_thousand, 0) == {"Next": 50, "Last": 99_950}
    assert ways(console, hundred_thousand, 120) == {"First": 0, "Previous": 70, "Next": 170, "Last": 99_950}
    assert ways(console, hundred_thousand, 20) == {"First": 0, "Previous": 0, "Next": 70, "Last": 99_950}
    assert ways(console, hundred_thousand, 99_950) == {"First": 0, "Previous": 99_900}


def test_every_page_of_a_hundred_thousand_costs_the_same(
    console: Client, hundred_thousand: UUID, spoken: Callable[..., UUID]
) -> None:
    def cost(key: UUID, start: int | None) -> int:
        with CaptureQueriesContext(connection) as captured:
            shown(console, key, start)
        return len(captured)

    small = spoken("{}")
    cost(small, None)
    assert cost(small, None) == 4
    for start in (None, 0, 50_000, 99_990):
        assert cost(hundred_thousand, start) == 4


def test_only_the_items_of_the_page_are_read(hundred_thousand: UUID, console: Client) -> None:
    """The plan is bounded too: a count, a sort or a scan would read all of it."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE item")
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT idx_tup_fetch, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'item'")
        before = cursor.fetchone()
        for start in (None, 0, 50_000):
            shown(console, hundred_thousand, start)
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT idx_tup_fetch, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'item'")
        after = cursor.fetchone()
    assert sum(after) - sum(before) < 1_000


def test_role_and_content_are_read_and_the_json_is_always_there(console: Client, spoken: Callable[..., UUID]) -> None:
    key = spoken(
        '{"role":"user","content":"Hello\\n  there"}',
        '{"role":"assistant","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}',
        '{"event":"paid","amount":1.0}',
    )
    text = console.get(address(key)).text
    assert '<div class="said" dir="auto">Hello\n  there</div>' in text
    assert "one\n\ntwo" in text
    assert unescape(text).count('"role": "user"') == 1
    assert '"amount": 1.0' in unescape(text)


HOSTILE = {
    "markup": json.dumps(
        {"role": "<b>user</b>", "content": "</div></li><script>alert(1)</script><img src=x onerror=a>"}
    ),
    "template": json.dumps({"role": "user", "content": "{{ settings.SECRET_KEY }}{% debug %}"}),
    "direction": json.dumps({"role": "\u202eresu", "content": "\u202e\u2066txt.exe\u200e"}, ensure_ascii=False),
    "nul": '{"role":"user\\u0000","content":"a\\u0000b"}',
    "controls": '{"content":"\\u0007\\u001b[31m\\u0085"}',
    "numbers": '{"a":1E400,"b":-1E-400,"c":123456789012345678901234567890,"content":1E400}',
    "duplicates": '{"content":"first","content":"second","role":"user","role":"tool"}',
    "deep": DEEP,
    "deep content": '{"content":' + DEEP + "}",
    "odd kinds": '{"role":["x"],"content":{"text":1}}',
    "odd parts": '{"content":[{"type":"text"},5,null]}',
    "empty": "{}",
    "empty content": '{"role":"","content":""}',
    "line breaks": '{\r\n\t"content"\r:"x"\n}',
    "huge string": json.dumps({"content": "x" * 200_000}),
    "huge word": json.dumps({"role": "r" * 100_000, "content": "y"}),
    "many keys": "{" + ",".join(f'"k{n}":{n}' for n in range(15_000)) + "}",
    "escapes": '{"content":"\\ud83d\\ude00 \\u202e"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_shown_as_text(console: Client, spoken: Callable[..., UUID], name: str) -> None:
    key = spoken(HOSTILE[name], '{"role":"user","content":"the next one"}')
    response = console.get(address(key))
    assert response.status_code == 200
    assert len(ENTRY.findall(response.text)) == 2
    assert "the next one" in response.text
    assert response.text.count("</ol>") == 1
    for never in ("<script>alert", "<img src=x", "<b>user", "\x00", "\u202e", "\u2066", "\x07", "\x1b"):
        assert never not in response.text
    assert len(response.content) < 200_000
    raw = console.get(f"/admin/conversations/conversation/{key}/items/0/")
    assert raw.content.decode() == HOSTILE[name]
    assert raw.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert raw.headers["X-Content-Type-Options"] == "nosniff"


def test_numbers_and_duplicate_keys_are_spelled_as_they_were_sent(console: Client, spoken: Callable[..., UUID]) -> None:
    text = unescape(console.get(address(spoken(HOSTILE["numbers"], HOSTILE["duplicates"]))).text)
    for spelled in ("1E400", "-1E-400", "123456789012345678901234567890", '"first"', '"second"'):
        assert spelled in text


def test_what_is_hidden_in_a_text_is_shown(console: Client, spoken: Callable[..., UUID]) -> None:
    text = console.get(address(spoken(HOSTILE["direction"], HOSTILE["nul"], HOSTILE["escapes"]))).text
    for mark in ("U+202E", "U+2066", "U+200E", "U+0000"):
        assert f'<span class="hidden-character">{mark}</span>' in text


def test_a_long_payload_is_folded_and_a_huge_one_cut_with_a_way_to_all_of_it(
    console: Client, spoken: Callable[..., UUID]
) -> None:
    key = spoken(json.dumps({"content": "long " * 1_000}), json.dumps({"content": "huge " * 30_000}))
    text = console.get(address(key)).text
    assert text.count('<details class="long">') == 2
    assert "(5,000 characters)" in text
    assert "The whole payload of item 1" in text
    assert "The whole payload of item 0" not in text


def test_fifty_of_the_largest_and_deepest_payloads_make_a_page_that_a_browser_can_show(
    console: Client, spoken: Callable[..., UUID]
) -> None:
    nested = '{"a":' * 30 + "[" + ",".join(["1"] * 8_000) + "]" + "}" * 30
    largest = json.dumps({"role": "user", "content": "<&>" * 85_000})
    key = spoken(*[nested] * 25, *[largest] * 2)
    response = console.get(address(key))
    assert response.status_code == 200
    assert len(response.content) < 5_000_000


def test_a_hole_is_told_of_with_a_way_around_it(console: Client, spoken: Callable[..., UUID]) -> None:
    key = spoken(*['{"content":"x"}'] * 120)
    make_hole(key, 10, 11, 12, 119)
    text = console.get(address(key), {"from": "0"}).text
    assert [int(number) for number in ENTRY.findall(text)] == list(range(10))
    assert "Conversation corrupted" in text
    assert "Item 10 is missing" in text
    assert 'href="?from=13"' in text
    assert shown(console, key, 11) == []
    assert shown(console, key, 13) == list(range(13, 63))
    at_the_end = console.get(address(key)).text
    assert "Item 119 is missing" in at_the_end
    assert "Nothing stands behind it." in at_the_end


def test_retention_s_first_number_is_where_a_transcript_begins(console: Client, spoken: Callable[..., UUID]) -> None:
    key = spoken(*["{}"] * 80)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM item WHERE conversation_id = %s::uuid AND seq < 20", [key])
        cursor.execute("UPDATE conversation SET first_seq = 20 WHERE id = %s::uuid", [key])
    assert shown(console, key, 0) == list(range(20, 70))
    assert ways(console, key, 0) == {"Next": 70, "Last": 30}


def test_a_conversation_of_which_nothing_is_left_has_a_page(console: Client, spoken: Callable[..., UUID]) -> None:
    key = spoken("{}")
    Item.objects.filter(conversation_id=key).delete()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE conversation SET first_seq = 1 WHERE id = %s::uuid", [key])
    assert "Nothing is kept of this conversation." in console.get(address(key)).text
    assert console.get(f"/admin/conversations/conversation/{key}/items/0/").status_code == 404


def test_who_may_look_may_read_but_not_take_it_away(watching: Client, spoken: Callable[..., UUID]) -> None:
    key = spoken('{"role":"user","content":"hello"}')
    assert shown(watching, key) == [0]
    assert "/export/" not in watching.get(f"/admin/conversations/conversation/{key}/change/").text
