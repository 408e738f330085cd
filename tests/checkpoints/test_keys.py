"""Keys of every kind through real HTTP: the bytes of the key are what comes back in the list, whatever they are."""

import base64
import socket
from urllib.parse import quote

import httpx
import pytest

from tests.calls import JSON, assert_problem
from tests.conftest import Server, Tenant
from tests.mcp.conftest import call

KEYS = [
    "simple",
    "with/slashes/in it",
    "trailing/",
    "/leading",
    "double//slash",
    "///",
    "100%",
    "%2F",
    "%25",
    "a%20b",
    "%FF",
    "a.b",
    "..a",
    "a..",
    "...",
    "a/.b/c.",
    "?query=1&x",
    "#fragment",
    "a+b c",
    "semi;colon,comma",
    "emoji \N{GRINNING FACE}\N{FAMILY}",
    "caf\u00e9 \u0301",
    "\u202eright to left",
    "quote\"'<b>&amp;",
    "back\\slash",
    "~tilde*star",
    ":@!$&'()",
    "\ufffd\uffff\U0010ffff",
    "é" * 256,
    "\N{GRINNING FACE}" * 128,
    "k" * 512,
    "records",
    "latest",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_the_same_on_every_route(served: httpx.Client, namespace: str, key: str) -> None:
    for spelling in {quote(key, safe=""), quote(key, safe="/")}:
        address = f"/v1/namespaces/{namespace}/records/{spelling}"
        stored = served.put(address, content=b'{"kind":"k"}', headers=JSON)
        assert stored.status_code in (200, 201), stored.text
        assert stored.json()["key"] == key
        assert served.get(address).content == b'{"kind":"k"}'
    assert stored.json()["revision"] == len({quote(key, safe=""), quote(key, safe="/")})
    listed = served.get(f"/v1/namespaces/{namespace}/records", params={"prefix": key}).json()["records"]
    assert [record["key"] for record in listed] == [key]
    arguments = f'{{"namespace":"{namespace}","key":{httpx.Response(200, json=key).text}}}'
    assert call(served, "memory_get", arguments)["structuredContent"]["key"] == key
    assert served.delete(address).status_code == 204
    assert_problem(served.get(address), "not_found")


def raw(server: Server, tenant: Tenant, method: str, target: bytes, body: bytes = b"") -> tuple[int, bytes]:
    """Send a request whose target no client has touched; return status and body."""
    credentials = base64.b64encode(":".join(tenant.auth).encode())
    head = b"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic %s\r\n" % (
        method.encode(),
        target,
        credentials,
    )
    if body:
        head += b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(head + b"\r\n" + body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    status, _, content = answer.partition(b"\r\n\r\n")
    return int(status.split()[1]), content


@pytest.mark.parametrize("key", KEYS)
def test_a_key_sent_by_hand_is_the_same(server: Server, tenant: Tenant, namespace: str, key: str) -> None:
    everything_escaped = "".join(f"%{byte:02x}" for byte in key.encode()).encode()
    address = f"/v1/namespaces/{namespace}/records/".encode()
    status, content = raw(server, tenant, "PUT", address + everything_escaped, b"1")
    assert status == 201, content
    status, content = raw(server, tenant, "GET", address + quote(key, safe="").encode())
    assert (status, content) == (200, b"1")
    assert raw(server, tenant, "DELETE", address + everything_escaped)[0] == 204
    assert raw(server, tenant, "GET", address + everything_escaped)[0] == 404


@pytest.mark.parametrize(
    "target",
    [
        b"",
        b".",
        b"..",
        b"a/..",
        b"../a",
        b"a/./b",
        b"%2e",
        b"a/%2E%2e/b",
        b"a%2f..%2fb",
        b"a%00",
        b"%0a",
        b"a%1f",
        b"%7f",
        b"%c2%85",
        b"%ff",
        b"%ed%a0%80",
        b"%c0%80",
        b"x" * 513,
        b"%c3%a9" * 257,
    ],
)
@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
def test_what_is_no_key_is_refused_on_every_route(
    server: Server, tenant: Tenant, namespace: str, target: bytes, method: str
) -> None:
    address = f"/v1/namespaces/{namespace}/records/".encode() + target
    status, content = raw(server, tenant, method, address, b"1" if method == "PUT" else b"")
    assert status == 400, content
    assert b'"code":"invalid_parameter"' in content


@pytest.mark.parametrize("name", [b".", b"..", b"%2e", b"%2e."])
def test_a_namespace_of_dots_is_refused(server: Server, tenant: Tenant, name: bytes) -> None:
    assert raw(server, tenant, "PUT", b"/v1/namespaces/" + name + b"/records/a", b"1")[0] == 400
