"""``manage.py create_credential SLUG``"""

from typing import Any

from django.core.management import CommandError, CommandParser

from memory_site.management.sites import SiteCommand, described, site_named
from memory_site.sites.models import DEFAULT_PERMISSIONS, PERMISSIONS, Credential


class Command(SiteCommand):
    help = "Create a credential of a site and print its secret, once. Several may be live: that is how to rotate."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the site, a name and the permissions."""
        super().add_arguments(parser)
        parser.add_argument("--name", default="", help="who or what will use it")
        parser.add_argument(
            "--permissions",
            nargs="+",
            metavar="PERMISSION",
            default=list(DEFAULT_PERMISSIONS),
            help=f"of {', '.join(PERMISSIONS)}; without this option {', '.join(DEFAULT_PERMISSIONS)}",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Issue it, and print the secret that cannot be read again."""
        site = site_named(options["site"])
        permissions = tuple(options["permissions"])
        if unknown := [permission for permission in permissions if permission not in PERMISSIONS]:
            raise CommandError(f"There is no permission {unknown[0]!r}. Known: {', '.join(PERMISSIONS)}.")
        if options["dry_run"]:
            self.answer(
                options,
                {"site": site.slug, "permissions": permissions, "created": False},
                f"A credential of {site.slug} would be created, with {', '.join(permissions)}.",
            )
            return
        credential, secret = Credential.issue(site=site, name=options["name"], permissions=permissions)
        self.answer(
            options,
            {"site": site.slug, **described(credential), "secret": secret, "created": True},
            f"user    {site.slug}",
            f"secret  {secret}",
            f"It may {', '.join(credential.permissions)}. The secret is not shown again.",
        )
