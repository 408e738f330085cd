"""Where servers are started. Only the standard library: the peers import it too."""

import socket

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
