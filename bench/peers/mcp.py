"""Memory Site itself, the same calls as tools over MCP: requests as a client of the stateless revisions sends them."""

from collections.abc import Callable
from http.client import HTTPConnection
from itertools import count

from bench.client import WrongAnswer
from bench.driving import Measured, serve
from bench.ground import Tenant
from bench.peers.product import Product
from bench.workloads import Workload, append_conversation, payload, read_conversation

PATH = "/mcp/conversations"


class Tools(Product):
    """As over REST, with another path and body."""

    def run(self, workload: Workload, name: str, seconds: float) -> Measured:
        self.check(workload, name)
        make = self.appends if workload.kind == "append" else self.reads
        requests = [make(workload, name, client) for client in range(workload.clients)]
        return self.drive(requests, seconds, 200, workload.answer_bytes)

    def check(self, workload: Workload, name: str) -> None:
        """Make one call and look at the answer: a tool's error comes with status 200 too."""
        make = self.appends if workload.kind == "append" else self.reads
        head, _, body = make(workload, f"{name}-check", 0)().partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:]]
        asking = HTTPConnection(self.host, self.port, timeout=30)
        asking.request("POST", PATH, body, dict(lines))
        answer = asking.getresponse().read()
        asking.close()
        if b'"isError":true' in answer or b'"result"' not in answer:
            raise WrongAnswer(answer[:500].decode(errors="replace"))

    def call(self, tenant: Tenant, tool: str, arguments: str) -> bytes:
        """Return a request that calls a tool."""
        body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}'
        head = self.head(tenant).replace("Accept: ", "Accept: text/event-stream, ")
        return (
            f"POST {PATH} HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()

    def appends(self, workload: Workload, name: str, client: int) -> Callable[[], bytes]:
        items = ",".join([payload()] * workload.batch)
        calls = count()

        def request() -> bytes:
            number = next(calls)
            conversation = append_conversation(workload, name, client, number)
            key = f',"idempotency_key":"{name}-{client}-{number}"' if workload.keyed else ""
            arguments = f'{{"conversation_id":"{conversation}","items":[{items}]{key}}}'
            return self.call(self.ground.writer, "append_memory", arguments)

        return request

    def reads(self, workload: Workload, name: str, client: int) -> Callable[[], bytes]:
        arguments = f'{{"conversation_id":"{read_conversation(workload.size)}","count":{workload.limit}}}'
        request = self.call(self.ground.reader, "recall_memory", arguments)
        return lambda: request


if __name__ == "__main__":
    serve(Tools)
