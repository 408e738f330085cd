"""Recall, over HTTP: the last items, oldest first; whole or an error."""

import httpx
import pytest
from pytest_django import Settings

from conversations.models import Conversation, Item
from tests.calls import append, assert_problem, payloads_of, recall

OTHER_THAN_WHOLE_NUMBERS = [
    *("", "1.0", "1e2", "+1", "01", "0x10", "1_000", "ten", "true", "null", "\u0661", "1\n", "1\0", " 1", "1,2"),
    "9" * 10_000,
]


@pytest.fixture
def filled(client: httpx.Client, conversation_id: str) -> str:
    """A conversation of 60 items that are their numbers."""
    append(client, conversation_id, *[f'{{"n":{number}}}' for number in range(60)])
    return conversation_id


def test_the_last_items_come_oldest_first(client: httpx.Client, filled: str) -> None:
    assert [item.seq for item in recall(client, filled, count=3)] == [57, 58, 59]
    assert payloads_of(recall(client, filled, count=3)) == ['{"n":57}', '{"n":58}', '{"n":59}']


def test_fifty_are_the_default(client: httpx.Client, filled: str) -> None:
    assert [item.seq for item in recall(client, filled)] == list(range(10, 60))


@pytest.mark.parametrize(("count", "found"), [(0, 0), (1, 1), (59, 59), (60, 60), (61, 60), (1000, 60)])
def test_no_more_than_there_are(client: httpx.Client, filled: str, count: int, found: int) -> None:
    assert len(recall(client, filled, count=count)) == found


def test_an_unknown_conversation_is_empty_and_stays_unknown(client: httpx.Client, conversation_id: str) -> None:
    assert recall(client, conversation_id) == []
    assert not Conversation.objects.filter(conversation_id=conversation_id).exists()


@pytest.mark.parametrize("count", ["-1", "1001", str(2**63), str(2**64), *OTHER_THAN_WHOLE_NUMBERS])
def test_a_count_out_of_bounds_or_unlike_a_whole_number_is_refused(
    client: httpx.Client, filled: str, count: str
) -> None:
    response = client.get(f"/v1/conversations/{filled}/recall", params={"count": count})
    problem = assert_problem(response, "invalid_parameter", field="count")
    assert len(problem["detail"]) < 500


@pytest.mark.parametrize(
    ("query", "field"),
    [("count=1&count=2", "count"), ("count=1&count=1", "count"), ("limit=1", "limit"), ("Count=1", "Count"), ("=", "")],
)
def test_a_parameter_given_twice_or_unknown_is_refused(
    client: httpx.Client, filled: str, query: str, field: str
) -> None:
    response = client.get(f"/v1/conversations/{filled}/recall?{query}")
    assert_problem(response, "invalid_parameter", field=field)


# -- Holes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "first"),
    [([30], 30), ([30, 31, 32], 30), ([30, 40], 30), ([0], 0), ([0, 1], 0), ([59], 59), ([58, 59], 58)],
)
def test_a_hole_is_named_and_never_closed(client: httpx.Client, filled: str, missing: list[int], first: int) -> None:
    conversation = Conversation.objects.get(conversation_id=filled)
    Item.objects.filter(conversation=conversation, seq__in=missing).delete()
    response = client.get(f"/v1/conversations/{filled}/recall?count=60")
    assert_problem(response, "corrupted", seq=first)
    response = client.get(f"/v1/conversations/{filled}/replay")
    assert_problem(response, "corrupted", seq=first)


def test_a_hole_outside_what_is_asked_for_does_not_matter(client: httpx.Client, filled: str) -> None:
    Item.objects.filter(conversation__conversation_id=filled, seq=30).delete()
    assert len(recall(client, filled, count=29)) == 29
    assert_problem(client.get(f"/v1/conversations/{filled}/recall?count=30"), "corrupted", seq=30)


def test_a_log_without_any_of_its_items_is_corrupted_not_empty(client: httpx.Client, filled: str) -> None:
    Item.objects.filter(conversation__conversation_id=filled).delete()
    assert_problem(client.get(f"/v1/conversations/{filled}/recall"), "corrupted", seq=10)
    assert_problem(client.get(f"/v1/conversations/{filled}/replay"), "corrupted", seq=0)


def test_what_retention_removed_from_the_start_is_no_hole(client: httpx.Client, filled: str) -> None:
    conversation = Conversation.objects.get(conversation_id=filled)
    Item.objects.filter(conversation=conversation, seq__lt=20).delete()
    Conversation.objects.filter(pk=conversation.pk).update(first_seq=20)
    assert [item.seq for item in recall(client, filled)] == list(range(20, 60))
    Item.objects.filter(conversation=conversation, seq=20).delete()
    assert_problem(client.get(f"/v1/conversations/{filled}/recall"), "corrupted", seq=20)


# -- Large answers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "asked"), [("recall", "count"), ("replay", "limit")])
def test_an_answer_at_the_limit_passes_and_one_byte_more_names_what_fits(
    client: httpx.Client, conversation_id: str, settings: Settings, call: str, asked: str
) -> None:
    # Numbers of one, two and three digits, and texts whose bytes are more than their characters.
    append(client, conversation_id, *['{"\u20ac":"\u20ac\\u0000"}'] * 120)
    address = f"/v1/conversations/{conversation_id}/{call}?{asked}="
    for number in (1, 2, 11, 101, 120):
        whole = client.get(address + str(number))
        settings.MAX_RESPONSE_BYTES = len(whole.content)
        assert client.get(address + str(number)).content == whole.content
        settings.MAX_RESPONSE_BYTES -= 1
        problem = assert_problem(client.get(address + str(number)), "response_too_large")
        assert (problem["limit"], problem[f"largest_{asked}"]) == (len(whole.content) - 1, number - 1)
        assert client.get(address + str(number - 1)).status_code == 200
        assert_problem(client.get(address + "120"), "response_too_large", **{f"largest_{asked}": number - 1})
        settings.MAX_RESPONSE_BYTES = 16 * 1024 * 1024


def test_an_answer_over_16_mib_is_never_cut(client: httpx.Client, conversation_id: str) -> None:
    large = '{"a":"' + "x" * 250_000 + '"}'
    for _ in range(17):
        append(client, conversation_id, *[large] * 4)
    response = client.get(f"/v1/conversations/{conversation_id}/recall?count=68")
    problem = assert_problem(response, "response_too_large", limit=16 * 1024 * 1024, largest_count=67)
    fits = client.get(f"/v1/conversations/{conversation_id}/recall?count={problem['largest_count']}")
    assert (fits.status_code, len(fits.json()["items"])) == (200, 67)
