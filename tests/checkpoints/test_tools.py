"""The seven tools, and every problem of records and checkpoints in band."""

import json
from typing import Any

import httpx
import pytest
from mcp import Client

from tests.calls import bundle
from tests.conftest import Server, Tenant
from tests.mcp.conftest import MODES, call, with_client

TOOLS = {
    "memory_put": {"namespace", "key", "value", "ttl", "if_match", "if_none_match"},
    "memory_get": {"namespace", "key"},
    "memory_list": {"namespace", "prefix", "kind", "tag", "topic", "event_after", "event_before", "limit", "cursor"},
    "memory_delete": {"namespace", "key", "if_match"},
    "memory_checkpoint": {
        *(
            "namespace",
            "checkpoint_id",
            "agent_id",
            "session_id",
            "expected_revision",
            "capsule",
            "references",
            "details",
        )
    },
    "memory_restore": {"namespace", "checkpoint_id", "agent_id", "session_id", "max_bytes", "include"},
    "memory_delete_checkpoint": {"namespace", "checkpoint_id"},
}


def use(client: httpx.Client, tool: str, namespace: str, **arguments: Any) -> Any:
    """Call a tool that succeeds; return what it answers."""
    answer = call(client, tool, json.dumps({"namespace": namespace, **arguments}), address="/mcp/checkpoints")
    assert answer["isError"] is False, answer
    assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
    return answer["structuredContent"]


def assert_in_band(answer: Any, code: str, **members: Any) -> None:
    """Check that the answer of a tool is this problem."""
    assert answer["isError"] is True, answer
    problem = json.loads(answer["content"][0]["text"])
    assert problem["code"] == code, problem
    assert problem.items() >= members.items()


def refused(client: httpx.Client, tool: str, namespace: str, **arguments: Any) -> Any:
    return call(client, tool, json.dumps({"namespace": namespace, **arguments}))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("address", ["/mcp", "/mcp/checkpoints"])
def test_the_official_client_saves_and_restores_in_every_mode(
    server: Server, tenant: Tenant, namespace: str, mode: str, address: str
) -> None:
    async def run(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools.keys() >= TOOLS.keys()
        assert "append_memory" not in tools or address == "/mcp"
        for name, arguments in TOOLS.items():
            tool = tools[name]
            assert set(tool.input_schema["properties"]) == arguments
            assert tool.input_schema["additionalProperties"] is False
            assert tool.output_schema
            assert tool.title
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is (name in ("memory_get", "memory_list", "memory_restore"))
            assert tool.annotations.destructive_hint is ("delete" in name)
        stored = await client.call_tool("memory_put", {"namespace": namespace, "key": "a/b", "value": [1, {"a": None}]})
        assert stored.structured_content is not None
        assert stored.structured_content.keys() == {"key", "revision", "updated_at", "expires_at", "size"}
        read = await client.call_tool("memory_get", {"namespace": namespace, "key": "a/b"})
        assert read.structured_content is not None
        assert read.structured_content["value"] == [1, {"a": None}]
        reference = {"namespace": namespace, "key": "a/b", "revision": 1}
        body = bundle("checkpoint-1", references=[reference], details={"x": 1})
        saved = await client.call_tool("memory_checkpoint", {"namespace": namespace, **body})
        assert saved.structured_content is not None
        assert saved.structured_content["revision"] == 1
        places: list[dict[str, str]] = [{"checkpoint_id": "checkpoint-1"}, {"agent_id": "coder", "session_id": "one"}]
        for place in places:
            restored = await client.call_tool("memory_restore", {"namespace": namespace, **place})
            assert restored.structured_content is not None
            assert restored.structured_content["references"] == [{**reference, "status": "ok"}]
        refused = await client.call_tool(
            "memory_delete_checkpoint", {"namespace": namespace, "checkpoint_id": "checkpoint-1"}
        )
        assert refused.is_error
        gone = await client.call_tool("memory_delete", {"namespace": namespace, "key": "a/b"})
        assert gone.structured_content == {"deleted": True}

    with_client(server.address + address, tenant.auth, run, mode=mode)


def test_a_value_is_kept_byte_for_byte(client: httpx.Client, namespace: str) -> None:
    value = '{"z" : 1.0,"a":1E400,"a":123456789012345678901234567890,"n":"\\u0000\\ud83d\\ude00é"}'
    arguments = f'{{"namespace":"{namespace}","value":{value},"key":"a"}}'
    assert call(client, "memory_put", arguments)["structuredContent"]["size"] == len(value.encode())
    assert client.get(f"/v1/namespaces/{namespace}/records/a").text == value
    params = f'{{"name":"memory_get","arguments":{{"namespace":"{namespace}","key":"a"}}}}'
    asked = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'
    answer = client.post("/mcp", content=asked, headers={"Content-Type": "application/json"})
    assert f'"value":{value}'.encode() in answer.content


def test_conditions_can_be_written_as_a_number_or_as_an_etag(client: httpx.Client, namespace: str) -> None:
    for condition in (True, "*"):
        use(client, "memory_put", namespace, key="a", value=1, if_none_match=condition)
        again = refused(client, "memory_put", namespace, key="a", value=2, if_none_match=condition)
        assert_in_band(
            again, "precondition_failed", current_revision=use(client, "memory_get", namespace, key="a")["revision"]
        )
        revision = use(client, "memory_get", namespace, key="a")["revision"]
        for form in ("number", "text", "etag"):
            match = {"number": revision, "text": str(revision), "etag": f'"{revision}"'}[form]
            stored = use(client, "memory_put", namespace, key="a", value=form, if_match=match)
            wrong = refused(client, "memory_put", namespace, key="a", value=9, if_match=match)
            assert_in_band(wrong, "precondition_failed", current_revision=stored["revision"])
            revision = stored["revision"]
        use(client, "memory_put", namespace, key="a", value=1, if_match="*", if_none_match=False)
        assert_in_band(refused(client, "memory_delete", namespace, key="a", if_match=revision), "precondition_failed")
        assert use(client, "memory_delete", namespace, key="a", if_match=revision + 1) == {"deleted": True}
        assert use(client, "memory_delete", namespace, key="a") == {"deleted": False}


def test_lists_filter_by_a_text_or_by_several(client: httpx.Client, namespace: str) -> None:
    for key, tags in (("a", ["x"]), ("b", ["x", "y"]), ("c", [])):
        use(client, "memory_put", namespace, key=key, value={"kind": "fact", "tags": tags}, ttl=60)

    def listed(**filters: Any) -> list[str]:
        return [record["key"] for record in use(client, "memory_list", namespace, **filters)["records"]]

    assert listed() == ["a", "b", "c"]
    assert listed(tag="x") == listed(tag=["x"]) == ["a", "b"]
    assert listed(tag=["x", "y"], kind="fact", prefix="b") == ["b"]
    assert listed(event_after="2026-01-01T00:00:00Z") == []
    page = use(client, "memory_list", namespace, limit=2)
    assert listed(cursor=page["next_cursor"], limit=2) == ["c"]


def test_the_budget_is_that_of_the_answer(client: httpx.Client, namespace: str) -> None:
    use(client, "memory_checkpoint", namespace, **bundle("checkpoint-1", details="é" * 500))
    size = len(client.get(f"/v1/namespaces/{namespace}/checkpoints/checkpoint-1").content)
    use(client, "memory_restore", namespace, checkpoint_id="checkpoint-1", max_bytes=size)
    for at in ({"checkpoint_id": "checkpoint-1"}, {"agent_id": "coder", "session_id": "one"}):
        answer = refused(client, "memory_restore", namespace, **at, max_bytes=size - 1)
        assert_in_band(answer, "restore_budget_exceeded", required_bytes=size)
        short = use(client, "memory_restore", namespace, **at, include="capsule", max_bytes=512)
        assert "details" not in short


def test_every_problem_is_told_in_band(client: httpx.Client, namespace: str) -> None:
    def save(checkpoint_id: str, **change: Any) -> Any:
        return refused(client, "memory_checkpoint", namespace, **bundle(checkpoint_id, **change))

    put = {"key": "a", "value": 1}
    assert_in_band(refused(client, "memory_put", namespace, **put, if_match=1), "precondition_failed")
    assert_in_band(refused(client, "memory_put", namespace, key="checkpoint/a", value=1), "reserved_key")
    assert_in_band(refused(client, "memory_delete", namespace, key="checkpoint/a"), "reserved_key")
    assert_in_band(refused(client, "memory_get", namespace, key="checkpoint/a"), "not_found")
    assert_in_band(refused(client, "memory_get", namespace, key="a"), "not_found")
    assert_in_band(refused(client, "memory_put", namespace, key="a", value="x" * 262_143), "payload_too_large")
    assert_in_band(refused(client, "memory_list", namespace, cursor="x"), "invalid_cursor")
    assert_in_band(save("checkpoint-1", expected_revision=1), "revision_conflict", current_revision=0)
    assert_in_band(save("checkpoint-1", goal="x" * 17_000), "capsule_too_large")
    assert_in_band(save("checkpoint-1", details="x" * 1_048_576), "bundle_too_large")
    many = [{"namespace": namespace, "key": "a", "revision": 1}] * 65
    assert_in_band(save("checkpoint-1", references=many), "too_many_references")
    assert save("checkpoint-1")["isError"] is False
    assert_in_band(save("checkpoint-1", details=1), "checkpoint_conflict")
    delete = {"checkpoint_id": "checkpoint-1"}
    assert_in_band(refused(client, "memory_delete_checkpoint", namespace, **delete), "checkpoint_is_latest")
    assert save("checkpoint-2", expected_revision=1)["isError"] is False
    assert use(client, "memory_delete_checkpoint", namespace, **delete) == {"deleted": True}
    assert use(client, "memory_delete_checkpoint", namespace, **delete) == {"deleted": False}
    assert_in_band(save("checkpoint-1"), "checkpoint_deleted")
    assert_in_band(refused(client, "memory_restore", namespace, **delete), "checkpoint_deleted")
    assert_in_band(refused(client, "memory_restore", namespace, checkpoint_id="checkpoint-9"), "not_found")
    assert_in_band(refused(client, "memory_restore", namespace, agent_id="x", session_id="y"), "not_found")


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("memory_put", {"key": "a"}, "/value"),
        ("memory_put", {"key": "", "value": 1}, "/key"),
        ("memory_put", {"key": "a/..", "value": 1}, "/key"),
        ("memory_put", {"key": "a\n", "value": 1}, "/key"),
        ("memory_put", {"key": "é" * 257, "value": 1}, "/key"),
        ("memory_put", {"key": "a", "value": 1, "ttl": 0}, "/ttl"),
        ("memory_put", {"key": "a", "value": 1, "ttl": "60"}, "/ttl"),
        ("memory_put", {"key": "a", "value": 1, "if_match": "a b"}, "/if_match"),
        ("memory_put", {"key": "a", "value": 1, "if_none_match": '"1"'}, "/if_none_match"),
        ("memory_put", {"key": "a", "value": 1, "idempotency_key": "k"}, "/idempotency_key"),
        ("memory_get", {"key": "a", "if_none_match": "*"}, "/if_none_match"),
        ("memory_get", {"namespace": "..", "key": "a"}, "/namespace"),
        ("memory_list", {"limit": 0}, "/limit"),
        ("memory_list", {"tag": []}, None),
        ("memory_list", {"tag": ""}, "/tag"),
        ("memory_list", {"event_after": "2026-01-31T12:00:00"}, "/event_after"),
        ("memory_restore", {}, "/checkpoint_id"),
        ("memory_restore", {"checkpoint_id": "checkpoint-1", "agent_id": "a", "session_id": "s"}, "/checkpoint_id"),
        ("memory_restore", {"agent_id": "a"}, "/checkpoint_id"),
        ("memory_restore", {"checkpoint_id": "short"}, "/checkpoint_id"),
        ("memory_restore", {"checkpoint_id": "checkpoint-1", "max_bytes": 511}, "/max_bytes"),
        ("memory_restore", {"checkpoint_id": "checkpoint-1", "include": "all"}, "/include"),
        ("memory_delete_checkpoint", {}, "/checkpoint_id"),
        ("memory_checkpoint", {**bundle("checkpoint-1"), "capsule": "{}"}, "/capsule"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    client: httpx.Client, namespace: str, tool: str, arguments: dict[str, Any], field: str | None
) -> None:
    answer = call(client, tool, json.dumps({"namespace": namespace, **arguments}))
    if field is None:
        assert answer["isError"] is False
    else:
        assert_in_band(answer, "validation_failed", field=field)
