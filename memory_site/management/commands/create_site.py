"""``manage.py create_site SLUG``"""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management import CommandError, CommandParser
from django.db import IntegrityError

from memory_site.management.sites import SiteCommand
from memory_site.sites.models import Site


class Command(SiteCommand):
    help = "Create a site: a tenant, whose data no other site sees. `create_credential` lets programs in."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the slug and a name."""
        super().add_arguments(parser)
        parser.add_argument("--name", default="", help="a name for people")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create it, or say why not."""
        site = Site(slug=options["site"], name=options["name"])
        try:
            site.full_clean()
            if not options["dry_run"]:
                site.save(force_insert=True)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        except IntegrityError:
            # Another command was quicker.
            raise CommandError(f"There is a site {site.slug!r} already.") from None
        made = (
            "would be created" if options["dry_run"] else f"is created. Next: manage.py create_credential {site.slug}"
        )
        self.answer(
            options,
            {"site": site.slug, "name": site.name, "created": not options["dry_run"]},
            f"Site {site.slug} {made}",
        )
