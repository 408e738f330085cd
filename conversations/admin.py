"""The operators' pages of conversations: found, looked at, read and exported, never changed."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone

from conversations import contracts
from conversations.export import Export, plan_export
from conversations.inspection import Search, find_conversations
from conversations.models import Conversation
from conversations.transcript import MAX_SEQ, read_page, replay
from memory_site.problems import Problem
from memory_site.sites.models import Site
from memory_site.wire.console import Confirmation, ConsoleAdmin

PERIODS = {
    "hour": ("the last hour", timedelta(hours=1)),
    "day": ("the last 24 hours", timedelta(days=1)),
    "week": ("the last 7 days", timedelta(days=7)),
    "month": ("the last 30 days", timedelta(days=30)),
}
SUGGESTED = 200  # sites that the field proposes


class Moment(forms.DateTimeField):
    """A point in time, in UTC, as a browser's own picker sends it."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")


class SearchForm(forms.Form):
    """What can be looked for. A site is typed: there may be thousands."""

    q = forms.RegexField(
        r"^[A-Za-z0-9_-]{0,64}(?!\n)$",
        required=False,
        label="Id begins with",
        error_messages={"invalid": "Ids have letters, digits, hyphens and underscores, at most 64."},
        widget=forms.TextInput(attrs={"type": "search", "autocomplete": "off", "spellcheck": "false"}),
    )
    site = forms.CharField(
        required=False,
        max_length=63,
        label="Site",
        widget=forms.TextInput(attrs={"list": "sites", "autocomplete": "off", "spellcheck": "false"}),
    )
    within = forms.ChoiceField(
        required=False,
        label="Appended to",
        choices=[("", "at any time"), *((value, label) for value, (label, _) in PERIODS.items())],
    )
    since = Moment(required=False, label="From (UTC)")
    until = Moment(required=False, label="Until (UTC)")
    cursor = forms.CharField(required=False, max_length=500, widget=forms.HiddenInput)

    def clean_site(self) -> Site | None:
        slug = self.cleaned_data["site"]
        if not slug:
            return None
        site = Site.objects.filter(slug=slug).first()
        if site is None:
            raise forms.ValidationError("There is no site with this slug.")
        return site

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = self.cleaned_data
        if given.get("within") and (given.get("since") or given.get("until")):
            raise forms.ValidationError("Choose a period, or a beginning and an end.")
        return given

    @property
    def search(self) -> Search:
        """What the operations take."""
        given = self.cleaned_data
        start = given["since"]
        if given["within"]:
            start = timezone.now() - PERIODS[given["within"]][1]
        return Search(site=given["site"], prefix=given["q"], start=start, end=given["until"])


@admin.register(Conversation)
class ConversationAdmin(ConsoleAdmin[Conversation]):
    FACTS = (
        "conversation_id",
        "site",
        "items",
        "numbers",
        "generation",
        "created_at",
        "last_appended_at",
        "full",
        "id",
    )
    fields = readonly_fields = FACTS

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Conversation | None = None) -> bool:
        return False

    def may_export(self, request: HttpRequest) -> bool:
        """Whether the user may take a whole conversation away."""
        return request.user.has_perm("conversations.export_conversation")  # type: ignore[union-attr]  # logged in

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("site")

    def get_urls(self) -> list[URLPattern]:
        return [
            self.route("transcript", self.transcript_view),
            self.route("export", self.export_view),
            path(
                "<path:object_id>/items/<int:seq>/",
                self.admin_site.admin_view(self.payload_view),
                name="conversations_conversation_payload",
            ),
            *super().get_urls(),
        ]

    @admin.display(description="items")
    def items(self, conversation: Conversation) -> str:
        return f"{conversation.stored_items:,}"

    @admin.display(description="sequence numbers")
    def numbers(self, conversation: Conversation) -> str:
        if not conversation.stored_items:
            return f"none; the next is {conversation.next_seq:,}"
        return f"{conversation.first_seq:,} to {conversation.next_seq - 1:,}"

    @admin.display(description="full to")
    def full(self, conversation: Conversation) -> str:
        return f"{conversation.stored_items / contracts.MAX_ITEMS:.1%} of {contracts.MAX_ITEMS:,} items"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """List conversations page by page from where the last one ended: the millionth costs what the first does."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = SearchForm(request.GET, label_suffix="")
        found = None
        if form.is_valid():
            try:
                found = find_conversations(form.search, cursor=form.cleaned_data["cursor"] or None)
            except Problem as problem:
                if problem.code != "invalid_cursor":
                    raise
                form.add_error(None, "That page is not one of this search any more. Search again.")
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Conversations",
            "form": form,
            "found": found,
            "searching": any(request.GET.get(name) for name in ("q", "site", "within", "since", "until")),
            "sites": Site.objects.values_list("slug", flat=True)[:SUGGESTED],
        }
        return TemplateResponse(request, "admin/conversations/conversation/change_list.html", context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        extra = {"title": "Conversation", "may_export": self.may_export(request)}
        return super().change_view(request, object_id, form_url, {**extra, **(extra_context or {})})

    def transcript_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show a page of what was said, from a number on or the last one."""
        conversation = self.find(request, object_id, may=self.has_view_permission)
        given = request.GET.get("from", "").strip().replace(",", "")
        start = min(int(given), MAX_SEQ) if given.isascii() and given.isdecimal() and len(given) <= 20 else None
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "original": conversation,
            "title": "Transcript",
            "page": read_page(conversation, start),
            "unreadable": bool(given) and start is None,
            "given": given[:40],
        }
        return TemplateResponse(request, "admin/conversations/conversation/transcript.html", context)

    def payload_view(self, request: HttpRequest, object_id: str, seq: int) -> HttpResponse:
        """Send one payload byte for byte, as plain text."""
        conversation = self.find(request, object_id, may=self.has_view_permission)
        items = replay(conversation, min(seq, MAX_SEQ), 1)
        if not items or items[0].seq != seq:
            raise Http404
        return HttpResponse(bytes(items[0].payload), content_type="text/plain; charset=utf-8")

    def export_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Send a whole conversation as JSON lines."""
        conversation = self.find(request, object_id, may=self.may_export)
        export = plan_export(conversation)
        if request.method != "POST":
            return self.confirm(request, conversation, what_exporting_does(export))
        self.log_change(request, conversation, said(export))
        response = StreamingHttpResponse(export.lines(), content_type="application/jsonl")
        name = conversation.conversation_id + ("-incomplete" if export.missing else "")
        response["Content-Disposition"] = f'attachment; filename="{name}.jsonl"'
        return response


def said(export: Export) -> str:
    """Return the entry in the log."""
    conversation = export.conversation
    missing = f" {export.missing:,} were missing." if export.missing else ""
    return f"Exported {export.items:,} items of generation {conversation.generation}.{missing}"


def what_exporting_does(export: Export) -> Confirmation:
    """Return the page before an export."""
    conversation = export.conversation
    says = [
        f"Your browser saves {export.items:,} items of {conversation.conversation_id} ({conversation.site}) as "
        f"{conversation.conversation_id}.jsonl: one line for each, with its number, time and payload.",
        "What is appended from now on is not in it. Nothing is changed; that you exported it is noted in the log.",
    ]
    if export.missing:
        missing = "1 item is" if export.missing == 1 else f"{export.missing:,} items are"
        says.insert(1, f"It is corrupted: {missing} missing, and the file lacks what is missing.")
    return Confirmation(f"Export {conversation.conversation_id}?", says, "Export")
