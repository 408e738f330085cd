"""Memory Site itself, over HTTP."""

from base64 import b64encode
from collections.abc import Callable
from itertools import count

from bench.client import Connection, drive
from bench.driving import Driver, Measured, serve
from bench.ground import Ground, Tenant
from bench.workloads import Workload, append_conversation, payload, read_conversation


class Product(Driver):
    """Clients that keep their connections, as an agent's HTTP client does."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.host, _, port = ground.address.rpartition(":")
        self.port = int(port)
        self.connections: list[Connection] = []

    def run(self, workload: Workload, name: str, seconds: float) -> Measured:
        while len(self.connections) < workload.clients:
            self.connections.append(Connection(self.host, self.port))
        make = self.appends if workload.kind == "append" else self.reads
        requests = [make(workload, name, client) for client in range(workload.clients)]
        return drive(self.connections[: workload.clients], requests, seconds, 201 if workload.kind == "append" else 200)

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
        }[workload.kind]
        requests = [f"GET {path} HTTP/1.1\r\n{self.head(self.ground.reader)}\r\n".encode() for path in paths]
        calls = count()
        return lambda: requests[next(calls) % len(requests)]


if __name__ == "__main__":
    serve(Product)
