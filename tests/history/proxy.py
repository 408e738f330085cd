"""A proxy between server and PostgreSQL that knows which message commits an append, and can lose it or its answer."""

import random
import re
import socket
import struct
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path

COMMITS = b"INSERT INTO item "
READY_FOR_QUERY = b"Z\0\0\0\x05"


class Act(Enum):
    """What happens to a statement that commits."""

    PASS = "it is sent, and its answer comes back"
    DROP = "the connection breaks before it is sent"
    SWALLOW = "it is sent and done, and the connection breaks before its answer"


class Proxy:
    """Listens on a socket in a folder of its own, as PostgreSQL does, for as long as the block runs."""

    def __init__(self, upstream: Callable[[], socket.socket]) -> None:
        self.decide: Callable[[], Act] = lambda: Act.PASS
        self.refusing = False
        """Whether new connections are closed at once, as by a server that is gone."""
        self.acted: list[Act] = []
        self._upstream = upstream
        self._pairs: list[tuple[socket.socket, socket.socket]] = []

    def __enter__(self) -> "Proxy":
        self._folder = tempfile.TemporaryDirectory(prefix="memory-site-", dir="/tmp")
        self.host = self._folder.name
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(self.host) / ".s.PGSQL.5432"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()
        self._folder.cleanup()

    def cut_all(self) -> None:
        """Break every connection at this moment."""
        for pair in self._pairs:
            _cut(pair)
        self._pairs.clear()

    def once(self, act: Act) -> None:
        """Do this to the next statement that commits, and nothing to those behind it."""
        acts = iter([act])
        self.decide = lambda: next(acts, Act.PASS)

    def at_random(self, share: float, *acts: Act) -> None:
        """Do one of these to this share of them."""
        self.decide = lambda: random.choice(acts) if random.random() < share else Act.PASS

    def in_front_of(self, database: str) -> str:
        """Return the database's URL with the proxy in the place of its host."""
        return re.sub(r"@.*?/(.*?)(\?.*)?$", rf"@/\1?host={self.host}", database)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refusing:
                client.close()
                continue
            pair = client, self._upstream()
            self._pairs.append(pair)
            swallowing = threading.Event()
            threading.Thread(target=self._forth, args=(pair, swallowing), daemon=True).start()
            threading.Thread(target=self._back, args=(pair, swallowing), daemon=True).start()

    def _forth(self, pair: tuple[socket.socket, socket.socket], swallowing: threading.Event) -> None:
        client, server = pair
        statements: dict[bytes, bool] = {}
        try:
            stream = client.makefile("rb")
            head = stream.read(4)
            server.sendall(head + stream.read(struct.unpack("!i", head)[0] - 4))
            while head := stream.read(5):
                body = stream.read(struct.unpack("!xi", head)[0] - 4)
                if self._commits(head[:1], body, statements):
                    act = self.decide()
                    self.acted.append(act)
                    if act is Act.DROP:
                        break
                    if act is Act.SWALLOW:
                        swallowing.set()
                server.sendall(head + body)
        except (OSError, struct.error):
            pass
        # What was sent to be swallowed must be done first: ``_back`` cuts.
        if not swallowing.is_set():
            _cut(pair)

    @staticmethod
    def _commits(kind: bytes, body: bytes, statements: dict[bytes, bool]) -> bool:
        """Say whether this message runs an append; nothing before it in its round trip was answered yet."""
        match kind:
            case b"Q":
                return COMMITS in body
            case b"P":
                name, text, _ = body.split(b"\0", 2)
                statements[name] = COMMITS in text
            case b"B":
                _, name, _ = body.split(b"\0", 2)
                return statements.get(name, False)
        return False

    @staticmethod
    def _back(pair: tuple[socket.socket, socket.socket], swallowing: threading.Event) -> None:
        client, server = pair
        swallowed = b""
        with suppress(OSError):
            while received := server.recv(65536):
                if not swallowing.is_set():
                    client.sendall(received)
                    continue
                swallowed = swallowed[-16:] + received
                if swallowed[-6:-1] == READY_FOR_QUERY:
                    break
        _cut(pair)


def _cut(pair: tuple[socket.socket, socket.socket]) -> None:
    for end in pair:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
