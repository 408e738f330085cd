"""Finding and ending processes that an owner left behind when it was killed, and no others.

A process id alone identifies nothing: it may have been given to a stranger since. PostgreSQL is recognised by its
working folder or its command line together with its user, a web worker by a random mark in its environment.
"""

import os
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

RUN_MARK = "MEMORY_SITE_STATE_RUN"
"""The environment variable that names the run of ``up`` which a process belongs to."""


def cluster_name(data: Path) -> str:
    """Return the name that the server processes of this data folder carry in their titles."""
    status = data.stat()
    return f"memory-site-{status.st_dev:x}-{status.st_ino:x}"


def postgres_of(data: Path) -> list[psutil.Process]:
    """Return the living server processes of a data folder, the postmaster and its backends."""
    folder = data.stat()
    title = f"postgres: {cluster_name(data)}: "
    found = []
    for process in psutil.process_iter():
        try:
            if not process.name().startswith("postgres") or process.uids().effective != folder.st_uid:
                continue
            if _is_over(process):
                continue
            command = process.cmdline()
            if command[0].startswith(title) or ("-D" in command and command[command.index("-D") + 1] == str(data)):
                found.append(process)
                continue
            # Where the kernel lets us look (a container's root may not): the folder may have been moved.
            working = os.stat(process.cwd())
            if (working.st_dev, working.st_ino) == (folder.st_dev, folder.st_ino):
                found.append(process)
        except (psutil.Error, OSError, IndexError):
            continue
    return found


def end_postgres(data: Path, *, patience: float = 60) -> list[int]:
    """End the server of a data folder whose owner is gone, and return the ids of its processes.

    Only for the holder of the state's lock: it is how one knows that nobody owns them.
    """
    found = postgres_of(data)
    # Fast shutdown, then immediate: after either, nothing that was acknowledged is lost.
    for number, seconds in ((signal.SIGINT, patience), (signal.SIGQUIT, 10.0)):
        postmasters = [process for process in postgres_of(data) if not _is_backend(process)]
        _send(number, postmasters)
        _wait(postmasters, seconds=seconds)
    # A backend whose postmaster is dead ends by itself, but one that is busy may take its time, and until it is
    # gone no server starts on its shared memory. With the postmaster dead, killing it harms nothing.
    _wait(postgres_of(data), seconds=5)
    left = postgres_of(data)
    _send(signal.SIGKILL, left)
    _wait(left, seconds=10)
    return [process.pid for process in found]


def _is_backend(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[0].startswith("postgres: ")
    except (psutil.Error, IndexError):
        return True


def end_run(left_behind: Mapping[str, Any], *, patience: float = 15) -> list[int]:
    """End the web workers that a killed ``up`` left behind, and return their ids; ``left_behind`` is what it wrote.

    They still hold the port. What they are answering is finished first, while their database is still there.
    """
    mark = left_behind.get("run")
    if not isinstance(mark, str):
        return []
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(RUN_MARK) == mark:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    _send(signal.SIGTERM, found)
    stubborn = _wait(found, seconds=patience)
    _send(signal.SIGKILL, stubborn)
    _wait(stubborn, seconds=5)
    return [process.pid for process in found]


def _send(number: int, processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        try:
            # psutil compares the time of creation first: a recycled id is not hit.
            process.send_signal(number)
        except psutil.Error:
            continue


def _wait(processes: Iterable[psutil.Process], *, seconds: float) -> list[psutil.Process]:
    """Wait until the processes are over, and return those that are not."""
    deadline = time.monotonic() + seconds
    left = list(processes)
    while left := [process for process in left if not _is_over(process)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return left


def _is_over(process: psutil.Process) -> bool:
    # A zombie is over. What was an orphan's may stay one for ever in a container whose first process reaps nobody,
    # and psutil's own waiting would wait for that.
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True
