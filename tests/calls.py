"""The calls of the log as the tests make them, and what every error answer must be."""

import secrets
from typing import Any

import httpx
import msgspec

from memory_site.problems import CATALOGUE

JSON = {"Content-Type": "application/json"}
REQUIRED_MEMBERS = {"type", "title", "status", "detail", "code", "retryable"}


class Item(msgspec.Struct, forbid_unknown_fields=True):
    """An item of an answer, its payload uncut."""

    seq: int
    recorded_at: str
    payload: msgspec.Raw


class Items(msgspec.Struct, forbid_unknown_fields=True):
    items: list[Item]


def new_id() -> str:
    """Return a conversation id that no other test uses."""
    return f"conversation-{secrets.token_hex(8)}"


def items_address(conversation_id: str) -> str:
    return f"/v1/conversations/{conversation_id}/items"


def body_of(*payloads: str, **envelope: Any) -> bytes:
    """Return the body of an append whose items are these JSON texts, unchanged."""
    rest = "".join(f',"{name}":{msgspec.json.encode(value).decode()}' for name, value in envelope.items())
    return ('{"items":[' + ",".join(payloads) + "]" + rest + "}").encode()


def append(
    client: httpx.Client, conversation_id: str, *payloads: str, key: str | None = None, **envelope: Any
) -> httpx.Response:
    """Append JSON texts; ``key`` is sent as Idempotency-Key."""
    return post(client, conversation_id, body_of(*(payloads or ("{}",)), **envelope), key=key)


def post(client: httpx.Client, conversation_id: str, body: bytes, *, key: str | None = None) -> httpx.Response:
    """Post a body to the items of a conversation."""
    headers = JSON if key is None else {**JSON, "Idempotency-Key": key}
    return client.post(items_address(conversation_id), content=body, headers=headers)


def recall(client: httpx.Client, conversation_id: str, **query: Any) -> list[Item]:
    return items_of(client.get(f"/v1/conversations/{conversation_id}/recall", params=query))


def replay(client: httpx.Client, conversation_id: str, **query: Any) -> list[Item]:
    return items_of(client.get(f"/v1/conversations/{conversation_id}/replay", params=query))


def items_of(response: httpx.Response) -> list[Item]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    return msgspec.json.decode(response.content, type=Items).items


def payloads_of(items: list[Item]) -> list[str]:
    """Return the payloads as the texts that came over the wire."""
    return [bytes(item.payload).decode() for item in items]


def stored(client: httpx.Client, conversation_id: str) -> list[str]:
    """Return every payload of a conversation of up to a thousand items."""
    return payloads_of(replay(client, conversation_id))


def assert_problem(response: httpx.Response, code: str, **members: Any) -> dict[str, Any]:
    """Check that an answer is this problem in every part of its form, and return it.

    The name of the code stands in the test as text, so that a test of the catalogue can find it.
    """
    assert response.headers["content-type"] == "application/problem+json", response.text
    problem: dict[str, Any] = response.json()
    assert problem["code"] == code, problem
    kind = CATALOGUE[code]
    assert response.status_code == problem["status"] == kind.status
    assert problem.keys() >= REQUIRED_MEMBERS
    assert problem["title"] == kind.title
    assert problem["detail"]
    assert problem["retryable"] is (kind.retry_after is not None)
    assert ("Retry-After" in response.headers) is problem["retryable"]
    if problem["retryable"]:
        assert int(response.headers["Retry-After"]) >= 1
    for name, value in members.items():
        assert problem[name] == value, problem
    return problem
