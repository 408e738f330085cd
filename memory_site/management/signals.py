"""What SIGINT, SIGTERM and SIGHUP do while the server starts, serves and stops."""

import _thread
import signal
import time
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


def listen_once(handler: Handler, *, not_before: float = 0) -> None:
    """Let the first of the signals call ``handler``, in a thread, when ``time.monotonic`` has reached ``not_before``.

    Made for Granian's handlers. A second call of one blocks its process, and Ctrl-C does bring a worker two signals,
    the terminal's and its parent's. A call in the moment in which a worker begins to serve is lost.
    """

    def call(number: int, frame: FrameType | None) -> None:
        time.sleep(max(0, not_before - time.monotonic()))
        handler(number, frame)

    def caught(number: int, frame: FrameType | None) -> None:
        ignore()
        # Below the threading module, whose locks the interrupted code may hold.
        _thread.start_new_thread(call, (number, frame))

    listen(caught)


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
