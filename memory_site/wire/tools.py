"""The MCP door: an operation as a tool, and a set of tools as a server at one address.

django-mcpz speaks the protocol. It does not decode the arguments: it would turn every number into a Python one, and
an item is kept byte for byte. So the text of ``arguments`` is cut out of the request first, and decoded into the
call's struct as REST does it, with the same problems.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django_mcpz import schemas
from django_mcpz.jsonrpc import PARSE_ERROR, error_response
from django_mcpz.server import MCPServer, ToolError

from memory_site.problems import Problem
from memory_site.wire import rest
from memory_site.wire.body import read_body
from memory_site.wire.structs import Written, decode_body

Call = TypeVar("Call", bound=msgspec.Struct)

envelope = msgspec.json.Decoder(dict[str, msgspec.Raw])
NO_ARGUMENTS = msgspec.Raw(b"{}")


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[Call]):
    """One tool: what a model is told of it, and the operation that it runs."""

    name: str
    title: str
    description: str
    takes: type[Call]
    returns: type[msgspec.Struct]
    permission: str
    run: Callable[[Any, Call], msgspec.Struct | Written[Any]]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    def add_to(self, server: MCPServer) -> None:
        """Register with the library: its schemas are the structs', its list leaves out what is not permitted."""
        decoder = msgspec.json.Decoder(self.takes)

        def call_tool(request: HttpRequest, _: dict[str, Any]) -> msgspec.Struct:
            request.tool = self.name  # type: ignore[attr-defined]  # for the edge's log line
            try:
                caller = request.caller  # type: ignore[attr-defined]  # the door authenticated it
                caller.require(self.permission)
                call = decode_body(request.tool_arguments, decoder)  # type: ignore[attr-defined]
                result = self.run(caller.site, call)
            except Exception as error:
                raise ToolError(rest.problem_of(error).as_json().decode()) from None
            return result.result if isinstance(result, Written) else result

        server.tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schemas.type_schema(self.takes),
            output_schema=schemas.type_schema(self.returns),
            read_only=self.read_only,
            destructive=self.destructive,
            idempotent=self.idempotent or self.read_only,
            open_world=False,
            permission=self.shown_to,
        )(call_tool)

    def shown_to(self, request: HttpRequest) -> bool:
        """Say whether the list shows it. A call of it is let through: the refusal then names the permission."""
        if request.method_called == "tools/call":  # type: ignore[attr-defined]
            return True
        return self.permission in request.caller.permissions  # type: ignore[attr-defined]


class Door:
    """The view of one set of tools: Basic access, the bounds of a body, then the protocol."""

    # Programs come with credentials on every request: there is no session that a forged form could use.
    csrf_exempt = True

    def __init__(
        self,
        tools: Iterable[Tool[Any]],
        *,
        name: str,
        title: str,
        version: str,
        instructions: str,
        authenticate: Callable[[HttpRequest], Any],
    ) -> None:
        self.authenticate = authenticate
        # The library's turn comes after our own judgement of access.
        self.server = MCPServer(
            name=name, title=title, version=version, instructions=instructions, auth=lambda request: None
        )
        for tool in tools:
            tool.add_to(self.server)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            request.get_host()
            if request.method != "POST":
                response = rest.answer(Problem("method_not_allowed", "MCP is spoken by POST here, without a stream."))
                response["Allow"] = "POST"
                return response
            request.caller = self.authenticate(request)  # type: ignore[attr-defined]
            body = read_body(request, max_bytes=settings.MAX_MCP_BODY_BYTES)
        except Exception as error:
            return rest.answer(rest.problem_of(error))
        try:
            prepare(request, body)
        except Problem as problem:
            return error_response(None, PARSE_ERROR, problem.detail, status=HTTPStatus.BAD_REQUEST)
        return self.server(request)


def prepare(request: HttpRequest, body: bytes) -> None:
    """Cut the arguments of a tool call out of the body and leave an empty object for the library in their place.

    Raises ``invalid_json`` for anything that is not JSON; what is JSON and no call of a tool is left as it is.
    """
    request.method_called = ""  # type: ignore[attr-defined]
    try:
        message = decode_body(body, envelope)
        called = msgspec.json.decode(message["method"], type=str)
        request.method_called = called  # type: ignore[attr-defined]
        if called != "tools/call":
            return
        params = msgspec.json.decode(message["params"], type=dict[str, msgspec.Raw])
    except (KeyError, msgspec.ValidationError):
        return
    except Problem as problem:
        if problem.code == "invalid_json":
            raise
        return
    arguments = bytes(params.get("arguments", NO_ARGUMENTS))
    request.tool_arguments = b"{}" if arguments == b"null" else arguments  # type: ignore[attr-defined]
    params["arguments"] = NO_ARGUMENTS
    message["params"] = msgspec.Raw(msgspec.json.encode(params))
    # What ``request.body`` answers from now on: Django has no public way to replace a body.
    request._body = msgspec.json.encode(message)
