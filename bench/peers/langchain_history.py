"""langchain-postgres: ``PostgresChatMessageHistory``, which numbers nothing and reads all of a session."""

from collections.abc import Callable
from importlib.metadata import version
from itertools import count
from uuid import NAMESPACE_URL, uuid5

from langchain_core.messages import AIMessage, message_to_dict
from langchain_postgres import PostgresChatMessageHistory
from psycopg import Connection, connect
from psycopg.types.json import Jsonb

from bench.driving import ThreadDriver, serve
from bench.ground import Ground
from bench.workloads import Workload, append_conversation, payload, read_conversation

TABLE = "message_history"
LOAD = f"""
INSERT INTO {TABLE} (session_id, message)
SELECT %(session)s::uuid, %(message)s::jsonb FROM generate_series(1, %(size)s::bigint)
WHERE NOT EXISTS (SELECT FROM {TABLE} WHERE session_id = %(session)s::uuid)
"""


class LangChainHistory(ThreadDriver):
    """One connection a client."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.connections: list[Connection] = []
        self.message = AIMessage(content=payload())
        PostgresChatMessageHistory.create_tables(self.connection(0), TABLE)

    def versions(self) -> dict[str, str]:
        return {"langchain-postgres": version("langchain-postgres")}

    def connection(self, number: int) -> Connection:
        """Return a client's connection."""
        while len(self.connections) <= number:
            self.connections.append(connect(self.ground.peers_dsn, autocommit=True, prepare_threshold=0))
        return self.connections[number]

    def history(self, conversation: str, number: int) -> PostgresChatMessageHistory:
        """Return a conversation over a client's connection."""
        session = str(uuid5(NAMESPACE_URL, conversation))
        return PostgresChatMessageHistory(TABLE, session, sync_connection=self.connection(number))

    def prepare(self, workload: Workload) -> None:
        if workload.size:
            session = uuid5(NAMESPACE_URL, read_conversation(workload.size))
            message = Jsonb(message_to_dict(self.message))
            self.connection(0).execute(LOAD, {"session": session, "message": message, "size": workload.size})
            self.connection(0).execute(f"VACUUM ANALYZE {TABLE}")

    def client(self, workload: Workload, name: str, number: int) -> Callable[[], object]:
        if workload.kind == "append":
            calls = count()
            messages = [self.message] * workload.batch
            return lambda: self.history(append_conversation(workload, name, number, next(calls)), number).add_messages(
                messages
            )
        history = self.history(read_conversation(workload.size), number)

        def read() -> int:
            # There is no way to ask for a part. A replay of everything counts as so many pages.
            if len(history.get_messages()) != workload.size:
                raise RuntimeError("messages are missing")
            return 1 if workload.kind == "recall" else workload.size // workload.limit

        return read


if __name__ == "__main__":
    serve(LangChainHistory)
