"""The life of a credential after its first day."""

from django.db import transaction

from memory_site.sites.models import Credential


class Revoked(Exception):
    """The credential opens nothing any more, so there is nothing to pass on."""


def rotate(credential: Credential) -> tuple[Credential, str]:
    """Issue a successor with the same site, name and permissions, and return it with its secret.

    The old secret stays live, so that clients can change over without a gap; revoke it when they have. Raises
    ``Revoked`` for a revoked one: whoever took its permissions away must not see them come back.
    """
    with transaction.atomic():
        # Locked, so that a revocation at the same moment is either seen here or comes after.
        held = (
            Credential.objects.select_for_update(no_key=True, of=("self",)).select_related("site").get(pk=credential.pk)
        )
        if held.revoked_at is not None:
            raise Revoked
        return Credential.issue(site=held.site, name=held.name, permissions=tuple(held.permissions))
