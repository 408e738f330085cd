"""What an operator wants to know of the database, at a price that does not grow with it."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from memory_site.database import statements

# Without any of these an acknowledged write may be lost with the power: that cannot be seen from a process's death.
DURABLE_SETTINGS = ("fsync", "full_page_writes", "synchronous_commit")
READ_SETTINGS = "SELECT name, setting FROM pg_settings WHERE name = ANY(%(names)s::text[])"
READ_FACTS = "SELECT current_setting('server_version'), pg_database_size(current_database()), now()"

COUNTED = 10_000
"""Up to so many rows are counted; beyond, the planner's and the statistics' larger estimate is taken."""
COUNT = """
SELECT (SELECT count(*) FROM (SELECT FROM {table} LIMIT %(most)s::bigint) AS counted),
       greatest(reltuples::bigint, pg_stat_get_live_tuples(oid))
FROM pg_class WHERE oid = '{table}'::regclass
"""


def lacking_durability() -> list[str]:
    """Return which of the settings that durability needs are off."""
    settings: dict[str, str] = dict(statements.read(READ_SETTINGS, {"names": list(DURABLE_SETTINGS)}))
    return [name for name in DURABLE_SETTINGS if settings.get(name) == "off"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What runs, how much it holds, and what time it has."""

    version: str
    size: int
    """Bytes on disk, with indexes and space that waits to be used again."""
    now: datetime
    lacking: list[str]


def read_facts() -> Facts:
    """Return the facts of the database that this process is connected to."""
    ((version, size, now),) = statements.read(READ_FACTS, {})
    return Facts(version=version.split()[0], size=size, now=now, lacking=lacking_durability())


@dataclass(frozen=True, slots=True)
class RowCount:
    """How many rows a table has, or about how many."""

    rows: int
    exact: bool


def count_rows(table: str) -> RowCount:
    """Return the number of rows of one of our tables: exact while small, an estimate beyond."""
    query = COUNT.format(table=connection.ops.quote_name(table))
    ((counted, estimate),) = statements.read(query, {"most": COUNTED + 1})
    return RowCount(counted, exact=True) if counted <= COUNTED else RowCount(max(estimate, counted), exact=False)
