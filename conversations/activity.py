"""How much is appended, hour by hour: what the console's chart shows, within a time that it may cost.

The append keeps no counter: a counter that all appends share would make them wait for one another. Instead items are
counted by the time they were recorded at, through a block range index that an append does not notice; an hour that is
over is counted once by each process; and what is too much to count is estimated from a sample of the table.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import OperationalError, connection, transaction

from memory_site.database import failures, statements

HOUR = timedelta(hours=1)
STILL_COMMITTING = timedelta(minutes=1)
"""An append carries the time at which it took its place, and commits a little later: no statement may take longer."""
SAMPLE_BLOCKS = 2_000  # of 8 KiB
SAMPLE_SECONDS = 2.0
QUERY_CANCELED = "57014"

COUNT = """
SELECT date_trunc('hour', recorded_at, 'UTC'), count(*) FROM item
WHERE recorded_at >= %(start)s::timestamptz AND recorded_at < %(end)s::timestamptz
GROUP BY 1
"""
SIZE = "SELECT pg_relation_size('item') / current_setting('block_size')::bigint"
SAMPLE = """
SELECT date_trunc('hour', recorded_at, 'UTC'), (count(*) * 100 / %(percent)s::float8)::bigint
FROM item TABLESAMPLE SYSTEM (%(percent)s::float8)
WHERE recorded_at >= %(start)s::timestamptz AND recorded_at < %(end)s::timestamptz
GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class Hour:
    """The items that were appended in one hour and are still there; None when nothing could be found out in time."""

    start: datetime
    items: int | None
    exact: bool = True


class HourlyCounts:
    """Counts of the last hours, and what this process remembers of them."""

    def __init__(self) -> None:
        self._over: dict[datetime, int] = {}

    def last(self, hours: int, *, now: datetime, seconds: float) -> list[Hour]:
        """Return the last hours, oldest first, the running one included; count for ``seconds``, estimate the rest.

        The newest are counted first, so that the next call finds fewer to count.
        """
        newest = now.replace(minute=0, second=0, microsecond=0)
        starts = [newest - HOUR * back for back in range(hours)]
        known = {start: self._over[start] for start in starts if start in self._over}
        deadline = time.monotonic() + seconds
        for span in spans([start for start in starts if start not in known]):
            counted = by_hour(COUNT, span[-1], span[0] + HOUR, seconds=deadline - time.monotonic())
            if counted is None:
                break
            known.update((start, counted.get(start, 0)) for start in span)
        self._over = {start: items for start, items in known.items() if start + HOUR + STILL_COMMITTING <= now}
        sample = estimate(starts[-1], newest + HOUR) if len(known) < hours else None
        return [
            Hour(start, known[start])
            if start in known
            else Hour(start, None if sample is None else sample.get(start, 0), exact=False)
            for start in reversed(starts)
        ]


def spans(missing: list[datetime]) -> Iterator[list[datetime]]:
    """Cut hours, newest first, into runs without a gap: one hour, then two, four, eight, as time allows."""
    longest = 1
    while missing:
        length = 1
        while length < min(longest, len(missing)) and missing[length - 1] - missing[length] == HOUR:
            length += 1
        yield missing[:length]
        missing = missing[length:]
        longest *= 2


def estimate(start: datetime, end: datetime) -> dict[datetime, int] | None:
    """Return the items by hour as a sample of the table's blocks has them: it costs the same at any size."""
    ((blocks,),) = statements.read(SIZE, {})
    percent = min(100.0, 100 * SAMPLE_BLOCKS / max(blocks, 1))
    return by_hour(SAMPLE, start, end, seconds=SAMPLE_SECONDS, percent=percent)


def by_hour(
    query: str, start: datetime, end: datetime, *, seconds: float, **parameters: Any
) -> dict[datetime, int] | None:
    """Return the number of items by hour, without the hours that have none; None when it takes too long."""
    milliseconds = int(seconds * 1000)
    if milliseconds <= 0:
        return None
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s::text, true)", [f"{milliseconds}ms"])
            cursor.execute(query, {"start": start, "end": end, **parameters})
            return dict(cursor.fetchall())
    except OperationalError as error:
        cause = failures.cause_of(error)
        if cause is not None and cause.sqlstate == QUERY_CANCELED:
            return None
        raise
