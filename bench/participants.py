"""Who takes part: the processes that are driven, and the line protocol's other end."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.cpu import Meter, Used
from bench.driving import Measured
from bench.ground import Ground
from bench.workloads import Workload

PROJECT = Path(__file__).resolve().parent.parent
PEERS_PYTHON = PROJECT / ".venv-peers" / "bin" / "python"

LOG = frozenset({"append", "recall", "replay", "list"})
RECORDS = frozenset({"put", "get"})
CHECKPOINTS = frozenset({"save", "restore"})
MEMORIES = RECORDS | CHECKPOINTS


@dataclass(frozen=True)
class Participant:
    """One column of the comparison."""

    name: str
    title: str
    module: str
    kinds: frozenset[str] = LOG
    keyed: bool = True
    """Whether it knows idempotency keys."""
    ours: bool = True
    """Whether it runs in this environment; the others have one of their own."""
    without: frozenset[str] = frozenset()
    """Workloads that it has no call for, or takes minutes for."""

    def takes(self, workload: Workload) -> bool:
        """Return whether the workload means anything to it."""
        return workload.kind in self.kinds and (self.keyed or not workload.keyed) and workload.name not in self.without


PRODUCT = Participant("product", "Memory Site over REST", "product", kinds=LOG | MEMORIES)
MCP = Participant("mcp", "Memory Site over MCP", "mcp", kinds=frozenset({"append", "recall"}))
BARE = Participant("psycopg", "the same SQL, bare psycopg", "bare", kinds=LOG | MEMORIES)
PGBENCH = Participant("pgbench", "the same SQL, pgbench", "pgbench")

READS_ALL = frozenset({"recall-100k-8"})  # 100 MB a call, eight at once
ONE_WRITER = frozenset({"append-one", "batch"})  # no order among writers, no batch


def peer(
    name: str,
    title: str,
    module: str,
    without: frozenset[str] = frozenset(),
    memories: frozenset[str] = frozenset(),
) -> Participant:
    """Return a library that people use today: it knows conversations, and no keys and no lists of them.

    ``memories`` are the kinds of workload with records or checkpoints that it has calls for.
    """
    kinds = LOG - {"list"} | memories
    return Participant(name, title, module, kinds=kinds, keyed=False, ours=False, without=without)


PEERS = (
    peer("openai-agents", "openai-agents SQLAlchemySession", "openai_agents"),
    peer("langgraph-saver", "LangGraph PostgresSaver", "langgraph_saver", READS_ALL | ONE_WRITER, CHECKPOINTS),
    peer("langgraph-store", "LangGraph PostgresStore", "langgraph_store", READS_ALL | ONE_WRITER, RECORDS),
    peer("langchain", "langchain-postgres history", "langchain_history", READS_ALL),
    peer("ogx", "OGX Conversations API over HTTP", "ogx", READS_ALL | {"batch"}),  # it takes 20 items a call
)
NOT_RUN = {
    "Redis agent-memory-server": "not run, because it needs a Redis with its search module, which was not set up here",
}
PARTICIPANTS = (PRODUCT, MCP, BARE, PGBENCH, *PEERS)


class Failed(Exception):
    """A participant could not do what was asked; the message is its own."""


@dataclass(frozen=True)
class Run:
    """One participant's part of one round."""

    measured: Measured
    used: Used

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.measured.calls / self.measured.seconds


class Driven:
    """A participant's process."""

    def __init__(self, participant: Participant, ground: Ground, environment: Mapping[str, str], log: Path) -> None:
        self.participant = participant
        python = sys.executable if participant.ours else str(PEERS_PYTHON)
        with log.open("ab") as sink:
            self.process = subprocess.Popen(
                [python, "-m", f"bench.peers.{participant.module}"],
                cwd=PROJECT,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                bufsize=1,
            )
        try:
            opened = self.ask({"open": ground.dump()})
        except Failed:
            self.stop()
            raise
        self.versions: dict[str, str] = opened["versions"]
        if not participant.ours:
            self.versions["the peers' Python"] = opened["python"]

    def run(self, workload: Workload, name: str, seconds: float, meter: Meter) -> Run:
        """Let it run a workload, with the processor time that everybody used meanwhile."""
        before = meter.read(self.process.pid)
        answer = self.ask({"run": asdict(workload), "name": name, "seconds": seconds})
        return Run(Measured(**answer), meter.read(self.process.pid) - before)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Send one line and wait for one line."""
        if self.process.stdin is None or self.process.stdout is None:
            raise Failed("it has no pipes")
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failed(f"its process ended with status {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer

    def stop(self) -> None:
        """End it in good order."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        deadline = time.monotonic() + 10
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                self.process.kill()
            time.sleep(0.02)
