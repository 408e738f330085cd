"""The path of an address as the client sent it, which Django changes where it is not UTF-8."""

from typing import Any

from django.http import HttpRequest

from memory_site.wire.structs import invalid_parameter

PATH_SENT = "memory_site.path_sent"


def keep_path(environ: dict[str, Any]) -> None:
    """Keep the path in the environment of a request, in WSGI's own spelling, before Django replaces it."""
    environ[PATH_SENT] = environ.get("PATH_INFO", "")


def check_path(request: HttpRequest) -> None:
    """Refuse an address that is not UTF-8: Django would write such bytes as ``%FF``, the name of something else."""
    sent = request.META.get(PATH_SENT, "")
    try:
        sent.isascii() or sent.encode("latin-1").decode()
    except UnicodeError:
        raise invalid_parameter("path", "The address is not UTF-8 under its percent signs.") from None
