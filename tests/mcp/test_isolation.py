"""Every tool with the other site's credential, and without its permission. A new tool without an example here fails."""

import json
from typing import Any

import httpx
import pytest

from memory_site.mcp import SETS
from memory_site.sites.models import PERMISSIONS
from memory_site.wire.tools import Tool
from tests.conftest import Tenant
from tests.mcp.conftest import call

SECRET = "xylophone"
"""A word in everything that the first site stores."""
TOOLS = [tool for tools in SETS.values() for tool in tools]


def checkpoint(checkpoint_id: str, goal: str, *, expected_revision: int) -> str:
    lists: dict[str, list[str]] = {"constraints": [], "decisions": [], "open_tasks": []}
    return json.dumps(
        {
            "namespace": "ID",
            "checkpoint_id": checkpoint_id,
            "agent_id": "agent",
            "session_id": "session",
            "expected_revision": expected_revision,
            "capsule": {"goal": goal, "summary": "", "next_action": "", **lists},
        }
    )


# Arguments that would work for the site that owns what ID names.
EXAMPLES: dict[str, str] = {
    "append_memory": '{"conversation_id":"ID","items":[{"text":"other"}]}',
    "recall_memory": '{"conversation_id":"ID"}',
    "replay_memory": '{"conversation_id":"ID","limit":10}',
    "list_conversations": "{}",
    "memory_put": '{"namespace":"ID","key":"key","value":"other"}',
    "memory_get": '{"namespace":"ID","key":"key"}',
    "memory_list": '{"namespace":"ID"}',
    "memory_delete": '{"namespace":"ID","key":"key"}',
    "memory_checkpoint": checkpoint("checkpoint-2", "other", expected_revision=1),
    "memory_restore": '{"namespace":"ID","checkpoint_id":"checkpoint-1"}',
    "memory_delete_checkpoint": '{"namespace":"ID","checkpoint_id":"checkpoint-1"}',
}


def store(client: httpx.Client, owned: str) -> None:
    """Store something of every kind under an id, with the secret word in it."""
    for tool, arguments in (
        ("append_memory", f'{{"conversation_id":"ID","items":[{{"text":"{SECRET}"}}]}}'),
        ("memory_put", f'{{"namespace":"ID","key":"key","value":"{SECRET}"}}'),
        ("memory_checkpoint", checkpoint("checkpoint-1", SECRET, expected_revision=0)),
    ):
        answer = call(client, tool, arguments.replace("ID", owned))
        assert answer["isError"] is False, answer


def everything(client: httpx.Client, owned: str) -> list[Any]:
    """Return all that a site can read by its tools."""
    return [call(client, tool.name, example(tool, owned)) for tool in TOOLS if tool.read_only]


def example(tool: Tool[Any], owned: str) -> str:
    assert tool.name in EXAMPLES, f"{tool.name} needs an example in this file"
    return EXAMPLES[tool.name].replace("ID", owned)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_another_site_reads_nothing_and_changes_nothing(
    client: httpx.Client, other_client: httpx.Client, conversation_id: str, tool: Tool[Any]
) -> None:
    store(client, conversation_id)
    before = everything(client, conversation_id)
    assert SECRET in json.dumps(before)
    answer = call(other_client, tool.name, example(tool, conversation_id))
    assert SECRET not in json.dumps(answer)
    assert everything(client, conversation_id) == before


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_tool_without_its_permission_is_hidden_and_refused(
    tenant: Tenant, client: httpx.Client, conversation_id: str, tool: Tool[Any]
) -> None:
    store(client, conversation_id)
    before = everything(client, conversation_id)
    others = [permission for permission in PERMISSIONS if permission != tool.permission]
    with tenant.with_permissions(*others).client() as lacking:
        listed = lacking.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
        assert tool.name not in {shown["name"] for shown in listed.json()["result"]["tools"]}
        refused = call(lacking, tool.name, example(tool, conversation_id))
    problem = json.loads(refused["content"][0]["text"])
    assert (problem["code"], problem["permission"]) == ("permission_denied", tool.permission)
    assert everything(client, conversation_id) == before
