"""What is measured. Nothing here or in ``driving`` needs more than the standard library: the peers import it too."""

from dataclasses import dataclass
from typing import Literal

PAYLOAD_BYTES = 1024
DETAILS_BYTES = 8 * 1024  # of a checkpoint
BATCH = 50
REPLAYED = 10_000  # items of the conversation that is replayed
PAGE = 1000
LISTED = 10_000  # conversations of the site that is listed
ITEMS_PER_CONVERSATION = 50_000  # an appending client begins another conversation then: one holds 100,000

Kind = Literal["append", "recall", "replay", "list", "put", "get", "save", "restore"]


@dataclass(frozen=True)
class Workload:
    """One kind of call in a closed loop of so many clients."""

    name: str
    title: str
    kind: Kind
    clients: int = 1
    batch: int = 1
    keyed: bool = False
    """Whether each append has an Idempotency-Key; only this product knows such a thing."""
    shared: bool = False
    """Whether all clients append to one conversation."""
    size: int = 0
    """How many items the conversation has that is read."""
    limit: int = 50
    """How many items or conversations one read asks for."""

    @property
    def items(self) -> int:
        """How many items one call moves."""
        return {"append": self.batch, "recall": self.limit, "replay": self.limit, "list": self.limit}.get(self.kind, 1)

    @property
    def answer_bytes(self) -> int:
        """The least that a right answer has: the payloads that were asked for."""
        page = self.limit * PAYLOAD_BYTES
        return {"recall": page, "replay": page, "get": PAYLOAD_BYTES, "restore": DETAILS_BYTES}.get(self.kind, 1)


WORKLOADS = (
    Workload("append-1", "append, 1 client", "append"),
    Workload("append-1-keyed", "append with a key, 1 client", "append", keyed=True),
    Workload("append-8", "append, 8 clients, own conversations", "append", clients=8),
    Workload("append-8-keyed", "append with a key, 8 clients, own conversations", "append", clients=8, keyed=True),
    Workload("append-one", "append, 8 clients, one conversation", "append", clients=8, shared=True),
    Workload(
        "append-one-keyed", "append with a key, 8 clients, one conversation", "append", 8, keyed=True, shared=True
    ),
    Workload("batch", f"batches of {BATCH}, 1 client", "append", batch=BATCH),
    Workload("recall-200", "last 50 of 200, 1 client", "recall", size=200),
    Workload("recall-10k", "last 50 of 10,000, 1 client", "recall", size=10_000),
    Workload("recall-100k", "last 50 of 100,000, 1 client", "recall", size=100_000),
    Workload("recall-200-8", "last 50 of 200, 8 clients", "recall", clients=8, size=200),
    Workload("recall-100k-8", "last 50 of 100,000, 8 clients", "recall", clients=8, size=100_000),
    Workload("replay", "replay of 10,000 in pages of 1,000, 1 client", "replay", size=REPLAYED, limit=PAGE),
    Workload("list", "list 50 of 10,000 conversations, 8 clients", "list", clients=8),
    Workload("put-1", "put a record of 1 KB, 1 client", "put"),
    Workload("put-8", "put a record of 1 KB, 8 clients, one namespace", "put", clients=8),
    Workload("get-1", "get a record of 1 KB, 1 client", "get"),
    Workload("get-8", "get a record of 1 KB, 8 clients, one namespace", "get", clients=8),
    Workload("save-1", "save a checkpoint of 8 KB, 1 client", "save"),
    Workload("save-8", "save a checkpoint of 8 KB, 8 clients, own sessions", "save", clients=8),
    Workload("restore-1", "restore the latest checkpoint of 8 KB, 1 client", "restore"),
    Workload("restore-8", "restore the latest checkpoint of 8 KB, 8 clients", "restore", clients=8),
)
SIZES = (200, 10_000, 100_000)


def payload() -> str:
    """Return the JSON text of an item: 1 KB, such as the result of an agent's tool."""
    rows = [f'{{"id":{1000 + n},"title":"Invoice {n}","amount":{n * 12.5},"tags":["paid"]}}' for n in range(15)]
    start, end = '{"role":"tool","tool_call_id":"call_7f3k2m9q","rows":[' + ",".join(rows) + '],"note":"', '"}'
    return start + "." * (PAYLOAD_BYTES - len(start) - len(end)) + end


def read_conversation(size: int) -> str:
    """Return the id of the loaded conversation with so many items."""
    return f"bench-loaded-{size}"


def append_conversation(workload: Workload, run: str, client: int, calls: int) -> str:
    """Return the id of the conversation that a client appends to with its next call."""
    owner = "all" if workload.shared else str(client)
    part = 0 if workload.shared else calls * workload.batch // ITEMS_PER_CONVERSATION
    return f"bench-{run}-{owner}-{part}"
