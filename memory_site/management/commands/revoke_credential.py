"""``manage.py revoke_credential SLUG``"""

from typing import Any

from django.core.management import CommandError, CommandParser

from memory_site.management.sites import SiteCommand, described, site_named
from memory_site.sites.models import Credential, Site


class Command(SiteCommand):
    help = "Revoke a credential of a site, or all of them: the very next request with it is refused."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the site, and which of its credentials."""
        super().add_arguments(parser)
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--hint", help="the first characters of the secret, as they were shown with it")
        which.add_argument("--id", type=int, help="the number of the credential")
        which.add_argument("--all", action="store_true", help="every live credential of the site")

    def handle(self, *args: Any, **options: Any) -> None:
        """Revoke what is still live of those that were meant."""
        site = site_named(options["site"])
        meant = find(site, options)
        live = [credential for credential in meant if credential.revoked_at is None]
        revoked = live if options["dry_run"] else [credential for credential in live if credential.revoke()]
        done = "would be revoked" if options["dry_run"] else "is revoked"
        self.answer(
            options,
            {
                "site": site.slug,
                "revoked": [] if options["dry_run"] else [described(credential) for credential in revoked],
                "would_revoke": [described(credential) for credential in revoked] if options["dry_run"] else [],
            },
            *(f"{credential.hint}… (number {credential.pk}) of {site.slug} {done}." for credential in revoked),
            *([] if revoked else [f"No live credential of {site.slug} is left to revoke."]),
        )


def find(site: Site, options: dict[str, Any]) -> list[Credential]:
    """Return the credentials that were meant, live or not; end the command when that is not clear."""
    of_site = Credential.objects.for_site(site)
    if options["all"]:
        return list(of_site.live())
    if options["id"] is not None:
        found = list(of_site.filter(pk=options["id"]))
    else:
        # A whole secret finds its credential too, and is as good a hint.
        hint = options["hint"]
        found = [credential for credential in of_site if hint and hint.startswith(credential.hint)]
    if not found:
        raise CommandError(f"Site {site.slug} has no such credential.")
    if len(found) > 1:
        numbers = ", ".join(str(credential.pk) for credential in found)
        raise CommandError(f"More than one credential has this hint: numbers {numbers}. Name one with --id.")
    return found
