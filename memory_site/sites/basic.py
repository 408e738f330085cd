"""Basic access for REST framework. REST_FRAMEWORK names these: nothing here may import ``rest_framework.views``."""

from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from memory_site.sites import access


class BasicAuthentication(BaseAuthentication):
    """HTTP Basic with a site's credential; ``request.auth`` is the caller, and there is no user."""

    def authenticate(self, request: Request) -> tuple[None, access.Caller]:
        caller = access.authenticate(request._request)
        request._request.caller = caller  # type: ignore[attr-defined]  # the edge's log line names the site
        return None, caller

    def authenticate_header(self, request: Request) -> str:
        return access.CHALLENGE


class HasPermission(BasePermission):
    """The permission that the operation names, of the credential that asks."""

    def has_permission(self, request: Request, view: Any) -> bool:
        operation = view.operation
        if operation is not None:
            request.auth.require(operation.permission)  # type: ignore[union-attr]  # authenticate() set it
        return True
