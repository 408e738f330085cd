"""The same statements through psycopg and nothing else: what the product's SQL can do on this machine in Python."""

import hashlib
import json
from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import UUID, uuid5

import psycopg

from bench.driving import ThreadDriver, serve
from bench.ground import Ground
from bench.memories import AGENT, NAMESPACE, SESSION, bundle, record_key, value
from bench.workloads import DETAILS_BYTES, Workload, append_conversation, payload, read_conversation


class Bare(ThreadDriver):
    """One connection a thread, server-side binding, every statement prepared: as the product has it."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.connections: list[psycopg.Connection] = []

    def versions(self) -> dict[str, str]:
        return {"psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__})"}

    def client(self, workload: Workload, name: str, number: int) -> Callable[[], object]:
        while len(self.connections) <= number:
            self.connections.append(psycopg.connect(self.ground.dsn, autocommit=True, prepare_threshold=0))
        sql = self.ground.statements[workload.kind]
        connection = self.connections[number]
        writes: dict[str, Callable[[Workload, str, int], Callable[[], Any]]]
        writes = {"append": self.appends, "put": self.puts, "save": self.saves}
        make = writes.get(workload.kind, self.reads)(workload, name, number)
        expected = workload.limit if workload.kind in ("recall", "replay", "list") else 1

        def call() -> None:
            rows = connection.execute(sql, make()).fetchall()
            if len(rows) < expected:
                raise RuntimeError(f"{len(rows)} rows in place of {expected}")

        return call

    def appends(self, workload: Workload, name: str, client: int) -> Callable[[], dict[str, Any]]:
        """Return what makes the parameters of a client's next append."""
        site = UUID(self.ground.writer.id)
        payloads = [payload()] * workload.batch
        calls = count()

        def parameters() -> dict[str, Any]:
            number = next(calls)
            conversation = append_conversation(workload, name, client, number)
            key = hashlib.sha256(f"{name}-{client}-{number}".encode()).digest() if workload.keyed else None
            return {
                "id": uuid5(site, conversation),
                "site": site,
                "conversation_id": conversation,
                "count": workload.batch,
                "payloads": payloads,
                "max_items": self.ground.max_items,
                "expected_seq": None,
                "expected_generation": None,
                "key_digest": key,
                "content_digest": key,
            }

        return parameters

    def puts(self, _: Workload, name: str, client: int) -> Callable[[], dict[str, Any]]:
        """Return what makes the parameters of a client's next put."""
        text = value()
        fixed = {
            "namespace": uuid5(UUID(self.ground.writer.id), NAMESPACE),
            "value": text,
            "size": len(text),
            "ttl": None,
            "kind": "fact",
            "tags": ["benchmark"],
            "topics": None,
            "event_time": None,
            "must_be_new": False,
            "must_exist": False,
            "matching": None,
            "evicting": False,
        }
        calls = count()
        return lambda: {**fixed, "key": f"{name}/{client}/{next(calls)}"}

    def saves(self, _: Workload, name: str, client: int) -> Callable[[], dict[str, Any]]:
        """Return what makes the parameters of a client's next checkpoint."""
        session = f"{name}-{client}"
        capsule = json.dumps(bundle("", session, 0)["capsule"])
        fixed = {
            "namespace": uuid5(UUID(self.ground.writer.id), NAMESPACE),
            "agent_id": AGENT,
            "session_id": session,
            "capsule": capsule,
            "reference_list": "[]",
            "details": '"' + "." * DETAILS_BYTES + '"',
            "digest": hashlib.sha256(b"").digest(),
        }
        calls = count()

        def parameters() -> dict[str, Any]:
            number = next(calls)
            return {**fixed, "checkpoint_id": f"{name}-{client}-{number}", "expected_revision": number}

        return parameters

    def reads(self, workload: Workload, name: str, client: int) -> Callable[[], Any]:
        """Return what makes the parameters of a client's next read."""
        if workload.kind == "list":
            return lambda: self.ground.list_parameters
        calls = count()
        namespace = uuid5(UUID(self.ground.reader.id), NAMESPACE)
        if workload.kind == "get":
            return lambda: {"namespace": namespace, "key": record_key(next(calls) * 7)}
        if workload.kind == "restore":
            return lambda: {"namespace": namespace, "agent_id": AGENT, "session_id": SESSION}
        key = uuid5(UUID(self.ground.reader.id), read_conversation(workload.size))
        pages = max(1, workload.size // workload.limit)
        return lambda: {
            "id": key,
            "limit": workload.limit,
            "max_bytes": self.ground.max_bytes,
            "offset": next(calls) % pages * workload.limit,
        }


if __name__ == "__main__":
    serve(Bare)
