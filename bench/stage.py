"""What the run stands on: the product as ``manage.py up`` starts it, on a state folder of its own."""

import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from bench.cpu import Meter
from bench.ground import Ground
from bench.ports import HOST, free_port
from memory_site.database.embedded import PORT, PostgreSQL, socket_folder
from memory_site.database.postgres_account import binaries

PROJECT = Path(__file__).resolve().parent.parent
STARTS_WITHIN = 60
PEERS_DATABASE = "peers"


@contextmanager
def product(*, workers: int, threads: int) -> Iterator[tuple[Ground, Meter, Path]]:
    """Start the product and load its data; stop it and leave nothing behind.

    Gives what the participants are told, the meter of its processes, and the folder of PostgreSQL's programs.
    """
    # Short, for the sake of the socket's path, and passable, because PostgreSQL does not run as root.
    folder = Path(tempfile.mkdtemp(prefix="memory-site-bench-", dir="/tmp"))
    folder.chmod(0o711)
    state = folder / "state"
    address = f"{HOST}:{free_port()}"
    environment = own_environment(state)
    options = ["--port", address.rpartition(":")[2], "--workers", str(workers), "--threads", str(threads)]
    log = folder / "up.log"
    try:
        with log.open("wb") as sink:
            server = subprocess.Popen(
                [sys.executable, "manage.py", "up", *options],
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        try:
            wait_until_ready(server, address, log)
            ground = prepare(address, make_peers_database(state), environment)
            yield ground, Meter(server.pid, state / "data"), binaries(state, None)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(90)
    finally:
        shutil.rmtree(folder)


def own_environment(state: Path) -> dict[str, str]:
    """Return the environment of a server that takes nothing from the machine's own one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_SITE_")}
    kept.pop("DATABASE_URL", None)
    return {**kept, "MEMORY_SITE_STATE": str(state), "DJANGO_SETTINGS_MODULE": "memory_site.settings"}


def wait_until_ready(server: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
    """Return when the server says that it can keep its promises, or raise with its last words."""
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline and server.poll() is None:
        asking = http.client.HTTPConnection(address, timeout=5)
        try:
            asking.request("GET", "/readyz")
            if asking.getresponse().status == http.HTTPStatus.OK:
                return
        except OSError:
            pass
        finally:
            asking.close()
        time.sleep(0.1)
    raise RuntimeError("The server did not start: " + log.read_text()[-2000:])


def make_peers_database(state: Path) -> str:
    """Make the database for tables that are not the product's, on the same PostgreSQL, and return its DSN."""
    with PostgreSQL(state).administer() as connection:
        connection.execute(f"CREATE ROLE {PEERS_DATABASE} LOGIN")
        connection.execute(f"CREATE DATABASE {PEERS_DATABASE} OWNER {PEERS_DATABASE}")
    return (
        f"postgresql://{PEERS_DATABASE}@/{PEERS_DATABASE}?host={quote(str(socket_folder(state)), safe='')}&port={PORT}"
    )


def prepare(address: str, peers_dsn: str, environment: dict[str, str]) -> Ground:
    """Load the data in a process with the product's settings."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.prepare", address, peers_dsn],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Ground.load(done.stdout.splitlines()[-1])
