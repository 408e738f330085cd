"""``manage.py prune_records``"""

import dataclasses
import json
from typing import Any

from django.core.management import BaseCommand, CommandError, CommandParser

from checkpoints.retention import Pruned, prune


class Command(BaseCommand):
    help = (
        "Remove expired records, what is kept of deleted ones, and records over their namespace's maximum, of every "
        "site, in small transactions. Reads leave all of it out already. It can be stopped and run again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take an age, ``--json`` and ``--dry-run``."""
        parser.add_argument(
            "--older-than",
            type=int,
            default=0,
            metavar="SECONDS",
            help="only what expired or was deleted longer ago; until it is removed, references say `expired`",
        )
        parser.add_argument("--json", action="store_true", help="answer with one JSON object")
        parser.add_argument("--dry-run", action="store_true", help="count what would be removed, and change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Prune, showing on a terminal how far it has come."""
        if not 0 <= options["older_than"] <= 2**31:
            raise CommandError("--older-than is a number of seconds.")
        pruned = prune(older_than=options["older_than"], dry_run=options["dry_run"], progress=self.show)
        if self.stderr.isatty():
            self.stderr.write("\r", ending="")
        counts = dataclasses.asdict(pruned)
        if options["json"]:
            self.stdout.write(json.dumps({**counts, "dry_run": options["dry_run"]}))
        else:
            verb = "Would remove" if options["dry_run"] else "Removed"
            self.stdout.write(f"{verb} {', '.join(f'{count} {kind}' for kind, count in counts.items())}.")

    def show(self, pruned: Pruned) -> None:
        """Say on a terminal how many have gone."""
        if self.stderr.isatty():
            done = sum(dataclasses.astuple(pruned))
            self.stderr.write(f"\r{done} removed", ending="")
            self.stderr.flush()
