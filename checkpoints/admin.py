"""The operators' pages of namespaces: their policy, their records and their checkpoints, never changed."""

from typing import Any

import msgspec
from django import forms
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern

from checkpoints import bundles, checkpoints, contracts, records
from checkpoints.inspection import PAGE, read_chain, read_sessions
from checkpoints.models import Namespace
from conversations.transcript import pretty, show, text_of
from memory_site.problems import Problem
from memory_site.wire.console import ConsoleAdmin

MAX_PAGE_BYTES = 64 * 1024 * 1024


class RecordSearch(forms.Form):
    """Which records of a namespace are looked for."""

    key = forms.CharField(
        required=False,
        strip=False,
        label="Key begins with",
        widget=forms.TextInput(attrs={"type": "search", "autocomplete": "off", "spellcheck": "false"}),
    )
    kind = forms.CharField(required=False, strip=False, label="Kind")
    tag = forms.CharField(required=False, strip=False, label="Tag")
    topic = forms.CharField(required=False, strip=False, label="Topic")
    cursor = forms.CharField(required=False, max_length=1500, widget=forms.HiddenInput)


@admin.register(Namespace)
class NamespaceAdmin(ConsoleAdmin[Namespace]):
    list_display = ("name", "site", "policy", "created_at")
    search_fields = ("name__startswith", "site__slug__startswith")
    search_help_text = "The beginning of a name, or of a site's slug."
    list_select_related = ("site",)
    ordering = ("site", "name")
    fields = readonly_fields = ("name", "site", "policy", "first_checkpoint_at", "created_at", "revision_floor", "id")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Namespace | None = None) -> bool:
        return False

    def get_urls(self) -> list[URLPattern]:
        return [
            self.route("records", self.records_view),
            self.route("record", self.record_view),
            self.route("sessions", self.sessions_view),
            self.route("chain", self.chain_view),
            self.route("checkpoint", self.checkpoint_view),
            *super().get_urls(),
        ]

    @admin.display(description="records")
    def policy(self, namespace: Namespace) -> str:
        """What happens to the records by themselves."""
        if namespace.durable:
            return "kept until deleted"
        parts = []
        if namespace.default_ttl is not None:
            parts.append(f"live {namespace.default_ttl:,} s unless their put says otherwise")
        if namespace.max_records is not None:
            parts.append(f"{namespace.max_records:,} at most, then the oldest written goes")
        return "; ".join(parts)

    def page(self, request: HttpRequest, namespace: Namespace, name: str, **context: Any) -> TemplateResponse:
        """Return a page of this namespace."""
        context |= {**self.admin_site.each_context(request), "opts": self.opts, "original": namespace}
        return TemplateResponse(request, f"admin/checkpoints/namespace/{name}.html", context)

    def records_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """List records by key, as the API does."""
        namespace = self.find(request, object_id, may=self.has_view_permission)
        form = RecordSearch(request.GET, label_suffix="")
        found = None
        if form.is_valid():
            given = {name: value for name, value in form.cleaned_data.items() if value != ""}
            if "key" in given:
                given["prefix"] = given.pop("key")
            try:
                call = contracts.ListRecords(namespace=namespace.name, limit=PAGE, **given)
                found = records.list_records(namespace.site, call, max_bytes=MAX_PAGE_BYTES)
            except Problem as problem:
                form.add_error(None, problem.detail)
        searching = any(request.GET.get(name) for name in ("key", "kind", "tag", "topic"))
        listed = [] if found is None else [(record, show(record.key)) for record in found.records]
        return self.page(
            request, namespace, "records", title="Records", form=form, found=found, listed=listed, searching=searching
        )

    def record_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show one record, its value indented; or send the value as it was sent."""
        namespace = self.find(request, object_id, may=self.has_view_permission)
        try:
            call = contracts.GetRecord(namespace=namespace.name, key=request.GET.get("key", ""))
            record = records.get(namespace.site, call)
        except Problem:
            raise Http404 from None
        value = bytes(record.value)
        if "raw" in request.GET:
            return HttpResponse(value, content_type="text/plain; charset=utf-8")
        return self.page(
            request,
            namespace,
            "record",
            title="Record",
            record=record,
            key=show(record.key),
            value=text_of(pretty(value.decode()), folded=False),
        )

    def sessions_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """List the sessions of a namespace with their latest checkpoint."""
        namespace = self.find(request, object_id, may=self.has_view_permission)
        after = (request.GET["agent"], request.GET.get("session", "")) if "agent" in request.GET else None
        check_texts(*(after or ()))
        return self.page(request, namespace, "sessions", title="Sessions", found=read_sessions(namespace, after=after))

    def chain_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the chain of one session's checkpoints."""
        namespace = self.find(request, object_id, may=self.has_view_permission)
        agent_id, session_id = request.GET.get("agent", ""), request.GET.get("session", "")
        check_texts(agent_id, session_id)
        before = request.GET.get("before", "")
        chain = read_chain(
            namespace,
            agent_id,
            session_id,
            before=int(before) if before.isascii() and before.isdecimal() and len(before) < 19 else None,
        )
        if chain is None:
            raise Http404
        names = {"agent_id": agent_id, "session_id": session_id}
        return self.page(request, namespace, "chain", title="Chain of checkpoints", chain=chain, **names)

    def checkpoint_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show one checkpoint: its capsule to read, its references with their status, its details indented."""
        namespace = self.find(request, object_id, may=self.has_view_permission)
        try:
            call = bundles.RestoreCheckpoint(
                namespace=namespace.name, checkpoint_id=request.GET.get("id", ""), max_bytes=MAX_PAGE_BYTES
            )
            restored = checkpoints.restore(namespace.site, call)
        except Problem:
            raise Http404 from None
        capsule = bundles.capsule_decoder.decode(restored.capsule)
        references = restored.references or []
        details = bytes(restored.details) if isinstance(restored.details, msgspec.Raw) else b"null"
        return self.page(
            request,
            namespace,
            "checkpoint",
            title="Checkpoint",
            restored=restored,
            texts=[
                ("Goal", text_of(capsule.goal)),
                ("Summary", text_of(capsule.summary)),
                ("Next action", text_of(capsule.next_action)),
            ],
            lists=[
                ("Constraints", [show(entry) for entry in capsule.constraints]),
                ("Decisions", [show(entry) for entry in capsule.decisions]),
                ("Open tasks", [show(entry) for entry in capsule.open_tasks]),
            ],
            references=[(reference, show(reference.key)) for reference in references],
            details=text_of(pretty(details.decode()), folded=False),
        )


def check_texts(*texts: str) -> None:
    """Refuse what PostgreSQL has no text for: nothing is there."""
    if any("\0" in text for text in texts):
        raise Http404
