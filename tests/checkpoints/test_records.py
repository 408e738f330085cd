"""Put, get and delete a record, over HTTP."""

import secrets
import time
from email.utils import parsedate_to_datetime

import httpx
import pytest

from tests.calls import JSON, assert_problem, put_record
from tests.checkpoints.conftest import expire

VALUES = [
    b'{"b" : 1.0,"a":1E400,"a":"\\u0000\xc3\xa9"}',
    b"  [1,\t2]\r\n",
    b"123456789012345678901234567890",
    b'"text \\ud83d\\ude00"',
    b"null",
    b"true",
    b"-0",
    b"[" * 128 + b"]" * 128,
]


@pytest.mark.parametrize("value", VALUES)
def test_any_json_comes_back_byte_for_byte(client: httpx.Client, namespace: str, value: bytes) -> None:
    stored = put_record(client, namespace, "a/b", value)
    assert stored.status_code == 201, stored.text
    assert stored.json()["size"] == len(value)
    read = client.get(f"/v1/namespaces/{namespace}/records/a/b")
    assert (read.status_code, read.content) == (200, value)
    assert read.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "value", [b"", b"nan", b'{"a":1,}', b"\xef\xbb\xbf1", b'"\xff"', b'"\\ud800"', b"1 2", b"[" * 1_000_000]
)
def test_what_is_not_json_is_refused(client: httpx.Client, namespace: str, value: bytes) -> None:
    assert_problem(put_record(client, namespace, "a", value), "invalid_json")


def test_a_value_of_256_kib_is_kept_and_one_byte_more_refused(client: httpx.Client, namespace: str) -> None:
    value = b'"' + b"x" * (256 * 1024 - 2) + b'"'
    assert put_record(client, namespace, "a", value).status_code == 201
    assert client.get(f"/v1/namespaces/{namespace}/records/a").content == value
    assert_problem(put_record(client, namespace, "a", value + b" "), "payload_too_large", limit=256 * 1024)


def test_the_answers_say_what_they_promise(client: httpx.Client, namespace: str) -> None:
    created = put_record(client, namespace, "a", "1", query="?ttl=60")
    assert (created.status_code, created.headers["ETag"]) == (201, '"1"')
    body = created.json()
    assert body.keys() == {"key", "revision", "updated_at", "expires_at", "size"}
    replaced = put_record(client, namespace, "a", "22")
    assert (replaced.status_code, replaced.json()["revision"], replaced.json()["size"]) == (200, 2, 2)
    assert replaced.json()["expires_at"] is None, "every put sets the expiry anew"
    put_record(client, namespace, "a", "3", query="?ttl=315360000")
    read = client.get(f"/v1/namespaces/{namespace}/records/a")
    assert (read.headers["ETag"], read.headers["X-Revision"]) == ('"3"', "3")
    assert read.headers["X-Expires-At"].endswith("Z")
    assert abs(parsedate_to_datetime(read.headers["Last-Modified"]).timestamp() - time.time()) < 60
    head = client.head(f"/v1/namespaces/{namespace}/records/a")
    assert (head.status_code, head.headers["ETag"]) == (200, '"3"')


@pytest.mark.parametrize("ttl", ["0", "-1", "315360001", "1.5", "1e2", "", "x"])
def test_a_ttl_out_of_bounds_is_refused(client: httpx.Client, namespace: str, ttl: str) -> None:
    assert_problem(put_record(client, namespace, "a", "1", query=f"?ttl={ttl}"), "invalid_parameter", field="ttl")
    assert_problem(client.get(f"/v1/namespaces/{namespace}/records/a"), "not_found")


def test_a_get_with_the_known_revision_is_not_modified(client: httpx.Client, namespace: str) -> None:
    put_record(client, namespace, "a", "1")
    address = f"/v1/namespaces/{namespace}/records/a"
    for known in ('"1"', 'W/"1"', '"0", "1"', "*"):
        read = client.get(address, headers={"If-None-Match": known})
        assert (read.status_code, read.content, read.headers["ETag"]) == (304, b"", '"1"'), known
    for other in ('"2"', '"x"', '"0", "7"', '"99999999999999999999999"'):
        assert client.get(address, headers={"If-None-Match": other}).status_code == 200, other
    assert_problem(client.get(address, headers={"If-None-Match": "a b"}), "invalid_parameter", field="If-None-Match")
    assert_problem(client.get(address, headers={"If-Match": '"1"'}), "invalid_parameter", field="If-Match")


def test_a_write_with_the_wrong_condition_changes_nothing(client: httpx.Client, namespace: str) -> None:
    address = f"/v1/namespaces/{namespace}/records/a"
    for condition in ('"1"', '"0"', "*"):
        assert_problem(put_record(client, namespace, "a", "1", if_match=condition), "precondition_failed")
        assert_problem(client.delete(address, headers={"If-Match": condition}), "precondition_failed")
    assert put_record(client, namespace, "a", "1", if_none_match="*").status_code == 201
    assert_problem(
        put_record(client, namespace, "a", "2", if_none_match="*"), "precondition_failed", current_revision=1
    )
    for condition in ('"2"', 'W/"1"', '"x"', '"18446744073709551616"'):
        refused = put_record(client, namespace, "a", "2", if_match=condition)
        assert_problem(refused, "precondition_failed", current_revision=1)
        assert_problem(client.delete(address, headers={"If-Match": condition}), "precondition_failed")
    assert client.get(address).content == b"1"
    assert put_record(client, namespace, "a", "2", if_match='"1"').status_code == 200
    assert put_record(client, namespace, "a", "3", if_match='"7", "2"').status_code == 200
    assert put_record(client, namespace, "a", "4", if_match="*").status_code == 200
    assert client.delete(address, headers={"If-Match": '"4"'}).status_code == 204
    for header, condition in (("if_match", "1 2"), ("if_none_match", '"1"'), ("idempotency_key", "k")):
        assert_problem(put_record(client, namespace, "a", "1", **{header: condition}), "invalid_parameter")


def test_deleted_and_created_again_is_refused_to_who_knew_it_before(client: httpx.Client, namespace: str) -> None:
    etag = put_record(client, namespace, "a", "1").headers["ETag"]
    assert client.delete(f"/v1/namespaces/{namespace}/records/a").status_code == 204
    assert client.delete(f"/v1/namespaces/{namespace}/records/a").status_code == 204
    assert_problem(client.get(f"/v1/namespaces/{namespace}/records/a"), "not_found")
    created = put_record(client, namespace, "a", "2")
    assert (created.status_code, created.json()["revision"]) == (201, 2)
    assert_problem(put_record(client, namespace, "a", "3", if_match=etag), "precondition_failed", current_revision=2)
    assert client.get(f"/v1/namespaces/{namespace}/records/a").content == b"2"


def test_an_expired_record_is_gone_at_once_and_reading_never_revives_it(client: httpx.Client, namespace: str) -> None:
    key = secrets.token_hex(8)
    put_record(client, namespace, key, '{"kind":"fact"}', query="?ttl=60")
    expire(key)
    for _ in range(2):
        assert_problem(client.get(f"/v1/namespaces/{namespace}/records/{key}"), "not_found")
        assert client.get(f"/v1/namespaces/{namespace}/records").json()["records"] == []
        assert client.get(f"/v1/namespaces/{namespace}/records?kind=fact").json()["records"] == []
    assert_problem(put_record(client, namespace, key, "2", if_match='"1"'), "precondition_failed", current_revision=0)
    assert client.delete(f"/v1/namespaces/{namespace}/records/{key}").status_code == 204
    again = put_record(client, namespace, key, "2", if_none_match="*")
    assert (again.status_code, again.json()["revision"]) == (201, 2)


def test_a_second_is_a_second(client: httpx.Client, namespace: str) -> None:
    put_record(client, namespace, "a", "1", query="?ttl=1")
    assert client.get(f"/v1/namespaces/{namespace}/records/a").status_code == 200
    time.sleep(1.1)
    assert_problem(client.get(f"/v1/namespaces/{namespace}/records/a"), "not_found")


@pytest.mark.parametrize("key", ["checkpoint/", "checkpoint/a", "checkpoint/a/b"])
def test_reserved_keys_cannot_be_written_and_are_not_there(client: httpx.Client, namespace: str, key: str) -> None:
    address = f"/v1/namespaces/{namespace}/records/{key}"
    assert_problem(put_record(client, namespace, key, "1"), "reserved_key")
    assert_problem(client.delete(address), "reserved_key")
    assert_problem(client.get(address), "not_found")
    assert put_record(client, namespace, "checkpoint", "1").status_code == 201
    assert put_record(client, namespace, "checkpoints/a", "1").status_code == 201


@pytest.mark.parametrize("name", ["a" * 65, "a b", "%C3%A9", "a%0A", "a%00", "%2e%2e%2f", "a+b"])
def test_a_name_that_is_no_namespace_is_refused_on_every_route(client: httpx.Client, name: str) -> None:
    for method, rest in (("GET", "records"), ("GET", "records/a"), ("DELETE", "records/a"), ("PUT", "records/a")):
        response = client.request(method, f"/v1/namespaces/{name}/{rest}", content=b"1" if method == "PUT" else None,
                                  headers=JSON)  # fmt: skip
        assert response.status_code in (400, 404), response.text
        if response.status_code == 400:
            assert_problem(response, "invalid_parameter", field="namespace")


def test_what_a_body_must_be_is_judged_before_the_key(client: httpx.Client, namespace: str) -> None:
    address = f"/v1/namespaces/{namespace}/records/" + "x" * 600
    assert_problem(client.put(address, content=b"1", headers={"Content-Type": "text/plain"}), "unsupported_media_type")
    assert_problem(client.put(address, content=b"nan", headers=JSON), "invalid_json")
    assert_problem(client.put(address, content=b"1", headers=JSON), "invalid_parameter", field="key")
    assert_problem(client.put(address, content=b" " * (4 * 1024 * 1024 + 1), headers=JSON), "body_too_large")
