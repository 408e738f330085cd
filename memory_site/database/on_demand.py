"""The embedded server for the duration of one command of ``manage.py``.

Beside a running server a command uses that one; without, it starts one and stops it afterwards. Several commands
at once share the server of the first, which waits for the others before it stops.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from memory_site.database.embedded import PostgreSQL, answers
from memory_site.database.processes import end_run
from memory_site.database.state import Hold, StateError, ensure_secret_key, prepare, state_folder

logger = logging.getLogger("memory_site.database")

WITHOUT_DATABASE = {
    "check",
    "collectstatic",
    "diffsettings",
    "findstatic",
    "help",
    "makemessages",
    "makemigrations",
    "spectacular",
    "startapp",
    "version",
}
"""Commands that say all they have to say without a database."""


@contextmanager
def database_for(arguments: Sequence[str]) -> Iterator[None]:
    """Give the command in ``arguments`` a database and a secret key if it wants them; ``up`` sees to the database."""
    command = next(iter(arguments), "help")
    if command.startswith("-") or command in WITHOUT_DATABASE or {"-h", "--help", "--version"} & set(arguments):
        yield
        return
    try:
        state = state_folder()
        prepare(state)
        if not os.environ.get("MEMORY_SITE_SECRET_KEY"):
            ensure_secret_key(state)
        if command == "up" or os.environ.get("DATABASE_URL"):
            yield
            return
        with _running_server(state, command=command):
            yield
    except StateError as error:
        print(f"manage.py {command}: {error}", file=sys.stderr)
        sys.exit(1)


@contextmanager
def _running_server(state: Path, *, command: str) -> Iterator[None]:
    owner, users = Hold(state), Hold(state, name="users.lock")
    began = time.monotonic()
    while not owner.take():
        # The owner of the running server takes this lock alone before it stops: shared, it keeps the server up.
        if users.take(shared=True):
            if answers(state):
                try:
                    yield
                finally:
                    users.release()
                return
            users.release()
        if time.monotonic() - began > 60:
            raise StateError(f"process {owner.holder().get('pid')} holds {state}, but its database does not answer.")
        time.sleep(0.1)
    # The default would end this process without a word to the server.
    signal.signal(signal.SIGTERM, _exit)
    server = PostgreSQL(state)
    try:
        end_run(owner.left_behind)
        owner.write(command=command)
        server.start()
        yield
    finally:
        try:
            if not users.take():
                print("Waiting for another command that uses the database.", file=sys.stderr)
                users.take(wait=True)
        finally:
            server.stop()
            users.release()
            owner.release()


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
