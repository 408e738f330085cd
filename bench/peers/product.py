"""Memory Site itself, over HTTP."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import count

from bench.client import Connection, drive
from bench.driving import Driver, Measured, serve
from bench.ground import Ground, Tenant
from bench.memories import AGENT, NAMESPACE, RECORDS, SESSION, bundle_text, record_key, value
from bench.workloads import Workload, append_conversation, payload, read_conversation


class Product(Driver):
    """Clients that keep their connection while they run, as an agent's HTTP client does."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.host, _, port = ground.address.rpartition(":")
        self.port = int(port)

    def run(self, workload: Workload, name: str, seconds: float) -> Measured:
        writes = {"append": self.appends, "put": self.puts, "save": self.saves}
        make = writes.get(workload.kind, self.reads)
        requests = [make(workload, name, client) for client in range(workload.clients)]
        return self.drive(requests, seconds, 201 if workload.kind in writes else 200, workload.answer_bytes)

    def drive(self, requests: Sequence[Callable[[], bytes]], seconds: float, expected: int, at_least: int) -> Measured:
        """Let a connection for each client send its requests."""
        # Anew for every run: the kernel deals them out to the workers by chance, and one draw must not last.
        connections = [Connection(self.host, self.port) for _ in requests]
        try:
            return drive(connections, requests, seconds, expected, at_least)
        finally:
            for connection in connections:
                connection.close()

    def head(self, tenant: Tenant) -> str:
        """Return the headers of every request."""
        basic = b64encode(f"{tenant.slug}:{tenant.secret}".encode()).decode()
        return f"Host: {self.ground.address}\r\nAuthorization: Basic {basic}\r\nAccept: application/json\r\n"

    def appends(self, workload: Workload, name: str, client: int) -> Callable[[], bytes]:
        """Return what makes a client's next append."""
        body = '{"items":[' + ",".join([payload()] * workload.batch) + "]}"
        head = self.head(self.ground.writer) + f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        calls = count()

        def request() -> bytes:
            number = next(calls)
            conversation = append_conversation(workload, name, client, number)
            key = f"Idempotency-Key: {name}-{client}-{number}\r\n" if workload.keyed else ""
            return f"POST /v1/conversations/{conversation}/items HTTP/1.1\r\n{head}{key}\r\n{body}".encode()

        return request

    def puts(self, _: Workload, name: str, client: int) -> Callable[[], bytes]:
        """Return what makes a client's next put, of a new key each."""
        body = value()
        head = self.head(self.ground.writer) + f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        calls = count()
        path = f"PUT /v1/namespaces/{NAMESPACE}/records/{name}/{client}"
        return lambda: f"{path}/{next(calls)} HTTP/1.1\r\n{head}\r\n{body}".encode()

    def saves(self, _: Workload, name: str, client: int) -> Callable[[], bytes]:
        """Return what makes a client's next checkpoint, of a session of its own."""
        head = f"POST /v1/namespaces/{NAMESPACE}/checkpoints HTTP/1.1\r\n{self.head(self.ground.writer)}"
        calls = count()

        def request() -> bytes:
            number = next(calls)
            body = bundle_text(f"{name}-{client}-{number}", f"{name}-{client}", number)
            return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

        return request

    def reads(self, workload: Workload, name: str, client: int) -> Callable[[], bytes]:
        """Return what makes a client's next read."""
        conversation = f"/v1/conversations/{read_conversation(workload.size)}"
        paths = {
            "recall": [f"{conversation}/recall?count={workload.limit}"],
            "replay": [
                f"{conversation}/replay?limit={workload.limit}&offset={offset}"
                for offset in range(0, workload.size, workload.limit)
            ],
            "list": [f"/v1/conversations?limit={workload.limit}"],
            "get": [f"/v1/namespaces/{NAMESPACE}/records/{record_key(number * 7)}" for number in range(RECORDS)],
            "restore": [f"/v1/namespaces/{NAMESPACE}/sessions/{AGENT}/{SESSION}/latest"],
        }[workload.kind]
        requests = [f"GET {path} HTTP/1.1\r\n{self.head(self.ground.reader)}\r\n".encode() for path in paths]
        calls = count()
        return lambda: requests[next(calls) % len(requests)]


if __name__ == "__main__":
    serve(Product)
