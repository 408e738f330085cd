"""The four log tools: the official client in all its modes, and what only text on the wire can show."""

import json
from typing import Any

import httpx
import pytest
from mcp import Client

from tests.conftest import Server, Tenant
from tests.mcp.conftest import MODES, call, with_client


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("address", ["/mcp", "/mcp/conversations"])
def test_the_official_client_writes_and_reads_in_every_mode(
    server: Server, tenant: Tenant, conversation_id: str, mode: str, address: str
) -> None:
    async def run(client: Client) -> None:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"append_memory", "recall_memory", "replay_memory", "list_conversations"} <= tools
        written = await client.call_tool(
            "append_memory", {"conversation_id": conversation_id, "items": [{"role": "user"}, {"n": 2}]}
        )
        assert written.structured_content == {"first_seq": 0, "last_seq": 1}
        read = await client.call_tool("recall_memory", {"conversation_id": conversation_id})
        assert read.structured_content is not None
        assert [item["payload"] for item in read.structured_content["items"]] == [{"role": "user"}, {"n": 2}]
        rest = await client.call_tool("replay_memory", {"conversation_id": conversation_id, "limit": 5, "offset": 1})
        assert rest.structured_content is not None
        assert [item["seq"] for item in rest.structured_content["items"]] == [1]
        listed = await client.call_tool("list_conversations", {})
        assert listed.structured_content is not None
        assert listed.structured_content["conversations"][0]["conversation_id"] == conversation_id
        refused = await client.call_tool("recall_memory", {"conversation_id": "short"})
        assert refused.is_error
        assert json.loads(refused.content[0].text)["reason"] == "too_short"  # type: ignore[union-attr]

    with_client(server.address + address, tenant.auth, run, mode=mode)


def test_a_payload_is_kept_byte_for_byte_over_mcp_too(client: httpx.Client, conversation_id: str) -> None:
    payload = '{"z" : 1.0,"a":1E400,"a":123456789012345678901234567890,"n":"\\u0000\\ud83d\\ude00é"}'
    result = call(client, "append_memory", f'{{"conversation_id":"{conversation_id}","items":[{payload}]}}')
    assert result["structuredContent"] == {"first_seq": 0, "last_seq": 0}
    assert payload.encode() in client.get(f"/v1/conversations/{conversation_id}/recall").content
    answer = client.post(
        "/mcp",
        content=f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"recall_memory","arguments":'
        f'{{"conversation_id":"{conversation_id}"}}}}}}'.encode(),
        headers={"Content-Type": "application/json"},
    )
    assert payload.encode() in answer.content


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("append_memory", '{"conversation_id":"12345678","items":[]}', "empty_batch"),
        ("append_memory", '{"conversation_id":"12345678","items":[1]}', "invalid_item"),
        ("append_memory", '{"conversation_id":"12345678"}', "validation_failed"),
        ("append_memory", '{"conversation_id":"12345678","items":[{}],"expected_seq":9}', "seq_conflict"),
        ("append_memory", '{"conversation_id":"12345678","items":[{}],"expected_generation":9}', "stale_generation"),
        ("append_memory", '{"conversation_id":"12345678","items":[{}],"idempotency_key":""}', "validation_failed"),
        ("append_memory", '{"conversation_id":"1234 678","items":[{}]}', "invalid_conversation_id"),
        ("replay_memory", '{"conversation_id":"12345678"}', "validation_failed"),
        (
            "replay_memory",
            '{"conversation_id":"12345678","limit":1,"offset":18446744073709551616}',
            "validation_failed",
        ),
        ("recall_memory", '{"conversation_id":"12345678","count":1001}', "validation_failed"),
        ("recall_memory", '{"conversation_id":"12345678","count":"5"}', "validation_failed"),
        ("recall_memory", '{"conversation_id":"12345678","zz":1}', "validation_failed"),
        ("recall_memory", "[]", "validation_failed"),
        ("list_conversations", '{"cursor":"x"}', "invalid_cursor"),
        ("memory_list", '{"namespace":"n","event_after":"0001-01-01T00:00:00+05:00"}', "validation_failed"),
        ("memory_list", '{"namespace":"n","event_after":"2026-01-01T00:00:00"}', "validation_failed"),
        ("list_conversations", '{"limit":1E400}', "validation_failed"),
    ],
)
def test_a_fault_of_the_arguments_is_told_in_band_as_the_problem_object(
    client: httpx.Client, tool: str, arguments: str, code: str
) -> None:
    result = call(client, tool, arguments)
    assert result["isError"] is True
    problem = json.loads(result["content"][0]["text"])
    assert problem["code"] == code
    assert problem["retryable"] is False


def test_a_time_in_the_arguments_may_have_any_offset(client: httpx.Client) -> None:
    arguments = '{"namespace":"n","event_after":"2026-01-01T00:00:00+23:59"}'
    assert call(client, "memory_list", arguments)["structuredContent"] == {"records": [], "next_cursor": None}


def test_replay_takes_every_offset_of_a_uint64(client: httpx.Client, conversation_id: str) -> None:
    arguments = f'{{"conversation_id":"{conversation_id}","limit":1,"offset":18446744073709551615}}'
    assert call(client, "replay_memory", arguments)["structuredContent"] == {"items": []}


def test_a_retry_with_a_key_answers_as_the_first_time(client: httpx.Client, conversation_id: str) -> None:
    arguments = f'{{"conversation_id":"{conversation_id}","items":[{{"a":1}}],"idempotency_key":"k"}}'
    first = call(client, "append_memory", arguments)
    assert call(client, "append_memory", arguments)["structuredContent"] == first["structuredContent"]
    assert len(client.get(f"/v1/conversations/{conversation_id}/recall").json()["items"]) == 1


def test_the_list_leaves_out_what_is_not_permitted_and_a_call_of_it_is_refused(
    tenant: Tenant, read_only_client: httpx.Client, conversation_id: str
) -> None:
    response = read_only_client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
    names = {tool["name"] for tool in response.json()["result"]["tools"]}
    assert "recall_memory" in names
    assert "append_memory" not in names
    refused = call(read_only_client, "append_memory", f'{{"conversation_id":"{conversation_id}","items":[{{}}]}}')
    problem = json.loads(refused["content"][0]["text"])
    assert (problem["code"], problem["permission"]) == ("permission_denied", "put")
    with tenant.client() as full:
        assert full.get(f"/v1/conversations/{conversation_id}/recall").json() == {"items": []}


def schemas_of(client: httpx.Client) -> dict[str, Any]:
    response = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
    return {tool["name"]: tool for tool in response.json()["result"]["tools"]}


def test_the_schemas_say_names_types_bounds_and_defaults(client: httpx.Client) -> None:
    tools = schemas_of(client)
    recall = tools["recall_memory"]["inputSchema"]
    assert recall["required"] == ["conversation_id"]
    assert recall["additionalProperties"] is False
    count = recall["properties"]["count"]
    assert (count["type"], count["minimum"], count["maximum"], count["default"]) == ("integer", 0, 1000, 50)
    replay = tools["replay_memory"]["inputSchema"]
    assert set(replay["required"]) == {"conversation_id", "limit"}
    offset = replay["properties"]["offset"]
    assert (offset["minimum"], offset["maximum"], offset["default"]) == (0, 2**64 - 1, 0)
    append = tools["append_memory"]["inputSchema"]
    items = append["properties"]["items"]
    assert (items["minItems"], items["maxItems"], items["items"]) == (1, 250, {"type": "object"})
    assert set(append["properties"]) == {
        "conversation_id", "items", "expected_seq", "expected_generation", "idempotency_key",
    }  # fmt: skip
    listing = tools["list_conversations"]["inputSchema"]
    assert listing["properties"]["cursor"]["default"] is None
    assert listing["properties"]["limit"]["default"] == 50
    for tool in tools.values():
        assert tool["title"]
        assert tool["outputSchema"]["type"] == "object"
        assert set(tool["annotations"]) >= {"readOnlyHint", "idempotentHint", "destructiveHint"}
    assert tools["recall_memory"]["annotations"]["readOnlyHint"] is True
    assert tools["append_memory"]["annotations"]["readOnlyHint"] is False


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"nope", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":NaN}}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":"\xff"}}', -32700),
        (b"[" * 1_000_000, -32700),
        (b"[]", -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing","arguments":{}}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601),
    ],
)  # fmt: skip
def test_what_is_no_call_of_a_known_tool_is_a_json_rpc_error(client: httpx.Client, body: bytes, error: int) -> None:
    response = client.post("/mcp", content=body, headers={"Content-Type": "application/json"})
    assert response.json()["error"]["code"] == error


def test_access_is_by_basic_credentials_alone(client: httpx.Client) -> None:
    for headers, code in (
        ({"Authorization": "Bearer abc"}, "unsupported_auth_scheme"),
        ({"Authorization": "Basic !!!"}, "invalid_credentials"),
        ({}, "authentication_required"),
    ):
        with httpx.Client(transport=client._transport, base_url=client.base_url) as stranger:
            response = stranger.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)
        assert (response.status_code, response.json()["code"]) == (401, code)
        assert response.headers["WWW-Authenticate"].startswith("Basic ")


def test_a_foreign_origin_is_refused_and_a_known_one_served(client: httpx.Client) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert client.post("/mcp", json=ping, headers={"Origin": "https://evil.example"}).status_code == 403
    assert client.post("/mcp", json=ping, headers={"Origin": "http://localhost:3000"}).status_code == 200
    assert client.post("/mcp", json=ping, headers={"Host": "evil.example"}).status_code == 400


def test_get_is_not_served_and_a_large_body_is_refused_unread(client: httpx.Client) -> None:
    refused = client.get("/mcp")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")
    too_large = client.post("/mcp", content=b" " * (8 * 1024 * 1024 + 1), headers={"Content-Type": "application/json"})
    assert (too_large.status_code, too_large.json()["code"]) == (413, "body_too_large")
    text = client.post("/mcp", content=b"{}", headers={"Content-Type": "text/plain"})
    assert (text.status_code, text.json()["code"]) == (415, "unsupported_media_type")


def test_the_other_site_sees_nothing(client: httpx.Client, other_client: httpx.Client, conversation_id: str) -> None:
    call(client, "append_memory", f'{{"conversation_id":"{conversation_id}","items":[{{"a":1}}]}}')
    for tool, arguments, empty in (
        ("recall_memory", f'{{"conversation_id":"{conversation_id}"}}', {"items": []}),
        ("replay_memory", f'{{"conversation_id":"{conversation_id}","limit":10}}', {"items": []}),
        ("list_conversations", "{}", {"conversations": [], "next_cursor": None}),
    ):
        assert call(other_client, tool, arguments)["structuredContent"] == empty


def test_an_answer_too_large_names_the_count_that_fits(client: httpx.Client, conversation_id: str) -> None:
    batch = {"items": [{"text": "x" * 200_000}] * 5}
    for _ in range(3):
        assert client.post(f"/v1/conversations/{conversation_id}/items", json=batch).status_code == 201
    refused = call(client, "recall_memory", f'{{"conversation_id":"{conversation_id}"}}')
    problem = json.loads(refused["content"][0]["text"])
    assert problem["code"] == "response_too_large"
    fits = problem["largest_count"]
    arguments = f'{{"conversation_id":"{conversation_id}","count":%d}}'
    assert len(call(client, "recall_memory", arguments % fits)["structuredContent"]["items"]) == fits
    assert call(client, "recall_memory", arguments % (fits + 1))["isError"] is True
