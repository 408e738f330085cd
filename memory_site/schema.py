"""The API's description: OpenAPI 3.1 for programs, and a page of it for people."""

from functools import cache

import msgspec
from django.http import HttpRequest, HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.views import SpectacularSwaggerSplitView


@cache
def description() -> bytes:
    """Return the OpenAPI document: it depends on the code alone, so each process makes it once."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]  # untyped
    return msgspec.json.encode(generator.get_schema(request=None, public=True))  # type: ignore[no-untyped-call]  # likewise


def schema(request: HttpRequest) -> HttpResponse:
    """Serve the OpenAPI document."""
    return HttpResponse(description(), content_type="application/json")


page = SpectacularSwaggerSplitView.as_view()
