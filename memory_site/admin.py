"""The operators' console: the home page, the login, and the log of what operators did."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse

from conversations.activity import HourlyCounts
from conversations.models import Conversation, Item
from memory_site import chart
from memory_site.database.facts import Facts, RowCount, count_rows, read_facts
from memory_site.login import LoginForm
from memory_site.sites.models import Credential, Site
from memory_site.wire.console import ConsoleAdmin

HOURS = 48
COUNTING_SECONDS = 1.0
"""For the chart, at most: an hour that could not be counted is drawn as such."""


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
        today = [hour.items for hour in hours if hour.start.date() == facts.now.date()]
        context = {
            "facts": facts,
            "figures": figures(facts, today),
            "chart": chart.draw(hours),
            "uncounted": sum(hour.items is None for hour in hours),
        }
        return super().index(request, {**context, **(extra_context or {})})

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Let an operator in; too many failures are answered 429."""
        response = super().login(request, extra_context)
        form = (response.context_data or {}).get("form") if isinstance(response, TemplateResponse) else None
        if isinstance(form, LoginForm) and form.is_bound:
            response.status_code = form.status
        return response


def figures(facts: Facts, today: list[int | None]) -> list[tuple[str, str, str]]:
    """Return what the home page says first: a name, a figure, and what stands below it."""
    sites = Site.objects.aggregate(all=Count("pk"), disabled=Count("disabled_at"))
    live = Credential.objects.aggregate(all=Count("pk", filter=Q(revoked_at=None)))
    counted = sum(items or 0 for items in today)
    return [
        ("Sites", f"{sites['all']:,}", f"{sites['disabled']:,} disabled" if sites["disabled"] else "all enabled"),
        ("Live credentials", f"{live['all']:,}", "not revoked"),
        ("Conversations", *of(count_rows(Conversation._meta.db_table))),
        ("Items", *of(count_rows(Item._meta.db_table))),
        (
            "Items appended today",
            f"{counted:,}",
            "since midnight, UTC" if None not in today else "at least: not all could be counted",
        ),
        ("Database", filesizeformat(facts.size).replace("\xa0", " "), f"PostgreSQL {facts.version}"),
    ]


def of(count: RowCount) -> tuple[str, str]:
    """Return a number of rows as a figure."""
    if count.exact:
        return f"{count.rows:,}", "counted"
    return chart.about(count.rows), "estimated"


@admin.register(LogEntry)
class LogEntryAdmin(ConsoleAdmin[LogEntry]):
    """What operators did, to look at: nobody adds to it, changes it or takes something out of it."""

    list_display = ("action_time", "user", "what", "object_repr", "message")
    list_select_related = ("user", "content_type")
    list_filter = ("action_flag",)
    search_fields = ("user__username", "object_repr")
    search_help_text = "Part of an operator's name, or of what was acted on."
    fields = readonly_fields = ("action_time", "user", "what", "object_repr", "message")

    def get_queryset(self, request: HttpRequest) -> QuerySet[LogEntry]:
        return super().get_queryset(request).select_related("user", "content_type")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: LogEntry | None = None) -> bool:
        return False

    @admin.display(description="kind")
    def what(self, entry: LogEntry) -> str:
        return str(entry.content_type) if entry.content_type else "gone"

    @admin.display(description="what was done")
    def message(self, entry: LogEntry) -> str:
        return entry.get_change_message() or entry.get_action_flag_display()
