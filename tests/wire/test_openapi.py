"""The description of the API says what the server does."""

import json
import re
from typing import Any

import httpx
import pytest

from memory_site.environment import PROJECT
from memory_site.problems import CATALOGUE
from memory_site.wsgi import application
from tests.test_isolation import ROUTES, Route


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    with httpx.Client(
        transport=httpx.WSGITransport(app=application), base_url="http://localhost", verify=False
    ) as client:
        response = client.get("/v1/schema")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    found: dict[str, Any] = response.json()
    return found


def path_of(route: Route) -> str:
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route.address)


def described(description: dict[str, Any], route: Route) -> dict[str, Any]:
    found: dict[str, Any] = description["paths"][path_of(route)][route.method.lower()]
    return found


def test_it_is_openapi_31_and_describes_every_route_and_no_other(description: dict[str, Any]) -> None:
    assert description["openapi"].startswith("3.1")
    found = {
        (method.upper(), path)
        for path, methods in description["paths"].items()
        for method in methods
        if method != "parameters"
    }
    assert found == {(route.method, path_of(route)) for route in ROUTES}


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_every_call_names_its_errors_by_status_and_code(description: dict[str, Any], route: Route) -> None:
    responses = described(description, route)["responses"]
    named = set()
    for status, response in responses.items():
        if "application/problem+json" in response.get("content", {}):
            for code in re.findall(r"`([a-z_]+)`", response["description"]):
                assert CATALOGUE[code].status == int(status)
                named.add(code)
    assert named >= {"authentication_required", "permission_denied", "timeout", "unavailable", "internal_error"}
    assert any(int(status) < 300 for status in responses)


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_every_call_takes_basic_credentials(description: dict[str, Any], route: Route) -> None:
    assert described(description, route)["security"] == [{"basic": []}]
    assert description["components"]["securitySchemes"]["basic"]["scheme"] == "basic"


def parameters(description: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    found = description["paths"][path][method]["parameters"]
    return {parameter["name"]: parameter for parameter in found}


def test_the_bounds_of_the_log_are_said(description: dict[str, Any]) -> None:
    conversation = "/v1/conversations/{conversation_id}"
    append = parameters(description, "post", conversation + "/items")
    recall = parameters(description, "get", conversation + "/recall")
    replay = parameters(description, "get", conversation + "/replay")
    listing = parameters(description, "get", "/v1/conversations")
    assert append.keys() == {"conversation_id", "Idempotency-Key"}
    assert (append["Idempotency-Key"]["in"], append["Idempotency-Key"].get("required", False)) == ("header", False)
    assert recall.keys() == {"conversation_id", "count"}
    assert replay.keys() == {"conversation_id", "offset", "limit"}
    assert listing.keys() == {"limit", "cursor", "appended_after", "appended_before"}

    def bounds(parameter: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(parameter["schema"].get(name) for name in ("minimum", "maximum", "default"))

    assert bounds(recall["count"]) == (0, 1000, 50)
    assert bounds(replay["limit"]) == (0, 1000, 1000)
    assert bounds(replay["offset"]) == (0, 2**64 - 1, 0)
    assert bounds(listing["limit"]) == (0, 1000, 50)
    pattern = recall["conversation_id"]["schema"]
    assert (pattern["minLength"], pattern["maxLength"]) == (8, 64)

    body = description["components"]["schemas"]["AppendItems"]
    assert body["properties"].keys() == {"items", "expected_seq", "expected_generation"}
    assert body["required"] == ["items"]
    items = body["properties"]["items"]
    assert (items["minItems"], items["maxItems"], items["items"]) == (1, 250, {"type": "object"})


def test_every_reference_leads_somewhere(description: dict[str, Any]) -> None:
    for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(description)):
        assert name in description["components"]["schemas"]


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_the_documentation_names_every_call_and_every_parameter(description: dict[str, Any], route: Route) -> None:
    text = (PROJECT / "docs" / "api.md").read_text()
    assert f"`{route.method} {path_of(route)}`" in text
    for parameter in described(description, route).get("parameters", []):
        assert f"`{parameter['name']}`" in text
