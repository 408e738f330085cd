"""The console itself: its home page and its login."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse

from conversations.activity import Hour, HourlyCounts
from conversations.models import Conversation, Item
from memory_site import chart
from memory_site.database.facts import Facts, RowCount, count_rows, read_facts
from memory_site.login import LoginForm
from memory_site.sites.models import Credential, Site

HOURS = 48
COUNTING_SECONDS = 0.5
"""For the chart, at most; what is left is estimated."""


class Console(admin.AdminSite):
    """The stock admin with the product's name and home page."""

    site_title = "Memory Site"
    site_header = "Memory Site"
    index_title = "Overview"
    site_url = None
    index_template = "admin/overview.html"
    login_form = LoginForm
    enable_nav_sidebar = True

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        self.hourly = HourlyCounts()

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Show figures of this moment, and the last two days."""
        facts = read_facts()
        hours = self.hourly.last(HOURS, now=facts.now, seconds=COUNTING_SECONDS)
        today = [hour for hour in hours if hour.start.date() == facts.now.date()]
        context = {
            "facts": facts,
            "figures": figures(facts, today),
            "chart": chart.draw(hours),
            "uncounted": sum(not hour.exact for hour in hours),
        }
        return super().index(request, {**context, **(extra_context or {})})

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Let an operator in; too many failures are answered 429."""
        response = super().login(request, extra_context)
        form = (response.context_data or {}).get("form") if isinstance(response, TemplateResponse) else None
        if isinstance(form, LoginForm) and form.is_bound:
            response.status_code = form.status
        return response


def figures(facts: Facts, today: list[Hour]) -> list[tuple[str, str, str]]:
    """Return what the home page says first: a name, a figure, and what stands below it."""
    sites = Site.objects.aggregate(all=Count("pk"), disabled=Count("disabled_at"))
    live = Credential.objects.aggregate(all=Count("pk", filter=Q(revoked_at=None)))
    appended = sum(hour.items or 0 for hour in today)
    exact = all(hour.exact for hour in today)
    return [
        ("Sites", f"{sites['all']:,}", f"{sites['disabled']:,} disabled" if sites["disabled"] else "all enabled"),
        ("Live credentials", f"{live['all']:,}", "not revoked"),
        ("Conversations", *of(count_rows(Conversation._meta.db_table))),
        ("Items", *of(count_rows(Item._meta.db_table))),
        (
            "Items appended today",
            f"{appended:,}" if exact else chart.about(appended),
            "since midnight, UTC" if exact else "since midnight, UTC; estimated",
        ),
        ("Database", filesizeformat(facts.size).replace("\xa0", " "), f"PostgreSQL {facts.version}"),
    ]


def of(count: RowCount) -> tuple[str, str]:
    """Return a number of rows as a figure."""
    if count.exact:
        return f"{count.rows:,}", "counted"
    return chart.about(count.rows), "estimated"
