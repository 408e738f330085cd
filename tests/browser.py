"""Debian's Chromium, for tests that must see what a person sees. A missing browser fails, it does not skip."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

CHROMIUM = os.environ.get("MEMORY_SITE_TEST_CHROMIUM", "/usr/bin/chromium")
# No sandbox, because root may not have one; nothing that looks for a host outside.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def browser() -> Iterator[Browser]:
    """Run a headless Chromium."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield running
        finally:
            running.close()


@contextmanager
def page_of(running: Browser, *, scheme: Literal["light", "dark"] = "light", **options: Any) -> Iterator[Page]:
    """Open a page; at the end nothing may have been written to its console (a broken policy is)."""
    context = running.new_context(color_scheme=scheme, **options)
    page = context.new_page()
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert complaints == []
