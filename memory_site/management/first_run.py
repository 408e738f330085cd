"""What a new server needs before anybody can use it: a site, a credential and an operator."""

import secrets
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import connection, transaction

from memory_site.sites.models import Credential, Site

FIRST_RUN_LOCK = 0x6D656D6672  # "memfr"


@dataclass(frozen=True)
class FirstRun:
    """What was made, with the secrets that can be read here and nowhere else."""

    slug: str
    secret: str
    operator: str | None
    password: str | None


def ensure_first_run() -> FirstRun | None:
    """Make a site, its credential and an operator if the database has no site; return what was made, or None."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            # Of two servers that start on one new database, one makes them.
            cursor.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [FIRST_RUN_LOCK])
        if Site.objects.exists():
            return None
        site = Site.objects.create(slug="default", name="Default site")
        _, secret = Credential.issue(site=site, name="first credential")
        operator = password = None
        if not User.objects.filter(is_superuser=True).exists():
            operator, password = "operator", secrets.token_urlsafe(18)
            User.objects.create_superuser(operator, password=password)
        return FirstRun(slug=site.slug, secret=secret, operator=operator, password=password)
