"""What the pages for people need and the API does not: each of these middlewares steps aside elsewhere."""

from csp.middleware import CSPMiddleware
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from whitenoise.middleware import WhiteNoiseMiddleware

from memory_site.wire.edge import PAGES


class OnlyPages:
    """Run a middleware on pages for people; elsewhere the request goes by at the price of one call."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith(PAGES):
            return super().__call__(request)  # type: ignore[misc,no-any-return]  # of the middleware mixed with
        response: HttpResponseBase = self.get_response(request)  # type: ignore[attr-defined]  # likewise
        return response


class StaticFiles(OnlyPages, WhiteNoiseMiddleware):  # type: ignore[misc]  # untyped
    pass


class Security(OnlyPages, SecurityMiddleware):
    pass


class ContentSecurityPolicy(OnlyPages, CSPMiddleware):
    pass


class Sessions(OnlyPages, SessionMiddleware):
    pass


class Common(OnlyPages, CommonMiddleware):
    pass


class CsrfView(OnlyPages, CsrfViewMiddleware):
    pass


class Authentication(OnlyPages, AuthenticationMiddleware):
    pass


class Messages(OnlyPages, MessageMiddleware):
    pass


class ClickjackingProtection(OnlyPages, XFrameOptionsMiddleware):
    pass
