"""The nginx configuration of the documentation, run as it stands but for its address and certificate."""

import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import Server, Tenant, free_port

CONFIGURATION = Path(__file__).parent.parent / "docs" / "nginx.conf"
STALLED = 200


@pytest.fixture
def proxied(start_server: Callable[..., Server], tmp_path: Path) -> Iterator[str]:
    """The server behind nginx, under the name that the documentation uses; yields nginx's address."""
    server = start_server(memory_site_trusted_proxies="1", memory_site_allowed_hosts="memory.example.com")
    port = free_port()
    text = CONFIGURATION.read_text()
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    text = re.sub(r"ssl_certificate.*\n", "\n", text).replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")
    paths = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = tmp_path / "nginx.conf"
    main.write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; worker_processes 1;\n"
        f"user root;\nevents {{ worker_connections 1024; }}\nhttp {{ access_log off; {paths}\n{text}\n}}\n"
    )
    process = subprocess.Popen(["nginx", "-c", str(main), "-e", str(tmp_path / "error.log")])
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                httpx.get(address + "/healthz")
                break
            except httpx.TransportError:
                assert process.poll() is None, (tmp_path / "error.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait(10)


def call(client: httpx.Client, conversation_id: str) -> httpx.Response:
    return client.post(
        f"/v1/conversations/{conversation_id}/items", json={"items": [{"a": 1}]}, headers={"Host": "memory.example.com"}
    )


def test_two_hundred_stalled_bodies_hold_nobody_up(proxied: str, tenant: Tenant, conversation_id: str) -> None:
    port = int(proxied.rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        for _ in range(STALLED):
            stalled = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            stalled.sendall(
                f"POST /v1/conversations/{conversation_id}/items HTTP/1.1\r\nHost: memory.example.com\r\n"
                "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{".encode()
            )
        client = stack.enter_context(tenant.client(proxied))
        started = time.monotonic()
        for _ in range(5):
            assert call(client, conversation_id).status_code == 201
        assert time.monotonic() - started < 5  # under a second each


def test_chunked_bodies_mcp_and_the_name_of_the_proxy_work(proxied: str, tenant: Tenant, conversation_id: str) -> None:
    with tenant.client(proxied) as client:
        headers = {"Host": "memory.example.com", "Content-Type": "application/json"}
        chunks = iter([b'{"items":[{"a"', b":1}]}"])
        chunked = client.post(f"/v1/conversations/{conversation_id}/items", content=chunks, headers=headers)
        assert chunked.status_code == 201  # nginx passes it on with its length
        ping = client.post("/mcp", content=b'{"jsonrpc":"2.0","id":1,"method":"ping"}', headers=headers)
        assert ping.json()["result"] == {}


def test_what_nginx_refuses_itself_has_the_form_of_the_servers_errors(proxied: str, tenant: Tenant) -> None:
    with tenant.client(proxied) as client:
        response = client.post("/mcp", content=b" " * (10 * 1024 * 1024), headers={"Host": "memory.example.com"})
        assert (response.status_code, response.json()["code"]) == (413, "body_too_large")
        assert response.headers["Content-Type"] == "application/problem+json"
        assert client.get("/metrics", headers={"Host": "memory.example.com"}).status_code == 404


def test_failed_attempts_are_counted_by_the_clients_address_not_the_proxys(proxied: str, tenant: Tenant) -> None:
    """Twenty failures a minute and process: behind one proxy the right secret still passes after them."""
    codes = set()
    with httpx.Client(base_url=proxied, auth=(tenant.site.slug, "wrong")) as wrong:
        for _ in range(60):
            codes.add(wrong.get("/v1/conversations", headers={"Host": "memory.example.com"}).json()["code"])
    assert "too_many_failures" in codes
    with tenant.client(proxied) as client:
        assert client.get("/v1/conversations", headers={"Host": "memory.example.com"}).status_code == 200
