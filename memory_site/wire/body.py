"""The body of a request, of either door: refused by its headers alone where it can be, before a byte is read."""

from django.http import HttpRequest

from memory_site.problems import Problem

JSON = "application/json"


def read_body(request: HttpRequest, *, max_bytes: int) -> bytes:
    """Return the body, refusing by the headers alone what can be refused so.

    A chunked body has no Content-Length, and WSGI would give an empty one in its place: 411, never a 2xx.
    """
    meta = request.META
    length = meta.get("CONTENT_LENGTH") or "0"
    if not length.isdecimal() or meta.get("HTTP_TRANSFER_ENCODING"):
        raise Problem("length_required", "Send the body with a Content-Length, not in chunks.")
    if int(length) == 0:
        return b""  # nothing that could have a type
    media_type = (meta.get("CONTENT_TYPE") or "").partition(";")[0].strip().lower()
    if media_type != JSON:
        raise Problem("unsupported_media_type", f"Send the body as {JSON}.")
    if meta.get("HTTP_CONTENT_ENCODING", "identity").strip().lower() not in ("", "identity"):
        raise Problem("unsupported_media_type", "Send the body without a Content-Encoding.")
    if int(length) > max_bytes:
        raise Problem(
            "body_too_large",
            f"The body has {length} bytes; at most {max_bytes} are taken.",
            limit=max_bytes,
        )
    body = request.body
    if len(body) != int(length):
        raise Problem("invalid_json", "The body ended before its Content-Length.")
    return body
