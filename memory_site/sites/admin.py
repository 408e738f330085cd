"""The operators' pages of sites and credentials."""

import uuid
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from memory_site.sites.credentials import Revoked, rotate
from memory_site.sites.models import DEFAULT_PERMISSIONS, PERMISSIONS, Credential, Site
from memory_site.wire.console import Confirmation, ConsoleAdmin, is_spent, spend

PERMISSION_LABELS = {
    "put": "put: append, and every other write",
    "get": "get: read one conversation",
    "list": "list: list conversations",
    "delete": "delete: remove single things",
    "manage": "manage: reset or delete a whole conversation",
}
SENT_TWICE = "That form had been sent already, and its secret was shown then. If you did not keep it, revoke it."


def state(word: str, *, live: bool) -> SafeString:
    """Return a word with a mark: the state is never told by colour alone."""
    return format_html('<span class="state {}">{}</span>', "live" if live else "ended", word)


class StateFilter(admin.SimpleListFilter):
    """Live or not: both models say it by a time that is set when it ends."""

    title = "state"
    parameter_name = "state"
    choices_by_value: tuple[tuple[str, str], ...]
    ended: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> tuple[tuple[str, str], ...]:
        return self.choices_by_value

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is None:
            return queryset
        return queryset.filter(**{f"{self.ended}__isnull": self.value() == self.choices_by_value[0][0]})


class SiteState(StateFilter):
    choices_by_value = (("enabled", "Enabled"), ("disabled", "Disabled"))
    ended = "disabled_at"


class CredentialState(StateFilter):
    choices_by_value = (("live", "Live"), ("revoked", "Revoked"))
    ended = "revoked_at"


class CredentialForm(forms.ModelForm[Credential]):
    """Permissions as boxes to tick; at least one, because a credential without any is a mistake."""

    # Declared, not derived: the admin would put links to add and change sites beside it.
    site = forms.ModelChoiceField(Site.objects.all())
    permissions = forms.MultipleChoiceField(
        choices=list(PERMISSION_LABELS.items()), widget=forms.CheckboxSelectMultiple, initial=DEFAULT_PERMISSIONS
    )
    form_id = forms.CharField(widget=forms.HiddenInput, required=False, max_length=64)

    class Meta:
        model = Credential
        fields = ("site", "name", "permissions")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.pk is None:
            self.fields["form_id"].initial = uuid.uuid4().hex
        else:
            # Only what shows a secret must not be sent twice.
            del self.fields["form_id"]

    def clean_permissions(self) -> list[str]:
        return sorted(self.cleaned_data["permissions"], key=PERMISSIONS.index)


class CredentialInline(admin.TabularInline[Credential, Site]):
    """The live credentials of a site, to look at; each has a page of its own. Revoked ones only grow in number."""

    model = Credential
    verbose_name_plural = "Live credentials"
    fields = readonly_fields = ("secret_begins", "permitted", "last_used")
    extra = 0
    show_change_link = True
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Site | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description="secret begins with")
    def secret_begins(self, credential: Credential) -> str:
        return f"{credential.hint}…"

    @admin.display(description="permissions")
    def permitted(self, credential: Credential) -> str:
        return ", ".join(credential.permissions)

    @admin.display(description="last used")
    def last_used(self, credential: Credential) -> str:
        return "never" if credential.last_used_at is None else said(credential.last_used_at)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Credential]:
        return super().get_queryset(request).filter(revoked_at=None)


@admin.register(Site)
class SiteAdmin(ConsoleAdmin[Site]):
    list_display = ("slug", "name", "current_state", "live_credentials", "created_at")
    list_filter = (SiteState,)
    search_fields = ("slug", "name")
    search_help_text = "Part of a slug or a name."
    inlines = (CredentialInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Site]:
        live = Count("credentials", filter=Q(credentials__revoked_at=None))
        return super().get_queryset(request).annotate(live=live)

    def get_fields(self, request: HttpRequest, obj: Site | None = None) -> tuple[str, ...]:
        return ("slug", "name") if obj is None else ("slug", "name", "current_state", "created_at", "id")

    def get_readonly_fields(self, request: HttpRequest, obj: Site | None = None) -> tuple[str, ...]:
        # Clients have the slug in their configuration: it stays.
        return () if obj is None else ("slug", "current_state", "created_at", "id")

    def get_inlines(self, request: HttpRequest, obj: Site | None) -> tuple[type[CredentialInline], ...]:
        return () if obj is None else self.inlines

    def get_urls(self) -> list[URLPattern]:
        return [self.route("disable", self.disable_view), self.route("enable", self.enable_view), *super().get_urls()]

    @admin.display(description="state", ordering="disabled_at")
    def current_state(self, site: Site) -> SafeString:
        if site.disabled_at is None:
            return state("enabled", live=True)
        return state(f"disabled since {said(site.disabled_at)}", live=False)

    @admin.display(description="live credentials", ordering="live")
    def live_credentials(self, site: Site) -> int:
        found: int = getattr(site, "live", 0)
        return found

    def save_model(self, request: HttpRequest, obj: Site, form: Any, change: bool) -> None:
        if change:
            obj.save(update_fields=form.changed_data)
        else:
            super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: Site, post_url_continue: str | None = None) -> HttpResponse:
        return self.done(
            request, obj, f"The site {obj.slug} is there. It needs a credential before anybody can use it."
        )

    def disable_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Refuse a site's credentials until it is enabled again."""
        site = self.find(request, object_id, may=self.has_change_permission)
        if request.method != "POST":
            live = site.credentials.live().count()
            return self.confirm(
                request,
                site,
                Confirmation(
                    f"Disable {site.slug}?",
                    (
                        f"Every request with credentials of {site.slug} is refused from the next one on "
                        f"({live} live {'credential' if live == 1 else 'credentials'}).",
                        "Nothing is deleted and no credential is revoked: enabling the site opens it again.",
                    ),
                    "Disable the site",
                ),
            )
        if site.disable():
            self.log_change(request, site, "Disabled.")
            return self.done(request, site, f"{site.slug} is disabled: its credentials are refused.")
        return self.done(request, site, f"{site.slug} was disabled already.", level=messages.WARNING)

    def enable_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Accept a disabled site's credentials again."""
        site = self.find(request, object_id, may=self.has_change_permission)
        if request.method != "POST":
            says = (f"The live credentials of {site.slug} are accepted again from the next request on.",)
            return self.confirm(request, site, Confirmation(f"Enable {site.slug}?", says, "Enable the site"))
        if site.enable():
            self.log_change(request, site, "Enabled.")
            return self.done(request, site, f"{site.slug} is enabled: its live credentials are accepted.")
        return self.done(request, site, f"{site.slug} was enabled already.", level=messages.WARNING)


def said(time: datetime) -> str:
    """Return a time as it stands in a sentence."""
    return f"{timezone.localtime(time):%Y-%m-%d %H:%M} UTC"


@admin.register(Credential)
class CredentialAdmin(ConsoleAdmin[Credential]):
    form = CredentialForm
    list_display = ("label", "site", "secret_begins", "permitted", "last_used", "current_state")
    list_filter = (CredentialState,)
    search_fields = ("name", "hint", "site__slug")
    search_help_text = "Part of a name, of a site's slug, or the first characters of a secret."
    actions = ("revoke_selected",)
    ordering = ("-created_at", "-pk")

    SHOWN = ("secret_begins", "current_state", "created_at", "last_used")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Credential]:
        return super().get_queryset(request).select_related("site")

    def has_change_permission(self, request: HttpRequest, obj: Credential | None = None) -> bool:
        # What is revoked is a fact; it can be looked at.
        return super().has_change_permission(request, obj) and (obj is None or obj.revoked_at is None)

    def may_rotate(self, request: HttpRequest) -> bool:
        """Whether the user may both issue a secret and decide about this one."""
        return self.has_add_permission(request) and self.has_change_permission(request)

    def get_fields(self, request: HttpRequest, obj: Credential | None = None) -> tuple[str, ...]:
        if obj is None:
            return ("site", "name", "permissions", "form_id")
        if not self.has_change_permission(request, obj):
            return ("site", "name", "permitted", *self.SHOWN)
        return ("site", "name", "permissions", *self.SHOWN)

    def get_readonly_fields(self, request: HttpRequest, obj: Credential | None = None) -> tuple[str, ...]:
        return () if obj is None else ("site", "permitted", *self.SHOWN)

    def get_urls(self) -> list[URLPattern]:
        return [self.route("rotate", self.rotate_view), self.route("revoke", self.revoke_view), *super().get_urls()]

    @admin.display(description="name", ordering="name")
    def label(self, credential: Credential) -> str:
        return credential.name or "(no name)"

    @admin.display(description="secret begins with", ordering="hint")
    def secret_begins(self, credential: Credential) -> SafeString:
        return format_html("<code>{}…</code>", credential.hint)

    @admin.display(description="permissions")
    def permitted(self, credential: Credential) -> str:
        return ", ".join(credential.permissions)

    @admin.display(description="last used", ordering="last_used_at")
    def last_used(self, credential: Credential) -> str:
        return "never" if credential.last_used_at is None else said(credential.last_used_at)

    @admin.display(description="state", ordering="revoked_at")
    def current_state(self, credential: Credential) -> SafeString:
        if credential.revoked_at is None:
            return state("live", live=True)
        return state(f"revoked {said(credential.revoked_at)}", live=False)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if request.method == "POST" and is_spent(request, request.POST.get("form_id", "")):
            return self.sent_twice(request)
        return super().add_view(request, form_url, extra_context)

    def save_model(self, request: HttpRequest, obj: Credential, form: Any, change: bool) -> None:
        if change:
            obj.save(update_fields=form.changed_data)
            return
        issued, secret = Credential.issue(site=obj.site, name=obj.name, permissions=tuple(obj.permissions))
        obj.__dict__.update(issued.__dict__)
        request.issued_secret = secret  # type: ignore[attr-defined]  # to response_add, and nowhere else
        spend(request, form.cleaned_data["form_id"])

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        if "permissions" in form.changed_data:
            permissions = ", ".join(form.cleaned_data["permissions"])
            return f"Created with permissions {permissions}." if add else f"Permissions are now {permissions}."
        return super().construct_change_message(request, form, formsets, add)

    def response_add(self, request: HttpRequest, obj: Credential, post_url_continue: str | None = None) -> HttpResponse:
        return self.show_secret(request, obj, request.issued_secret)  # type: ignore[attr-defined]  # of save_model

    def show_secret(self, request: HttpRequest, credential: Credential, secret: str) -> HttpResponse:
        """Answer with the only page that ever has the secret: in no session, message, cookie or log."""
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "original": credential,
            "title": "The secret of the new credential",
            "secret": secret,
            "address": request.build_absolute_uri("/").rstrip("/"),
            "change": self.address("change", credential.pk),
        }
        return TemplateResponse(request, "admin/sites/credential/secret.html", context)

    def sent_twice(self, request: HttpRequest) -> HttpResponse:
        """Answer a form that was sent before without doing it again."""
        self.message_user(request, SENT_TWICE, messages.WARNING)
        return HttpResponseRedirect(self.address("changelist"))

    def rotate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Issue a credential like this one, which stays live."""
        credential = self.find(request, object_id, may=self.may_rotate)
        if request.method != "POST":
            return self.confirm(
                request,
                credential,
                Confirmation(
                    f"Rotate {credential}?",
                    (
                        f"A new credential of {credential.site} with the same name and permissions "
                        f"({', '.join(credential.permissions)}) is created. The next page shows its secret, once.",
                        f"The present secret ({credential.hint}…) stays live until you revoke it: "
                        "change the clients over first.",
                    ),
                    "Create the new secret",
                    hidden={"form_id": (uuid.uuid4().hex,)},
                ),
            )
        form_id = request.POST.get("form_id", "")[:64]
        if is_spent(request, form_id):
            return self.sent_twice(request)
        try:
            issued, secret = rotate(credential)
        except Revoked:
            return self.done(request, credential, f"{credential} is revoked: create a new one.", level=messages.ERROR)
        self.log_addition(request, issued, f"Created to take the place of {credential.hint}….")
        self.log_change(request, credential, f"Rotated: {issued.hint}… takes its place.")
        spend(request, form_id)
        return self.show_secret(request, issued, secret)

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """End a credential for good."""
        credential = self.find(request, object_id, may=self.has_change_permission)
        if request.method != "POST":
            return self.confirm(request, credential, what_revoking_does([credential]))
        if self.revoke(request, credential):
            return self.done(request, credential, f"{credential} is revoked: its secret is refused from now on.")
        return self.done(request, credential, f"{credential} was revoked already.", level=messages.WARNING)

    def revoke(self, request: HttpRequest, credential: Credential) -> bool:
        """Revoke and write the log entry; the caller's transaction holds both."""
        if not credential.revoke():
            return False
        self.log_change(request, credential, "Revoked.")
        return True

    @admin.action(description="Revoke selected credentials", permissions=["change"])
    def revoke_selected(self, request: HttpRequest, chosen: QuerySet[Credential]) -> HttpResponse | None:
        """Revoke several, after a page that names them."""
        live = list(chosen.filter(revoked_at=None).select_related("site").order_by("pk"))
        if not live:
            self.message_user(request, "All of these are revoked already.", messages.WARNING)
            return None
        if "confirmed" not in request.POST:
            return self.confirm(request, None, what_revoking_does(live))
        revoked = sum(self.revoke(request, credential) for credential in live)
        self.message_user(request, f"{revoked} {'credential is' if revoked == 1 else 'credentials are'} revoked.")
        return None


def what_revoking_does(credentials: list[Credential]) -> Confirmation:
    """Return the page before one or several are revoked."""
    named = [f"{credential.hint}… of {credential.site}" for credential in credentials]
    if len(named) == 1:
        credential = credentials[0]
        used = (
            "It was never used." if credential.last_used_at is None else f"Last used {said(credential.last_used_at)}."
        )
        title = f"Revoke {credential}?"
        subject = f"The secret {named[0]} is refused from the next request on. {used}"
    else:
        title, subject = f"Revoke {len(named)} credentials?", "These secrets are refused from the next request on:"
    return Confirmation(
        title,
        (subject, *(named if len(named) > 1 else ()), "This cannot be undone. What was stored with it stays."),
        "Revoke" if len(named) == 1 else f"Revoke {len(named)} credentials",
        grave=True,
        hidden={
            "confirmed": ("yes",),
            "action": ("revoke_selected",),
            "_selected_action": tuple(str(credential.pk) for credential in credentials),
        },
    )
