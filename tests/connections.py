"""How a run of the tests reaches its database: as the product does with its own server, or as with a foreign one.

``MEMORY_SITE_TEST_CONNECTION`` is ``direct`` (the default: statements bound and prepared by the server),
``unprepared`` (neither, as for a ``DATABASE_URL`` that is not declared direct) or ``pgbouncer`` (through a pooler in
transaction mode).
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db import connection

DIRECT, UNPREPARED, PGBOUNCER = "direct", "unprepared", "pgbouncer"
MODE = os.environ.get("MEMORY_SITE_TEST_CONNECTION", DIRECT)
assert MODE in (DIRECT, UNPREPARED, PGBOUNCER)

PGBOUNCER_INI = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
log_connections = 0
log_disconnections = 0
"""


def name_database() -> None:
    """Give the test database of a nested run a name of its own, before it is made."""
    if MODE != DIRECT:
        connection.settings_dict["TEST"]["NAME"] = f"test_memory_site_{MODE}_{os.getpid()}"


ADDRESS: dict[str, Any] = {}
"""Where the database server itself is."""


@contextlib.contextmanager
def reached_directly() -> Iterator[None]:
    """Let this process go past whatever stands before the database server."""
    settings = connection.settings_dict
    usual = {name: settings[name] for name in ADDRESS}
    settings.update(ADDRESS)
    try:
        yield
    finally:
        settings.update(usual)


@contextlib.contextmanager
def reached() -> Iterator[None]:
    """Let this process, and the servers that it starts, reach the test database in the way of this run."""
    settings = connection.settings_dict
    usual = {name: settings[name] for name in ("HOST", "PORT", "OPTIONS")}
    ADDRESS.update(HOST=settings["HOST"], PORT=settings["PORT"])
    with contextlib.ExitStack() as stack:
        if MODE != DIRECT:
            settings["OPTIONS"] = {**settings["OPTIONS"], "server_side_binding": False, "prepare_threshold": None}
        if MODE == PGBOUNCER:
            settings["PORT"] = str(stack.enter_context(pgbouncer(settings)))
            settings["HOST"] = "127.0.0.1"
        connection.close()
        try:
            yield
        finally:
            connection.close()
            settings.update(usual)


@contextlib.contextmanager
def pgbouncer(settings: dict[str, Any]) -> Iterator[int]:
    """Run PgBouncer in transaction mode in front of the database server, and return its port."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    assert program, "pgbouncer is missing: install it (Debian's package of this name)"
    host, port = str(settings["HOST"]), int(settings["PORT"] or 5432)
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
    folder.chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen: int = probe.getsockname()[1]
    (folder / "users.txt").write_text(f'"{settings["USER"]}" "{settings["PASSWORD"]}"\n')
    (folder / "pgbouncer.ini").write_text(PGBOUNCER_INI.format(host=host, port=port, listen=listen, folder=folder))
    # PgBouncer refuses root, and the embedded server's socket is its owner's alone.
    account: dict[str, Any] = {}
    if os.geteuid() == 0:
        owner = Path(host, f".s.PGSQL.{port}").stat() if host.startswith("/") else folder.stat()
        account = {"user": owner.st_uid or 65534, "group": owner.st_gid or 65534, "extra_groups": []}
    process = subprocess.Popen([program, "-q", str(folder / "pgbouncer.ini")], **account)
    try:
        deadline = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", listen), timeout=1):
                break
            assert process.poll() is None, "pgbouncer did not start"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield listen
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder)
