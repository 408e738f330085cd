"""OpenAPI 3.1 from the structs: what ``@operation`` knows, said to drf-spectacular."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from memory_site.problems import CATALOGUE, Problem
from memory_site.wire.structs import HEADERS, parameters_of

if TYPE_CHECKING:
    from memory_site.wire.operation import Operation

ALWAYS = (
    "authentication_required",
    "unsupported_auth_scheme",
    "invalid_credentials",
    "too_many_failures",
    "permission_denied",
    "not_acceptable",
    "invalid_parameter",
    "internal_error",
    "timeout",
    "unavailable",
    "io_error",
)
WITH_BODY = (
    "invalid_json",
    "validation_failed",
    "length_required",
    "unsupported_media_type",
    "body_too_large",
    "outcome_unknown",
)
JSON = "application/json"
PROBLEM = "application/problem+json"
REFERENCE = "#/components/schemas/{name}"


class ProblemObject(msgspec.Struct):
    """An error (RFC 9457). Members beyond these depend on the code."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool


class OperationSchema(AutoSchema):
    """drf-spectacular's own, which finds everything it needs in ``extend_schema``."""

    def get_tags(self) -> list[str]:
        return [getattr(self.view, "basename", "")]

    def get_operation_id(self) -> str:
        return f"{self.get_tags()[0]}_{getattr(self.view, 'action', '')}"

    def _get_request_body(self, direction: Any = "request") -> dict[str, Any] | None:
        # An empty body is no JSON, so no call that takes one can do without.
        body: dict[str, Any] | None = super()._get_request_body(direction)  # type: ignore[no-untyped-call]  # untyped
        return {**body, "required": True} if body else body

    def _is_list_view(self, serializer: Any = None) -> bool:
        # A page is an object with a list in it, whatever the method is called.
        return False


class StructExtension(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]  # untyped
    """A msgspec struct as a component, with the structs that it refers to."""

    target_class = msgspec.Struct
    match_subclasses = True

    def get_name(self, auto_schema: AutoSchema, direction: str) -> str:
        return struct_of(self.target).__name__

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        struct = struct_of(self.target)
        _, definitions = msgspec.json.schema_components([struct], ref_template=REFERENCE)
        for name, schema in definitions.items():
            if name != struct.__name__:
                auto_schema.registry.register_on_missing(
                    ResolvedComponent(  # type: ignore[no-untyped-call]  # untyped
                        name=name, type=ResolvedComponent.SCHEMA, schema=schema, object=name
                    )
                )
        return dict(definitions[struct.__name__])


class BasicExtension(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # untyped
    """The one way in."""

    target_class = "memory_site.sites.basic.BasicAuthentication"
    name = "basic"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "basic", "description": "The site's slug and one of its live secrets."}


def struct_of(target: Any) -> type[msgspec.Struct]:
    return target if isinstance(target, type) else type(target)


def property_schemas(struct: type[msgspec.Struct]) -> tuple[dict[str, Any], list[str]]:
    """Return the JSON Schemas of a struct's fields, and the names of the required ones."""
    _, definitions = msgspec.json.schema_components([struct], ref_template=REFERENCE)
    schema = definitions[struct.__name__]
    return dict(schema["properties"]), list(schema.get("required", ()))


def describe(operation: Operation[Any]) -> dict[str, Any]:
    """Return what ``extend_schema`` is told of an operation."""
    takes: type[msgspec.Struct] = operation.takes
    properties, required = property_schemas(takes)
    parameters = []
    where: Literal["path", "header", "query"]
    for field in takes.__struct_fields__:
        if field in operation.path:
            where, name = "path", field
        elif field in operation.headers:
            where, name = "header", HEADERS[field]
        elif field in operation.query:
            where, name = "query", field
        else:
            continue
        schema = without_null(properties[field])
        if where != "path":
            schema = as_text(schema, repeatable=parameters_of(takes)[field].repeatable)
        parameters.append(
            OpenApiParameter(
                name,
                schema,
                where,
                required=field in required,
                description=schema.pop("description", ""),
                many=False,
            )
        )
    return {
        "request": {JSON: OpenApiTypes.ANY} if operation.body_field else operation.body,
        "parameters": parameters,
        "responses": {**answers(operation), **problem_responses(operation)},
    }


def answers(operation: Operation[Any]) -> dict[int, OpenApiResponse]:
    """Return the good answers of an operation, the one that an Idempotency-Key brings back among them."""
    returns = operation.returns
    if returns is None:
        found = {operation.status: OpenApiResponse(description="Done.")}
    elif returns is msgspec.Raw:
        found = {operation.status: OpenApiResponse(OpenApiTypes.ANY, description="The JSON text, as it was sent.")}
    else:
        words = (returns.__doc__ or "").partition("\n")[0]
        found = {operation.status: OpenApiResponse(returns, description=words)}
    for status, words in operation.also.items():
        has_content = returns is not None and status < 300
        found[status] = OpenApiResponse(returns if has_content else None, description=words)
    if "idempotency_key" in operation.headers and operation.status != 200:
        found[200] = OpenApiResponse(
            operation.returns,
            description="The first answer to this Idempotency-Key again, with `Idempotent-Replayed: true`.",
        )
    return found


def problem_responses(operation: Operation[Any]) -> dict[tuple[int, str], OpenApiResponse]:
    """Return the errors that an operation can answer, by status, with their codes."""
    codes = (*ALWAYS, *(WITH_BODY if operation.decoder else ()), *operation.problems)
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(CATALOGUE[code].status, []).append(code)
    return {
        (status, PROBLEM): OpenApiResponse(
            ProblemObject,
            description=", ".join(f"`{code}`" for code in dict.fromkeys(found)),
            examples=[
                OpenApiExample(code, Problem(code, CATALOGUE[code].title + ".").as_dict(), media_type=PROBLEM)
                for code in dict.fromkeys(found)
            ],
        )
        for status, found in sorted(by_status.items())
    }


def as_text(schema: dict[str, Any], *, repeatable: bool) -> dict[str, Any]:
    """Return the schema of a query or header value that can have several types: of these it is the text, or the list.

    Over MCP such a value can be a number or a boolean too.
    """
    wanted = "array" if repeatable else "string"
    found = [part for part in schema.get("anyOf", ()) if part.get("type") == wanted]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**found[0], **rest} if found else schema


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema without its null: a parameter that is not given is not there."""
    if "anyOf" not in schema:
        return dict(schema)
    kept = [part for part in schema["anyOf"] if part != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    return {**kept[0], **rest} if len(kept) == 1 else {"anyOf": kept, **rest}
