"""What the commands about sites and credentials have in common."""

import json
from typing import Any

from django.core.management import BaseCommand, CommandError, CommandParser

from memory_site.sites.models import Credential, Site


class SiteCommand(BaseCommand):
    """A command about one site that can answer people or machines, and can only say what it would do."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the site's slug, ``--json`` and ``--dry-run``."""
        parser.add_argument("site", metavar="SLUG", help="the site, by the user name of its HTTP Basic credentials")
        parser.add_argument("--json", action="store_true", help="answer with one JSON object")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")

    def answer(self, options: dict[str, Any], found: dict[str, Any], *lines: str) -> None:
        """Write the JSON object, or the lines for people."""
        self.stdout.write(json.dumps(found) if options["json"] else "\n".join(lines))


def site_named(slug: str) -> Site:
    """Return a site, or end the command with what there is."""
    try:
        return Site.objects.get(slug=slug)
    except (Site.DoesNotExist, ValueError):  # a NUL is a ValueError
        raise CommandError(f"There is no site {slug!r}. `manage.py create_site` makes one.") from None


def described(credential: Credential) -> dict[str, Any]:
    """Return what may be said of a credential: never more of its secret than the hint."""
    return {
        "id": credential.pk,
        "hint": credential.hint,
        "name": credential.name,
        "permissions": credential.permissions,
    }
