"""The figures of a run, as a person reads them: on the terminal and in RESULTS.md."""

import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from bench.participants import BARE, MCP, PRODUCT, Participant, Run
from bench.workloads import Workload


@dataclass
class Results:
    """Every run, by workload and participant, in the order of the rounds."""

    runs: dict[tuple[str, str], list[Run]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, workload: Workload, participant: Participant, run: Run) -> None:
        self.runs.setdefault((workload.name, participant.name), []).append(run)

    def rate(self, workload: str, participant: str) -> float | None:
        """Return the median rate of the rounds."""
        runs = self.runs.get((workload, participant))
        return median(run.rate for run in runs) if runs else None

    def ratio(self, above: tuple[str, str], below: tuple[str, str]) -> float | None:
        """Return the median over the rounds of one rate by another: what the neighbours do cancels out."""
        pairs = list(zip(self.runs.get(above, ()), self.runs.get(below, ()), strict=False))
        return median(one.rate / other.rate for one, other in pairs) if pairs else None


@dataclass(frozen=True)
class Target:
    """A ratio worth a line of its own, and what this product asks of itself, if anything."""

    title: str
    above: tuple[str, str]
    below: tuple[str, str]
    at_least: float | None = None


TARGETS = (
    Target("append, own conversations, by bare psycopg", ("append-8", "product"), ("append-8", "psycopg"), 0.3),
    Target("append, one conversation, by bare psycopg", ("append-one", "product"), ("append-one", "psycopg"), 0.5),
    Target("last 50 of 100,000 by last 50 of 200", ("recall-100k", "product"), ("recall-200", "product"), 0.9),
    Target("the same with 8 clients", ("recall-100k-8", "product"), ("recall-200-8", "product"), 0.9),
    Target("replay by bare psycopg", ("replay", "product"), ("replay", "psycopg"), 0.4),
    Target("append over MCP by REST", ("append-8", "mcp"), ("append-8", "product")),
    Target("last 50 of 200 over MCP by REST", ("recall-200-8", "mcp"), ("recall-200-8", "product")),
    Target("append by openai-agents", ("append-8", "product"), ("append-8", "openai-agents")),
    Target("last 50 of 200 by openai-agents", ("recall-200", "product"), ("recall-200", "openai-agents")),
    Target("last 50 of 10,000 by openai-agents", ("recall-10k", "product"), ("recall-10k", "openai-agents")),
    Target("last 50 of 100,000 by openai-agents", ("recall-100k", "product"), ("recall-100k", "openai-agents")),
    Target("replay by LangGraph's saver", ("replay", "product"), ("replay", "langgraph-saver")),
    Target("put by LangGraph's store", ("put-8", "product"), ("put-8", "langgraph-store")),
    Target("get by LangGraph's store", ("get-8", "product"), ("get-8", "langgraph-store")),
    Target("save by LangGraph's saver", ("save-8", "product"), ("save-8", "langgraph-saver")),
    Target("restore by LangGraph's saver", ("restore-8", "product"), ("restore-8", "langgraph-saver")),
)


def row(workload: Workload, participant: Participant, results: Results) -> list[str] | None:
    """Return the figures of one participant in one workload."""
    runs = results.runs.get((workload.name, participant.name))
    if not runs:
        return None
    latencies = sorted(taken for run in runs for taken in run.measured.latencies)
    calls = sum(run.measured.calls for run in runs)
    rate = median(run.rate for run in runs)
    ratio = results.ratio((workload.name, participant.name), (workload.name, BARE.name))
    server = sum(run.used.server for run in runs) / calls * 1e6
    return [
        participant.title,
        amount(rate),
        amount(rate * workload.items),
        milliseconds(latencies[len(latencies) // 2]),
        milliseconds(latencies[min(len(latencies) - 1, int(len(latencies) * 0.99))]),
        amount(server) if participant in (PRODUCT, MCP) else "",
        amount(sum(run.used.database for run in runs) / calls * 1e6),
        amount(sum(run.used.client for run in runs) / calls * 1e6),
        f"{ratio:.2f}" if ratio is not None else "",
    ]


HEAD = ["", "calls/s", "items/s", "p50 ms", "p99 ms", "server µs", "database µs", "client µs", "× psycopg"]


def amount(value: float) -> str:
    """Return a figure with as many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def milliseconds(microseconds: int) -> str:
    return f"{microseconds / 1000:.2f}" if microseconds < 100_000 else f"{microseconds / 1000:,.0f}"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as a Markdown table that reads well as plain text too."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for number, cells in enumerate(rows):
        padded = [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        lines.append("| " + " | ".join(padded) + " |")
        if number == 0:
            lines.append(
                "|"
                + "|".join("-" * (width + 1) + ("-" if place == 0 else ":") for place, width in enumerate(widths))
                + "|"
            )
    return lines


def section(workload: Workload, participants: Sequence[Participant], results: Results) -> list[str]:
    """Return the part of the report that is about one workload."""
    rows = [found for participant in participants if (found := row(workload, participant, results))]
    return ["", f"### {workload.title}", "", *table([HEAD, *rows])] if rows else []


def targets(results: Results) -> list[str]:
    """Return the ratios that the product is held to."""
    rows = [["ratio", "reached", "wanted"]]
    for target in TARGETS:
        reached = results.ratio(target.above, target.below)
        if reached is not None:
            wanted = "" if target.at_least is None else f"{target.at_least:.2f}"
            rows.append([target.title, f"{reached:.2f}", wanted])
    return ["", "## Ratios", "", *table(rows)] if len(rows) > 1 else []


def versions(found: Mapping[str, str]) -> list[str]:
    """Return what ran, on what."""
    packages = ("Django", "djangorestframework", "granian", "msgspec", "psycopg")
    named = {"Python": platform.python_version()}
    named |= {name: importlib.metadata.version(name) for name in packages}
    named |= found
    return [
        f"- {os.cpu_count()} cores ({platform.machine()}, {platform.system()}), shared by server, database and load",
        "- " + ", ".join(f"{name} {version}" for name, version in named.items()),
    ]


def report(
    workloads: Sequence[Workload],
    participants: Sequence[Participant],
    results: Results,
    *,
    command: str,
    how: str,
    space: Sequence[str] = (),
) -> str:
    """Return the whole report."""
    lines = [
        "# Results of the benchmark",
        "",
        f"Written by `{command}` on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC. {how}",
        "",
        *versions(results.versions),
        "",
        "Closed loop, items of 1 KB, every acknowledged append on disk (fsync, synchronous_commit and",
        "full_page_writes on). Rates are the median of the rounds; a ratio is the median of the ratios within each",
        "round, so that what else the machine did cancels out. The µs are processor time a call: of the server's",
        "processes, of PostgreSQL's, and of the process that makes the calls, which for what runs in process is the",
        "library's own.",
        *targets(results),
        "",
        "## Workloads",
    ]
    for workload in workloads:
        lines += section(workload, participants, results)
    lines += space
    if results.failures:
        lines += ["", "## What could not be measured", ""]
        lines += [f"- {name}: {reason}" for name, reason in results.failures.items()]
    return "\n".join(lines) + "\n"
