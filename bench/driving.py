"""How a participant is driven: a process that reads one JSON object a line and answers one JSON object a line.

``{"open": Ground}`` → ``{"versions": …}``, ``{"run": Workload, "name": …, "seconds": …}`` → ``Measured``. Only the
standard library: this runs in the environments of the peers too.
"""

import asyncio
import json
import os
import platform
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field

from bench.ground import Ground
from bench.workloads import Workload


@dataclass
class Measured:
    """What one closed loop did; ``latencies`` are microseconds of each call."""

    calls: int
    seconds: float
    latencies: list[int] = field(default_factory=list)


class Driver(ABC):
    """One participant. A subclass says how its calls are made; the loops are here."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground

    def versions(self) -> dict[str, str]:
        """Return what the report should say of the software that was driven."""
        return {}

    def close(self) -> None:
        """End what it has started; called when there is nothing more to do."""
        return

    def prepare(self, workload: Workload) -> None:
        """Load what the workload reads, once; called before its first run."""
        return

    @abstractmethod
    def run(self, workload: Workload, name: str, seconds: float) -> Measured:
        """Make calls with the workload's clients for so long; ``name`` is of this run alone."""


class ThreadDriver(Driver):
    """Clients that are threads, each with a blocking call of its own, which may say that it did the work of several."""

    @abstractmethod
    def client(self, workload: Workload, name: str, number: int) -> Callable[[], object]:
        """Return the call that one client repeats; it raises when the answer is not the right one."""

    def run(self, workload: Workload, name: str, seconds: float) -> Measured:
        calls = [self.client(workload, name, number) for number in range(workload.clients)]
        latencies: list[list[int]] = [[] for _ in calls]
        done: list[int] = []
        failures: list[BaseException] = []
        start = time.perf_counter()
        deadline = start + seconds

        def loop(call: Callable[[], object], taken: list[int]) -> None:
            clock = time.perf_counter
            extra = 0
            try:
                before = clock()
                while before < deadline:
                    answer = call()
                    after = clock()
                    taken.append(int((after - before) * 1e6))
                    extra += answer - 1 if isinstance(answer, int) else 0
                    before = after
                done.append(extra)
            except BaseException as error:
                failures.append(error)

        if len(calls) == 1:
            loop(calls[0], latencies[0])
        else:
            threads = [threading.Thread(target=loop, args=pair) for pair in zip(calls, latencies, strict=True)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]
        return measured(latencies, time.perf_counter() - start, extra=sum(done))


class AsyncDriver(Driver):
    """Clients that are tasks of one event loop, for libraries that are asynchronous; otherwise as threads."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.loop = asyncio.new_event_loop()

    @abstractmethod
    def client(self, workload: Workload, name: str, number: int) -> Callable[[], Awaitable[object]]:
        """Return the call that one client repeats; it raises when the answer is not the right one."""

    def run(self, workload: Workload, name: str, seconds: float) -> Measured:
        calls = [self.client(workload, name, number) for number in range(workload.clients)]
        latencies: list[list[int]] = [[] for _ in calls]
        start = time.perf_counter()
        deadline = start + seconds

        async def repeat(call: Callable[[], Awaitable[object]], taken: list[int]) -> int:
            clock = time.perf_counter
            extra = 0
            before = clock()
            while before < deadline:
                answer = await call()
                after = clock()
                taken.append(int((after - before) * 1e6))
                extra += answer - 1 if isinstance(answer, int) else 0
                before = after
            return extra

        async def together() -> list[int]:
            return await asyncio.gather(*(repeat(*pair) for pair in zip(calls, latencies, strict=True)))

        done = self.loop.run_until_complete(together())
        return measured(latencies, time.perf_counter() - start, extra=sum(done))


def measured(latencies: list[list[int]], seconds: float, *, extra: int = 0) -> Measured:
    """Put the clients' figures together; ``extra`` is how much more than one call's work some calls did."""
    together = [taken for client in latencies for taken in client]
    return Measured(len(together) + extra, seconds, together)


def serve(driver_class: Callable[[Ground], Driver]) -> None:
    """Be the participant until standard input ends; what goes wrong is answered and not raised."""
    # Whatever a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    driver: Driver | None = None
    prepared: set[str] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if driver is None:
                driver = driver_class(Ground.load(asked["open"]))
                answers.write(json.dumps({"versions": driver.versions(), "python": platform.python_version()}) + "\n")
                continue
            workload = Workload(**asked["run"])
            if workload.name not in prepared:
                driver.prepare(workload)
                prepared.add(workload.name)
            answers.write(json.dumps(asdict(driver.run(workload, asked["name"], asked["seconds"]))) + "\n")
        except Exception as error:
            traceback.print_exc()
            answers.write(json.dumps({"failed": f"{type(error).__name__}: {error}"[:500]}) + "\n")
    if driver is not None:
        driver.close()
