"""A whole conversation as JSON lines."""

import json
import resource
from collections.abc import Callable
from uuid import UUID

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from conversations.export import Changed
from conversations.models import Conversation
from tests.calls import append
from tests.console.conftest import entries, make_hole, signed_in

PAYLOADS = ['{"b":1.0,"a":"\\u0000","a":1E400}', '{ "spaced" :\t[ ] }', '{"text":"line\\nbreak \u2028 ü"}']


def address(key: UUID) -> str:
    return f"/admin/conversations/conversation/{key}/export/"


def test_lines_hold_the_payloads_as_they_were_sent(
    console: Client, operator: User, spoken: Callable[..., UUID]
) -> None:
    key = spoken(*PAYLOADS)
    assert "3 items" in console.get(address(key)).text
    assert entries(operator) == []
    response = console.post(address(key))
    name = Conversation.objects.get(pk=key).conversation_id
    assert response.headers["Content-Disposition"] == f'attachment; filename="{name}.jsonl"'
    lines = response.getvalue().decode().removesuffix("\n").split("\n")
    assert len(lines) == 3
    for number, (line, payload) in enumerate(zip(lines, PAYLOADS, strict=True)):
        assert line.startswith(f'{{"seq":{number},"recorded_at":"20')
        assert line.endswith(f'Z","payload":{payload}}}')
    assert entries(operator) == ["Exported 3 items of generation 0."]


def test_a_payload_of_several_lines_is_one_line(console: Client, spoken: Callable[..., UUID]) -> None:
    payload = '{\r\n  "a": "b\\n"\n}'
    (line,) = console.post(address(spoken(payload))).getvalue().decode().splitlines()
    assert json.loads(line)["payload"] == json.loads(payload)


def test_a_hundred_thousand_items_take_no_more_memory_than_a_thousand(console: Client, hundred_thousand: UUID) -> None:
    response = console.post(address(hundred_thousand))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = largest = 0
    for chunk in response:
        lines += chunk.count(b"\n")
        largest = max(largest, len(chunk))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert lines == 100_000
    assert largest < 10_000
    assert grown < 10_000, f"{grown} KiB"


def test_what_is_appended_meanwhile_is_not_in_it(
    console: Client, spoken: Callable[..., UUID], client: httpx.Client
) -> None:
    key = spoken("{}")
    response = console.post(address(key))
    append(client, Conversation.objects.get(pk=key).conversation_id)
    assert response.getvalue().count(b"\n") == 1


def test_an_export_whose_items_go_away_is_broken_off(console: Client, spoken: Callable[..., UUID]) -> None:
    key = spoken("{}", "{}", "{}")
    response = console.post(address(key))
    make_hole(key, 1)
    with pytest.raises(Changed):
        response.getvalue()


def test_a_corrupted_conversation_is_exported_as_such(
    console: Client, operator: User, spoken: Callable[..., UUID]
) -> None:
    key = spoken(*["{}"] * 5)
    make_hole(key, 1, 2)
    assert "2 items are missing" in console.get(address(key)).text
    response = console.post(address(key))
    assert "-incomplete.jsonl" in response.headers["Content-Disposition"]
    assert [json.loads(line)["seq"] for line in response.getvalue().splitlines()] == [0, 3, 4]
    assert entries(operator) == ["Exported 3 items of generation 0. 2 were missing."]


def test_only_who_may_export_does(
    watching: Client, viewer: User, make_staff: Callable[..., User], spoken: Callable[..., UUID]
) -> None:
    key = spoken("{}")
    assert watching.get(address(key)).status_code == 403
    assert watching.post(address(key)).status_code == 403
    assert entries(viewer) == []
    archivist = signed_in(make_staff("view_conversation", "export_conversation"))
    assert archivist.post(address(key)).getvalue().count(b"\n") == 1


def test_nothing_is_sent_when_the_log_cannot_be_written(
    console: Client, operator: User, spoken: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the log is full")

    monkeypatch.setattr("conversations.admin.ConversationAdmin.log_change", fail)
    console.raise_request_exception = False
    assert console.post(address(spoken("{}"))).status_code == 500
    assert entries(operator) == []
    assert connection.in_atomic_block is False
