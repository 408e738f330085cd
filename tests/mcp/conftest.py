"""A client of the official MCP library, and calls in plain JSON-RPC for what it cannot send."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

Result = TypeVar("Result")
MODERN = "2026-07-28"
MODES = ("legacy", "auto", MODERN)


def with_client(
    address: str,
    auth: tuple[str, str],
    run: Callable[[Client], Awaitable[Result]],
    *,
    mode: str = "auto",
    headers: dict[str, str] | None = None,
) -> Result:
    """Run a coroutine with a connected official client, which gets nothing but a URL and credentials."""

    async def connect() -> Result:
        async with (
            httpx2.AsyncClient(auth=auth, timeout=30, headers=headers) as http,
            Client(streamable_http_client(address, http_client=http), mode=mode) as client,
        ):
            return await run(client)

    return asyncio.run(connect())


def rpc(method: str, params: str = "{}", *, request_id: int = 1) -> bytes:
    """Return a JSON-RPC request of the 2025 era, with the parameters as text."""
    return f'{{"jsonrpc":"2.0","id":{request_id},"method":"{method}","params":{params}}}'.encode()


def call(client: httpx.Client, tool: str, arguments: str, *, address: str = "/mcp") -> Any:
    """Call a tool with the arguments as JSON text; return the result, or the JSON-RPC error."""
    response = client.post(
        address,
        content=rpc("tools/call", f'{{"name":"{tool}","arguments":{arguments}}}'),
        headers={"Content-Type": "application/json"},
    )
    answer = response.json()
    return answer.get("result", answer.get("error"))
