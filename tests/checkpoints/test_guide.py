"""The guide's own code, run as it stands, and the space that checkpoints take."""

import json
import os
import re
import subprocess
import sys

import httpx
from django.db import connection

from checkpoints.models import namespace_key
from memory_site.environment import PROJECT
from memory_site.sites.models import Credential, Site
from tests.calls import bundle, save
from tests.conftest import Server, Tenant
from tests.mcp.conftest import call

GUIDE = (PROJECT / "docs" / "checkpoints.md").read_text()


def test_the_guides_python_saves_and_restores(server: Server) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    site, _ = Site.objects.get_or_create(slug="default", defaults={"name": "As the first run makes it"})
    _, secret = Credential.issue(site=site)
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MEMORY_URL": server.address, "MEMORY_SECRET": secret},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "Run the importer's tests with the new driver. ['No downtime.', 'Do not touch the billing tables.']",
        "decisions/database ok",
        "PostgreSQL only: one engine, all of its features.",
        "saved revision 2",
    ]


def test_the_guides_tool_calls_save_and_restore(client: httpx.Client) -> None:
    (lines,) = (block for block in re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL) if "memory_restore" in block)
    answers = {}
    for line in lines.splitlines():
        called = json.loads(line)
        answer = call(client, called["name"], json.dumps(called["arguments"]), address="/mcp/checkpoints")
        assert answer["isError"] is False, answer
        answers[called["name"]] = answer["structuredContent"]
    assert answers["memory_restore"]["capsule"]["next_action"] == "Run the importer's tests."
    assert answers["memory_list"]["records"][0]["key"] == "decisions/database"
    assert answers["memory_get"]["value"]["content"] == "PostgreSQL only"


def test_a_chain_of_checkpoints_takes_linear_space(client: httpx.Client, tenant: Tenant, namespace: str) -> None:
    """A hundred saves of 100 KB here; ``make bench`` has a thousand. What does not compress takes its own size once."""

    def size() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_total_relation_size('checkpoint') + pg_total_relation_size('checkpoint_session')")
            (found,) = cursor.fetchone()
            return int(found)

    sizes = [size()]
    for number in range(100):
        body = bundle(f"checkpoint-{number}", expected_revision=number, details=os.urandom(50_000).hex())
        assert save(client, namespace, body).status_code == 201
        if number in (49, 99):
            sizes.append(size())
    first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert first < 50 * 110_000
    assert second < 1.2 * first
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM checkpoint WHERE namespace_id = %s", [namespace_key(tenant.site, namespace)]
        )
        assert cursor.fetchone() == (100,)
