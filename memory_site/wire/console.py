"""What every page of the operators' console has in common: confirmation before, one transaction, a log entry after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import models, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

Row = TypeVar("Row", bound=models.Model)

SPENT = "console_spent_forms"
REMEMBERED = 50  # forms of one session


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A page that says exactly what a button will do."""

    title: str
    says: Sequence[str]
    button: str
    grave: bool = False
    """Whether what it does cannot be undone here."""
    hidden: dict[str, Sequence[str]] = field(default_factory=dict)
    """What the button sends besides."""


class ConsoleAdmin(admin.ModelAdmin[Row], Generic[Row]):
    """The pages of one model. Nothing is deleted here, and what a list's action does is done whole or not at all."""

    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        extra_context = {"title": str(self.opts.verbose_name_plural).capitalize(), **(extra_context or {})}
        # The admin wraps its forms in a transaction, but not its actions: effect and log entry would come apart.
        if request.method == "POST":
            with transaction.atomic():
                return super().changelist_view(request, extra_context)
        return super().changelist_view(request, extra_context)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any) -> Any:
        # One button: what follows an object is its own page.
        context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().render_change_form(request, context, *args, **options)

    def route(self, name: str, view: Callable[..., HttpResponseBase]) -> URLPattern:
        """Return the address of a page of one object: behind the same login, and a post is one transaction."""
        opts = self.opts

        def whole(request: HttpRequest, **arguments: Any) -> HttpResponseBase:
            if request.method == "POST":
                with transaction.atomic():
                    return view(request, **arguments)
            return view(request, **arguments)

        return path(
            f"<path:object_id>/{name}/",
            self.admin_site.admin_view(whole),
            name=f"{opts.app_label}_{opts.model_name}_{name}",
        )

    def address(self, name: str, *arguments: object) -> str:
        """Return the address of a page of this model, by the end of its name."""
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_{name}", args=arguments)

    def find(self, request: HttpRequest, object_id: str, *, may: Callable[..., bool]) -> Row:
        """Return the object that an address names; raise 403 without the permission, then 404."""
        if not may(request):
            raise PermissionDenied
        found = self.get_object(request, unquote(object_id))
        if found is None:
            raise Http404
        return found

    def confirm(self, request: HttpRequest, obj: Row | None, confirmation: Confirmation) -> TemplateResponse:
        """Show what will happen, and a button that posts to the same address."""
        back = self.address("changelist") if obj is None else self.address("change", obj.pk)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "original": obj,
            "title": confirmation.title,
            "confirmation": confirmation,
            "back": back,
            "list": self.address("changelist"),
        }
        return TemplateResponse(request, "admin/confirm.html", context)

    def done(self, request: HttpRequest, obj: Row, message: str, *, level: int = messages.SUCCESS) -> HttpResponse:
        """Go to the object's page and say there what was done."""
        self.message_user(request, message, level)
        return HttpResponseRedirect(self.address("change", obj.pk))


def is_spent(request: HttpRequest, form: str) -> bool:
    """Return whether a form was sent before: a page that shows a secret is often reloaded."""
    return form in request.session.get(SPENT, [])


def spend(request: HttpRequest, form: str) -> None:
    """Remember that a form was sent. Two at the very same moment both pass: that costs a credential too many."""
    request.session[SPENT] = [*request.session.get(SPENT, []), form][-REMEMBERED:]
