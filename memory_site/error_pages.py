"""What an error looks like: to people under /admin/ a page that says what to do, to programs a problem."""

import sys

from django.core.exceptions import SuspiciousOperation
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import add_never_cache_headers

from memory_site.problems import Problem
from memory_site.wire import edge, rest

CONSOLE = "/admin/"
CHANGING = "Before you try again, look whether what you did is there: the connection may have broken after it was."


def page(request: HttpRequest, problem: Problem, heading: str, *says: str) -> HttpResponse:
    """Return an error page. It asks neither the database nor the session, for these may be what failed."""
    context = {
        "heading": heading,
        "says": says,
        "request_id": getattr(request, "request_id", None),
        "again": request.get_full_path() if request.method == "GET" and problem.retry_after is not None else None,
    }
    response = HttpResponse(render_to_string("admin/error.html", context), status=problem.status)
    if problem.retry_after is not None:
        response["Retry-After"] = str(problem.retry_after)
    add_never_cache_headers(response)
    return response


def for_people(request: HttpRequest) -> bool:
    return request.path_info.startswith(CONSOLE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what Django itself refuses (``handler400``)."""
    if not for_people(request):
        return edge.bad_request(request, exception)
    known = isinstance(exception, SuspiciousOperation)
    problem = rest.problem_of(exception) if known else Problem("invalid_parameter", "The request is not well-formed.")
    return page(request, problem, "This request cannot be read", problem.detail)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a refusal (``handler403``)."""
    if not for_people(request):
        return edge.permission_denied(request, exception)
    problem = Problem("permission_denied", "")
    return page(
        request,
        problem,
        "You may not do this",
        "Your account lacks the permission. An operator who manages users can give it.",
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an unknown address (``handler404``)."""
    if not for_people(request):
        return edge.not_found(request, exception)
    problem = Problem("not_found", "")
    return page(request, problem, "Not found", "There is nothing at this address. What was here may have been deleted.")


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer an exception that no view caught (``handler500``)."""
    if not for_people(request):
        return edge.server_error(request)
    error = sys.exception()
    problem = rest.problem_of(error) if error is not None else Problem("internal_error", "")
    changing = () if request.method == "GET" else (CHANGING,)
    if problem.code == "timeout":
        return page(request, problem, "This took too long", "The database was busy. Try again in a moment.", *changing)
    if isinstance(error, DatabaseError) and problem.status != 500:
        return page(
            request,
            problem,
            "The database cannot be reached",
            "The web server runs, but its PostgreSQL does not answer. Clients are told to keep what they have and to "
            "try again; nothing that was acknowledged is lost.",
            "See whether PostgreSQL runs and whether its disk is full; its log says more.",
            *changing,
        )
    if problem.status == 503:
        return page(request, problem, "The database cannot be reached", problem.detail, *changing)
    return page(request, problem, "Something went wrong here", "It has been logged, with the number below.", *changing)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form whose token does not fit (``CSRF_FAILURE_VIEW``): most often the login is older than the form."""
    return page(
        request,
        Problem("permission_denied", ""),
        "This form is out of date",
        "Nothing was changed. Go back, reload the page and send it again; cookies must be allowed.",
        "If it happens every time behind a proxy, the address that people use is missing from "
        "MEMORY_SITE_ALLOWED_ORIGINS.",
    )
