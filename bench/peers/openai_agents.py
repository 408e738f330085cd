"""openai-agents: ``SQLAlchemySession`` over asyncpg, all clients in one event loop."""

import json
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from itertools import count
from typing import Any

from agents.extensions.memory import SQLAlchemySession
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from bench.driving import AsyncDriver, serve
from bench.ground import Ground
from bench.workloads import Workload, append_conversation, payload, read_conversation

LOAD = """
WITH session AS (INSERT INTO agent_sessions (session_id) VALUES (:name))
INSERT INTO agent_messages (session_id, message_data, created_at)
SELECT :name, :message, CURRENT_TIMESTAMP - interval '1 day' + n * interval '1 millisecond'
FROM generate_series(1, :size) AS n
"""


class OpenAIAgents(AsyncDriver):
    """One engine with a connection for each client, as its documentation has it."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        url = ground.peers_dsn.replace("postgresql://", "postgresql+asyncpg://")
        self.engine = create_async_engine(url, pool_size=8)
        self.item: Any = json.loads(payload())
        self.opened: dict[tuple[str, int], SQLAlchemySession] = {}
        # Makes the tables.
        self.loop.run_until_complete(self.session("bench-tables", create_tables=True).get_items())

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("openai-agents", "SQLAlchemy", "asyncpg")}

    def session(self, name: str, **options: bool) -> SQLAlchemySession:
        """Return one conversation."""
        return SQLAlchemySession(name, engine=self.engine, **options)

    def prepare(self, workload: Workload) -> None:
        if workload.size:
            values = {"name": self.place(workload), "message": payload(), "size": workload.size}
            self.loop.run_until_complete(self.load(values))

    def place(self, workload: Workload) -> str:
        """Return where a read workload's items are: of each its own."""
        return f"{read_conversation(workload.size)}-{workload.name}"

    async def load(self, values: dict[str, Any]) -> None:
        """Load one conversation by SQL."""
        async with self.engine.begin() as connection:
            await connection.execute(text(LOAD), values)
        async with self.engine.connect() as connection:
            await (await connection.execution_options(isolation_level="AUTOCOMMIT")).execute(
                text("VACUUM ANALYZE agent_messages")
            )

    def client(self, workload: Workload, name: str, number: int) -> Callable[[], Awaitable[object]]:
        if workload.kind == "append":
            return self.appends(workload, name, number)
        session = self.opened.setdefault((workload.name, number), self.session(self.place(workload)))
        if workload.kind == "recall":
            return lambda: self.recall(session, workload.limit)
        return lambda: self.replay(session, workload)

    def appends(self, workload: Workload, name: str, number: int) -> Callable[[], Awaitable[object]]:
        """Return a client's append."""
        calls = count()
        items = [self.item] * workload.batch
        opened: dict[str, SQLAlchemySession] = {}

        async def append() -> None:
            conversation = append_conversation(workload, name, number, next(calls))
            # Making one builds its tables' description, so an agent keeps it.
            if conversation not in opened:
                opened[conversation] = self.session(conversation)
            await opened[conversation].add_items(items)

        return append

    async def recall(self, session: SQLAlchemySession, limit: int) -> None:
        """Read the last items."""
        if len(await session.get_items(limit=limit)) != limit:
            raise RuntimeError("items are missing")

    async def replay(self, session: SQLAlchemySession, workload: Workload) -> int:
        """Read all items, which counts as so many pages: it has no offset."""
        if len(await session.get_items()) != workload.size:
            raise RuntimeError("items are missing")
        return workload.size // workload.limit


if __name__ == "__main__":
    serve(OpenAIAgents)
