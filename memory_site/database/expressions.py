"""SQL expressions that the ORM has no word for."""

from django.db.models import Func, TextField

# The form of every time on the wire: UTC, microseconds, Z. Formatting 50 of them in Python costs 140 µs.
RFC3339_TEXT = "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"


class Rfc3339(Func):
    """A time as RFC 3339 text."""

    template = RFC3339_TEXT.format("%(expressions)s")
    output_field = TextField()
