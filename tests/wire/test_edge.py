"""The HTTP edge, by raw sockets: what is judged by the headers alone, in which order, and what every answer carries."""

import http.client
import json
import socket
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection as database_connection

from tests.calls import JSON, append, assert_problem, items_address, new_id, post, stored
from tests.conftest import Server, Tenant

MEBIBYTE = 1024 * 1024


def authorization(tenant: Tenant) -> str:
    return "Authorization: Basic " + b64encode(":".join(tenant.auth).encode()).decode()


def exchange(server: Server, *lines: str, body: bytes = b"") -> tuple[httpx.Response, float]:
    """Send a request head of these lines, then a body, and return the answer and the seconds it took."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        head = "\r\n".join([*lines, "Host: localhost", "", ""]).encode("latin-1")
        started = time.monotonic()
        connection.sendall(head + body)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        content = answer.read()
        seconds = time.monotonic() - started
    return httpx.Response(answer.status, headers=answer.getheaders(), content=content), seconds


def post_raw(
    server: Server, tenant: Tenant, *lines: str, body: bytes = b"", conversation_id: str | None = None
) -> tuple[httpx.Response, float]:
    address = items_address(conversation_id or new_id())
    return exchange(server, f"POST {address} HTTP/1.1", authorization(tenant), *lines, body=body)


# -- Length, type and size, by the headers alone --------------------------------------------------------------


def test_a_chunked_body_is_refused_never_read_as_an_empty_one(
    server: Server, tenant: Tenant, conversation_id: str
) -> None:
    content = b'{"items":[{"a":1}]}'
    response, seconds = post_raw(
        server,
        tenant,
        "Content-Type: application/json",
        "Transfer-Encoding: chunked",
        body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content),
        conversation_id=conversation_id,
    )
    assert_problem(response, "length_required")
    assert seconds < 2
    with tenant.client(server.address) as client:
        assert stored(client, conversation_id) == []
        # As httpx sends a generator.
        response = client.post(items_address(conversation_id), content=iter([content]), headers=JSON)
        assert_problem(response, "length_required")


def test_a_body_with_both_a_length_and_chunks_is_refused(server: Server, tenant: Tenant, conversation_id: str) -> None:
    content = b'{"items":[{"a":1}]}'
    response, _ = post_raw(
        server,
        tenant,
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Transfer-Encoding: chunked",
        body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content),
        conversation_id=conversation_id,
    )
    assert_problem(response, "length_required")
    with tenant.client(server.address) as client:
        assert stored(client, conversation_id) == []


@pytest.mark.parametrize("lines", [(), ("Content-Type: application/json",), ("Content-Length: 0",)])
def test_no_body_is_an_empty_one(server: Server, tenant: Tenant, lines: tuple[str, ...]) -> None:
    response, _ = post_raw(server, tenant, *lines)
    assert_problem(response, "invalid_json")


@pytest.mark.parametrize("length", ["ten", "-1", "1.0", "0x10", "+5", "5 5", "\u00b2", "9" * 40])
def test_a_malformed_length_is_refused(server: Server, tenant: Tenant, length: str) -> None:
    response, seconds = post_raw(server, tenant, "Content-Type: application/json", f"Content-Length: {length}")
    # The HTTP server refuses most of them before there is a request.
    assert response.status_code in (400, 411, 413)
    assert seconds < 2


def test_an_announced_100_mb_is_refused_unread_within_a_second(server: Server, tenant: Tenant) -> None:
    response, seconds = post_raw(server, tenant, "Content-Type: application/json", "Content-Length: 100000000")
    assert_problem(response, "body_too_large", limit=4 * MEBIBYTE)
    assert seconds < 1


def test_a_body_of_4_mib_is_read_and_one_byte_more_is_not(client: httpx.Client, conversation_id: str) -> None:
    body = b'{"items":[{}]}'
    fits = body + b" " * (4 * MEBIBYTE - len(body))
    assert post(client, conversation_id, fits).status_code == 201
    assert_problem(post(client, conversation_id, fits + b" "), "body_too_large", limit=4 * MEBIBYTE)
    assert stored(client, conversation_id) == ["{}"]


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "Application/JSON",
        "application/json ; profile=x",
    ],
)
def test_json_is_taken_with_any_parameter(client: httpx.Client, conversation_id: str, media_type: str) -> None:
    response = client.post(
        items_address(conversation_id), content=b'{"items":[{}]}', headers={"Content-Type": media_type}
    )
    assert response.status_code == 201


@pytest.mark.parametrize(
    "media_type",
    ["", "text/plain", "application/jsonl", "application/vnd.api+json", "application/x-www-form-urlencoded", "json"],
)
def test_any_other_media_type_is_refused(client: httpx.Client, conversation_id: str, media_type: str) -> None:
    response = client.post(
        items_address(conversation_id), content=b'{"items":[{}]}', headers={"Content-Type": media_type}
    )
    assert_problem(response, "unsupported_media_type")
    assert stored(client, conversation_id) == []


def test_a_body_without_a_media_type_is_refused(client: httpx.Client, conversation_id: str) -> None:
    assert_problem(client.post(items_address(conversation_id), content=b'{"items":[{}]}'), "unsupported_media_type")


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "identity, gzip"])
def test_an_encoded_body_is_refused(client: httpx.Client, conversation_id: str, coding: str) -> None:
    response = client.post(
        items_address(conversation_id), content=b'{"items":[{}]}', headers={**JSON, "Content-Encoding": coding}
    )
    assert_problem(response, "unsupported_media_type")
    plain = client.post(
        items_address(conversation_id), content=b'{"items":[{}]}', headers={**JSON, "Content-Encoding": "identity"}
    )
    assert plain.status_code == 201


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "application/jsonl", "text/*"])
def test_an_answer_that_is_not_json_cannot_be_asked_for(client: httpx.Client, accept: str) -> None:
    assert_problem(client.get("/v1/conversations", headers={"Accept": accept}), "not_acceptable")


@pytest.mark.parametrize("accept", ["*/*", "application/*", "application/json", "text/html, */*;q=0.1"])
def test_json_is_served_to_whoever_takes_it(client: httpx.Client, accept: str) -> None:
    assert client.get("/v1/conversations", headers={"Accept": accept}).status_code == 200


def test_an_errors_own_media_type_may_be_asked_for(client: httpx.Client) -> None:
    response = client.get("/v1/conversations", headers={"Accept": "application/json, application/problem+json"})
    assert response.status_code == 200


# -- The order of judgement -----------------------------------------------------------------------------------


def test_each_judgement_comes_before_the_next(server: Server, tenant: Tenant) -> None:
    address = items_address("short")
    wrong = "Authorization: Basic " + b64encode(b"nobody:nothing").decode()
    reader = authorization(tenant.with_permissions("get"))
    writer = authorization(tenant)
    announced, chunked = "Content-Length: 100000000", "Transfer-Encoding: chunked"
    text, json_ = "Content-Type: text/plain", "Content-Type: application/json"

    def code(*lines: str, body: bytes = b"") -> str:
        response, _ = exchange(server, f"POST {address} HTTP/1.1", *lines, body=body)
        answered: str = response.json()["code"]
        return answered

    assert code(announced, text) == "authentication_required"
    assert code("Authorization: Bearer x", announced, text) == "unsupported_auth_scheme"
    assert code(wrong, announced, text) == "invalid_credentials"
    assert code(reader, announced, text) == "permission_denied"
    assert code(reader, chunked, text, body=b"0\r\n\r\n") == "permission_denied"
    assert code(writer, chunked, text, body=b"0\r\n\r\n") == "length_required"
    assert code(writer, announced, text) == "unsupported_media_type"
    assert code(writer, announced, json_) == "body_too_large"

    def of(body: bytes) -> str:
        return code(writer, json_, f"Content-Length: {len(body)}", body=body)

    assert of(b'{"items":1,"expected_seq":"') == "invalid_json"
    assert of(b'{"items":1,"expected_seq":""}') == "validation_failed"
    assert of(b'{"items":[1,2]}') == "invalid_conversation_id"
    address = items_address(new_id())
    assert of(b'{"items":[{},2]}') == "invalid_item"


# -- Methods and addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/conversations", {"GET", "HEAD"}),
        ("/v1/conversations/abcdefgh/items", {"POST"}),
        ("/v1/conversations/abcdefgh/recall", {"GET", "HEAD"}),
        ("/v1/conversations/abcdefgh/replay", {"GET", "HEAD"}),
    ],
)
def test_any_other_method_is_refused_with_those_allowed(client: httpx.Client, path: str, allowed: set[str]) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} - allowed:
        response = client.request(method, path)
        assert_problem(response, "method_not_allowed")
        assert set(response.headers["Allow"].split(", ")) == allowed


def test_head_answers_as_get_without_a_body(server: Server, tenant: Tenant, conversation_id: str) -> None:
    with tenant.client(server.address) as client:
        append(client, conversation_id)
        address = f"/v1/conversations/{conversation_id}/recall"
        head, get = client.head(address), client.get(address)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/v1", "/v1/", "/v1/nothing", "/v1/conversations/", "/v1/conversations/abcdefgh/items/"),
        *("//v1/conversations", "/v1//conversations", "/V1/conversations", "/v1/conversations/abcdefgh/../items"),
        *("/v1/conversations/abcdefgh%2Fx/items", "/static", "/favicon.ico", "/%00", "/%FF%FE"),
    ],
)
def test_an_unknown_address_is_a_json_404_and_never_a_redirect(server: Server, tenant: Tenant, path: str) -> None:
    for line in (authorization(tenant), "X-Nothing: 1"):
        response, _ = exchange(server, f"GET {path} HTTP/1.1", line)
        assert_problem(response, "not_found")


# -- What every answer carries --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/nothing", "/healthz", "/readyz", "/v1/conversations?x=1"])
def test_every_answer_has_the_security_headers_and_a_request_id(client: httpx.Client, path: str) -> None:
    for response in (client.get(path), client.get(path, auth=("x", "y"))):
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert len(response.headers["X-Request-ID"]) == 32
        assert "html" not in response.headers["Content-Type"]
        assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize("given", ["a", "A.b_c-9", "x" * 128])
def test_a_request_id_is_echoed(client: httpx.Client, given: str) -> None:
    assert client.get("/healthz", headers={"X-Request-ID": given}).headers["X-Request-ID"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", '{"a":1}', "a\tb", "<script>"])
def test_a_request_id_that_does_not_fit_is_replaced(client: httpx.Client, given: str) -> None:
    answered = client.get("/healthz", headers={"X-Request-ID": given}).headers["X-Request-ID"]
    assert answered != given
    assert len(answered) == 32


@dataclass
class Logged:
    """A server whose standard error can be read."""

    server: Server
    path: Path

    def lines(self, *, since: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()[since:]]

    def requests(self, request_id: str) -> list[dict[str, Any]]:
        """Return the lines of one request, which may be written after its answer."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            found = [line for line in self.lines() if line.get("request_id") == request_id]
            if found:
                return found
            time.sleep(0.02)
        return []


@pytest.fixture(scope="module")
def logged(start_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    path = tmp_path_factory.mktemp("log") / "stderr"
    with path.open("wb") as stderr:
        yield Logged(start_server(workers=1, stderr=stderr, memory_site_log_level="INFO"), path)


def test_every_request_is_one_line_of_json_and_holds_neither_payload_nor_secret(
    logged: Logged, tenant: Tenant, conversation_id: str
) -> None:
    word = "xylophone"
    slug, secret = tenant.auth
    with tenant.client(logged.server.address) as client:
        cases = [
            ("r-201", 201, slug, "POST", items_address(conversation_id), f'{{"items":[{{"a":"{word}"}}]}}'),
            ("r-400", 400, slug, "POST", items_address(conversation_id), f'{{"items":[{{"a":"{word}"}}'),
            ("r-bad", 400, slug, "POST", items_address(conversation_id), f'{{"{word}":"{word}"}}'),
            ("r-200", 200, slug, "GET", f"/v1/conversations/{conversation_id}/recall", None),
            ("r-que", 400, slug, "GET", f"/v1/conversations?{word}={word}", None),
            ("r-404", 404, None, "GET", f"/v1/{word}", None),
            ("r-401", 401, None, "GET", "/v1/conversations", None),
        ]
        for request_id, status, _, method, path, content in cases:
            response = client.request(
                method,
                path,
                content=content,
                headers={**JSON, "X-Request-ID": request_id},
                auth=(slug, secret + word) if status == 401 else (slug, secret),
            )
            assert response.status_code == status
    routes = []
    for request_id, status, site, method, _, _ in cases:
        (line,) = logged.requests(request_id)
        assert (line["status"], line["site"], line["method"]) == (status, site, method)
        assert line["ms"] > 0
        assert line["time"]
        routes.append(line["route"])
    assert routes[0] == "v1/conversations/<str:conversation_id>/items"
    assert routes[5] is None
    said = logged.path.read_text()
    assert word not in said
    assert secret not in said
    assert conversation_id not in said


def test_an_internal_error_is_logged_with_its_place_and_without_its_words(
    client: httpx.Client, conversation_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    append(client, conversation_id, '{"a":"xylophone"}')
    with database_connection.cursor() as cursor:
        # As after a restore of the wrong backup: a table that the code does not know.
        cursor.execute("ALTER TABLE receipt RENAME COLUMN key_digest TO key_of_another_version")
    try:
        response = append(client, conversation_id, '{"a":"xylophone"}', key="k")
    finally:
        with database_connection.cursor() as cursor:
            cursor.execute("ALTER TABLE receipt RENAME COLUMN key_of_another_version TO key_digest")
    problem = assert_problem(response, "internal_error")
    assert problem.keys() == {"type", "title", "status", "detail", "code", "retryable"}
    assert "receipt" not in response.text
    said = "".join(str(vars(record)) for record in caplog.records)
    assert "xylophone" not in said
    assert "42703" in said


def test_a_client_that_leaves_in_the_middle_of_its_body_stores_nothing_and_harms_nobody(
    logged: Logged, tenant: Tenant, conversation_id: str
) -> None:
    before = len(logged.lines())
    head = "\r\n".join(
        [
            f"POST {items_address(conversation_id)} HTTP/1.1",
            authorization(tenant),
            "Host: localhost",
            "Content-Type: application/json",
            "Content-Length: 1000",
            "",
            "",
        ]
    ).encode()
    for _ in range(8):
        with socket.create_connection(("127.0.0.1", logged.server.port)) as connection:
            connection.sendall(head + b'{"items":[{"a":1}]}')
            time.sleep(0.02)
    with tenant.client(logged.server.address, timeout=5) as client:
        assert stored(client, conversation_id) == []
        assert append(client, conversation_id).status_code == 201
    assert [line for line in logged.lines(since=before) if line["level"] == "ERROR"] == []


def test_a_body_that_is_shorter_than_announced_is_not_taken_for_a_whole_one(
    server: Server, tenant: Tenant, conversation_id: str
) -> None:
    body = b'{"items":[{"a":1}]}'
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        head = [
            f"POST {items_address(conversation_id)} HTTP/1.1",
            authorization(tenant),
            "Host: localhost",
            "Content-Type: application/json",
            f"Content-Length: {len(body) + 1}",
        ]
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536)
    assert b" 201 " not in answer.partition(b"\r\n")[0]
    with tenant.client(server.address) as client:
        assert stored(client, conversation_id) == []
