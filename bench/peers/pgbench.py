"""The same statements through pgbench: what they cost PostgreSQL when the client costs nothing."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from uuid import UUID, uuid5

from bench.driving import Driver, Measured, serve
from bench.workloads import ITEMS_PER_CONVERSATION, Workload, payload, read_conversation

PGBENCH = "MEMORY_SITE_BENCH_PGBENCH"
"""The environment variable with the program's path."""
RATE = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
PLACEHOLDER = re.compile(r"%\((\w+)\)[sb]")

# Variables live as long as the client: the conversation is named by a query of its own, once in thousands of calls.
NEXT_CONVERSATION = """\\if :calls % :calls_per_conversation = 0
SELECT md5(:name::text || :owner::text || (:calls::bigint / :calls_per_conversation::bigint)::text)::uuid AS id,
       'bench-' || :name::text || :owner::text ||
           (:calls::bigint / :calls_per_conversation::bigint)::text AS conversation_id \\gset
\\endif
\\set calls :calls + 1
\\set number :calls * 8 + :client_id
"""
NEXT_PAGE = """\\set offset :calls % :pages * :limit
\\set calls :calls + 1
"""


class PgBench(Driver):
    """Whole seconds only; every run opens its connections anew (their cost is not in the rate)."""

    def versions(self) -> dict[str, str]:
        done = subprocess.run([os.environ[PGBENCH], "--version"], capture_output=True, text=True, check=True)
        return {"pgbench": done.stdout.split()[-1]}

    def run(self, workload: Workload, name: str, seconds: float) -> Measured:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            script = Path(folder, "script.sql")
            script.write_text(self.script(workload))
            variables = self.variables(workload, name)
            done = subprocess.run(
                [os.environ[PGBENCH], "-n", "-M", "prepared", "-f", str(script), "-T", str(max(1, round(seconds)))]
                + ["-c", str(workload.clients), "-j", str(min(2, workload.clients))]
                + ["-l", "--log-prefix", str(Path(folder, "log"))]
                + [part for item in variables.items() for part in ("-D", "=".join(item))]
                + [self.ground.dsn],
                capture_output=True,
                text=True,
                check=False,
            )
            rate = RATE.search(done.stdout)
            if done.returncode or rate is None:
                raise RuntimeError(f"pgbench: {done.stderr[:300] or done.stdout[:300]}")
            sys.stderr.write(done.stderr)
            logs = [log.read_text().splitlines() for log in Path(folder).glob("log.*")]
        latencies = [int(line.split(" ", 3)[2]) for log in logs for line in log]
        return Measured(len(latencies), len(latencies) / float(rate[1]), latencies)

    def script(self, workload: Workload) -> str:
        """Return the statement with pgbench's variables in place of psycopg's placeholders."""
        # A colon in the format of a time would be taken for a variable.
        sql = self.ground.statements[workload.kind].replace(":MI:SS", "' || ':' || 'MI' || ':' || 'SS")
        if workload.kind == "list":
            return sql.replace("%s", ":parameter") + ";\n"
        # Variables cannot be null.
        sql = re.sub(r"%\(expected_\w+\)s", "NULL", sql)
        key = "sha256(int8send(%(number)s::bigint))" if workload.keyed else "NULL"
        sql = re.sub(r"%\((key|content)_digest\)s", key, sql)
        before = {"append": NEXT_CONVERSATION, "replay": NEXT_PAGE}.get(workload.kind, "")
        if not workload.shared:
            before = before.replace(":owner", ":client_id")
        return before + PLACEHOLDER.sub(r":\1", sql).strip() + ";\n"

    def variables(self, workload: Workload, name: str) -> dict[str, str]:
        """Return the values that the script begins with."""
        if workload.kind == "list":
            (site,) = self.ground.list_parameters
            return {"parameter": str(site)}
        if workload.kind == "append":
            quoted = payload().replace("\\", "\\\\").replace('"', '\\"')
            return {
                "site": self.ground.writer.id,
                "name": name,
                "calls": "0",
                "calls_per_conversation": str(ITEMS_PER_CONVERSATION // workload.batch),
                "count": str(workload.batch),
                "payloads": "{" + ",".join([f'"{quoted}"'] * workload.batch) + "}",
                "max_items": str(self.ground.max_items),
                **({"owner": "all"} if workload.shared else {}),
            }
        return {
            "id": str(uuid5(UUID(self.ground.reader.id), read_conversation(workload.size))),
            "limit": str(workload.limit),
            "max_bytes": str(self.ground.max_bytes),
            "calls": "0",
            "pages": str(max(1, workload.size // workload.limit)),
        }


if __name__ == "__main__":
    serve(PgBench)
