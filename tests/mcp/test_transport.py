"""No sessions: any worker answers any request, under any name that the settings allow, also after a restart."""

from collections.abc import Callable

import pytest
from mcp import Client

from tests.conftest import Server, Tenant
from tests.mcp.conftest import MODES, with_client


@pytest.mark.parametrize("mode", MODES)
def test_four_workers_under_another_name_serve_one_client(
    start_server: Callable[..., Server], tenant: Tenant, conversation_id: str, mode: str
) -> None:
    server = start_server(workers=4, threads=2, memory_site_allowed_hosts="memory.example.com")

    async def run(client: Client) -> list[int]:
        firsts = []
        for number in range(30):
            items = [{"number": number}]
            answer = await client.call_tool("append_memory", {"conversation_id": conversation_id, "items": items})
            assert answer.structured_content is not None
            firsts.append(answer.structured_content["first_seq"])
        return firsts

    headers = {"Host": "memory.example.com", "Origin": "https://memory.example.com"}
    assert with_client(server.address + "/mcp", tenant.auth, run, mode=mode, headers=headers) == list(range(30))
    server.process.terminate()
    server.process.wait(30)


def test_a_client_goes_on_after_the_server_was_started_again(
    start_server: Callable[..., Server], tenant: Tenant, conversation_id: str
) -> None:
    first = start_server()

    async def run(client: Client) -> int:
        append = {"conversation_id": conversation_id, "items": [{}]}
        await client.call_tool("append_memory", append)
        first.process.terminate()
        first.process.wait(30)
        start_server(port=first.port)
        answer = await client.call_tool("append_memory", append)
        assert answer.structured_content is not None
        number: int = answer.structured_content["first_seq"]
        return number

    assert with_client(first.address + "/mcp", tenant.auth, run) == 1
