#!/usr/bin/env python
"""Every command goes through here; ``manage.py up`` is the whole server."""

import os
import sys

from memory_site.database.on_demand import database_for

UNDEFINED_TABLE = "42P01"


def main() -> None:
    """Run one command, with the embedded database if it needs one and none is named."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memory_site.settings")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, ProgrammingError

    with database_for(sys.argv[1:]):
        try:
            execute_from_command_line(sys.argv)
        except OperationalError as error:
            sys.exit(f"The database does not answer: {error}")
        except ProgrammingError as error:
            if getattr(error.__cause__, "sqlstate", None) != UNDEFINED_TABLE:
                raise
            sys.exit("The database is not migrated yet: run `manage.py migrate` first (`make up` does it by itself).")


if __name__ == "__main__":
    main()
