"""``manage.py up``: everything, in one process that a person or a service manager starts and stops."""

import base64
import json
import os
import secrets
import shutil
import socket
import sys
import threading
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connections

from memory_site.database.embedded import PostgreSQL
from memory_site.database.processes import RUN_MARK, end_run
from memory_site.database.state import Hold, StateError
from memory_site.management import signals, web
from memory_site.management.first_run import FirstRun, ensure_first_run

THIS_MACHINE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""How a client on this machine reaches a server that listens on every address."""


def whole_number(*, at_least: int, at_most: int) -> Callable[[str], int]:
    """Return an argument type that takes whole numbers within bounds."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not at_least <= int(text) <= at_most:
            raise ArgumentTypeError(f"must be a whole number from {at_least} to {at_most}")
        return int(text)

    return parse


class Command(BaseCommand):
    """Start the database if none is named, migrate, make what a first run needs, and serve until told to stop."""

    help = "Start the whole server: the embedded PostgreSQL (unless DATABASE_URL is set), migrations, web workers."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the options."""
        parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=whole_number(at_least=1, at_most=65535), default=8000)
        parser.add_argument(
            "--workers", type=whole_number(at_least=1, at_most=64), default=2, help="web processes (default: 2)"
        )
        parser.add_argument(
            "--threads", type=whole_number(at_least=1, at_most=64), default=4, help="threads of each (default: 4)"
        )

    def handle(self, *, host: str, port: int, workers: int, threads: int, **_: Any) -> None:
        """Run until SIGINT or SIGTERM; everything that was started is stopped again, whatever happens."""
        try:
            with ExitStack() as started, signals.leaving_on_signals():
                self._run(started, host=host, port=port, workers=workers, threads=threads)
        except (StateError, web.AddressTaken) as error:
            self.stderr.write(str(error))
            sys.exit(1)
        self._say("Stopped.")

    def _run(self, started: ExitStack, *, host: str, port: int, workers: int, threads: int) -> None:
        hold = Hold(settings.STATE)
        self._take(hold)
        started.callback(hold.release)
        ended = end_run(hold.left_behind)
        if ended:
            self._say(f"Ended {len(ended)} processes of a server that was killed.")
        url = f"http://{_reachable_name(host)}:{port}"
        run = secrets.token_hex(16)
        hold.write(command="up", address=url, run=run)
        # Every worker carries it; the next start knows by it what belongs to this one.
        os.environ[RUN_MARK] = run
        address = web.numeric_address(host, port)
        self._make_room_for_figures()

        if not os.environ.get("DATABASE_URL"):
            database = PostgreSQL(settings.STATE)
            started.callback(database.stop)
            self._say(f"The database is in {settings.STATE}.")
            database.start(supervise=True)
        call_command("migrate", interactive=False, verbosity=0)
        first = ensure_first_run()
        # The workers have their own; one that stayed open here would be idle for ever.
        connections.close_all()
        if first is not None:
            self._introduce(first, url)
        web.serve(
            address=address,
            port=port,
            workers=workers,
            threads=threads,
            on_start=lambda: self._announce(address=address, port=port, url=url),
        )
        signals.ignore()
        self._say("Stopping.")

    def _make_room_for_figures(self) -> None:
        """Give the workers a folder to count in; what an earlier run counted is over."""
        folder = settings.STATE / "metrics"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)

    def _take(self, hold: Hold) -> None:
        for _ in range(300):
            if hold.take():
                return
            holder = hold.holder()
            if holder.get("command") == "up":
                raise StateError(
                    f"Memory Site is already running: process {holder.get('pid')} at {holder.get('address')}, "
                    f"with its state in {settings.STATE}."
                )
            # A command that started the database for itself has it for as long as it runs.
            time.sleep(0.1)
        raise StateError(
            f"{settings.STATE} is in use by process {holder.get('pid')} (manage.py {holder.get('command')})."
        )

    def _introduce(self, first: FirstRun, url: str) -> None:
        lines = [
            "",
            "This is the first run. What follows is shown once and cannot be read again:",
            "",
            f"  Address         {url}",
            f"  Basic user      {first.slug}",
            f"  Basic secret    {first.secret}",
        ]
        if first.operator:
            lines += [
                f"  Admin           {url}/admin/",
                f"  Admin login     {first.operator}",
                f"  Admin password  {first.password}",
            ]
        lines += [
            "",
            "As soon as the server is ready, this appends the first item to a conversation:",
            "",
            f"  curl -u {first.slug}:{first.secret} -H 'Content-Type: application/json' "
            """-d '{"items":[{"hello":"world"}]}' """
            f"{url}/v1/conversations/first-conversation/items",
            "",
            "And this is the configuration of an MCP client that sends headers:",
            "",
            f"  {mcp_configuration(first, url)}",
            "",
        ]
        self._say("\n".join(lines))

    def _announce(self, *, address: str, port: int, url: str) -> None:
        def wait() -> None:
            while True:
                try:
                    socket.create_connection((THIS_MACHINE.get(address, address), port), timeout=1).close()
                except OSError:
                    time.sleep(0.05)
                else:
                    self._say(f"Memory Site is ready at {url} (Ctrl-C stops it).")
                    return

        threading.Thread(target=wait, name="announce", daemon=True).start()

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        # Through a pipe nothing would arrive before the end.
        self.stdout.flush()


def mcp_configuration(first: FirstRun, url: str) -> str:
    """Return the JSON that most MCP clients take, filled in."""
    basic = base64.b64encode(f"{first.slug}:{first.secret}".encode()).decode()
    server = {"type": "http", "url": f"{url}/mcp", "headers": {"Authorization": f"Basic {basic}"}}
    return json.dumps({"mcpServers": {"memory": server}})


def _reachable_name(host: str) -> str:
    name = THIS_MACHINE.get(host, host)
    return f"[{name}]" if ":" in name else name
