"""What the description cannot say, told to schemathesis: valid requests must be valid beyond their schema too."""

import uuid
from typing import Any

import schemathesis


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Mend a request that is meant to be accepted where JSON Schema allows more than the server does."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    # A cursor is what a page before has answered; a made-up one is refused, whatever it looks like.
    case.query.pop("cursor", None)
    # A key that was used for another content is refused, as it must be: each request gets one of its own.
    if case.headers and "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    # What fits into a budget depends on what was saved before.
    if "max_bytes" in case.query:
        case.query["max_bytes"] = 1024 * 1024
    # Whether a condition holds depends on what is stored, and there is nothing yet.
    for condition in ("If-Match", "If-None-Match"):
        case.headers.pop(condition, None)
    # To JSON Schema 1.0 is an integer, to the server a number with a fraction is none.
    if isinstance(case.body, dict):
        case.body = whole_numbers(case.body)


def whole_numbers(value: Any) -> Any:
    """Return the JSON value with every whole number written as one."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: whole_numbers(member) for name, member in value.items()}
        case list():
            return [whole_numbers(member) for member in value]
        case _:
            return value


@schemathesis.hook
def filter_query(context: Any, query: dict[str, Any] | None) -> bool:
    """Leave out what an address cannot carry: nothing as a value, and anything but texts in a list of texts."""
    given = query or {}
    lists = [given[name] for name in ("tag", "topic") if name in given]
    return all(value not in ([], {}, None) for value in given.values()) and all(
        isinstance(value, list) and all(isinstance(text, str) for text in value) for value in lists
    )
