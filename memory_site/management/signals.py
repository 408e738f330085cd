"""What SIGINT, SIGTERM and SIGHUP do while the server starts, serves and stops."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], object]


def listen(handler: Handler) -> None:
    """Let the signals that stop a server call ``handler``, except those that were ignored on purpose (nohup)."""
    for number in STOPPING_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def ignore() -> None:
    """Let nothing interrupt the stopping of what was started."""
    # A function and not SIG_IGN, which children would inherit.
    listen(lambda *_: None)


def wait_beside(handler: Handler) -> None:
    """Let the first of the signals call ``handler`` in a thread that waits for it; the main thread is not disturbed.

    Python runs its handlers in the main thread, and one that is just about to wait for something is not woken up:
    with a busy machine a server that was told to stop at such a moment went on for ever. Threads and processes that
    are started later inherit that the signals are blocked. More of them than one are not heard: Granian's handlers
    block their process when they are called twice, and Ctrl-C brings a worker two signals, the terminal's and its
    parent's.
    """
    numbers = [number for number in STOPPING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def wait() -> None:
        handler(signal.sigwait(numbers), None)

    threading.Thread(target=wait, name="signals", daemon=True).start()


class _Stop(BaseException):
    """A signal asked to stop before the web server listened to signals itself."""


@contextmanager
def leaving_on_signals() -> Iterator[None]:
    """Turn a signal into an orderly way out of the block: without it SIGTERM would leave the database running."""

    def leave(*_: object) -> None:
        ignore()
        raise _Stop

    listen(leave)
    try:
        yield
    except _Stop:
        pass
    finally:
        ignore()
