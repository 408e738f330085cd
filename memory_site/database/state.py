"""The state folder: where a server keeps what is its own — database, key, lock — and who holds it at the moment.

Without ``MEMORY_SITE_STATE`` it is ``var`` in the project's folder. PostgreSQL refuses to run as root, so when
root starts the server another user must be able to reach the data; below a folder that others may not enter
(a home of mode 0700) the state is therefore kept in ``/var/lib/memory-site/<project>-<hash>`` and ``var``
becomes a symbolic link to it. Permissions are only ever changed in the state folder itself.
"""

import fcntl
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
ELSEWHERE = Path("/var/lib/memory-site")
OTHERS = -1
"""A user id that owns nothing: what it can reach, everybody can."""


class StateError(Exception):
    """The state folder or the embedded server cannot be used; the message says what to do."""


def state_folder() -> Path:
    """Return the state folder, absolute and without links; nothing is created."""
    named = os.environ.get("MEMORY_SITE_STATE")
    if named:
        return Path(named).resolve()
    usual = (PROJECT / "var").resolve()
    # Only the embedded server has a second user, and data that is already there is never passed over.
    if os.geteuid() != 0 or os.environ.get("DATABASE_URL") or (usual / "data").exists() or reachable(PROJECT):
        return usual
    return ELSEWHERE / f"{PROJECT.name}-{hashlib.sha256(os.fsencode(PROJECT)).hexdigest()[:12]}"


def reachable(path: Path, *, uid: int = OTHERS) -> bool:
    """Return whether a user without extra groups can enter ``path`` and everything above it, by the mode bits."""
    try:
        for folder in (path, *path.parents):
            status = folder.stat()
            if not status.st_mode & (0o100 if status.st_uid == uid else 0o001):
                return False
    except OSError:
        return False
    return True


def prepare(state: Path) -> None:
    """Make the state folder, closed to others except for passing through it when root needs that."""
    try:
        if not state.exists():
            state.mkdir(parents=True, mode=0o755)
            _close(state)
        elif os.geteuid() == 0 and not any(state.iterdir()):
            # An empty folder that was named for us, such as one of mktemp: from now on it is ours.
            _close(state)
        usual = PROJECT / "var"
        if state.parent == ELSEWHERE and not os.environ.get("MEMORY_SITE_STATE") and not usual.is_symlink():
            if usual.is_dir() and not any(usual.iterdir()):
                usual.rmdir()
            if not usual.exists():
                usual.symlink_to(state)
    except OSError as error:
        raise StateError(
            f"The state folder {state} cannot be prepared: {error}. MEMORY_SITE_STATE names another."
        ) from None


def _close(state: Path) -> None:
    # Explicitly, because a umask of 077 would shut out the user that PostgreSQL runs as.
    state.chmod(0o711 if os.geteuid() == 0 else 0o700)
    if state.parent == ELSEWHERE:
        ELSEWHERE.chmod(0o755)


def read_secret_key(state: Path) -> str | None:
    """Return the key that signs sessions and cursors, or None before something has served from this folder."""
    try:
        return (state / "secret_key").read_text().strip() or None
    except OSError:
        return None


def ensure_secret_key(state: Path) -> None:
    """Make the key if there is none; of two at once, one key wins for both."""
    if read_secret_key(state) is not None:
        return
    draft = state / f"secret_key.{os.getpid()}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50) + "\n")
            file.flush()
            os.fsync(descriptor)
        try:
            # A link never replaces what is there, and never shows half a key.
            os.link(draft, state / "secret_key")
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    except OSError as error:
        raise StateError(f"No key can be written to {state}: {error}.") from None


class Hold:
    """The lock of a state folder: one process runs the embedded server or serves from it, and says who it is.

    The kernel gives the lock back when the process ends, however it ends; what it wrote stays, and tells the
    next holder what to clean up.
    """

    def __init__(self, state: Path, *, name: str = "lock") -> None:
        self.path = state / name
        self.left_behind: dict[str, Any] = {}
        self._descriptor: int | None = None

    def take(self, *, shared: bool = False, wait: bool = False) -> bool:
        """Take the lock and return True, or False when another process has it."""
        # Not inheritable (PEP 446): a lock that a worker or PostgreSQL inherited would outlive this process.
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StateError(f"{self.path} cannot be opened: {error.strerror}.") from None
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        if not shared:
            self.left_behind = self.holder()
        return True

    def write(self, **facts: Any) -> None:
        """Say who holds it."""
        if self._descriptor is None:
            raise RuntimeError("only the holder of a lock describes itself")
        text = json.dumps({"pid": os.getpid(), **facts}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)

    def holder(self) -> dict[str, Any]:
        """Return what the present or last holder wrote; empty when it went in good order."""
        try:
            facts = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return facts if isinstance(facts, dict) else {}

    def release(self) -> None:
        """Give it back, with nothing left to clean up."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
