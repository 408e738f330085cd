"""What Django REST framework is told to use: bytes in, bytes out, and problems for errors.

REST_FRAMEWORK names these classes, so this module must not import ``rest_framework.views`` or anything that does:
Django would fail at start with a circular import.
"""

import logging
import traceback
from typing import IO, Any

from django.core.exceptions import DisallowedHost, RequestDataTooBig, SuspiciousOperation
from django.db import Error as DatabaseError
from django.http import Http404, HttpResponse
from rest_framework import exceptions, negotiation, parsers, renderers

from memory_site.database import failures
from memory_site.problems import Problem

log = logging.getLogger("memory_site.errors")


class JSONParser(parsers.BaseParser):
    """Names the media type; ``@operation`` reads the bytes itself, after everything that refuses them unread."""

    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:
        return stream.read()


class JSONRenderer(renderers.BaseRenderer):
    """Names the media type; ``@operation`` answers with bytes."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return data if isinstance(data, bytes) else b""


class JSONNegotiation(negotiation.DefaultContentNegotiation):
    """REST framework's own; what nearly every client accepts is seen at once, where all of it costs a tenth."""

    def select_renderer(self, request: Any, renderers: Any, format_suffix: str | None = None) -> Any:
        if request.META.get("HTTP_ACCEPT", "*/*") in ("*/*", JSONRenderer.media_type):
            return renderers[0], renderers[0].media_type
        return super().select_renderer(request, renderers, format_suffix)


def answer(problem: Problem) -> HttpResponse:
    """Return a problem as its HTTP response."""
    response = HttpResponse(problem.as_json(), status=problem.status, content_type="application/problem+json")
    if problem.retry_after is not None:
        response["Retry-After"] = str(problem.retry_after)
    for name, value in problem.headers.items():
        response[name] = value
    return response


def problem_of(error: BaseException) -> Problem:
    """Return the problem that any exception comes to; what is nobody's input is logged and says nothing."""
    match error:
        case Problem():
            return error
        case DatabaseError():
            return failures.problem_of(error, committing=False)
        case Http404() | exceptions.NotFound():
            return Problem("not_found", "There is nothing at this address.")
        case exceptions.MethodNotAllowed():
            return Problem("method_not_allowed", "This address does not take that method.")
        case exceptions.NotAcceptable():
            return Problem("not_acceptable", "Only application/json is served here; send that or no Accept header.")
        case exceptions.UnsupportedMediaType():
            return Problem("unsupported_media_type", "Send the body as application/json.")
        case RequestDataTooBig():
            return Problem("body_too_large", "The body is too large.")
        case DisallowedHost():
            return Problem("invalid_parameter", "This host name is not served here.", field="Host")
        case SuspiciousOperation():
            return Problem("invalid_parameter", "The request is not well-formed.")
        case _:
            # Only where it happened: the exception's own text may quote what the request held.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("internal error", extra={"error": type(error).__qualname__, "where": where})
            return Problem("internal_error", "Something went wrong here. It has been logged.")


def problem_response(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """Answer any exception of a view: the exception handler of REST framework, which adds ``Allow`` to every answer."""
    return answer(problem_of(error))
