"""Errors: a page for people under /admin/, a problem for programs elsewhere."""

from collections.abc import Callable

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client

from tests.conftest import Server, free_port
from tests.console.conftest import signed_in


def assert_page(response: object, status: int, heading: str) -> str:
    assert response.status_code == status  # type: ignore[attr-defined]  # Django's or httpx's
    assert response.headers["Content-Type"].startswith("text/html")  # type: ignore[attr-defined]  # likewise
    assert "no-store" in response.headers["Cache-Control"]  # type: ignore[attr-defined]  # likewise
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]  # type: ignore[attr-defined]  # likewise
    text: str = response.text  # type: ignore[attr-defined]  # likewise
    assert f"<h1>{heading}</h1>" in text
    assert response.headers["X-Request-ID"] in text  # type: ignore[attr-defined]  # likewise
    assert "Traceback" not in text
    return text


def test_an_unknown_address(console: Client) -> None:
    assert_page(console.get("/admin/nothing/"), 404, "Not found")
    assert_page(console.get("/admin/conversations/conversation/x/transcript/"), 404, "Not found")


def test_an_unknown_address_of_the_api_stays_a_problem(console: Client) -> None:
    for address in ("/nothing", "/v1/nothing", "/administrator"):
        response = console.get(address)
        assert response.status_code == 404
        assert response.headers["Content-Type"] == "application/problem+json"


def test_the_address_without_its_slash_leads_to_the_console(console: Client) -> None:
    assert console.get("/admin").headers["Location"] == "/admin/"


def test_a_missing_permission(make_staff: Callable[..., User]) -> None:
    response = signed_in(make_staff()).get("/admin/sites/site/")
    assert_page(response, 403, "You may not do this")


def test_a_request_that_cannot_be_read(operator: User) -> None:
    console = signed_in(operator)
    response = console.post("/admin/sites/site/add/", b"x", content_type="multipart/form-data")
    assert_page(response, 400, "This request cannot be read")


def test_a_fault_of_ours_says_nothing_of_itself(operator: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a secret is in here")

    monkeypatch.setattr("memory_site.overview.read_facts", fail)
    text = assert_page(
        signed_in(operator, raise_request_exception=False).get("/admin/"), 500, "Something went wrong here"
    )
    assert "a secret" not in text


def test_a_database_that_cannot_be_reached(start_server: Callable[..., Server]) -> None:
    server = start_server(database_url=f"postgres://nobody@127.0.0.1:{free_port()}/nothing", workers=1)
    with httpx.Client(base_url=server.address, cookies={"sessionid": "x" * 32}) as client:
        text = assert_page(client.get("/admin/sites/site/"), 503, "The database cannot be reached")
        assert 'href="/admin/sites/site/"' in text
        response = client.get("/admin/")
        assert response.headers["Retry-After"]
        assert client.get("/static/memory_site/console.css").status_code == 200
        assert client.get("/v1/conversations", auth=("a", "b")).headers["Content-Type"] == "application/problem+json"


def test_a_change_whose_answer_is_lost_says_to_look_first(operator: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr("memory_site.sites.admin.SiteAdmin.save_model", fail)
    console = signed_in(operator, raise_request_exception=False)
    text = assert_page(console.post("/admin/sites/site/add/", {"slug": "lost"}), 503, "The database cannot be reached")
    assert "look whether what you did is there" in text
