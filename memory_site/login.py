"""The operators' login: the admin's own form, and a limit to guessing."""

from typing import Any

from django import forms
from django.contrib.admin.forms import AdminAuthenticationForm
from django.http import HttpRequest
from rest_framework.throttling import SimpleRateThrottle

from memory_site.problems import CATALOGUE

TOO_MANY = "too_many_failures"


class FailedLogins(SimpleRateThrottle):
    """Twenty failed logins a minute, by address and process. Never by user name: that would lock people out."""

    rate = "20/min"
    scope = "failed-logins"
    # What ``rate`` comes to: its base class sets them and does not say so.
    num_requests: int
    duration: int

    def get_cache_key(self, request: HttpRequest, view: object) -> str:
        return f"failed-logins:{self.get_ident(request)}"  # type: ignore[arg-type]  # it reads META alone

    def is_used_up(self, request: HttpRequest) -> bool:
        """Return whether the address has had its failures, without counting one."""
        recent: list[float] = self.cache.get(self.get_cache_key(request, None), [])
        return sum(at > self.timer() - self.duration for at in recent) >= self.num_requests

    def count(self, request: HttpRequest) -> None:
        """Count a failure."""
        self.allow_request(request, None)  # type: ignore[arg-type]  # as above


class LoginForm(AdminAuthenticationForm):
    """Refuse before the password is looked at, unlike the API: people choose passwords, and these can be guessed."""

    def clean(self) -> dict[str, Any]:
        throttle = FailedLogins()
        if self.request is not None and throttle.is_used_up(self.request):
            raise forms.ValidationError(
                "Too many failed logins from your address. Wait a minute, then try again.", code=TOO_MANY
            )
        try:
            return super().clean()
        except forms.ValidationError:
            if self.request is not None:
                throttle.count(self.request)
            raise

    @property
    def status(self) -> int:
        """The HTTP status of the page that shows this form."""
        throttled = any(error.code == TOO_MANY for error in self.non_field_errors().as_data())
        return CATALOGUE[TOO_MANY].status if throttled else 200
