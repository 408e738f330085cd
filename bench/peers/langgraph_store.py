"""LangGraph: ``PostgresStore``, one document an item below a conversation's namespace, or one a record."""

import json
from collections.abc import Callable
from importlib.metadata import version
from itertools import count
from typing import Any

from langgraph.store.postgres import PostgresStore
from psycopg import Connection
from psycopg.rows import dict_row

from bench.driving import ThreadDriver, serve
from bench.ground import Ground
from bench.memories import NAMESPACE, RECORDS, record_key, value
from bench.workloads import Workload, append_conversation, payload, read_conversation

LOAD = """
INSERT INTO store (prefix, key, value, created_at, updated_at)
SELECT %(prefix)s::text, lpad(n::text, 12, '0'), %(value)s::jsonb, now(), now() - interval '1 day' + n * interval '1 ms'
FROM generate_series(1, %(size)s::bigint) AS n
ON CONFLICT DO NOTHING
"""
LOAD_RECORDS = """
INSERT INTO store (prefix, key, value, created_at, updated_at)
SELECT %(prefix)s::text, key, %(value)s::jsonb, now(), now() FROM unnest(%(keys)s::text[]) AS key
ON CONFLICT DO NOTHING
"""
# As with the product, what is loaded is not where others write.
WRITTEN = ("bench-writer", NAMESPACE)
READ = ("bench-reader", NAMESPACE)


class LangGraphStore(ThreadDriver):
    """One connection and one store a client."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.stores: list[PostgresStore] = []
        self.value: Any = json.loads(payload())
        self.record: Any = json.loads(value())
        self.store(0).setup()

    def versions(self) -> dict[str, str]:
        return {"langgraph-checkpoint-postgres": version("langgraph-checkpoint-postgres")}

    def connect(self) -> "Connection[dict[str, Any]]":
        """Return a connection as its documentation has it."""
        return Connection.connect(self.ground.peers_dsn, autocommit=True, prepare_threshold=0, row_factory=dict_row)

    def store(self, number: int) -> PostgresStore:
        """Return a client's store."""
        while len(self.stores) <= number:
            self.stores.append(PostgresStore(self.connect()))
        return self.stores[number]

    def prepare(self, workload: Workload) -> None:
        if workload.size:
            with self.connect() as connection:
                values = {"prefix": self.prefix(workload), "value": payload(), "size": workload.size}
                connection.execute(LOAD, values)
                connection.execute("VACUUM ANALYZE store")
        if workload.kind == "get":
            with self.connect() as connection:
                keys = [record_key(number) for number in range(RECORDS)]
                connection.execute(LOAD_RECORDS, {"prefix": ".".join(READ), "value": value(), "keys": keys})
                connection.execute("VACUUM ANALYZE store")

    def prefix(self, workload: Workload) -> str:
        """Return where the items are that a workload reads."""
        return f"bench.{read_conversation(workload.size)}"

    def client(self, workload: Workload, name: str, number: int) -> Callable[[], object]:
        store = self.store(number)
        if workload.kind == "put":
            return self.puts(store, f"{name}/{number}")
        if workload.kind == "get":
            return self.gets(store)
        calls = count()
        if workload.kind == "append":

            def append() -> None:
                call = next(calls)
                place = ("bench", append_conversation(workload, name, number, call))
                store.put(place, f"{call:012}", self.value)

            return append
        namespace = tuple(self.prefix(workload).split("."))
        pages = 1 if workload.kind == "recall" else workload.size // workload.limit

        def read() -> None:
            # Its order is that of the last change, newest first.
            found = store.search(namespace, limit=workload.limit, offset=next(calls) % pages * workload.limit)
            if len(found) != workload.limit:
                raise RuntimeError("items are missing")

        return read

    def puts(self, store: PostgresStore, name: str) -> Callable[[], object]:
        """Return a client's put, of a new key each."""
        calls = count()
        return lambda: store.put(WRITTEN, f"{name}/{next(calls)}", self.record)

    def gets(self, store: PostgresStore) -> Callable[[], object]:
        """Return a client's get."""
        calls = count()

        def get() -> None:
            key = record_key(next(calls) * 7)
            found = store.get(READ, key)
            if found is None or found.key != key or found.value != self.record:
                raise RuntimeError("a record is missing")

        return get


if __name__ == "__main__":
    serve(LangGraphStore)
