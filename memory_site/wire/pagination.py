"""Keyset cursors: an opaque position in a list, bound to the site and the filters that it was made under."""

import base64
import binascii
import hashlib
import hmac
from typing import Any, TypeVar

import msgspec
from django.conf import settings

from memory_site.problems import Problem

Position = TypeVar("Position")

SEAL = 16  # bytes


def encode_cursor(position: tuple[Any, ...], *, bound_to: tuple[Any, ...]) -> str:
    """Return a cursor that ``decode_cursor`` opens only with the same ``bound_to``."""
    body = msgspec.json.encode(position)
    return base64.urlsafe_b64encode(seal(body, bound_to) + body).rstrip(b"=").decode()


def decode_cursor(cursor: str, kind: type[Position], *, bound_to: tuple[Any, ...]) -> Position:
    """Return the position; raise ``invalid_cursor`` for one that is damaged, or of another list, site or filter."""
    try:
        raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if hmac.compare_digest(raw[:SEAL], seal(raw[SEAL:], bound_to)):
            return msgspec.json.decode(raw[SEAL:], type=kind)
    except (UnicodeEncodeError, binascii.Error, msgspec.MsgspecError):
        pass
    raise Problem(
        "invalid_cursor",
        "This cursor is not one of this list with these filters. Start again without a cursor.",
    )


def seal(body: bytes, bound_to: tuple[Any, ...]) -> bytes:
    """Return a MAC: a client cannot make a position up, nor carry one to another site or filter."""
    key = hashlib.sha256(b"memory_site.wire.pagination" + settings.SECRET_KEY.encode()).digest()
    return hmac.digest(key, msgspec.json.encode(bound_to) + b"\0" + body, "sha256")[:SEAL]
