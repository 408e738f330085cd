"""What Granian serves."""

import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse

from memory_site.wire.path import keep_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memory_site.settings")

django_application = get_wsgi_application()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request; an answer that is whole is given as a list.

    Granian sends a list at once and with its Content-Length, and anything else piece by piece, in chunks.
    """
    keep_path(environ)
    response = django_application(environ, start_response)
    if not isinstance(response, HttpResponse):
        return response
    content = response.content
    response.close()  # what is at the end of a request: its connection is looked after
    return [content]
