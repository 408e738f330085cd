"""Runs of ``manage.py`` as real processes, each set in a state folder of its own."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

from memory_site.database import processes
from memory_site.environment import PROJECT
from tests.conftest import free_port

T = TypeVar("T")


def new_state() -> Path:
    """Return an empty folder with a short path, as ``mktemp -d`` makes it."""
    return Path(tempfile.mkdtemp(prefix="memory-site-", dir="/tmp"))


def environment(state: Path) -> dict[str, str]:
    """Return an environment that knows of no other server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_SITE_")}
    kept.pop("DATABASE_URL", None)
    return {**kept, "MEMORY_SITE_STATE": str(state), "MEMORY_SITE_LOG_LEVEL": "WARNING"}


def manage(state: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run one command to its end."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env={**environment(state), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def until(answer: Callable[[], T], *, what: str, seconds: float = 30) -> T:
    """Ask again and again until the answer is true, and return it."""
    deadline = time.monotonic() + seconds
    while True:
        if found := answer():
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.03)


class Run:
    """One ``manage.py up``, and everything that it said."""

    def __init__(self, state: Path, *options: str, port: int | None = None, ready: bool = True) -> None:
        self.state = state
        self.port = port or free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (read for as long as this object lives)
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(self.port), *options],
            cwd=PROJECT,
            env=environment(state),
            stdout=self._output,
            stderr=subprocess.STDOUT,
            # A group of its own, so that Ctrl-C can be pressed for it alone.
            process_group=0,
        )
        if ready:
            until(lambda: "is ready at" in self.said or self.process.poll() is not None, what="up is ready")
            assert self.process.poll() is None, self.said

    @property
    def said(self) -> str:
        return os.pread(self._output.fileno(), 1_000_000, 0).decode()

    def shown(self, label: str) -> str:
        """Return what the first run showed behind a label."""
        found = re.search(rf"^ +{label} +(\S+)$", self.said, re.MULTILINE)
        assert found, self.said
        return found[1]

    @property
    def workers(self) -> list[psutil.Process]:
        """The living web workers."""
        return living(
            child
            for child in psutil.Process(self.process.pid).children()
            if child.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(child.cmdline())
        )

    @property
    def postmaster(self) -> psutil.Process:
        return psutil.Process(int((self.state / "data" / "postmaster.pid").read_text().splitlines()[0]))

    def ready(self) -> bool:
        """Whether it serves requests that need the database."""
        try:
            return httpx.get(f"{self.address}/readyz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """Kill it alone; what it started lives on."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Stop it in good order, and return its exit status."""
        self.process.terminate()
        return self.process.wait(60)


def living(found: Any) -> list[psutil.Process]:
    """Return the processes that are neither gone nor dead and unburied."""
    return [each for each in found if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def remove(state: Path) -> None:
    """End what is left of a state folder's processes, and its files."""
    try:
        left_behind = json.loads((state / "lock").read_text())
        psutil.Process(left_behind["pid"]).kill()
    except (OSError, ValueError, KeyError, psutil.Error):
        left_behind = {}
    processes.end_run(left_behind)
    if (state / "data").exists():
        processes.end_postgres(state / "data")
    shutil.rmtree(state, ignore_errors=True)
