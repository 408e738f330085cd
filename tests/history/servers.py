"""Whole servers to torment: ``manage.py up`` in a state folder of its own, with its workers and its PostgreSQL."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg

from memory_site.database import processes
from memory_site.database.embedded import connection_url
from memory_site.environment import PROJECT
from tests.conftest import free_port
from tests.history.clients import Account

MAKE_SITES = """
import django, json, secrets
django.setup()
from memory_site.sites.models import Credential, Site
made = []
for _ in range(%d):
    site = Site.objects.create(slug=f"site-{secrets.token_hex(4)}")
    made.append((site.slug, Credential.issue(site=site)[1]))
print(json.dumps(made))
"""


def until(condition: Callable[[], bool], *, patience: float = 60) -> None:
    """Return when the condition holds."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        time.sleep(0.02)


# As ``up`` serves: one worker whose threads are enough for every client of a test.
SERVE = """
from memory_site.management import web
web.APPLICATION = "{application}"
web.serve(address="127.0.0.1", port={port}, workers=1, threads=8, on_start=lambda: None)
"""


class Up:
    """``manage.py up``, which can be killed in every way and started again on the same state."""

    def __init__(self) -> None:
        # Not below pytest's own folders: PostgreSQL's user may not enter those, and its socket's path is short.
        self.state = Path(tempfile.mkdtemp(prefix="memory-site-", dir="/tmp"))
        self.port = free_port()
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("MEMORY_SITE_")
        } | {
            "MEMORY_SITE_STATE": str(self.state),
            "MEMORY_SITE_LOG_LEVEL": "CRITICAL",
            "DJANGO_SETTINGS_MODULE": "memory_site.settings",
        }
        self.environment.pop("DATABASE_URL", None)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it can serve."""
        with tempfile.NamedTemporaryFile() as said:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", str(self.port)],
                cwd=PROJECT,
                env=self.environment,
                stdout=said,
            )
            # Workers of a killed server answer in its place until it has ended them: only its own word counts.
            until(lambda: b"is ready at" in Path(said.name).read_bytes() or self.up.poll() is not None)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        until(self._is_ready)

    def ask(self, path: str) -> Any:
        """Return what the server answers to anybody."""
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=10, verify=False).json()

    def _is_ready(self) -> bool:
        if self.up.poll() is not None:
            raise RuntimeError(f"up ended with {self.up.returncode}")
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz", timeout=10, verify=False).status_code == 200
        except httpx.TransportError:
            return False

    @property
    def up(self) -> "subprocess.Popen[bytes]":
        assert self.process is not None
        return self.process

    def make_accounts(self, count: int) -> list[Account]:
        """Create sites, each with a credential."""
        made = subprocess.run(
            [sys.executable, "-c", MAKE_SITES % count],
            cwd=PROJECT,
            env=self.environment,
            capture_output=True,
            check=True,
        )
        return [Account(*pair) for pair in json.loads(made.stdout)]

    def connect(self, *, user: str = "memory_site") -> psycopg.Connection:
        """Return a connection past the server, as the application's role or as the superuser."""
        return psycopg.connect(connection_url(self.state), user=user, autocommit=True)

    def workers(self) -> list[psutil.Process]:
        """Return the living web workers."""
        found = []
        for child in psutil.Process(self.up.pid).children():
            with suppress(psutil.Error):
                if "spawn_main" in " ".join(child.cmdline()) and child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
        return found

    def postgres(self) -> list[psutil.Process]:
        """Return PostgreSQL's processes, the postmaster first."""
        found = processes.postgres_of(self.state / "data")
        return sorted(found, key=lambda process: process.ppid() in {other.pid for other in found})

    def kill(self, victims: Sequence[psutil.Process]) -> None:
        """SIGKILL all of these as nearly at once as can be: none gets to act on the death of another."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for victim in victims:
                with suppress(psutil.NoSuchProcess):
                    victim.send_signal(number)

    def kill_everything(self) -> None:
        """Kill the server, its workers and its database, as a machine does that loses its power (but for the disk)."""
        self.kill([psutil.Process(self.up.pid), *self.workers(), *self.postgres()])
        self.up.wait()

    def terminate(self) -> int:
        """Stop it in good order, and return its exit status."""
        self.up.terminate()
        return self.up.wait(60)

    def remove(self) -> None:
        """End what is left of it, however it fared, and its data."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill_everything()
        if (self.state / "data").exists():
            self.kill(self.postgres())
        shutil.rmtree(self.state, ignore_errors=True)


@contextmanager
def running_up() -> Iterator[Up]:
    """Start a whole server and remove it afterwards."""
    server = Up()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@contextmanager
def serving(application: str, *, database: str, port: int, **environment: str) -> Iterator[None]:
    """Serve a WSGI application with one worker on a database, from the tests' own modules if need be."""
    given: Mapping[str, str] = {
        "DATABASE_URL": database,
        "MEMORY_SITE_DATABASE_DIRECT": "true",
        "MEMORY_SITE_SECRET_KEY": "x" * 50,
        "MEMORY_SITE_LOG_LEVEL": "CRITICAL",
        **environment,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE.format(application=application, port=port)],
        cwd=PROJECT,
        env={**os.environ, **given},
    )

    def answers() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{application} does not start")
        try:
            return httpx.get(f"http://127.0.0.1:{port}/healthz", verify=False).status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(answers)
        yield
    finally:
        process.terminate()
        process.wait(60)
