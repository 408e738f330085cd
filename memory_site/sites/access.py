"""Who is asking: HTTP Basic (RFC 7617) against the sites' credentials, the same for REST and MCP."""

import base64
import binascii
import contextlib
import hashlib
import hmac
from dataclasses import dataclass

from django.http import HttpRequest
from rest_framework.throttling import SimpleRateThrottle

from memory_site.database import statements
from memory_site.problems import Problem
from memory_site.sites.models import Site, digest_secret

REALM = "memory-site"
CHALLENGE = f'Basic realm="{REALM}", charset="UTF-8"'
NOBODY = hashlib.sha256(b"no such credential").digest()

# One query, on the unique index of the digest. What is asked for by the secret and compared with the slug needs no
# second index, and a wrong slug costs the same as a wrong secret.
FIND_CREDENTIAL = """
SELECT c.id, c.digest, c.permissions, s.id, s.slug,
       c.last_used_at IS NULL OR c.last_used_at < now() - interval '10 minutes'
FROM credential AS c JOIN site AS s ON s.id = c.site_id
WHERE c.digest = %(digest)s::bytea AND s.slug = %(slug)s::text AND c.revoked_at IS NULL AND s.disabled_at IS NULL
"""

NOTE_USE = """
UPDATE credential SET last_used_at = now()
WHERE id = (SELECT id FROM credential WHERE id = %(id)s::bigint FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id
"""


@dataclass(frozen=True, slots=True)
class Caller:
    """A verified credential: whose site it opens, and what it may do there."""

    site: Site
    credential_id: int
    permissions: frozenset[str]

    def require(self, permission: str) -> None:
        """Raise ``permission_denied``, naming the permission, unless the credential has it."""
        if permission not in self.permissions:
            raise Problem(
                "permission_denied",
                f"This credential lacks the permission `{permission}`.",
                permission=permission,
            )


class FailedAttempts(SimpleRateThrottle):
    """Twenty failed attempts a minute, by address and process; asked only after a secret was found wrong."""

    rate = "20/min"
    scope = "failed-attempts"

    def get_cache_key(self, request: HttpRequest, view: object) -> str:
        return f"failed-attempts:{self.get_ident(request)}"  # type: ignore[arg-type]


def authenticate(request: HttpRequest) -> Caller:
    """Return who is asking, or raise a 401; nothing falls back to anonymous.

    Unknown site, wrong secret, unreadable header, revoked credential and disabled site are one and the same answer.
    The twenty-first failure of an address within a minute is answered 429, but a right secret always passes.
    """
    header = request.META.get("HTTP_AUTHORIZATION", "")
    scheme, _, encoded = header.strip().partition(" ")
    if not scheme:
        raise challenge("authentication_required", "Send HTTP Basic credentials: the site's slug and a secret.")
    if scheme.lower() != "basic":
        raise challenge("unsupported_auth_scheme", "Only HTTP Basic is accepted: the site's slug and a secret.")
    caller = find_caller(*read_basic(encoded))
    if caller is None:
        count_failure(request)
        raise challenge("invalid_credentials", "No live credential of an enabled site has this slug and secret.")
    return caller


def read_basic(encoded: str) -> tuple[str, str]:
    """Return user and password of a Basic header; what cannot be read is a pair that nobody has."""
    try:
        user, _, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "", ""
    # PostgreSQL text has no NUL, so no slug holds one.
    return ("", "") if "\0" in user else (user, password)


def find_caller(slug: str, secret: str) -> Caller | None:
    """Return the caller whose live credential this is, noting its use at most every ten minutes."""
    digest = digest_secret(secret)
    rows = statements.read(FIND_CREDENTIAL, {"digest": digest, "slug": slug})
    # The index has compared already; this comparison is what does not depend on how an index compares.
    if not hmac.compare_digest(bytes(rows[0][1]) if rows else NOBODY, digest):
        return None
    credential_id, _, permissions, site_id, site_slug, unnoted = rows[0]
    if unnoted:
        # For people to see; a request is not refused because it could not be noted.
        with contextlib.suppress(Problem):
            statements.write(NOTE_USE, {"id": credential_id})
    site = Site(id=site_id, slug=site_slug)
    return Caller(site=site, credential_id=credential_id, permissions=frozenset(permissions))


def count_failure(request: HttpRequest) -> None:
    """Note a failed attempt of the address; raise ``too_many_failures`` when it had its twenty."""
    throttle = FailedAttempts()
    if not throttle.allow_request(request, None):  # type: ignore[arg-type]  # as above
        wait = max(1, round(throttle.wait() or 60))
        raise Problem(
            "too_many_failures",
            "Too many failed attempts from this address. A right secret is still accepted.",
            retry_after=wait,
        )


def challenge(code: str, detail: str) -> Problem:
    """Return a 401 with the Basic challenge that RFC 9110 section 11.6.1 requires."""
    problem = Problem(code, detail)
    problem.headers["WWW-Authenticate"] = CHALLENGE
    return problem
