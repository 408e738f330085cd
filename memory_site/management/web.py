"""The web server: Granian in this process, with workers that are processes of their own."""

import errno
import importlib
import multiprocessing
import signal
import socket
from collections.abc import Callable
from typing import Any

from granian import _signals as granian_signals
from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels
from granian.server.mp import MPServer

from memory_site.management import signals

APPLICATION = "memory_site.wsgi:application"
STOP_SECONDS = 30
"""How long a running request may still take when the server stops."""
BACKLOG = 1024


class AddressTaken(Exception):
    """The address cannot be listened on; the message says why."""


class _NoCrashLoops(dict[int, float]):
    """Granian's memory of respawned workers, with none in it.

    It gives up the whole server when one worker is killed twice within five seconds. Workers that are killed are
    started again, however often.
    """

    def __setitem__(self, worker: int, when: float) -> None:
        """Forget it."""


def numeric_address(host: str, port: int) -> str:
    """Return the IP address to listen on, or raise AddressTaken if something else already does.

    Asked for beforehand: the workers share their port by SO_REUSEPORT, with which a second server of the same user
    would start in silence and get half of the connections.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressTaken(f"Port {port} of {host} is taken by another program. --port chooses another.") from None
        raise AddressTaken(f"{host} port {port} cannot be listened on: {error.strerror or error}.") from None
    return str(address[0])


def load_application(target: str) -> Any:
    """Load the WSGI application in a worker, which is then stopped by signals in our way instead of Granian's."""
    # Granian calls it next. That it still does, a test sees by pressing Ctrl-C while a worker starts.
    granian_signals.set_main_signals = lambda handler, _=None: signals.wait_beside(handler)
    module, name = target.split(":")
    return getattr(importlib.import_module(module), name)


def serve(*, address: str, port: int, workers: int, threads: int, on_start: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM, then let running requests finish and return.

    Workers that die are started again. A terminal that closes (SIGHUP) stops the server like SIGTERM.
    """
    # Forked workers would inherit this process's connections, threads and locks.
    multiprocessing.set_start_method("spawn", force=True)
    server = MPServer(
        APPLICATION,
        address=address,
        port=port,
        interface=Interfaces.WSGI,
        # A proxy speaks 1.1 to us, and a second protocol is a second set of limits.
        http=HTTPModes.http1,
        websockets=False,
        workers=workers,
        blocking_threads=threads,
        # An idle thread that ends leaves its database connection to the garbage collector.
        blocking_threads_idle_timeout=600,
        backlog=BACKLOG,
        # Counts connections, idle ones of clients that keep theirs alive included.
        backpressure=max(BACKLOG // workers, 128),
        respawn_failed_workers=True,
        workers_kill_timeout=STOP_SECONDS,
        log_level=LogLevels.warning,
        log_access=False,
    )
    server.respawned_wrks = _NoCrashLoops()

    hangup = signal.getsignal(signal.SIGHUP)

    @server.on_startup
    def _() -> None:
        # Granian has just set handlers of its own, of which SIGHUP's would replace the workers.
        signal.signal(signal.SIGHUP, hangup)
        signals.wait_beside(server.signal_handler_interrupt)
        on_start()

    try:
        server.serve(target_loader=load_application)
    except SystemExit:
        # Ctrl-C reaches the workers too; Granian counts those that were quicker as failures.
        if not server.interrupt_signal:
            raise
