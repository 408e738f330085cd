"""What records and checkpoints are measured with: values of 1 KB, bundles of 8 KB, and a chain of large ones."""

import json
from typing import Any

from bench.workloads import DETAILS_BYTES, payload

NAMESPACE = "bench"
AGENT = "bench"
RECORDS = 1000  # loaded, and read
SESSION = "loaded"
CAPSULE = {
    "goal": "Move the service to PostgreSQL.",
    "summary": "The models are moved; the tests of the importer fail.",
    "next_action": "Run the importer's tests with the new driver.",
    "constraints": ["No downtime.", "Do not touch the billing tables."],
    "decisions": ["PostgreSQL only."],
    "open_tasks": ["importer", "documentation"],
}


def value() -> str:
    """Return the JSON text of a record: 1 KB, with a structure that lists can filter by."""
    return '{"kind":"fact","tags":["benchmark"],' + payload()[1:]


def record_key(number: int) -> str:
    return f"facts/{number % RECORDS:04}"


def bundle(checkpoint_id: str, session: str, revision: int) -> dict[str, Any]:
    """Return the body of the checkpoint that follows a revision of a session."""
    return {
        "checkpoint_id": checkpoint_id,
        "agent_id": AGENT,
        "session_id": session,
        "expected_revision": revision,
        "capsule": CAPSULE,
        "details": "." * DETAILS_BYTES,
    }


def bundle_text(checkpoint_id: str, session: str, revision: int) -> str:
    return json.dumps(bundle(checkpoint_id, session, revision), separators=(",", ":"))
