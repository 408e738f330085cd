"""What Granian serves."""

import gc
import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.cache import close_caches
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import reset_queries
from django.http import HttpResponse

from memory_site.wire.path import keep_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memory_site.settings")

django_application = get_wsgi_application()

# What Django does around every request for what is not used here: queries are only kept under DEBUG, and the cache
# of this process has nothing to close.
request_started.disconnect(reset_queries)
request_finished.disconnect(close_caches)

# What has been loaded stays as long as the worker does: the garbage collector need not look at it again and again.
gc.collect()
gc.freeze()
# Nearly all that a request makes is freed by its last reference: looking for cycles may wait for some ten of them.
gc.set_threshold(20_000, 20, 20)


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
