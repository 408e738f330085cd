"""What is counted of every request, for Prometheus.

With several worker processes each keeps its figures in a file of ``PROMETHEUS_MULTIPROC_DIR``, which ``up`` sets
before it starts them; without that variable a process counts for itself.
"""

from functools import cache

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from prometheus_client import Counter, Histogram

REQUESTS = Counter("memory_site_requests_total", "Requests answered.", ["method", "route", "tool", "status"])
SECONDS = Histogram(
    "memory_site_request_seconds",
    "Time from the first header to the last byte handed over, in seconds.",
    ["method", "route", "tool"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def count_request(request: HttpRequest, response: HttpResponseBase, *, seconds: float) -> None:
    """Count one request under its route: never its path, which a client could make up without end."""
    match = request.resolver_match
    method = request.method if request.method in METHODS else "other"
    route = match.route if match is not None else ""
    requests, times = series_of(method, route, getattr(request, "tool", ""), response.status_code)
    requests.inc()
    times.observe(seconds)


@cache
def series_of(method: str, route: str, tool: str, status: int) -> tuple[Counter, Histogram]:
    """Return the two series of a kind of request; there are as many kinds as the server has, whatever clients send."""
    return REQUESTS.labels(method, route, tool, status), SECONDS.labels(method, route, tool)
