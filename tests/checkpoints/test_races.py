"""Everybody at once: what a constraint or a lock stops is provoked here, with real threads and processes."""

import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import httpx
import psutil
import pytest
from django.db import connection

from checkpoints.models import namespace_key
from checkpoints.records import LOCK_NAMESPACE
from checkpoints.retention import REMOVE, prune
from tests.calls import assert_problem, bundle, put_record, save
from tests.checkpoints.conftest import expire
from tests.conftest import Server, Tenant

Answer = TypeVar("Answer")


def at_once(count: int, call: Callable[[int], Answer]) -> list[Answer]:
    """Run a call in as many threads, which start together."""
    barrier = threading.Barrier(count)

    def run(number: int) -> Answer:
        try:
            barrier.wait()
            return call(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_of_sixteen_savers_exactly_one_wins_each_of_two_hundred_rounds(
    server: Server, tenant: Tenant, namespace: str
) -> None:
    rounds = 200
    barrier = threading.Barrier(16)
    answers: list[list[httpx.Response]] = [[] for _ in range(rounds)]

    def race(number: int) -> None:
        with tenant.client(server.address) as client:
            for step in range(rounds):
                barrier.wait()
                body = bundle(f"checkpoint-{step}-{number}", expected_revision=step, details=number)
                answers[step].append(save(client, namespace, body))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(race, range(16)))
    chain = []
    for step, found in enumerate(answers):
        assert Counter(response.status_code for response in found) == {201: 1, 409: 15}
        for response in found:
            if response.status_code == 201:
                assert response.json()["revision"] == step + 1
                chain.append(response.json()["checkpoint_id"])
            else:
                assert_problem(response, "revision_conflict", current_revision=step + 1)
    with tenant.client(server.address) as client:
        for revision, checkpoint_id in enumerate(chain, start=1):
            restored = client.get(f"/v1/namespaces/{namespace}/checkpoints/{checkpoint_id}").json()
            assert (restored["revision"], restored["details"]) == (revision, int(checkpoint_id.rpartition("-")[2]))
        assert client.get(f"/v1/namespaces/{namespace}/sessions/coder/one/latest").json()["checkpoint_id"] == chain[-1]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM checkpoint WHERE namespace_id = %s", [namespace_key(tenant.site, namespace)]
        )
        assert cursor.fetchone() == (rounds,)


def test_one_id_in_sixteen_sessions_at_once_is_in_one_of_them(tenant: Tenant, namespace: str) -> None:
    for step in range(10):

        def run(number: int, step: int = step) -> httpx.Response:
            with tenant.client() as client:
                return save(
                    client, f"{namespace}{step % 2}", bundle(f"checkpoint-{step}", session_id=f"s{step}.{number}")
                )

        found = at_once(16, run)
        assert Counter(response.status_code for response in found) == {201: 1, 409: 15}
        for response in found:
            if response.status_code == 409:
                assert_problem(response, "checkpoint_conflict")
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM checkpoint_session WHERE namespace_id = %s AND session_id LIKE %s",
                [namespace_key(tenant.site, f"{namespace}{step % 2}"), f"s{step}.%"],
            )
            assert cursor.fetchone() == (1,), "a loser's pointer stayed behind"


def test_a_retry_at_the_same_moment_gets_the_first_answer(tenant: Tenant, namespace: str) -> None:
    for step in range(10):

        def run(_: int, step: int = step) -> httpx.Response:
            with tenant.client() as client:
                return save(client, namespace, bundle(f"checkpoint-{step}", expected_revision=step))

        found = at_once(16, run)
        assert Counter(response.status_code for response in found) == {201: 1, 200: 15}
        assert len({response.content for response in found}) == 1


def test_workers_killed_while_saving_leave_bundle_and_pointer_or_neither(
    start_server: Callable[..., Server], tenant: Tenant, namespace: str
) -> None:
    server = start_server(workers=2)
    stop = threading.Event()

    def kill() -> None:
        while not stop.wait(0.4):
            for worker in psutil.Process(server.process.pid).children():
                worker.send_signal(signal.SIGKILL)
                break

    def work(number: int) -> int:
        revision = 0
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline:
            body = bundle(f"checkpoint-{number}-{revision}", session_id=f"s{number}", expected_revision=revision)
            body["details"] = "x" * 20_000
            while True:  # the same call again, until it is answered
                try:
                    with tenant.client(server.address) as client:
                        response = save(client, namespace, body)
                    break
                except httpx.TransportError:
                    time.sleep(0.02)
            assert response.status_code in (200, 201), response.text
            revision += 1
            assert response.json()["revision"] == revision
        return revision

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with ThreadPoolExecutor(6) as pool:
            reached = list(pool.map(work, range(6)))
    finally:
        stop.set()
        killer.join()
    assert min(reached) > 0
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT s.session_id, s.revision, s.checkpoint_id, count(*), max(c.revision), count(DISTINCT c.revision)"
            " FROM checkpoint_session AS s JOIN checkpoint AS c USING (namespace_id, agent_id, session_id)"
            " WHERE s.namespace_id = %s GROUP BY 1, 2, 3 ORDER BY 1",
            [namespace_key(tenant.site, namespace)],
        )
        found = cursor.fetchall()
    assert found == [(f"s{n}", last, f"checkpoint-{n}-{last - 1}", last, last, last) for n, last in enumerate(reached)]


def test_saving_and_deleting_at_once_always_leaves_a_latest(server: Server, tenant: Tenant, namespace: str) -> None:
    with tenant.client(server.address) as client:
        save(client, namespace, bundle("checkpoint-0"))
        for step in range(1, 60):

            def run(number: int, step: int = step) -> httpx.Response:
                with tenant.client(server.address) as one:
                    if number == 0:
                        return save(one, namespace, bundle(f"checkpoint-{step}", expected_revision=step))
                    return one.delete(f"/v1/namespaces/{namespace}/checkpoints/checkpoint-{step - (number == 1)}")

            saved, *deleted = at_once(3, run)
            assert saved.status_code in (201, 410), saved.text
            assert {response.status_code for response in deleted} <= {204, 409}
            latest = client.get(f"/v1/namespaces/{namespace}/sessions/coder/one/latest")
            assert latest.json()["checkpoint_id"] == f"checkpoint-{step}"


def test_of_sixteen_who_want_a_new_key_one_gets_it(tenant: Tenant, namespace: str) -> None:
    for step in range(10):

        def run(number: int, step: int = step) -> int:
            with tenant.client() as client:
                return put_record(client, namespace, f"k{step}", str(number), if_none_match="*").status_code

        assert Counter(at_once(16, run)) == {201: 1, 412: 15}


def test_counting_with_if_match_loses_nothing(server: Server, tenant: Tenant, namespace: str) -> None:
    address = f"/v1/namespaces/{namespace}/records/counter"

    def count(_: int) -> None:
        with tenant.client(server.address) as client:
            done = 0
            while done < 20:
                read = client.get(address)
                if read.status_code == 404:
                    written = put_record(client, namespace, "counter", "1", if_none_match="*")
                else:
                    number = str(read.json() + 1)
                    written = put_record(client, namespace, "counter", number, if_match=read.headers["ETag"])
                assert written.status_code in (200, 201, 412), written.text
                done += written.status_code != 412

    at_once(8, count)
    with tenant.client(server.address) as client:
        read = client.get(address)
        assert (read.content, read.headers["ETag"]) == (b"160", '"160"')


def test_a_put_that_extends_a_life_survives_the_pruner(tenant: Tenant, namespace: str) -> None:
    key = f"{namespace}/a"
    with tenant.client() as client:
        revision = put_record(client, namespace, key, "0", query="?ttl=60").json()["revision"]
        for step in range(60):
            expire(key)

            def run(number: int, step: int = step) -> Any:
                if number == 0:
                    return prune()
                with tenant.client() as one:
                    return put_record(one, namespace, key, str(step), query="?ttl=60")

            _, written = at_once(2, run)
            assert written.status_code == 201, written.text
            assert written.json()["revision"] > revision
            revision = written.json()["revision"]
            assert client.get(f"/v1/namespaces/{namespace}/records/{key}").content == str(step).encode()


def test_a_put_that_waits_for_the_pruner_goes_on_above_what_it_removed(tenant: Tenant, namespace: str) -> None:
    """The put begins while a batch is removed and not yet committed: what it saw before the wait is out of date."""
    key = f"{namespace}/a"
    held: dict[str, Any] = {"namespace": namespace_key(tenant.site, namespace), "keys": [key], "limit": 10}
    with tenant.client() as client:
        for _ in range(3):
            put_record(client, namespace, key, "1", query="?ttl=60")
        expire(key)
        pruner = connection.copy()
        try:
            pruner.set_autocommit(False)
            with pruner.cursor() as cursor:
                cursor.execute("SELECT clock_timestamp()")
                held["before"] = cursor.fetchone()[0]
                cursor.execute(LOCK_NAMESPACE, held)
                cursor.execute(REMOVE, held)
                assert cursor.fetchone() == (1, 0)
                with ThreadPoolExecutor(1) as pool:
                    waiting = pool.submit(at_once, 1, lambda _: put_record(client, namespace, key, "2"))
                    time.sleep(0.3)
                    assert not waiting.done()
                    pruner.commit()
                    (written,) = waiting.result()
        finally:
            pruner.close()
        assert (written.status_code, written.json()["revision"]) == (201, 4)


def test_the_pruner_waits_for_a_put_that_came_first_and_leaves_its_record_alone(tenant: Tenant, namespace: str) -> None:
    """A pruner that removed rows before it had the namespace would wait for the put, and the put for it."""
    key = f"{namespace}/a"
    here: dict[str, Any] = {"namespace": namespace_key(tenant.site, namespace), "key": key}
    with tenant.client() as client:
        put_record(client, namespace, key, "1", query="?ttl=60")
        expire(key)
        writer = connection.copy()
        try:
            writer.set_autocommit(False)
            with writer.cursor() as cursor, ThreadPoolExecutor(1) as pool:
                cursor.execute("SELECT 1 FROM namespace WHERE id = %(namespace)s FOR SHARE", here)
                pruning = pool.submit(at_once, 1, lambda _: prune())
                time.sleep(0.3)
                assert not pruning.done()
                cursor.execute(
                    "UPDATE record SET revision = 2, expires_at = NULL"
                    " WHERE namespace_id = %(namespace)s AND key = %(key)s",
                    here,
                )
                writer.commit()
                pruning.result()
        finally:
            writer.close()
        assert client.get(f"/v1/namespaces/{namespace}/records/{key}").headers["ETag"] == '"2"'


def test_no_revision_of_a_key_is_given_twice_while_it_is_put_deleted_and_pruned(
    server: Server, tenant: Tenant, namespace: str
) -> None:
    stop = threading.Event()
    given: list[int] = []

    def work(number: int) -> None:
        if number == 0:
            while not stop.is_set():
                prune()
            return
        with tenant.client(server.address) as client:
            for _ in range(100):
                if secrets.randbelow(2):
                    given.append(put_record(client, namespace, "a", "1").json()["revision"])
                else:
                    assert client.delete(f"/v1/namespaces/{namespace}/records/a").status_code == 204
        if number == 1:
            stop.set()

    at_once(5, work)
    assert len(given) == len(set(given)) > 100


@pytest.mark.parametrize("ttl", ["", "?ttl=60"])
def test_reading_at_once_with_writing_sees_whole_values(
    server: Server, tenant: Tenant, namespace: str, ttl: str
) -> None:
    def work(number: int) -> None:
        with tenant.client(server.address) as client:
            for step in range(40):
                if number < 2:
                    put_record(client, namespace, "a", f'"{number}{"x" * 20_000}{step}"', query=ttl)
                else:
                    read = client.get(f"/v1/namespaces/{namespace}/records/a")
                    assert read.status_code in (200, 404)
                    if read.status_code == 200:
                        assert len(read.json()) > 20_000
                        assert read.headers["ETag"] == f'"{read.headers["X-Revision"]}"'

    at_once(4, work)
