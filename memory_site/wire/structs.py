"""Structs in: from the bytes and strings of a request to a validated call, or a problem that names the field.

One struct describes one call, whichever door it comes through. The bounds that JSON Schema can express stand in
the annotations; rules with a code of their own are the struct's ``__post_init__``, which raises a ``Problem``.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from memory_site.problems import Problem, pointer

Call = TypeVar("Call", bound=msgspec.Struct)
Decoded = TypeVar("Decoded")
Result = TypeVar("Result", bound=msgspec.Struct)

MAX_UINT64 = 2**64 - 1
MAX_INT64 = 2**63 - 1

# Fields of a call that are headers over REST; over MCP they are arguments like the others.
HEADERS = {"idempotency_key": "Idempotency-Key", "if_match": "If-Match", "if_none_match": "If-None-Match"}

WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)")
# RFC 3339 section 5.6, with the offset that a point in time needs.
TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
# "Expected `int`, got `str` - at `$.items[3].text`": the place, and what stands before it.
PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?P<place>(?:key in )?[^`]*)`)?$", re.DOTALL)
STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
FIELD = re.compile(r"(?:unknown|required) field `(.*)`$", re.DOTALL)
LONGEST_NAME = 100  # characters of an unknown name that an answer repeats

Uint64 = Annotated[int, msgspec.Meta(ge=0, extra_json_schema={"maximum": MAX_UINT64})]
"""A whole number from 0 to 2^64 - 1. msgspec has no bound that large: the struct calls ``check_uint64``."""

Int64 = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT64)]
"""A whole number from 0 to 2^63 - 1, the largest that a bigint holds."""

PointInTime = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its offset; one without is no point in time."""


def check_uint64(**values: int | None) -> None:
    """Refuse a number over 2^64 - 1, naming the field (msgspec's own bounds end at 2^63 - 1)."""
    for field, value in values.items():
        if value is not None and value > MAX_UINT64:
            raise ValidationFailed(field, f"`{field}` must be at most {MAX_UINT64}.")


@dataclass(frozen=True, slots=True)
class Written(Generic[Result]):
    """What a call that adds something answers, and whether its Idempotency-Key had already been answered so."""

    result: Result
    replayed: bool = False


class ValidationFailed(Problem):
    """A field of a call that does not fit; a door that took it from elsewhere than the body renames it."""

    def __init__(self, field: str, detail: str, **members: Any) -> None:
        super().__init__("validation_failed", detail, field=pointer([field]) if field else "", **members)


def decode_body(body: bytes, decoder: msgspec.json.Decoder[Decoded]) -> Decoded:
    """Decode a body into the decoder's struct: strict RFC 8259 JSON in UTF-8, unknown fields refused.

    Raises ``invalid_json`` before ``validation_failed``, wherever in the text the first fault is. Of a key given twice
    the last counts, and what the one before holds does not matter.
    """
    try:
        # msgspec.Raw is cut out unread: bytes that are no UTF-8 would pass in it (and CESU surrogates too).
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem("invalid_json", f"The body is not UTF-8: byte {error.start} is no part of a character.") from None
    try:
        return times_in_utc(decoder.decode(body))
    except msgspec.ValidationError:
        check_json(body)
        try:
            return times_in_utc(decoder.decode(last_of_each_key(body)))
        except msgspec.ValidationError as error:
            raise problem_of(error) from None
    except msgspec.DecodeError as error:
        raise invalid_json(error) from None
    except RecursionError:
        raise Problem("invalid_json", "The JSON is nested too deeply; 128 levels are always accepted.") from None


def times_in_utc(call: Decoded) -> Decoded:
    """Return a struct with its times in UTC: PostgreSQL reads no text with an offset from 16 hours on."""
    if isinstance(call, msgspec.Struct):
        for name in times_of(type(call)):
            value = getattr(call, name)
            if value is not None:
                setattr(call, name, in_utc(name, value))
    return call


@cache
def times_of(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of a struct's fields that are points in time."""
    return tuple(name for name, parameter in parameters_of(struct).items() if parameter.type is datetime)


def in_utc(field: str, value: datetime) -> datetime:
    """Return a time in UTC; one that is there before year 1 or after year 9999 is refused."""
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValidationFailed(field, f"`{field}` must be a time of the years 1 to 9999 in UTC.") from None


def last_of_each_key(body: bytes) -> bytes:
    """Return an object without the values that a later one of the same key replaces; raise ``ValidationError``."""
    return msgspec.json.encode(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))


def check_json(body: bytes) -> None:
    """Raise ``invalid_json`` unless the whole body is JSON: msgspec stops at the first field that does not fit."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise invalid_json(error) from None
    except RecursionError:
        raise Problem("invalid_json", "The JSON is nested too deeply; 128 levels are always accepted.") from None


def invalid_json(error: msgspec.DecodeError) -> Problem:
    """Return the problem for text that is not JSON, in words that a person can act on."""
    said = str(error)
    if said == "Input data was truncated":
        # msgspec says so too of a high surrogate without its pair at the end of a string.
        said = "it ends too early, or a string holds half of a surrogate pair"
    return Problem(
        "invalid_json", f"The body is not valid JSON (RFC 8259): {said.removeprefix('JSON is malformed: ')}."
    )


def problem_of(error: msgspec.ValidationError, *, within: tuple[str | int, ...] = ()) -> Problem:
    """Return the problem for a value of the wrong type or out of bounds, with the place as a JSON pointer.

    ``within`` is the place of a part of the body that was decoded by itself.
    """
    match = PLACE.match(str(error))
    what, place = (match["what"], match["place"] or "") if match else (str(error), "")
    path: list[str | int] = [*within, *(name or index for name, index in STEP.findall(place))]
    named = FIELD.search(what)
    if named:
        name = shortened(named[1])
        path.append(name)
        what = f"{what[: named.start(1)]}{name}`"
    return Problem("validation_failed", f"{what}." + (f" See `{pointer(path)}`." if path else ""), field=pointer(path))


def shortened(name: str) -> str:
    """Return a name that the client made up, in a length that an answer can repeat."""
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "…"


# -- Queries and headers: strings ----------------------------------------------------------------------------


class Parameter(msgspec.Struct, frozen=True):
    """How one field of a call is written in a query."""

    type: type
    repeatable: bool


@cache
def parameters_of(struct: type[msgspec.Struct]) -> dict[str, Parameter]:
    """Return the fields of a struct by their names, with the plain type that a query's text becomes."""
    found = {}
    for name, hint in get_type_hints(struct).items():
        plain = bare(hint)
        if get_origin(plain) is list:
            found[name] = Parameter(bare(get_args(plain)[0]), repeatable=True)
        else:
            found[name] = Parameter(plain, repeatable=False)
    return found


def bare(hint: Any) -> Any:
    """Return a type hint without ``Annotated`` and without ``| None``.

    Of several types it is the one that a text in a query or a header can be: the list, or else the text.
    """
    if get_origin(hint) is Annotated:
        return bare(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        parts = [bare(part) for part in get_args(hint) if part is not NoneType]
        lists = [part for part in parts if get_origin(part) is list]
        return parts[0] if len(parts) == 1 else lists[0] if lists else str
    return hint


def read_query(query: dict[str, list[str]], struct: type[msgspec.Struct], names: frozenset[str]) -> dict[str, Any]:
    """Return the values of a query by field name, of their own types; raise ``invalid_parameter``.

    Only ``names`` may be given; a parameter given twice is refused unless it is a list.
    """
    values: dict[str, Any] = {}
    parameters = parameters_of(struct)
    for name, given in query.items():
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            unknown = shortened(name)
            raise invalid_parameter(unknown, f"Unknown query parameter `{unknown}`. Known here: {known}.")
        parameter = parameters[name]
        if parameter.repeatable:
            values[name] = [read_text(name, text, parameter.type) for text in given]
        elif len(given) > 1:
            raise invalid_parameter(name, f"`{name}` is given {len(given)} times; give it once.")
        else:
            values[name] = read_text(name, given[0], parameter.type)
    return values


def read_text(name: str, text: str, kind: type) -> Any:
    """Return what one text in a query means, stricter than msgspec's lax mode (which takes ``1e2`` and ``True``)."""
    if kind is int:
        # Python refuses to read over 4,300 digits; nothing here has a bound over 20.
        if not WHOLE_NUMBER.fullmatch(text) or len(text) > 40:
            raise invalid_parameter(name, f"`{name}` must be a whole number, such as 50.")
        return int(text)
    if kind is bool:
        if text not in ("true", "false"):
            raise invalid_parameter(name, f"`{name}` must be true or false.")
        return text == "true"
    if kind is datetime:
        return read_time(name, text)
    return text


def read_time(name: str, text: str) -> datetime:
    """Return an RFC 3339 time in UTC; one without an offset is no point in time and is refused."""
    try:
        if not TIME.fullmatch(text):
            raise ValueError
        # In UTC, because PostgreSQL reads no text with an offset from 16 hours on.
        return msgspec.convert(text, datetime, strict=True).astimezone(UTC)
    except (ValueError, OverflowError, msgspec.ValidationError):
        # A plus sign in a query is a blank unless it is written %2B: the likeliest slip.
        raise invalid_parameter(
            name,
            f"`{name}` must be an RFC 3339 time with an offset, such as 2026-01-31T12:00:00Z (a + is written %2B).",
        ) from None


def invalid_parameter(name: str, detail: str) -> Problem:
    """Return the problem for a path, query or header value."""
    return Problem("invalid_parameter", detail, field=name)


def convert_query(values: dict[str, Any], struct: type[Call]) -> Call:
    """Return the call, its bounds checked; a fault is ``invalid_parameter`` and names the parameter."""
    try:
        return msgspec.convert(values, struct)
    except msgspec.ValidationError as error:
        problem = problem_of(error)
        field = problem.members["field"].lstrip("/").partition("/")[0]
        raise invalid_parameter(field, f"`{field}`: {str(error).partition(' - at ')[0]}.") from None
    except ValidationFailed as problem:
        field = problem.members["field"].lstrip("/").partition("/")[0]
        raise invalid_parameter(HEADERS.get(field, field), problem.detail) from None
