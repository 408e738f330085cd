"""The page of the API's description, in a real browser under the real policy."""

import os
from pathlib import Path
from typing import Literal

import httpx
import pytest

from tests.browser import browser, page_of
from tests.conftest import Server


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_shows_every_call_from_its_own_assets(server: Server, scheme: Literal["light", "dark"]) -> None:
    with browser() as running, page_of(running, scheme=scheme) as page:
        elsewhere: list[str] = []
        page.on("request", lambda request: elsewhere.append(request.url) if server.address not in request.url else None)
        page.goto(server.address + "/v1/schema/page")
        page.wait_for_selector("#operations-conversations-conversations_append")
        page.click("#operations-conversations-conversations_recall button >> nth=0")
        page.wait_for_selector("text=response_too_large")
        if folder := os.environ.get("MEMORY_SITE_TEST_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / f"schema-{scheme}.png", full_page=True)
        assert [url for url in elsewhere if not url.startswith("data:")] == []


def test_the_page_allows_no_inline_script_or_style(server: Server) -> None:
    policy = httpx.get(server.address + "/v1/schema/page").headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
