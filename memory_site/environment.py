"""The environment that the server is configured by: every variable, its type, bound and default, in one place."""

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
from django.core.exceptions import ImproperlyConfigured

VERSION = "0.1.0"
PREFIX = "MEMORY_SITE_"
# Read by the test runner and by the state folder's own module, before settings exist.
ELSEWHERE = ("MEMORY_SITE_TEST_", "MEMORY_SITE_BENCH_", "MEMORY_SITE_STATE", "MEMORY_SITE_EMBEDDED_")

Bytes = Annotated[int, msgspec.Meta(ge=1024)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Environment(msgspec.Struct, frozen=True, rename=lambda name: PREFIX + name.upper()):
    """What the environment says, validated; names are the fields in capitals behind ``MEMORY_SITE_``."""

    database_url: str | None = msgspec.field(default=None, name="DATABASE_URL")
    """A ``postgres://`` URL. Without one the embedded server is used."""
    database_direct: bool = False
    """Whether DATABASE_URL leads straight to PostgreSQL. Statements are then prepared and bound by the
    server, which halves its work; behind a pooler in transaction mode that is not safe."""
    secret_key: str | None = None
    """Signs sessions and cursors. Without one a key is made and kept in the state folder."""
    allowed_hosts: str = "127.0.0.1,localhost,[::1]"
    """Host names that the server answers to, separated by commas; ``*`` for any."""
    allowed_origins: str = ""
    """Origins such as ``https://memory.example.com`` whose pages may post to the admin, separated by commas."""
    https: bool = False
    """Whether people reach the server over HTTPS through a proxy that sets ``X-Forwarded-Proto``."""
    trusted_proxies: Count = 0
    """How many proxies in front set ``X-Forwarded-For``. With 0 the header is not believed."""
    debug: bool = False
    max_body_bytes: Bytes = 4 * 1024 * 1024
    max_mcp_body_bytes: Bytes = 8 * 1024 * 1024
    max_response_bytes: Bytes = 16 * 1024 * 1024
    max_mcp_response_bytes: Bytes = 2 * 1024 * 1024
    max_bundle_bytes: Annotated[int, msgspec.Meta(ge=1024, le=1024 * 1024)] = 1024 * 1024
    """How large the restore of a checkpoint can be, and so a checkpoint."""
    metrics_token: str | None = None
    """What a scraper sends as ``Authorization: Bearer …`` for ``/metrics``; without one only this host may read it."""
    log_level: str = "INFO"


def read(variables: dict[str, str] | None = None) -> Environment:
    """Return the environment as a struct; a variable that is unknown or does not fit fails with its name."""
    source = dict(os.environ if variables is None else variables)
    known = set(Environment.__struct_encode_fields__)
    given: dict[str, Any] = {name: value for name, value in source.items() if name in known and value != ""}
    for name in source:
        if name.startswith(PREFIX) and name not in known and not name.startswith(ELSEWHERE):
            raise ImproperlyConfigured(f"{name} is not a setting of Memory Site. Known: {', '.join(sorted(known))}.")
    for name, value in given.items():
        given[name] = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(value.lower(), value)
    try:
        return msgspec.convert(given, Environment, strict=False)
    except msgspec.ValidationError as error:
        raise ImproperlyConfigured(f"An environment variable does not fit: {error}") from None


def split(text: str) -> list[str]:
    """Return the parts of a comma-separated list, without blanks."""
    return [part.strip() for part in text.split(",") if part.strip()]


PROJECT = Path(__file__).resolve().parent.parent
