"""The REST door: one decorator from a request to a call and from its result to an answer.

``@operation`` judges in this order: length, type and size of the body by the headers alone, then JSON, structure and
the rules of the struct. Authentication and permission have been judged before, by REST framework.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.viewsets import ViewSet

from memory_site.wire import openapi
from memory_site.wire.body import JSON, read_body
from memory_site.wire.structs import (
    HEADERS,
    ValidationFailed,
    Written,
    convert_query,
    decode_body,
    invalid_parameter,
    read_query,
)

Call = TypeVar("Call", bound=msgspec.Struct)


encoder = msgspec.json.Encoder()


@dataclass(frozen=True)
class Operation(Generic[Call]):
    """What is known of one REST call when the server starts."""

    takes: type[Call]
    returns: type[msgspec.Struct]
    permission: str
    status: int
    problems: tuple[str, ...]
    path: tuple[str, ...]
    headers: tuple[str, ...]
    query: frozenset[str]
    body: type[msgspec.Struct] | None
    decoder: msgspec.json.Decoder[Any] | None

    def read(self, request: HttpRequest, path: dict[str, str]) -> Call:
        """Return the validated call, or raise the first fault in the order that is promised."""
        values: dict[str, Any] = {**path, **self.read_headers(request)}
        if self.decoder is None:
            query = {name: request.GET.getlist(name) for name in request.GET} if request.META["QUERY_STRING"] else {}
            values.update(read_query(query, self.takes, self.query))
            return self.named(lambda: convert_query(values, self.takes))
        body = decode_body(read_body(request, max_bytes=settings.MAX_BODY_BYTES), self.decoder)
        if request.META["QUERY_STRING"]:
            read_query({name: request.GET.getlist(name) for name in request.GET}, self.takes, self.query)
        for field in body.__struct_fields__:
            values[field] = getattr(body, field)
        return self.named(lambda: self.takes(**values))

    def read_headers(self, request: HttpRequest) -> dict[str, str]:
        """Return the headers that are fields; one that the call does not take is refused, not ignored."""
        values = {}
        for field, header in HEADERS.items():
            given = request.META.get("HTTP_" + header.upper().replace("-", "_"))
            if given is None:
                continue
            if field not in self.headers:
                raise invalid_parameter(header, f"This call does not take the header {header}.")
            values[field] = given
        return values

    def named(self, make: Callable[[], Call]) -> Call:
        """Make the call; a fault of a path or header value is ``invalid_parameter`` and has the wire's name."""
        try:
            return make()
        except ValidationFailed as problem:
            field = problem.members["field"].lstrip("/")
            if field in self.path or field in self.headers:
                raise invalid_parameter(HEADERS.get(field, field), problem.detail) from None
            raise


class OperationViewSet(ViewSet):
    """A viewset whose actions are operations. Access is judged before content negotiation, so a 401 comes first."""

    http_method_names = ["get", "post", "put", "patch", "delete", "head"]  # noqa: RUF012  # as Django declares it

    @property
    def operation(self) -> Operation[Any] | None:
        """The operation that this request asks for; None when the address does not take its method."""
        handler = getattr(self, self.action, None) if self.action else None
        return getattr(handler, "operation", None)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        self.perform_authentication(request)
        self.check_permissions(request)
        self.format_kwarg = None
        negotiated = self.perform_content_negotiation(request)
        request.accepted_renderer, request.accepted_media_type = negotiated

    def perform_authentication(self, request: Request) -> None:
        request.auth  # noqa: B018  # the property authenticates, or raises


def operation(
    method: Literal["get", "post", "put", "patch", "delete"],
    at: str | None = None,
    *,
    takes: type[Call],
    returns: type[msgspec.Struct],
    permission: str,
    path: tuple[str, ...] = (),
    status: int = 200,
    problems: tuple[str, ...] = (),
) -> Callable[[Callable[[Any, Any, Call], Any]], Any]:
    """Make a view method of ``(self, site, call) -> result`` into a REST call, answered to ``method``.

    ``at`` is the last part of its address, below one object; a method with one of the router's own names needs none.
    ``path`` names the fields that come from the URL; of the others ``Idempotency-Key`` is a header, and the rest are
    the query of a GET and the body of anything else. ``problems`` are the codes that it can answer beyond those of
    every call. ``status`` is that of a first answer: one that an
    Idempotency-Key brings back is 200 with ``Idempotent-Replayed: true``.
    """

    def decorate(run: Callable[[Any, Any, Call], Any]) -> Any:
        reads = method == "get"
        fields = takes.__struct_fields__
        headers = tuple(field for field in fields if field in HEADERS)
        rest = [field for field in fields if field not in path and field not in headers]
        body = None if reads else body_struct(takes, rest)
        described: Operation[Call] = Operation(
            takes=takes,
            returns=returns,
            permission=permission,
            status=status,
            problems=problems,
            path=path,
            headers=headers,
            query=frozenset(rest) if reads else frozenset(),
            body=body,
            decoder=None if body is None else msgspec.json.Decoder(body),
        )

        def view(self: OperationViewSet, request: Request, **values: str) -> HttpResponse:
            call = described.read(request._request, values)
            result = run(self, request.auth.site, call)  # type: ignore[union-attr]  # authenticated in initial()
            replayed = isinstance(result, Written) and result.replayed
            content = encoder.encode(result.result if isinstance(result, Written) else result)
            response = HttpResponse(content, status=200 if replayed else status, content_type=JSON)
            if replayed:
                response["Idempotent-Replayed"] = "true"
            return response

        view.__name__, view.__doc__ = run.__name__, run.__doc__
        view.operation = described  # type: ignore[attr-defined]
        routed = view if at is None else action(detail=True, methods=[method], url_path=at)(view)
        return extend_schema(**openapi.describe(described))(routed)

    return decorate


def body_struct(takes: type[msgspec.Struct], names: list[str]) -> type[msgspec.Struct]:
    """Return the struct of the body: the call's fields without those of the path and the headers."""
    fields: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(takes):
        if field.name in names:
            given: Any = {"default": field.default, "default_factory": field.default_factory}
            fields.append((field.name, field.type, msgspec.field(**given)))
    return msgspec.defstruct(takes.__name__, fields, forbid_unknown_fields=True, kw_only=True, module=takes.__module__)
