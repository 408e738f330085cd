"""Clients that append and read over HTTP while the server is tormented, and write down what they know.

Each is a process of its own, ``python -m tests.history.clients``: a ``Plan`` on the first line of its standard
input, events on its standard output, one JSON object a line. It stops when its input ends, which is also what
happens when the test dies.

What a client knows of a call follows README's promise and nothing else: 2xx is written; 4xx and 503 are not; after
a 504 or a connection that broke nobody knows, and the same call with the same Idempotency-Key tells.
"""

import base64
import http.client
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from tests.history.checker import Answer, Append, Event, Fate, Final, Log, Read, Stored, Surprise, payload_of

PATIENCE = 30.0
"""Seconds for which a client asks again what became of a call."""
PAGE = 1000
BROKEN = b'{"code":"outcome_unknown"}'
"""What a broken connection means: the same as a 504."""


class Account(NamedTuple):
    """The Basic credentials of a site."""

    site: str
    secret: str


class Plan(msgspec.Struct, frozen=True):
    """What one client does."""

    name: str
    port: int
    accounts: list[Account]
    conversations: list[str]
    writes: bool


class Reply(NamedTuple):
    status: int
    body: bytes
    repeated: bool = False

    @property
    def answer(self) -> Answer:
        """The numbers that an append got."""
        return Answer(**msgspec.json.decode(self.body))

    @property
    def items(self) -> list[Stored]:
        """What was read, each payload as the server's bytes have it."""
        page = msgspec.json.decode(self.body, type=_Page)
        return [Stored(item.seq, item.recorded_at, bytes(item.payload).decode()) for item in page.items]

    @property
    def problem(self) -> str:
        return str(msgspec.json.decode(self.body)["code"])


class _Item(msgspec.Struct):
    seq: int
    recorded_at: str
    payload: msgspec.Raw


class _Page(msgspec.Struct):
    items: list[_Item]


class NotSent(Exception):
    """There was nobody to connect to."""


class Broken(Exception):
    """The connection ended, or patience did, between the request and the whole reply."""


class Surprised(Exception):
    """An answer that must not be."""


class Connection:
    """One site's connection to the server, opened anew whenever it broke; nothing is ever repeated unasked."""

    def __init__(self, port: int, account: Account) -> None:
        self.port = port
        self.account = account
        self.http: http.client.HTTPConnection | None = None

    def call(
        self, method: str, path: str, content: str | None = None, *, key: str | None = None, patience: float = PATIENCE
    ) -> Reply:
        headers = {"Authorization": "Basic " + base64.b64encode(":".join(self.account).encode()).decode()}
        if content is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        if self.http is None:
            self.http = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            try:
                self.http.connect()
            except OSError as error:
                self.http = None
                raise NotSent from error
        try:
            self.http.sock.settimeout(patience)
            self.http.request(method, path, content.encode() if content is not None else None, headers)
            response = self.http.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Broken from error
        if response.will_close:
            self.close()
        repeated = response.headers.get("Idempotent-Replayed") == "true"
        return Reply(response.status, body, repeated)

    def close(self) -> None:
        if self.http is not None:
            self.http.close()
            self.http = None


class Client:
    """Calls at random until it is told to stop."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.connections = {account.site: Connection(plan.port, account) for account in plan.accounts}
        self.random = random.Random(plan.name)
        self.stopping = threading.Event()
        self.calls = 0

    def run(self) -> None:
        """Write down event after event; what is under way when the stop comes is asked after to its end."""
        encoder = msgspec.json.Encoder()
        while not self.stopping.is_set():
            log = self.random.choice(self.plan.accounts).site, self.random.choice(self.plan.conversations)
            try:
                events = self.write(log) if self.plan.writes else self.read(log)
            except (NotSent, Broken):
                self.stopping.wait(0.05)
                continue
            except Surprised as surprise:
                events = [Surprise(str(surprise))]
            for event in events:
                sys.stdout.buffer.write(encoder.encode(event) + b"\n")
            sys.stdout.buffer.flush()

    def write(self, log: Log) -> list[Event]:
        """Append a batch: most of them keyed, some fenced, some given up on and sent again at once."""
        dice = self.random
        size = dice.choice((1, 1, 1, 2, 3, 10, dice.randint(1, 50)))
        expected_seq = None
        if dice.random() < 0.3:
            tail = self.recall(log, 1)
            expected_seq = tail[-1].seq + 1 if tail else 0
        self.calls += 1
        call = f"{self.plan.name}-{self.calls}"
        attempt = Attempt(self, call, log, size, expected_seq, keyed=dice.random() < 0.7)
        if attempt.key is not None and dice.random() < 0.1:
            attempt.patience = dice.uniform(0.001, 0.02)
        return attempt.to_the_end()

    def read(self, log: Log) -> list[Event]:
        """Read a stretch, wherever it begins, or the end."""
        dice = self.random
        self.stopping.wait(0.01)
        began = time.monotonic()
        if dice.random() < 0.5:
            items, to_the_end = self.recall(log, dice.choice((1, 50, 200))), True
        else:
            offset = dice.choice((0, dice.randint(0, 2000)))
            items = self.get(log, f"replay?offset={offset}&limit=200")
            # Past the end it is empty too, and says nothing of where the end is.
            to_the_end = len(items) < 200 and (offset == 0 or len(items) > 0)
        return [Read(log, began, time.monotonic(), tuple(items), to_the_end)]

    def recall(self, log: Log, count: int) -> list[Stored]:
        return self.get(log, f"recall?count={count}")

    def get(self, log: Log, what: str) -> list[Stored]:
        site, conversation = log
        reply = self.connections[site].call("GET", f"/v1/conversations/{conversation}/{what}")
        if reply.status == 503:
            raise Broken
        if reply.status != 200:
            raise Surprised(f"{what} of {conversation}: {reply}")
        return reply.items


class Attempt:
    """One append and what becomes of it."""

    def __init__(
        self, client: Client, call: str, log: Log, size: int, expected_seq: int | None, *, keyed: bool
    ) -> None:
        self.client = client
        self.call, self.log, self.size, self.expected_seq = call, log, size, expected_seq
        self.key = call if keyed else None
        self.patience = PATIENCE
        self.answers: list[Answer] = []
        # A long run fills the hot conversation.
        self.may_be_refused_with = {"conversation_full"} | ({"seq_conflict"} if expected_seq is not None else set())
        fence = "" if expected_seq is None else f'"expected_seq":{expected_seq},'
        payloads = ",".join(payload_of(call, index, size) for index in range(size))
        self.content = f'{{{fence}"items":[{payloads}]}}'

    def send(self) -> Reply:
        site, conversation = self.log
        return self.client.connections[site].call(
            "POST", f"/v1/conversations/{conversation}/items", self.content, key=self.key, patience=self.patience
        )

    def to_the_end(self) -> list[Event]:
        """Send it, and ask again for as long as its fate is unknown and it has a key."""
        began = time.monotonic()
        surprises: list[Event] = []
        fate: Fate | None = None
        broken = 0
        while fate is None and time.monotonic() < began + PATIENCE:
            try:
                reply = self.send()
            except NotSent:
                time.sleep(0.05)
                continue
            except Broken:
                reply = Reply(504, BROKEN)
            self.patience = PATIENCE
            if reply.status in (200, 201):
                if reply.repeated != (reply.status == 200) or (reply.repeated and broken == 0):
                    surprises.append(Surprise(f"{self.call}: {reply}"))
                self.answers.append(reply.answer)
                fate = Fate.OK
            elif reply.status == 504:
                broken += 1
                if self.key is None:
                    break
            elif reply.status == 503 and broken:
                # This attempt wrote nothing; what the one before it did is as unknown as before.
                time.sleep(0.05)
            elif reply.status == 503 or reply.problem in self.may_be_refused_with:
                # With a key, a refusal says of the attempts before it that they wrote nothing: keys come first.
                fate = Fate.REFUSED
            else:
                surprises.append(Surprise(f"{self.call}: {reply}"))
                break
        ended = time.monotonic()
        if fate is Fate.OK and self.key is not None and self.client.random.random() < 0.2:
            self.ask_again(surprises)
        append = Append(
            call=self.call,
            log=self.log,
            size=self.size,
            fate=fate or Fate.UNKNOWN,
            began=began,
            ended=ended,
            answers=tuple(self.answers),
            expected_seq=self.expected_seq,
            broken=broken,
        )
        return [append, *surprises]

    def ask_again(self, surprises: list[Event]) -> None:
        """Repeat a call that has been answered: nothing may come of it but the first answer."""
        try:
            reply = self.send()
        except (NotSent, Broken):
            return
        if reply.status == 200 and reply.repeated:
            self.answers.append(reply.answer)
        elif reply.status not in (503, 504):
            surprises.append(Surprise(f"{self.call}, repeated: {reply}"))


class Load:
    """Clients at work; ``finish`` stops them and returns all that they wrote down."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.processes = []
        for plan in plans:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.history.clients"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(plan) + b"\n")
            process.stdin.flush()
            self.processes.append(process)
        self.events: list[Event] = []
        self.fates: Counter[Fate] = Counter()
        self.collectors = [threading.Thread(target=self._collect, args=(process,)) for process in self.processes]
        for collector in self.collectors:
            collector.start()

    def _collect(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Append | Read | Surprise)
        for line in process.stdout:
            event = decoder.decode(line)
            self.events.append(event)
            if isinstance(event, Append):
                self.fates[event.fate] += 1

    def wait_for(self, answered: int, *, patience: float = 60) -> None:
        """Return when so many appends have been answered since now."""
        goal, deadline = self.fates[Fate.OK] + answered, time.monotonic() + patience
        while self.fates[Fate.OK] < goal:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not {answered} appends in {patience} s")
            time.sleep(0.02)

    def finish(self) -> list[Event]:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
        for process, collector in zip(self.processes, self.collectors, strict=True):
            collector.join(PATIENCE * 2)
            if process.wait(5):
                raise RuntimeError("a client failed, see its standard error")
        return self.events


@contextmanager
def load(port: int, accounts: Sequence[Account], *, name: str, writers: int = 12, readers: int = 2) -> Iterator[Load]:
    """Run clients on two shared conversations, one of them hot, and some of their own; each in every site."""
    plans = [
        Plan(
            name=f"{name}-{'w' if number < writers else 'r'}{number}",
            port=port,
            accounts=list(accounts),
            conversations=[f"{name}-hot", f"{name}-hot", f"{name}-shared", f"{name}-own-{number % writers}"],
            writes=number < writers,
        )
        for number in range(writers + readers)
    ]
    running = Load(plans)
    try:
        yield running
    finally:
        for process in running.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def read_everything(port: int, accounts: Sequence[Account], events: Iterable[Event]) -> Final:
    """Read every conversation that is listed or occurs in the events, whole, and what each site lists."""
    final = Final({}, {}, [])
    for account in accounts:
        connection = Connection(port, account)
        listed, cursor = [], ""
        while cursor is not None:
            page = _must(connection, f"/v1/conversations?limit={PAGE}{cursor and '&cursor='}{cursor}")
            listed += [str(conversation["conversation_id"]) for conversation in page["conversations"]]
            cursor = page["next_cursor"]
        final.listed[account.site] = listed
        named = {event.log for event in events if not isinstance(event, Surprise)}
        for log in named | {(account.site, conversation) for conversation in listed}:
            if log[0] == account.site:
                final.items[log] = _read_whole(connection, log[1], final.refused)
        connection.close()
    return final


def _read_whole(connection: Connection, conversation: str, refused: list[str]) -> list[Stored]:
    items: list[Stored] = []
    while True:
        reply = connection.call("GET", f"/v1/conversations/{conversation}/replay?offset={len(items)}&limit={PAGE}")
        if reply.status != 200:
            refused.append(f"{conversation}: {reply}")
            return items
        page = reply.items
        items += page
        if len(page) < PAGE:
            return items


def _must(connection: Connection, path: str) -> Any:
    reply = connection.call("GET", path)
    if reply.status != 200:
        raise RuntimeError(f"{path}: {reply}")
    return msgspec.json.decode(reply.body)


def main() -> None:
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=Plan)
    client = Client(plan)

    def stop() -> None:
        sys.stdin.buffer.read()
        client.stopping.set()

    threading.Thread(target=stop, daemon=True).start()
    client.run()
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
