"""OGX: the Conversations API over HTTP, served by uvicorn as it comes, its tables on the same PostgreSQL."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg

from bench.client import Connection, drive
from bench.driving import Driver, Measured, serve
from bench.ground import Ground
from bench.ports import free_port
from bench.workloads import Workload, payload

STARTS_WITHIN = 90
LOAD = """
INSERT INTO conversation_items
    (conversation_id, id, created_at, sort_order, item_data, access_attributes, owner_principal)
SELECT %(conversation)s::text, id, extract(epoch FROM now())::int, n,
       jsonb_set(%(item)s::jsonb, '{id}', to_jsonb(id))::json, 'null', ''
FROM generate_series(0, %(size)s::int - 1) AS n, lateral (SELECT format('msg_%%s_%%s', %(size)s::int, n)) AS named (id)
"""


def item() -> dict[str, Any]:
    """Return a message with the same text."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": payload()}]}


class Ogx(Driver):
    """Its server is a child of this process, whose processor time counts as this participant's."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        if importlib.util.find_spec("ogx") is None:
            raise RuntimeError("it needs Python 3.12 (make bench-peers PEERS_PYTHON=python3.12)")
        self.folder = tempfile.TemporaryDirectory(prefix="bench-ogx-")
        self.port = free_port()
        configuration = Path(self.folder.name, "config.yaml")
        # JSON is YAML too.
        configuration.write_text(json.dumps(self.configuration()))
        self.server = subprocess.Popen(
            [Path(sys.executable).parent / "ogx", "run", configuration, "--port", str(self.port), "--insecure"],
            env={**os.environ, "HOME": self.folder.name},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.loaded: dict[int, str] = {}
        try:
            self.wait()
        except BaseException:
            self.close()
            raise

    def configuration(self) -> dict[str, Any]:
        """Return the least that serves conversations."""
        folder = parse_qs(urlsplit(self.ground.peers_dsn).query)["host"][0]
        peers = urlsplit(self.ground.peers_dsn).username
        database = {"host": folder, "port": 5432, "db": peers, "user": peers, "password": "none"}
        stores = {name: {"table_name": name, "backend": "sql"} for name in ("inference", "prompts", "connectors")}
        return {
            "version": 2,
            "distro_name": "bench",
            "apis": ["conversations"],
            "providers": {},
            "storage": {
                "backends": {
                    "kv": {"type": "kv_sqlite", "db_path": str(Path(self.folder.name, "registry.db"))},
                    "sql": {"type": "sql_postgres", **database},
                },
                "stores": {
                    "metadata": {"namespace": "registry", "backend": "kv"},
                    "conversations": {"table_name": "openai_conversations", "backend": "sql"},
                    **stores,
                },
            },
        }

    def versions(self) -> dict[str, str]:
        return {"ogx": version("ogx")}

    def close(self) -> None:
        self.server.terminate()
        self.server.wait(20)
        self.folder.cleanup()

    def wait(self) -> None:
        """Return when it answers."""
        deadline = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < deadline and self.server.poll() is None:
            try:
                self.create_conversation()
            except OSError:
                time.sleep(0.2)
            else:
                return
        raise RuntimeError(f"it did not start (status {self.server.poll()})")

    def create_conversation(self) -> str:
        """Create a conversation, whose id it chooses."""
        asking = HTTPConnection("127.0.0.1", self.port, timeout=30)
        asking.request("POST", "/v1/conversations", "{}", {"Content-Type": "application/json"})
        name: str = json.loads(asking.getresponse().read())["id"]
        asking.close()
        return name

    def prepare(self, workload: Workload) -> None:
        if workload.size and workload.size not in self.loaded:
            conversation = self.loaded[workload.size] = self.create_conversation()
            with psycopg.connect(self.ground.peers_dsn, autocommit=True) as connection:
                values = {"conversation": conversation, "item": json.dumps(item()), "size": workload.size}
                connection.execute(LOAD, values)
                connection.execute("VACUUM ANALYZE conversation_items")

    def run(self, workload: Workload, name: str, seconds: float) -> Measured:
        if workload.kind == "append":
            number = 1 if workload.shared else workload.clients
            conversations = [self.create_conversation() for _ in range(number)]
            requests = [self.append(workload, conversations[n % number]) for n in range(workload.clients)]
        else:
            requests = [self.read(workload) for _ in range(workload.clients)]
        connections = [Connection("127.0.0.1", self.port) for _ in requests]
        try:
            return drive(connections, requests, seconds, 200, workload.answer_bytes)
        finally:
            for connection in connections:
                connection.close()

    def append(self, workload: Workload, conversation: str) -> Callable[[], bytes]:
        """Return a client's append."""
        body = json.dumps({"items": [item()] * workload.batch})
        head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        request = f"POST /v1/conversations/{conversation}/items HTTP/1.1\r\n{head}{body}".encode()
        return lambda: request

    def read(self, workload: Workload) -> Callable[[], bytes]:
        """Return a client's read: the newest items, or the page behind the last item of the one before."""
        path = f"/v1/conversations/{self.loaded[workload.size]}/items?limit={workload.limit}"
        if workload.kind == "recall":
            paths = [f"{path}&order=desc"]
        else:
            last = [
                f"&after=msg_{workload.size}_{offset - 1}"
                for offset in range(workload.limit, workload.size, workload.limit)
            ]
            paths = [f"{path}&order=asc{after}" for after in ("", *last)]
        requests = [f"GET {one} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for one in paths]
        calls = count()
        return lambda: requests[next(calls) % len(requests)]


if __name__ == "__main__":
    serve(Ogx)
