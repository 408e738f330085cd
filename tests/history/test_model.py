"""The log against the simplest thing that could be it: a list of texts for each conversation of each site."""

import json
import os
from collections import defaultdict
from typing import Any

import httpx
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.conftest import make_tenant

SITES = st.sampled_from((0, 1))
CONVERSATIONS = st.sampled_from(("conversation-a", "conversation-b", "conversation_a"))
# JSON as it may be sent, not as it would be printed.
PAYLOADS = st.sampled_from(
    (
        "{}",
        '{"a":1.0}',
        '{ "a" : 1E400 , "a":"\\u0000"}',
        '{"b":[1,2,{"c":null}],"a":"é\u2028"}',
        '{"n":123456789012345678901234567890}',
    )
) | st.integers(0, 9).map(lambda number: f'{{"number":{number}}}')
BATCHES = st.lists(PAYLOADS, min_size=1, max_size=5)
KEYS = st.sampled_from(("key-1", "key-2", "key-3"))
WHERE = st.integers(0, 25)

Place = tuple[int, str]


class LogMachine(RuleBasedStateMachine):
    """Calls over HTTP, each of which must answer what the lists say."""

    @initialize()
    def begin(self) -> None:
        self.clients = [make_tenant().client() for _ in range(2)]
        self.logs: dict[Place, list[str]] = defaultdict(list)
        self.receipts: dict[tuple[Place, str], tuple[list[str], Any]] = {}
        self.recent: dict[int, list[str]] = {0: [], 1: []}

    def teardown(self) -> None:
        for client in getattr(self, "clients", []):
            client.close()

    def post(self, place: Place, batch: list[str], key: str | None, **fences: int) -> httpx.Response:
        site, conversation = place
        envelope = "".join(f'"{name}":{value},' for name, value in fences.items())
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
        content = f'{{{envelope}"items":[{",".join(batch)}]}}'.encode()
        return self.clients[site].post(f"/v1/conversations/{conversation}/items", content=content, headers=headers)

    def accept(self, place: Place, batch: list[str], response: httpx.Response, key: str | None) -> None:
        """Expect that the batch was stored, and store it here too."""
        site, conversation = place
        first = len(self.logs[place])
        answer = {"first_seq": first, "last_seq": first + len(batch) - 1, "generation": 0}
        assert (response.status_code, response.json()) == (201, answer)
        assert "Idempotent-Replayed" not in response.headers
        self.logs[place] += batch
        self.recent[site] = [conversation, *(other for other in self.recent[site] if other != conversation)]
        if key is not None:
            self.receipts[place, key] = batch, answer

    @rule(site=SITES, conversation=CONVERSATIONS, batch=BATCHES)
    def append(self, site: int, conversation: str, batch: list[str]) -> None:
        place = site, conversation
        self.accept(place, batch, self.post(place, batch, None), None)

    @rule(site=SITES, conversation=CONVERSATIONS, batch=BATCHES, key=KEYS, seq=st.none() | WHERE)
    def append_with_a_key(self, site: int, conversation: str, batch: list[str], key: str, seq: int | None) -> None:
        place = site, conversation
        response = self.post(place, batch, key, **({} if seq is None else {"expected_seq": seq}))
        if (place, key) in self.receipts:
            self.expect_a_receipt(place, batch, key, response)
        elif seq not in (None, len(self.logs[place])):
            self.expect_problem(response, 409, "seq_conflict", next_seq=len(self.logs[place]))
        else:
            self.accept(place, batch, response, key)

    @precondition(lambda self: self.receipts)
    @rule(data=st.data(), seq=st.none() | WHERE)
    def retry(self, data: st.DataObject, seq: int | None) -> None:
        place, key = data.draw(st.sampled_from(sorted(self.receipts)))
        batch, _ = self.receipts[place, key]
        fences = {} if seq is None else {"expected_seq": seq, "expected_generation": 1}
        self.expect_a_receipt(place, batch, key, self.post(place, batch, key, **fences))

    def expect_a_receipt(self, place: Place, batch: list[str], key: str, response: httpx.Response) -> None:
        first_batch, answer = self.receipts[place, key]
        if batch == first_batch:
            assert (response.status_code, response.json()) == (200, answer)
            assert response.headers["Idempotent-Replayed"] == "true"
        else:
            self.expect_problem(response, 422, "idempotency_key_reused")

    @rule(
        site=SITES,
        conversation=CONVERSATIONS,
        batch=BATCHES,
        away=st.integers(-2, 2),
        generation=st.sampled_from((None, 0, 1)),
    )
    def append_fenced(self, site: int, conversation: str, batch: list[str], away: int, generation: int | None) -> None:
        place = site, conversation
        end = len(self.logs[place])
        fences = {"expected_seq": max(end + away, 0)}
        if generation is not None:
            fences["expected_generation"] = generation
        response = self.post(place, batch, None, **fences)
        if generation == 1:
            self.expect_problem(response, 409, "stale_generation", current_generation=0)
        elif fences["expected_seq"] != end:
            self.expect_problem(response, 409, "seq_conflict", next_seq=end)
        else:
            self.accept(place, batch, response, None)

    @rule(site=SITES, conversation=CONVERSATIONS, batch=BATCHES, spoiled=st.sampled_from(("1", "[]", '{"a":}', "{}}")))
    def append_what_is_no_batch(self, site: int, conversation: str, batch: list[str], spoiled: str) -> None:
        response = self.post((site, conversation), [*batch, spoiled], "key-1")
        assert response.status_code == 400

    def expect_problem(self, response: httpx.Response, status: int, code: str, **members: int) -> None:
        problem = response.json()
        assert (response.status_code, problem["code"]) == (status, code)
        assert {name: problem[name] for name in members} == members

    @rule(site=SITES, conversation=CONVERSATIONS, count=WHERE)
    def recall(self, site: int, conversation: str, count: int) -> None:
        log = self.logs[site, conversation]
        start = max(0, len(log) - count)
        self.expect_items(self.clients[site].get(f"/v1/conversations/{conversation}/recall?count={count}"), log, start)

    @rule(site=SITES, conversation=CONVERSATIONS, offset=WHERE, limit=WHERE)
    def replay(self, site: int, conversation: str, offset: int, limit: int) -> None:
        log = self.logs[site, conversation][: offset + limit]
        path = f"/v1/conversations/{conversation}/replay?offset={offset}&limit={limit}"
        self.expect_items(self.clients[site].get(path), log, offset)

    def expect_items(self, response: httpx.Response, log: list[str], start: int) -> None:
        """Expect what the log holds from ``start`` on, byte for byte."""
        assert response.status_code == 200
        items = response.json()["items"]
        stored = ",".join(
            f'{{"seq":{start + index},"recorded_at":"{item["recorded_at"]}","payload":{payload}}}'
            for index, (item, payload) in enumerate(zip(items, log[start:], strict=True))
        )
        assert response.content.decode() == f'{{"items":[{stored}]}}'
        times = [item["recorded_at"] for item in items]
        assert times == sorted(times)

    @rule(site=SITES, limit=st.integers(1, 4))
    def list_page_by_page(self, site: int, limit: int) -> None:
        listed, query = [], f"limit={limit}"
        while True:
            page = json.loads(self.clients[site].get(f"/v1/conversations?{query}").content)
            listed += [conversation["conversation_id"] for conversation in page["conversations"]]
            if page["next_cursor"] is None:
                break
            assert len(page["conversations"]) == limit
            query = f"limit={limit}&cursor={page['next_cursor']}"
        assert listed == self.recent[site]


TestLog = LogMachine.TestCase
TestLog.settings = settings(
    max_examples=400 if os.environ.get("MEMORY_SITE_TEST_SECONDS") else 40,
    stateful_step_count=30,
    deadline=None,
    # A site of its own for every example is in a database that others write to.
    suppress_health_check=[HealthCheck.too_slow],
)
