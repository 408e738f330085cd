"""Every error that the server answers with: its code, status, title and whether a retry makes sense.

The form is RFC 9457 (``application/problem+json``) with two members more: ``code``, which programs test, and
``retryable``. Over MCP the same object is the text of an in-band error. The codes are a promise: they do not
change, and docs/api.md lists every one of them.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec


class Kind(NamedTuple):
    """What is the same for every problem of one code."""

    status: int
    title: str
    retry_after: int | None = None
    """Seconds after which a retry makes sense; None when it never does."""


CATALOGUE: dict[str, Kind] = {
    # Access
    "authentication_required": Kind(401, "Authentication required"),
    "unsupported_auth_scheme": Kind(401, "Unsupported authentication scheme"),
    "invalid_credentials": Kind(401, "Invalid credentials"),
    "permission_denied": Kind(403, "Permission denied"),
    "too_many_failures": Kind(429, "Too many failed attempts", retry_after=60),
    # HTTP
    "not_found": Kind(404, "Not found"),
    "method_not_allowed": Kind(405, "Method not allowed"),
    "not_acceptable": Kind(406, "Not acceptable"),
    "unsupported_media_type": Kind(415, "Unsupported media type"),
    "length_required": Kind(411, "Length required"),
    "body_too_large": Kind(413, "Body too large"),
    "response_too_large": Kind(422, "Response too large"),
    # Input
    "invalid_json": Kind(400, "Invalid JSON"),
    "invalid_parameter": Kind(400, "Invalid parameter"),
    "validation_failed": Kind(400, "Validation failed"),
    "invalid_cursor": Kind(400, "Invalid cursor"),
    # The conversation log
    "invalid_conversation_id": Kind(400, "Invalid conversation id"),
    "empty_batch": Kind(400, "Empty batch"),
    "too_many_items": Kind(400, "Too many items"),
    "invalid_item": Kind(400, "Invalid item"),
    "payload_too_large": Kind(413, "Payload too large"),
    "batch_too_large": Kind(413, "Batch too large"),
    "conversation_full": Kind(409, "Conversation full"),
    "idempotency_key_reused": Kind(422, "Idempotency key reused"),
    "seq_conflict": Kind(409, "Sequence conflict"),
    "stale_generation": Kind(409, "Stale generation"),
    "corrupted": Kind(500, "Conversation corrupted"),
    # Records and checkpoints
    "precondition_failed": Kind(412, "Precondition failed"),
    "reserved_key": Kind(403, "Reserved key"),
    "namespace_not_durable": Kind(409, "Namespace not durable"),
    "revision_conflict": Kind(409, "Revision conflict"),
    "checkpoint_conflict": Kind(409, "Checkpoint conflict"),
    "checkpoint_deleted": Kind(410, "Checkpoint deleted"),
    "checkpoint_is_latest": Kind(409, "Checkpoint is the latest"),
    "restore_budget_exceeded": Kind(422, "Restore budget exceeded"),
    "capsule_too_large": Kind(413, "Capsule too large"),
    "bundle_too_large": Kind(413, "Bundle too large"),
    "too_many_references": Kind(400, "Too many references"),
    # Storage
    "timeout": Kind(503, "Timed out", retry_after=1),
    "unavailable": Kind(503, "Database unavailable", retry_after=2),
    "io_error": Kind(503, "Storage failure", retry_after=5),
    "outcome_unknown": Kind(504, "Outcome unknown", retry_after=1),
    "internal_error": Kind(500, "Internal error"),
}


class Problem(Exception):
    """An error that the caller is told of, in our words."""

    def __init__(self, code: str, detail: str, /, **members: Any) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.members = members
        self.headers: dict[str, str] = {}

    @property
    def kind(self) -> Kind:
        return CATALOGUE[self.code]

    @property
    def status(self) -> int:
        return self.kind.status

    @property
    def retry_after(self) -> int | None:
        """Seconds, as the problem itself says or as is usual for its code."""
        return self.members.get("retry_after", self.kind.retry_after)

    def as_dict(self) -> dict[str, Any]:
        """Return the problem object, the same over REST and MCP."""
        return {
            "type": "about:blank",
            "title": self.kind.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "retryable": self.kind.retry_after is not None,
            **self.members,
        }

    def as_json(self) -> bytes:
        return msgspec.json.encode(self.as_dict())


def pointer(path: Iterable[str | int]) -> str:
    """Return a JSON pointer (RFC 6901) to a place in the body, such as ``/items/3``."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
