"""The operators' pages of operators: who they are, and what they did."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db.models import QuerySet
from django.http import HttpRequest

from conversations.models import Conversation
from memory_site.wire.console import ConsoleAdmin

LOOKED_AT = (LogEntry, Conversation)
"""What nobody adds or changes here, whatever their permissions."""


def tick(field: Any) -> Any:
    """Return a field of many as boxes to tick: the admin's two lists want a script, and sight."""
    field.widget = forms.CheckboxSelectMultiple(choices=field.choices)
    field.help_text = ""
    if field.queryset.model is Permission:
        field.queryset = field.queryset.filter(codename__in=meaningful())
    return field


def meaningful() -> list[str]:
    """Return the permissions that a page asks for; Django makes four for every table."""
    found = ["export_conversation"]
    for model in admin.site._registry:
        kinds = ("view",) if model in LOOKED_AT else ("view", "add", "change")
        found += [f"{kind}_{model._meta.model_name}" for kind in kinds]
    return found


class OperatorAdmin(UserAdmin):  # type: ignore[type-arg]  # generic in its stubs only
    """The people who may come in here. They are deactivated, not deleted: the log of what they did would go too."""

    list_display = ("username", "is_staff", "is_superuser", "is_active", "last_login")
    list_filter = ("is_active", "is_superuser", "groups")
    search_fields = ("username", "email")
    search_help_text = "Part of a user name or of an address."
    filter_horizontal = ()
    fieldsets = (
        (None, {"fields": ("username", "password", "email")}),
        ("May come in", {"fields": ("is_active", "is_staff", "is_superuser")}),
        ("May do", {"fields": ("groups", "user_permissions")}),
        ("Was here", {"fields": ("last_login", "date_joined")}),
    )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        # Who may only manage users must not make themselves more than that.
        powers = () if getattr(request.user, "is_superuser", False) else ("is_superuser", "groups", "user_permissions")
        return ("last_login", "date_joined", *powers)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        return tick(super().formfield_for_manytomany(db_field, request, **options))


class OperatorGroupAdmin(GroupAdmin):
    """Permissions with a name, given to several people."""

    filter_horizontal = ()

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest | None = None, **options: Any) -> Any:
        return tick(super().formfield_for_manytomany(db_field, request, **options))


admin.site.unregister(User)
admin.site.unregister(Group)
admin.site.register(User, OperatorAdmin)
admin.site.register(Group, OperatorGroupAdmin)


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
