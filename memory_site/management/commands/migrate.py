"""``manage.py migrate``, of which two at the same time take turns."""

from typing import Any

from django.core.management.commands import migrate
from django.db import connections

from memory_site.database.migrating import migrating_alone


class Command(migrate.Command):
    """Django's command under the database's migration lock: of two first migrations at once, one used to crash."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Wait for another migration of the same database, then migrate."""
        with migrating_alone(connections[options["database"]]):
            super().handle(*args, **options)
