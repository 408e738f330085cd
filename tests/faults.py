"""Ways to break the connection between the server and its database, as networks and databases do."""

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from urllib.parse import quote

import psycopg
from django.db import connection

from tests import connections


def database_url() -> str:
    """Return the URL of the test database, for a process of its own."""
    settings = connection.settings_dict
    password = f":{quote(settings['PASSWORD'])}" if settings["PASSWORD"] else ""
    host, port, name = settings["HOST"], settings["PORT"], settings["NAME"]
    if str(host).startswith("/"):
        return f"postgres://{settings['USER']}{password}@/{name}?host={quote(str(host), safe='')}&port={port or 5432}"
    return f"postgres://{settings['USER']}{password}@{host}:{port or 5432}/{name}"


class Database:
    """The test database, and how this process reaches it."""

    @property
    def url(self) -> str:
        return database_url()

    @contextlib.contextmanager
    def reached_at(self, host: str, port: int) -> Iterator[None]:
        """Let this process reach its database elsewhere."""
        connection.close()
        settings = connection.settings_dict
        usual = {name: settings[name] for name in ("HOST", "PORT")}
        settings.update(HOST=host, PORT=port)
        try:
            yield
        finally:
            settings.update(usual)
            connection.close()

    @contextlib.contextmanager
    def at_port(self, port: int) -> Iterator[None]:
        """Let this process look for its database where there is none."""
        with self.reached_at("127.0.0.1", port):
            yield

    @contextlib.contextmanager
    def losing(self, marker: str, *, forward: bool) -> Iterator[None]:
        """Break the connection at the statement that holds ``marker``.

        With ``forward`` it reaches the database, and its answer is lost; otherwise it never arrives.
        """
        settings = connection.settings_dict
        host, port = str(settings["HOST"]), int(settings["PORT"] or 5432)
        with Proxy(host, port, marker.encode(), forward=forward) as proxy, self.reached_at("127.0.0.1", proxy):
            yield

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """Let this process reach a database that takes no writes, as a standby does."""
        settings = connection.settings_dict
        usual = settings["OPTIONS"]
        connection.close()
        # Past a pooler, which refuses options at connect.
        with connections.reached_directly():
            settings["OPTIONS"] = {**usual, "options": "-c default_transaction_read_only=on"}
            try:
                yield
            finally:
                settings["OPTIONS"] = usual
                connection.close()

    @contextlib.contextmanager
    def without_connections(self) -> Iterator[None]:
        """Let this process find that the database takes no further connection."""
        with connections.reached_directly():
            connection.close()
            name = connection.settings_dict["NAME"]
            with psycopg.connect(self.url, autocommit=True) as other:
                other.execute(f'ALTER DATABASE "{name}" CONNECTION LIMIT 0')
                try:
                    yield
                finally:
                    other.execute(f'ALTER DATABASE "{name}" CONNECTION LIMIT -1')
                    connection.close()

    def terminate_backend(self) -> None:
        """Let the database end the connection of this process."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
        with connections.reached_directly():
            url = self.url
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


class Proxy:
    """Stands between one client and PostgreSQL, and breaks both connections at a marker in what the client sends."""

    def __init__(self, host: str, port: int, marker: bytes, *, forward: bool) -> None:
        self.host, self.port, self.marker, self.forward = host, port, marker, forward
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.broke = False

    def __enter__(self) -> int:
        self.thread.start()
        port: int = self.listener.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        # shutdown() wakes the accept() of the thread; close() alone does not.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)
        assert self.broke, "the statement with the marker was never sent"

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                with client, self.connect() as database:
                    self.relay(client, database)

    def connect(self) -> socket.socket:
        if self.host.startswith("/"):
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(f"{self.host}/.s.PGSQL.{self.port}")
            return upstream
        return socket.create_connection((self.host, self.port))

    def relay(self, client: socket.socket, database: socket.socket) -> None:
        recent = b""
        while True:
            for ready in select.select([client, database], [], [])[0]:
                data = ready.recv(65536)
                if not data:
                    return
                if ready is database:
                    client.sendall(data)
                    continue
                recent = recent[-len(self.marker) :] + data
                if self.marker not in recent:
                    database.sendall(data)
                    continue
                self.broke = True
                if self.forward:
                    database.sendall(data)
                    database.settimeout(10)
                    database.recv(1)
                return
