"""Sites (tenants) and their credentials: who owns what is stored, and who may ask for it."""

import hashlib
import secrets
import uuid
from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Now

PERMISSIONS = ("put", "get", "list", "delete", "manage")
DEFAULT_PERMISSIONS = ("put", "get", "list", "delete")
SECRET_PREFIX = "msk_"  # noqa: S105  # makes a leaked secret recognisable to scanners; it is not one

SLUG = RegexValidator(
    r"^[a-z0-9][a-z0-9-]{0,62}(?!\n)$",
    "A slug is 1 to 63 lower-case letters, digits and hyphens, and does not start with a hyphen.",
)


def digest_secret(secret: str) -> bytes:
    """Return what is stored of a secret: SHA-256 is enough, because a secret is 256 random bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class Site(models.Model):
    """A tenant: everything stored belongs to exactly one, and nothing is visible across."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.CharField(
        max_length=63,
        unique=True,
        db_collation="C",
        validators=[SLUG],
        help_text="The user name of HTTP Basic. Lower-case letters, digits and hyphens.",
    )
    name = models.CharField(max_length=200, blank=True, help_text="For people; programs use the slug.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    disabled_at = models.DateTimeField(
        null=True, blank=True, help_text="While set, every credential of the site is refused. Nothing is deleted."
    )

    class Meta:
        db_table = "site"
        ordering: ClassVar[list[str]] = ["slug"]

    def __str__(self) -> str:
        return self.slug

    def disable(self) -> bool:
        """Refuse every credential of the site from the next request on; return whether it was enabled."""
        return bool(type(self).objects.filter(pk=self.pk, disabled_at=None).update(disabled_at=Now()))

    def enable(self) -> bool:
        """Accept the site's live credentials again; return whether it was disabled."""
        return bool(type(self).objects.filter(pk=self.pk, disabled_at__isnull=False).update(disabled_at=None))


class CredentialQuerySet(models.QuerySet["Credential"]):
    def for_site(self, site: Site) -> Self:
        """Limit to one site's credentials."""
        return self.filter(site=site)

    def live(self) -> Self:
        """Limit to those that still open the door."""
        return self.filter(revoked_at=None)


class Credential(models.Model):
    """One secret of a site. Several may be live at once, so that secrets can be rotated without a gap."""

    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="credentials")
    name = models.CharField(max_length=200, blank=True, help_text="Who or what uses it.")
    # Unique: also the index that authentication reads. No secret is stored, and none can be found out from this.
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    # The first characters of the secret, for people to tell two apart; not enough to guess the rest.
    hint = models.CharField(max_length=12, editable=False)
    permissions = ArrayField(models.CharField(max_length=16), default=list)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False, help_text="To within ten minutes.")
    revoked_at = models.DateTimeField(null=True, editable=False)

    objects = CredentialQuerySet.as_manager()

    class Meta:
        db_table = "credential"
        ordering: ClassVar[list[str]] = ["site", "-created_at", "-pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            # A misspelt permission would be one that nobody has, or that a later version gives a meaning.
            models.CheckConstraint(
                name="credential_permissions_are_known",
                condition=models.Q(permissions__contained_by=list(PERMISSIONS)),
            ),
        ]

    def __str__(self) -> str:
        return self.name or f"{self.hint}…"

    @classmethod
    def issue(
        cls, *, site: Site, name: str = "", permissions: tuple[str, ...] = DEFAULT_PERMISSIONS
    ) -> tuple["Credential", str]:
        """Create a credential and return it with its secret, which cannot be read again afterwards."""
        unknown = [permission for permission in permissions if permission not in PERMISSIONS]
        if unknown:
            raise ValueError(f"unknown permission {unknown[0]!r}; known: {', '.join(PERMISSIONS)}")
        secret = SECRET_PREFIX + secrets.token_urlsafe(32)
        credential = cls.objects.create(
            site=site,
            name=name,
            digest=digest_secret(secret),
            hint=secret[: len(SECRET_PREFIX) + 4],
            permissions=sorted(set(permissions), key=PERMISSIONS.index),
        )
        return credential, secret

    def revoke(self) -> bool:
        """Revoke at once, for the very next request; return whether it was still live."""
        return bool(type(self).objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=Now()))
