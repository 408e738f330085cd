"""How much processor time the product, its database and a participant took."""

from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Used:
    """Seconds of processor time, by whose processes they were."""

    server: float
    database: float
    client: float

    def __sub__(self, before: "Used") -> "Used":
        return Used(self.server - before.server, self.database - before.database, self.client - before.client)


class Meter:
    """Reads the processes of a running product: the server's own, and PostgreSQL's, which are its children too."""

    def __init__(self, server: int, data: Path) -> None:
        self.server = psutil.Process(server)
        self.postmaster = psutil.Process(int((data / "postmaster.pid").read_text().split("\n", 1)[0]))

    def read(self, client: int) -> Used:
        """Return the time used so far; ``client`` is the process of the participant that is driven."""
        database = tree(self.postmaster)
        server = [process for process in tree(self.server) if process not in database]
        return Used(total(server), total(database), total(tree(psutil.Process(client))))


def tree(process: psutil.Process) -> list[psutil.Process]:
    """Return a process with everything below it."""
    return [process, *process.children(recursive=True)]


def total(processes: list[psutil.Process]) -> float:
    """Return the processor time of processes, and of their children that have ended (a client that disconnected)."""
    seconds = 0.0
    for process in processes:
        try:
            seconds += sum(process.cpu_times()[:4])
        except psutil.Error:
            continue
    return seconds
