"""How much space a long chain of checkpoints takes: what was saved is kept once, however long the chain is."""

import http.client
import json
import secrets
from base64 import b64encode

import psycopg

from bench.ground import Ground
from bench.memories import NAMESPACE, bundle
from bench.report import table

SAVES = 1000
BUNDLE_BYTES = 100_000  # of text that does not compress to less than half
SIZE = "SELECT pg_total_relation_size('checkpoint') + pg_total_relation_size('checkpoint_session')"


def chain(ground: Ground) -> list[str]:
    """Save one session's checkpoints one after the other; return the part of the report that is about the space."""
    tenant = ground.writer
    basic = b64encode(f"{tenant.slug}:{tenant.secret}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/json"}
    client = http.client.HTTPConnection(ground.address, timeout=30)
    rows = [["saves", "bytes saved", "bytes of the tables", "bytes a save"]]
    sent = 0
    with psycopg.connect(ground.dsn, autocommit=True) as database:

        def size() -> int:
            row = database.execute(SIZE).fetchone()
            return int(row[0]) if row else 0

        before = size()
        for number in range(SAVES):
            body = {**bundle(f"chain-{number:06}", "chain", number), "details": secrets.token_hex(BUNDLE_BYTES // 2)}
            text = json.dumps(body)
            client.request("POST", f"/v1/namespaces/{NAMESPACE}/checkpoints", text, headers)
            answer = client.getresponse()
            if answer.status != http.HTTPStatus.CREATED:
                raise RuntimeError(answer.read().decode())
            answer.read()
            sent += len(text)
            if (number + 1) % (SAVES // 4) == 0:
                taken = size() - before
                rows.append([f"{number + 1:,}", f"{sent:,}", f"{taken:,}", f"{taken // (number + 1):,}"])
    client.close()
    return ["", f"### space of a chain of {SAVES:,} checkpoints of {BUNDLE_BYTES // 1000} KB", "", *table(rows)]
