"""Replay, over HTTP: items from a number on, in pages that end with a short one."""

import httpx
import pytest

from conversations.models import Conversation
from conversations.models import Item as StoredItem
from tests.calls import Item, append, assert_problem, payloads_of, recall, replay
from tests.conversations.test_recall import OTHER_THAN_WHOLE_NUMBERS


@pytest.fixture
def filled(client: httpx.Client, conversation_id: str) -> str:
    """A conversation of 1,050 items that are their numbers."""
    for start in range(0, 1050, 210):
        append(client, conversation_id, *[f'{{"n":{number}}}' for number in range(start, start + 210)])
    return conversation_id


def test_pages_cover_the_log_and_a_short_one_is_the_last(client: httpx.Client, filled: str) -> None:
    pages: list[list[Item]] = []
    offset = 0
    while not pages or len(pages[-1]) == 400:
        pages.append(replay(client, filled, offset=offset, limit=400))
        offset = pages[-1][-1].seq + 1
    assert [len(page) for page in pages] == [400, 400, 250]
    found = [item for page in pages for item in page]
    assert [item.seq for item in found] == list(range(1050))
    assert payloads_of(found) == [f'{{"n":{number}}}' for number in range(1050)]


def test_a_thousand_from_the_start_are_the_default(client: httpx.Client, filled: str) -> None:
    assert [item.seq for item in replay(client, filled)] == list(range(1000))


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (0, 0, range(0)),
        (0, 1, range(1)),
        (1049, 1000, range(1049, 1050)),
        (1050, 1000, range(0)),
        (1040, 10, range(1040, 1050)),
        (2**31, 1000, range(0)),
        (2**63 - 1001, 1000, range(0)),
        (2**63 - 1, 1000, range(0)),
        (2**63, 1000, range(0)),
        (2**64 - 1, 1000, range(0)),
    ],
)
def test_a_page_starts_at_its_offset_and_past_the_end_there_is_nothing(
    client: httpx.Client, filled: str, offset: int, limit: int, expected: range
) -> None:
    assert [item.seq for item in replay(client, filled, offset=offset, limit=limit)] == list(expected)


@pytest.mark.parametrize("offset", ["-1", str(2**64), *OTHER_THAN_WHOLE_NUMBERS])
def test_an_offset_out_of_bounds_or_unlike_a_whole_number_is_refused(
    client: httpx.Client, conversation_id: str, offset: str
) -> None:
    response = client.get(f"/v1/conversations/{conversation_id}/replay", params={"offset": offset})
    assert_problem(response, "invalid_parameter", field="offset")


@pytest.mark.parametrize("limit", ["-1", "1001", str(2**64), *OTHER_THAN_WHOLE_NUMBERS])
def test_a_limit_out_of_bounds_or_unlike_a_whole_number_is_refused(
    client: httpx.Client, conversation_id: str, limit: str
) -> None:
    response = client.get(f"/v1/conversations/{conversation_id}/replay", params={"limit": limit})
    assert_problem(response, "invalid_parameter", field="limit")


def test_an_unknown_conversation_is_empty(client: httpx.Client, conversation_id: str) -> None:
    assert replay(client, conversation_id) == []
    assert replay(client, conversation_id, offset=2**64 - 1) == []


def test_what_is_said_twice_or_unknown_is_refused(client: httpx.Client, conversation_id: str) -> None:
    address = f"/v1/conversations/{conversation_id}/replay"
    assert_problem(client.get(address + "?offset=0&offset=0"), "invalid_parameter", field="offset")
    assert_problem(client.get(address + "?count=1"), "invalid_parameter", field="count")
    assert_problem(client.get(address + "?conversation_id=abcdefgh"), "invalid_parameter", field="conversation_id")


def test_a_smaller_offset_than_retention_kept_starts_at_the_first_kept(client: httpx.Client, filled: str) -> None:
    conversation = Conversation.objects.get(conversation_id=filled)
    StoredItem.objects.filter(conversation=conversation, seq__lt=1000).delete()
    Conversation.objects.filter(pk=conversation.pk).update(first_seq=1000)
    assert [item.seq for item in replay(client, filled, limit=10)] == list(range(1000, 1010))
    assert [item.seq for item in replay(client, filled, offset=999, limit=10)] == list(range(1000, 1010))
    assert [item.seq for item in replay(client, filled, offset=1001, limit=10)] == list(range(1001, 1011))


@pytest.mark.parametrize(("missing", "first"), [([500], 500), ([0], 0), ([1049], 1049), ([700, 500, 600], 500)])
def test_a_page_with_a_hole_fails_and_names_the_first_missing_number(
    client: httpx.Client, filled: str, missing: list[int], first: int
) -> None:
    StoredItem.objects.filter(conversation__conversation_id=filled, seq__in=missing).delete()
    offset = max(first - 100, 0)
    response = client.get(f"/v1/conversations/{filled}/replay?offset={offset}")
    assert_problem(response, "corrupted", seq=first)


def test_items_of_an_earlier_generation_are_not_read(client: httpx.Client, conversation_id: str) -> None:
    append(client, conversation_id, '{"old":0}', '{"old":1}')
    Conversation.objects.filter(conversation_id=conversation_id).update(generation=1, first_seq=0, next_seq=0)
    assert replay(client, conversation_id) == []
    append(client, conversation_id, '{"new":0}')
    assert payloads_of(replay(client, conversation_id)) == ['{"new":0}']
    assert payloads_of(recall(client, conversation_id)) == ['{"new":0}']
