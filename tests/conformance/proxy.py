"""A few lines of proxy that add the one header that the conformance suite cannot send."""

import base64
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@contextmanager
def with_credentials(address: str, auth: tuple[str, str]) -> Iterator[str]:
    """Serve ``address`` at another one, where every request is made with the credentials; yield that one."""
    target = urlsplit(address)
    basic = "Basic " + base64.b64encode(":".join(auth).encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            headers["Authorization"] = basic
            upstream = http.client.HTTPConnection(target.hostname or "", target.port, timeout=30)
            upstream.request(self.command, self.path, body, headers)
            answer = upstream.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            upstream.close()

        do_GET = do_POST = do_DELETE = do_PUT = do_OPTIONS = forward  # noqa: N815  # http.server's names

        def log_message(self, format: str, *values: object) -> None:  # noqa: A002
            """Be quiet."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
    finally:
        proxy.shutdown()
        proxy.server_close()
