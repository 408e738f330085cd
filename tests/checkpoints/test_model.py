"""Records against a model: a dictionary, and the last revision of every key that ever was."""

import secrets
from dataclasses import dataclass
from typing import Any

import httpx
from django.db import connection
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from checkpoints.models import namespace_key
from checkpoints.retention import prune
from tests.calls import assert_problem, put_record
from tests.conftest import Tenant, make_tenant

KEYS = st.sampled_from(["a", "a/b", "b", "c/"])
CONDITIONS = st.sampled_from(["none", "new", "any", "current", "old", "future"])


@dataclass
class Kept:
    value: str
    revision: int
    mortal: bool


class Records(RuleBasedStateMachine):
    tenant: Tenant
    client: httpx.Client

    @initialize()
    def begin(self) -> None:
        self.tenant = make_tenant()
        self.client = self.tenant.client()
        self.namespace = f"model-{secrets.token_hex(4)}"
        self.living: dict[str, Kept] = {}
        self.last: dict[str, int] = {}

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.client.close()

    def headers(self, key: str, condition: str) -> tuple[dict[str, str], bool]:
        """Return the headers of a condition, and whether it holds."""
        kept = self.living.get(key)
        last = self.last.get(key, 0)
        match condition:
            case "new":
                return {"if_none_match": "*"}, kept is None
            case "any":
                return {"if_match": "*"}, kept is not None
            case "current":
                return {"if_match": f'"{last}"'}, kept is not None
            case "old":
                return {"if_match": f'"{last - 1}"'}, False
            case "future":
                return {"if_match": f'"{last + 1}"'}, False
            case _:
                return {}, True

    @rule(
        key=KEYS,
        value=st.sampled_from(["1", '{"kind":"k"}', '{"tags":["t"]}']),
        condition=CONDITIONS,
        mortal=st.booleans(),
    )
    def put(self, key: str, value: str, condition: str, mortal: bool) -> None:
        headers, holds = self.headers(key, condition)
        response = put_record(self.client, self.namespace, key, value, query="?ttl=600" if mortal else "", **headers)
        if not holds:
            assert_problem(
                response,
                "precondition_failed",
                current_revision=self.living[key].revision if key in self.living else 0,
            )
            return
        assert response.status_code == (200 if key in self.living else 201), response.text
        revision = response.json()["revision"]
        assert revision > self.last.get(key, 0)
        if key in self.living:
            assert revision == self.last[key] + 1
        self.living[key] = Kept(value, revision, mortal)
        self.last[key] = revision

    @rule(key=KEYS, condition=CONDITIONS.filter(lambda name: name != "new"))
    def delete(self, key: str, condition: str) -> None:
        headers, holds = self.headers(key, condition)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        response = self.client.delete(f"/v1/namespaces/{self.namespace}/records/{key}", headers=sent)
        if holds:
            assert response.status_code == 204
            self.living.pop(key, None)
        else:
            assert_problem(response, "precondition_failed")

    @rule()
    def expire(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE record SET expires_at = clock_timestamp() WHERE namespace_id = %s AND expires_at IS NOT NULL",
                [namespace_key(self.tenant.site, self.namespace)],
            )
        self.living = {key: kept for key, kept in self.living.items() if not kept.mortal}

    @rule()
    def prune(self) -> None:
        prune()

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        response = self.client.get(f"/v1/namespaces/{self.namespace}/records/{key}")
        if key in self.living:
            kept = self.living[key]
            assert (response.text, response.headers["ETag"]) == (kept.value, f'"{kept.revision}"')
            assert ("X-Expires-At" in response.headers) is kept.mortal
        else:
            assert_problem(response, "not_found")

    @invariant()
    def the_list_is_what_lives(self) -> None:
        if not hasattr(self, "client"):
            return
        page: dict[str, Any] = self.client.get(f"/v1/namespaces/{self.namespace}/records").json()
        assert {record["key"]: record["revision"] for record in page["records"]} == {
            key: kept.revision for key, kept in self.living.items()
        }


TestRecords = Records.TestCase
TestRecords.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
