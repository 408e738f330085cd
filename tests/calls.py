"""The calls of the log as the tests make them, and what every error answer must be."""

import secrets
from typing import Any
from urllib.parse import quote

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


def put_record(
    client: httpx.Client, namespace: str, key: str, value: str | bytes, *, query: str = "", **headers: str
) -> httpx.Response:
    """Put a JSON text under a key; headers are given in lower case, with ``_`` for ``-``."""
    sent = {**JSON, **{name.replace("_", "-"): given for name, given in headers.items()}}
    content = value.encode() if isinstance(value, str) else value
    return client.put(f"/v1/namespaces/{namespace}/records/{quote(key)}{query}", content=content, headers=sent)


def bundle(
    checkpoint_id: str, *, expected_revision: int = 0, goal: str = "to remember", **others: Any
) -> dict[str, Any]:
    """Return the body of a checkpoint; anything of it can be given."""
    capsule = {"goal": goal, "summary": "", "next_action": "", "constraints": [], "decisions": [], "open_tasks": []}
    return {
        "checkpoint_id": checkpoint_id,
        "agent_id": "coder",
        "session_id": "one",
        "expected_revision": expected_revision,
        "capsule": capsule,
        **others,
    }


def save(client: httpx.Client, namespace: str, body: dict[str, Any]) -> httpx.Response:
    return client.post(f"/v1/namespaces/{namespace}/checkpoints", json=body)


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
