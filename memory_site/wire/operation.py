"""The REST door: one decorator from a request to a call and from its result to an answer.

``@operation`` judges in this order: length, type and size of the body by the headers alone, then JSON, structure and
the rules of the struct. Authentication and permission have been judged before, by REST framework.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
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
from memory_site.wire.path import check_path
from memory_site.wire.rest import JSONNegotiation
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
json_text = msgspec.json.Decoder(msgspec.Raw)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that a result alone does not say: a status of its own, headers, JSON text as it is kept, or nothing."""

    content: msgspec.Struct | bytes | None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation(Generic[Call]):
    """What is known of one REST call when the server starts."""

    takes: type[Call]
    returns: type[msgspec.Struct] | type[msgspec.Raw] | None
    permission: str
    status: int
    also: Mapping[int, str]
    problems: tuple[str, ...]
    path: tuple[str, ...]
    headers: tuple[str, ...]
    query: frozenset[str]
    query_struct: type[msgspec.Struct]
    body: type[msgspec.Struct] | None
    body_field: str | None
    decoder: msgspec.json.Decoder[Any] | None

    def read(self, request: HttpRequest, path: dict[str, str]) -> Call:
        """Return the validated call, or raise the first fault in the order that is promised."""
        values: dict[str, Any] = {**path, **self.read_headers(request)}
        if self.decoder is None:
            values.update(self.read_query(request))
            return self.named(lambda: convert_query(values, self.takes))
        text = read_body(request, max_bytes=settings.MAX_BODY_BYTES)
        body = decode_body(text, self.decoder)
        if request.META["QUERY_STRING"]:
            values.update(msgspec.structs.asdict(convert_query(self.read_query(request), self.query_struct)))
        if self.body_field is not None:
            # All of it: the white space around the value too.
            values[self.body_field] = msgspec.Raw(text)
        else:
            for name in body.__struct_fields__:
                values[name] = getattr(body, name)
        return self.named(lambda: self.takes(**values))

    def read_query(self, request: HttpRequest) -> dict[str, Any]:
        """Return the values of the query; their bounds are the struct's to judge."""
        if not request.META["QUERY_STRING"]:
            return {}
        return read_query({name: request.GET.getlist(name) for name in request.GET}, self.takes, self.query)

    def read_headers(self, request: HttpRequest) -> dict[str, str]:
        """Return the headers that are fields; one that the call does not take is refused, not ignored."""
        values = {}
        for name, header in HEADERS.items():
            given = request.META.get("HTTP_" + header.upper().replace("-", "_"))
            if given is None:
                continue
            if name not in self.headers:
                raise invalid_parameter(header, f"This call does not take the header {header}.")
            values[name] = given
        return values

    def named(self, make: Callable[[], Call]) -> Call:
        """Make the call; a fault outside of the body is ``invalid_parameter`` and has the wire's name."""
        try:
            return make()
        except ValidationFailed as problem:
            name = problem.members["field"].lstrip("/")
            if name in self.path or name in self.headers or name in self.query:
                raise invalid_parameter(HEADERS.get(name, name), problem.detail) from None
            raise

    def answer(self, result: Any) -> HttpResponse:
        """Return the response to a call with this result."""
        replayed = isinstance(result, Written) and result.replayed
        said = result.result if isinstance(result, Written) else result
        given = said if isinstance(said, Answer) else Answer(said)
        response = HttpResponse(status=200 if replayed else given.status or self.status, content_type=JSON)
        if given.content is None:
            del response["Content-Type"]
        else:
            response.content = given.content if isinstance(given.content, bytes) else encoder.encode(given.content)
        if replayed:
            response["Idempotent-Replayed"] = "true"
        for name, value in given.headers.items():
            response[name] = value
        return response


class OperationViewSet(ViewSet):
    """A viewset whose actions are operations. Access is judged before content negotiation, so a 401 comes first."""

    content_negotiation_class = JSONNegotiation
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
    returns: type[msgspec.Struct] | type[msgspec.Raw] | None,
    permission: str,
    path: tuple[str, ...] = (),
    query: tuple[str, ...] = (),
    body: str | None = None,
    status: int = 200,
    also: Mapping[int, str] | None = None,
    problems: tuple[str, ...] = (),
) -> Callable[[Callable[[Any, Any, Call], Any]], Any]:
    """Make a view method of ``(self, site, call) -> result`` into a REST call, answered to ``method``.

    ``at`` is the last part of its address, below one object; a method with one of the router's own names needs none.
    ``path`` names the fields that come from the URL; those in ``HEADERS`` are headers, and the rest are the query of a
    GET or DELETE, and of anything else the body, beside a ``query``. ``body`` names a field that is the whole body as
    JSON text. ``problems`` are the codes that it can answer beyond those of every call. ``status`` is that of a first
    answer: one that an Idempotency-Key brings back is 200 with ``Idempotent-Replayed: true``. ``also`` says what the
    other statuses mean that an ``Answer`` of this call can have; ``returns`` is None for one without content.
    """
    queried, whole_body = query, body

    def decorate(run: Callable[[Any, Any, Call], Any]) -> Any:
        without_body = method in ("get", "delete")
        names = takes.__struct_fields__
        headers = tuple(name for name in names if name in HEADERS)
        rest = [name for name in names if name not in (*path, *headers, *queried)]
        query = frozenset(rest if without_body else queried)
        body = None if without_body or whole_body is not None else part_of(takes, rest)
        described: Operation[Call] = Operation(
            takes=takes,
            returns=returns,
            permission=permission,
            status=status,
            also=also or {},
            problems=problems,
            path=path,
            headers=headers,
            query=query,
            query_struct=part_of(takes, query),
            body=body,
            body_field=whole_body,
            decoder=json_text if whole_body is not None else None if body is None else msgspec.json.Decoder(body),
        )

        def view(self: OperationViewSet, request: Request, **values: str) -> HttpResponse:
            call = described.read(request._request, values)
            check_path(request._request)
            return described.answer(run(self, request.auth.site, call))  # type: ignore[union-attr]  # in initial()

        view.__name__, view.__doc__ = run.__name__, run.__doc__
        view.operation = described  # type: ignore[attr-defined]
        routed = view if at is None else action(detail=True, methods=[method], url_path=at)(view)
        return extend_schema(**openapi.describe(described))(routed)

    return decorate


def part_of(takes: type[msgspec.Struct], names: Collection[str]) -> type[msgspec.Struct]:
    """Return the struct of some of a call's fields: those of the body, or of the query beside one."""
    fields: list[tuple[str, Any, Any]] = []
    for known in msgspec.structs.fields(takes):
        if known.name in names:
            given: Any = {"default": known.default, "default_factory": known.default_factory}
            fields.append((known.name, known.type, msgspec.field(**given)))
    return msgspec.defstruct(takes.__name__, fields, forbid_unknown_fields=True, kw_only=True, module=takes.__module__)
