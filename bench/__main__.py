"""``python -m bench``: everything in one run, the participants taking turns."""

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import report, stage
from bench.cpu import Meter
from bench.ground import Ground
from bench.participants import NOT_RUN, PARTICIPANTS, PEERS, PEERS_PYTHON, Driven, Failed, Participant
from bench.peers.pgbench import PGBENCH
from bench.report import Results
from bench.space import chain
from bench.workloads import WORKLOADS, Workload

RESULTS = Path(__file__).with_name("RESULTS.md")
WARM_UP = 0.3  # seconds before the first round, in which statements are prepared and caches filled


def options() -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = [workload.name for workload in WORKLOADS]
    peers = [participant.name for participant in PARTICIPANTS]
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"only these, of: {', '.join(names)}")
    parser.add_argument("--with", nargs="+", dest="participants", choices=peers, default=peers, help="only these")
    parser.add_argument("--rounds", type=int, default=3, help="how often everybody takes a turn (default: 3)")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of each turn (default: 1; pgbench knows whole ones)"
    )
    parser.add_argument("--minutes", type=float, default=5.5, help="then later rounds are left out (default: 5.5)")
    parser.add_argument("--workers", type=int, default=2, help="the server's (default: 2)")
    parser.add_argument("--threads", type=int, default=4, help="of each worker (default: 4)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the report is written; - for nowhere")
    asked = parser.parse_args()
    for name in asked.workloads:
        if name not in names:
            parser.error(f"there is no workload {name!r}")
    return asked


class Bench:
    """One run: who takes part, and what has been measured so far."""

    def __init__(self, ground: Ground, meter: Meter, *, log: Path, environment: dict[str, str]) -> None:
        self.ground = ground
        self.meter = meter
        self.log = log
        self.environment = environment
        self.results = Results()
        self.driven: dict[str, Driven] = {}

    def open(self, participants: Sequence[Participant], started: ExitStack) -> None:
        """Start every participant's process; one that cannot be started is named in the report."""
        for participant in participants:
            if not participant.ours and not PEERS_PYTHON.exists():
                self.results.failures[participant.title] = "not installed (`make bench-peers` installs the peers)"
                continue
            try:
                driven = Driven(participant, self.ground, self.environment, self.log)
            except Failed as failure:
                self.results.failures[participant.title] = str(failure)
                continue
            started.callback(driven.stop)
            self.driven[participant.name] = driven
            self.results.versions |= driven.versions

    def measure(self, workload: Workload, *, rounds: int, seconds: float, until: float) -> None:
        """Let everybody take turns at one workload; the first round is always finished."""
        taking_part = {name: driven for name, driven in self.driven.items() if driven.participant.takes(workload)}
        for number in range(-1, rounds):
            if number > 0 and time.monotonic() > until:
                break
            for name, driven in list(taking_part.items()):
                run_name = f"{workload.name}-{name}-{number + 1}"
                try:
                    if number < 0:
                        driven.run(workload, run_name, WARM_UP, self.meter)
                    else:
                        run = driven.run(workload, run_name, seconds, self.meter)
                        self.results.add(workload, driven.participant, run)
                except Failed as failure:
                    self.results.failures[f"{driven.participant.title}, {workload.title}"] = str(failure)
                    del taking_part[name]


def main() -> int:
    asked = options()
    started_at = time.monotonic()
    load, _, _ = os.getloadavg()
    workloads = [workload for workload in WORKLOADS if not asked.workloads or workload.name in asked.workloads]
    participants = [participant for participant in PARTICIPANTS if participant.name in asked.participants]
    with ExitStack() as started:
        ground, meter, programs = started.enter_context(stage.product(workers=asked.workers, threads=asked.threads))
        folder = started.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        log = Path(folder, "participants.log")
        bench = Bench(ground, meter, log=log, environment={PGBENCH: str(programs / "pgbench")})
        bench.open(participants, started)
        if set(participants) & set(PEERS):
            bench.results.failures |= NOT_RUN
        for place, workload in enumerate(workloads):
            # What is left of the time is shared by the workloads that are left.
            left = started_at + asked.minutes * 60 - time.monotonic()
            until = time.monotonic() + left / (len(workloads) - place)
            bench.measure(workload, rounds=asked.rounds, seconds=asked.seconds, until=until)
            print("\n".join(report.section(workload, participants, bench.results)), flush=True)
        space = [] if asked.workloads else chain(ground)
        print("\n".join(space))
        if bench.results.failures:
            sys.stderr.write(log.read_text()[-5000:])
    text = report.report(
        workloads,
        participants,
        bench.results,
        command=shlex.join(["python", "-m", "bench", *sys.argv[1:]]),
        how=f"{asked.rounds} rounds of {asked.seconds:g} s each; {asked.workers} workers of {asked.threads} threads."
        f"\nThe machine's load average was {load:.1f} when it began.",
        space=space,
    )
    print("\n".join(report.targets(bench.results)))
    for name, reason in bench.results.failures.items():
        print(f"not measured: {name}: {reason}")
    if str(asked.output) != "-":
        asked.output.write_text(text)
    print(f"\n{time.monotonic() - started_at:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
