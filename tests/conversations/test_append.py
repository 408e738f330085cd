"""Append, over HTTP."""

import httpx

from tests.conftest import Server, Tenant


def test_a_batch_gets_the_next_numbers_and_comes_back_byte_for_byte(client: httpx.Client, conversation_id: str) -> None:
    payload = b'{"b" : 1.0,"a":1E400,"a":"\\u0000\xc3\xa9"}'
    response = client.post(
        f"/v1/conversations/{conversation_id}/items",
        content=b'{"items":[' + payload + b",{}]}",
        headers={"Content-Type": "application/json"},
    )
    assert (response.status_code, response.json()) == (201, {"first_seq": 0, "last_seq": 1, "generation": 0})
    recalled = client.get(f"/v1/conversations/{conversation_id}/recall")
    assert payload in recalled.content
    assert [item["seq"] for item in recalled.json()["items"]] == [0, 1]


def test_a_running_server_answers(server: Server, tenant: Tenant, conversation_id: str) -> None:
    with tenant.client(server.address) as client:
        response = client.post(f"/v1/conversations/{conversation_id}/items", json={"items": [{"a": 1}]})
        assert response.status_code == 201
        assert client.get("/v1/conversations").json()["conversations"][0]["conversation_id"] == conversation_id
