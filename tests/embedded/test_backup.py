"""A backup as docs/operations.md makes it, and what it brings back."""

import os
import secrets
import subprocess
from pathlib import Path

import httpx
import psycopg
import pytest
from django.conf import settings
from django.db import connection

from memory_site.database.embedded import PORT, ROLE
from memory_site.database.postgres_account import account_for, binaries

DUMP = ("--no-owner", "--no-comments")  # the documented options


@pytest.mark.skipif("MEMORY_SITE_TEST_DATABASE_URL" in os.environ, reason="of the embedded server")
def test_a_dump_taken_beside_the_running_server_brings_everything_back(
    client: httpx.Client, conversation_id: str, tmp_path: Path
) -> None:
    payload = '{"b" : 1.0,"a":1E400,"t":"\\u0000\\né"}'
    body = f'{{"items":[{payload}]}}'.encode()
    headers = {"Content-Type": "application/json"}
    assert client.post(f"/v1/conversations/{conversation_id}/items", content=body, headers=headers).status_code == 201
    programs = binaries(settings.STATE, account_for(settings.STATE / "data"))
    host, name = str(connection.settings_dict["HOST"]), connection.settings_dict["NAME"]
    there = ["-h", host, "-p", PORT, "-U", ROLE]
    backup = tmp_path / "backup.sql"
    subprocess.run([str(programs / "pg_dump"), *there, *DUMP, "-f", str(backup), name], check=True)
    again = f"again_{secrets.token_hex(4)}"
    with psycopg.connect(host=host, port=PORT, user=ROLE, dbname="postgres", autocommit=True) as administrator:
        administrator.execute(f"CREATE DATABASE {again}")
        try:
            restore = [str(programs / "psql"), "-qX", *there, "-d", again, "-v", "ON_ERROR_STOP=1", "-f", str(backup)]
            subprocess.run(restore, check=True, capture_output=True)
            with psycopg.connect(host=host, port=PORT, user=ROLE, dbname=again) as restored:
                rows = restored.execute(
                    "SELECT payload FROM item JOIN conversation AS c ON c.id = item.conversation_id"
                    " WHERE c.conversation_id = %s",
                    [conversation_id],
                ).fetchall()
        finally:
            administrator.execute(f"DROP DATABASE {again} WITH (FORCE)")
    assert rows == [(payload,)]
