"""LangGraph: ``PostgresSaver``, a checkpoint after each message, with the thread's messages as one channel.

Where checkpoints are what is measured, the one channel is the bundle that the product saves.
"""

import json
from collections.abc import Callable
from importlib.metadata import version
from itertools import count
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg import Connection
from psycopg.rows import dict_row

from bench.driving import ThreadDriver, serve
from bench.ground import Ground
from bench.memories import SESSION, bundle
from bench.workloads import Workload, payload, read_conversation

MESSAGES_PER_THREAD = 50
"""An appending client begins another thread then: each checkpoint holds all messages of its thread."""

LOADED = bundle("checkpoint-1", SESSION, 0)


def thread(name: str) -> RunnableConfig:
    """Return what stands for a thread: for a read its latest checkpoint, for a first save none before it."""
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}


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
            self.put_messages(self.saver(0), read_conversation(workload.size), [self.message] * workload.size)
        if workload.kind == "restore":
            saver = self.saver(0)
            if saver.get_tuple(thread(SESSION)) is None:
                self.put(saver, thread(SESSION), 1, "bundle", LOADED)
            # Not the writes, which are none: see ``bench.prepare``.
            saver.conn.execute("VACUUM ANALYZE checkpoints")
            saver.conn.execute("VACUUM ANALYZE checkpoint_blobs")

    def put_messages(self, saver: PostgresSaver, name: str, messages: list[Any]) -> None:
        """Save a checkpoint of a thread with these messages."""
        self.put(saver, thread(name), len(messages), "messages", messages)

    def put(
        self, saver: PostgresSaver, after: RunnableConfig, step: int, channel: str, value: object
    ) -> RunnableConfig:
        """Save a checkpoint after another one, or as a thread's first, and return what the next one comes after."""
        channel_version = f"{step:032}.0"
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6(clock_seq=step))
        checkpoint["channel_values"] = {channel: value}
        checkpoint["channel_versions"] = {channel: channel_version}
        return saver.put(after, checkpoint, {"source": "loop", "step": step, "parents": {}}, {channel: channel_version})

    def client(self, workload: Workload, name: str, number: int) -> Callable[[], object]:
        saver = self.saver(number)
        if workload.kind == "append":
            return self.appends(saver, f"{name}-{number}")
        if workload.kind == "save":
            return self.saves(saver, f"{name}-{number}")
        if workload.kind == "restore":
            return lambda: self.restore(saver)
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
            self.put_messages(saver, f"{name}-{number // MESSAGES_PER_THREAD}", messages)

        return append

    def read(self, saver: PostgresSaver, workload: Workload) -> int:
        """Read the thread's state, which holds all messages; for a replay that is so many pages."""
        found = saver.get_tuple(thread(read_conversation(workload.size)))
        if found is None or len(found.checkpoint["channel_values"]["messages"]) != workload.size:
            raise RuntimeError("messages are missing")
        return 1 if workload.kind == "recall" else workload.size // workload.limit

    def saves(self, saver: PostgresSaver, name: str) -> Callable[[], object]:
        """Return a client's next checkpoint, of a thread of its own."""
        calls = count()
        latest = thread(name)

        def save() -> None:
            nonlocal latest
            number = next(calls)
            latest = self.put(saver, latest, number + 1, "bundle", bundle(f"{name}-{number}", name, number))

        return save

    def restore(self, saver: PostgresSaver) -> None:
        """Read the latest checkpoint of the loaded thread."""
        found = saver.get_tuple(thread(SESSION))
        if found is None or found.checkpoint["channel_values"].get("bundle") != LOADED:
            raise RuntimeError("a checkpoint is missing")


if __name__ == "__main__":
    serve(LangGraphSaver)
