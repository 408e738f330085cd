"""``manage.py set_namespace SLUG NAMESPACE``"""

import argparse
import json
from typing import Any

from django.core.management import BaseCommand, CommandError, CommandParser

from checkpoints.namespaces import MAX_RECORDS, MAX_TTL, policy_of, set_policy
from memory_site.problems import Problem
from memory_site.sites.models import Site


def number_or_none(text: str) -> int | None:
    """Read a whole number, or ``none``."""
    return None if text == "none" else int(text)


class Command(BaseCommand):
    help = (
        "Give the records of a namespace a default lifetime, or a maximum number beyond which the oldest written "
        "goes; for every put from now on. A namespace with such a policy takes no checkpoints, and one that has "
        "checkpoints takes no policy."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the namespace and what to set; what is not named stays as it is."""
        parser.add_argument("site", metavar="SLUG", help="the site, by the user name of its HTTP Basic credentials")
        parser.add_argument("namespace", help="its name; made if it does not exist yet")
        for option, metavar, words in (
            ("--default-ttl", "SECONDS|none", f"lifetime of records that are put without one, 1 to {MAX_TTL}"),
            ("--max-records", "COUNT|none", f"how many records there can be, 1 to {MAX_RECORDS}"),
        ):
            parser.add_argument(option, type=number_or_none, default=argparse.SUPPRESS, metavar=metavar, help=words)
        parser.add_argument("--json", action="store_true", help="answer with one JSON object")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Set it, or say why not; without anything to set, say what is set."""
        name = options["namespace"]
        given = {field: options[field] for field in ("default_ttl", "max_records") if field in options}
        try:
            site = Site.objects.get(slug=options["site"])
            policy = policy_of(site, name)._replace(**given)
            set_policy(site, name, policy, dry_run=options["dry_run"] or not given)
        except (Site.DoesNotExist, ValueError):  # a NUL is a ValueError
            raise CommandError(f"There is no site {options['site']!r}. `manage.py create_site` makes one.") from None
        except Problem as problem:
            raise CommandError(problem.detail) from None
        if options["json"]:
            found = {"site": site.slug, "namespace": name, **policy._asdict(), "dry_run": options["dry_run"]}
            self.stdout.write(json.dumps(found))
        else:
            lifetime = "no default lifetime" if policy.default_ttl is None else f"{policy.default_ttl} s to live"
            maximum = "no maximum" if policy.max_records is None else f"{policy.max_records} at most"
            verb = "would have" if options["dry_run"] else "have"
            self.stdout.write(f"Records of {name} in {site.slug} {verb} {lifetime}, {maximum}.")
