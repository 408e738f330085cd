"""A load generator over HTTP/1.1 that costs little: one thread, one selector, connections that stay open.

It knows only what this server answers with (a Content-Length, no chunks) and fails on anything else. A closed loop:
each client sends its next request when its answer has come.
"""

import select
import socket
import time
from collections.abc import Callable, Sequence

from bench.driving import Measured, measured

Request = Callable[[], bytes]
HEAD_END = b"\r\n\r\n"
LENGTH = b"\r\ncontent-length:"
READ_AT_ONCE = 256 * 1024


class WrongAnswer(Exception):
    """The server answered something else than the workload expects: no figure is worth anything then."""


class Connection:
    """One client's connection, and the answer that it is waiting for."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.length = 0
        """Of the last answer's content, in bytes."""
        self._parts: list[bytes] = []
        self._missing = 0

    def send(self, request: bytes) -> None:
        """Send a whole request; only after the whole answer to the one before."""
        self.socket.sendall(request)

    def receive(self, expected: bytes) -> bool:
        """Take what has come, and return whether the answer is whole; ``expected`` is its status."""
        part = self.socket.recv(READ_AT_ONCE)
        if not part:
            raise WrongAnswer("the server closed the connection")
        if self._missing:
            self._missing -= len(part)
        else:
            self._parts.append(part)
            head = part if len(self._parts) == 1 else b"".join(self._parts)
            end = head.find(HEAD_END)
            if end < 0:
                return False
            self._parts.clear()
            self.length = content_length(head, end)
            self._missing = end + len(HEAD_END) + self.length - len(head)
            if head[9:12] != expected:
                raise WrongAnswer(head[:1000].decode(errors="replace"))
        return self._missing == 0

    def close(self) -> None:
        self.socket.close()


def content_length(head: bytes, end: int) -> int:
    """Return the length that an answer's head announces."""
    folded = head[:end].lower()
    start = folded.find(LENGTH)
    if start < 0:
        raise WrongAnswer("an answer without Content-Length: " + head[:end].decode(errors="replace"))
    stop = folded.find(b"\r\n", start + 2)
    return int(folded[start + len(LENGTH) : stop if stop > 0 else end])


def drive(
    connections: Sequence[Connection], requests: Sequence[Request], seconds: float, expected: int, at_least: int = 0
) -> Measured:
    """Let each connection send its requests one after the other for so long.

    Every answer must have the ``expected`` status and ``at_least`` so many bytes: an empty page is soon read.
    """
    status = b"%d" % expected
    latencies: list[list[int]] = [[] for _ in connections]
    clients = {
        connection.socket.fileno(): (connection, request, taken)
        for connection, request, taken in zip(connections, requests, latencies, strict=True)
    }
    sent: dict[int, float] = {}
    clock = time.perf_counter
    poll = select.epoll()
    start = clock()
    deadline = start + seconds
    try:
        for descriptor, (connection, request, _) in clients.items():
            poll.register(descriptor, select.EPOLLIN)
            sent[descriptor] = clock()
            connection.send(request())
        while sent:
            ready = poll.poll(30)
            if not ready:
                raise WrongAnswer("no answer within 30 seconds")
            for descriptor, _ in ready:
                connection, request, taken = clients[descriptor]
                if not connection.receive(status):
                    continue
                if connection.length < at_least:
                    raise WrongAnswer(f"an answer of {connection.length} bytes in place of at least {at_least}")
                now = clock()
                taken.append(int((now - sent[descriptor]) * 1e6))
                if now < deadline:
                    sent[descriptor] = now
                    connection.send(request())
                else:
                    del sent[descriptor]
    finally:
        poll.close()
    return measured(latencies, clock() - start)
