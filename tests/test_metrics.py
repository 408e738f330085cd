"""The figures for Prometheus: counted over all workers, and not for everybody."""

import base64
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.conftest import Server, Tenant


def count_of(text: str, *labels: str) -> float:
    lines = [line for line in text.splitlines() if line.startswith("memory_site_requests_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in labels))


def test_requests_of_every_worker_are_counted_under_their_route(
    start_server: Callable[..., Server], tenant: Tenant, conversation_id: str, tmp_path: Path
) -> None:
    server = start_server(workers=2, prometheus_multiproc_dir=str(tmp_path))
    for _ in range(20):  # each on a connection of its own, so that both workers get some
        with tenant.client(server.address) as client:
            client.get(f"/v1/conversations/{conversation_id}/recall")
    text = httpx.get(server.address + "/metrics").text
    assert count_of(text, 'route="v1/conversations/<str:conversation_id>/recall"', 'status="200"') == 20
    assert conversation_id not in text
    assert tenant.site.slug not in text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"X-Forwarded-For": "203.0.113.9"}, 403),
        ({"Authorization": "Bearer wrong"}, 403),
        ({"Authorization": "Basic " + base64.b64encode(b"a:b").decode()}, 200),
        ({"X-Forwarded-For": "203.0.113.9", "Authorization": "Bearer right"}, 200),
    ],
)
def test_they_are_for_this_machine_or_for_who_has_the_token(
    client: httpx.Client, settings: object, headers: dict[str, str], status: int
) -> None:
    settings.METRICS_TOKEN = "right"  # type: ignore[attr-defined]
    with httpx.Client(transport=client._transport, base_url=client.base_url) as stranger:
        assert stranger.get("/metrics", headers=headers).status_code == status
