"""LangGraph: ``PostgresSaver``, a checkpoint after each message, with the thread's messages as one channel."""

import json
from collections.abc import Callable
from importlib.metadata import version
from itertools import count
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg import Connection
from psycopg.rows import dict_row

from bench.driving import ThreadDriver, serve
from bench.ground import Ground
from bench.workloads import Workload, payload, read_conversation

MESSAGES_PER_THREAD = 50
"""An appending client begins another thread then: each checkpoint holds all messages of its thread."""


class LangGraphSaver(ThreadDriver):
    """One connection and one saver a client."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.savers: list[PostgresSaver] = []
        self.message: Any = json.loads(payload())
        self.saver(0).setup()

    def versions(self) -> dict[str, str]:
        return {"langgraph-checkpoint-postgres": version("langgraph-checkpoint-postgres")}

    def saver(self, number: int) -> PostgresSaver:
        """Return a client's saver."""
        while len(self.savers) <= number:
            connection = Connection.connect(
                self.ground.peers_dsn, autocommit=True, prepare_threshold=0, row_factory=dict_row
            )
            self.savers.append(PostgresSaver(connection))
        return self.savers[number]

    def prepare(self, workload: Workload) -> None:
        if workload.size:
            self.put(self.saver(0), read_conversation(workload.size), [self.message] * workload.size)

    def put(self, saver: PostgresSaver, thread: str, messages: list[Any]) -> None:
        """Save a checkpoint of a thread with these messages."""
        version_of_messages = f"{len(messages):032}.0"
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6(clock_seq=len(messages)))
        checkpoint["channel_values"] = {"messages": messages}
        checkpoint["channel_versions"] = {"messages": version_of_messages}
        saver.put(
            {"configurable": {"thread_id": thread, "checkpoint_ns": ""}},
            checkpoint,
            {"source": "loop", "step": len(messages), "parents": {}},
            {"messages": version_of_messages},
        )

    def client(self, workload: Workload, name: str, number: int) -> Callable[[], object]:
        saver = self.saver(number)
        if workload.kind == "append":
            return self.appends(saver, f"{name}-{number}")
        return lambda: self.read(saver, workload)

    def appends(self, saver: PostgresSaver, name: str) -> Callable[[], object]:
        """Return a client's append."""
        calls = count()
        messages: list[Any] = []

        def append() -> None:
            number = next(calls)
            if number % MESSAGES_PER_THREAD == 0:
                messages.clear()
            messages.append(self.message)
            self.put(saver, f"{name}-{number // MESSAGES_PER_THREAD}", messages)

        return append

    def read(self, saver: PostgresSaver, workload: Workload) -> int:
        """Read the thread's state, which holds all messages; for a replay that is so many pages."""
        found = saver.get_tuple({"configurable": {"thread_id": read_conversation(workload.size), "checkpoint_ns": ""}})
        if found is None or len(found.checkpoint["channel_values"]["messages"]) != workload.size:
            raise RuntimeError("messages are missing")
        return 1 if workload.kind == "recall" else workload.size // workload.limit


if __name__ == "__main__":
    serve(LangGraphSaver)
