"""The figures of all worker processes, in Prometheus' text format."""

import hmac
import ipaddress
import os

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from memory_site.problems import Problem
from memory_site.wire import rest

FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP")


def metrics(request: HttpRequest) -> HttpResponse:
    """Serve the figures to whoever sends the token of the settings, or asks from this machine."""
    if not may_read(request):
        return rest.answer(
            Problem("permission_denied", "Send MEMORY_SITE_METRICS_TOKEN as a bearer token, or ask from this machine.")
        )
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # untyped
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def may_read(request: HttpRequest) -> bool:
    """Say whether the request has the token, or comes straight from this machine."""
    token = settings.METRICS_TOKEN
    scheme, _, given = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if token and scheme.lower() == "bearer":
        return hmac.compare_digest(given.strip().encode(), token.encode())
    # Behind a proxy on this machine every request has a local address; a proxy says that it is one.
    if settings.TRUSTED_PROXIES or any(header in request.META for header in FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False
