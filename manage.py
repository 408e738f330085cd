#!/usr/bin/env python
"""Every command goes through here; ``manage.py up`` is the whole server."""

import os
import sys

from memory_site.database.on_demand import database_for


def main() -> None:
    """Run one command, with the embedded database if it needs one and none is named."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memory_site.settings")
    from django.core.management import execute_from_command_line

    with database_for(sys.argv[1:]):
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
