"""The HTTP edge: request ids, one log line a request, the headers that every answer carries, errors as problems."""

import logging
import re
import time
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from memory_site.problems import Problem
from memory_site.wire import metrics, rest

log = logging.getLogger("memory_site.requests")

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
PAGES = ("/admin/", "/static/", "/v1/schema/page")
NOTHING_TO_LOAD = "default-src 'none'; frame-ancestors 'none'"


class Edge:
    """The outermost middleware; on the API's path it is the only one that does anything."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]
        response = self.get_response(request)
        response["X-Request-ID"] = request_id
        if not request.path_info.startswith(PAGES):
            response["Cache-Control"] = "no-store"
            response["X-Content-Type-Options"] = "nosniff"
            response["Content-Security-Policy"] = NOTHING_TO_LOAD
        seconds = time.perf_counter() - started
        metrics.count_request(request, response, seconds=seconds)
        log_request(request, response, seconds=seconds)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer and log what no view caught; people get a page instead, of ``handler500``."""
        return None if request.path_info.startswith(PAGES) else rest.answer(rest.problem_of(exception))


def log_request(request: HttpRequest, response: HttpResponseBase, *, seconds: float) -> None:
    """Write the one line of a request: never a payload, an argument or a secret; the route, not the path."""
    match = request.resolver_match
    caller = getattr(request, "caller", None)
    log.info(
        "request",
        extra={
            "request_id": request.request_id,  # type: ignore[attr-defined]
            "site": caller.site.slug if caller is not None else None,
            "method": request.method,
            "tool": getattr(request, "tool", None),
            "route": match.route if match is not None else None,
            "status": response.status_code,
            "ms": round(seconds * 1000, 2),
        },
    )


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what Django itself refuses (``handler400``)."""
    return rest.answer(rest.problem_of(exception))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an unknown address (``handler404``)."""
    return rest.answer(rest.problem_of(exception))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a refusal of Django's own (``handler403``)."""
    return rest.answer(Problem("permission_denied", "This is not permitted."))


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer an exception that no view caught (``handler500``)."""
    return rest.answer(Problem("internal_error", "Something went wrong here. It has been logged."))
