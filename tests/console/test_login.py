"""Who gets in, and what every page carries."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from memory_site.sites.models import Credential
from tests.conftest import Tenant
from tests.console.conftest import PASSWORD

HOST = {"host": "localhost"}


@pytest.fixture(autouse=True)
def _no_failures_yet() -> None:
    cache.clear()


def log_in(console: Client, user: User, password: str, *, address: str = "192.0.2.1") -> int:
    form = {"username": user.username, "password": password, "next": "/admin/"}
    return console.post("/admin/login/", form, REMOTE_ADDR=address).status_code


def test_an_operator_logs_in_and_out(operator: User) -> None:
    console = Client(headers=HOST)
    assert console.get("/admin/").status_code == 302
    assert log_in(console, operator, PASSWORD) == 302
    assert console.get("/admin/").status_code == 200
    assert console.post("/admin/logout/").status_code == 200
    assert console.get("/admin/").status_code == 302


def test_the_twenty_first_failure_of_an_address_is_refused_before_the_password_is_looked_at(operator: User) -> None:
    console = Client(headers=HOST)
    for _ in range(20):
        # An unknown user costs a hash as well; an inactive one does not say so.
        assert log_in(console, operator, "wrong") == 200
    assert log_in(console, operator, "wrong") == 429
    assert log_in(console, operator, PASSWORD) == 429
    # The user is not locked out, the address is.
    assert log_in(console, operator, PASSWORD, address="192.0.2.2") == 302


def test_a_site_s_secret_opens_no_page(tenant: Tenant) -> None:
    console = Client(headers=HOST)
    assert console.get("/admin/", headers={"Authorization": "Basic x"}).status_code == 302
    assert Credential.objects.filter(site=tenant.site).exists()


def test_who_is_no_staff_gets_no_page() -> None:
    console = Client(headers=HOST)
    nobody = User.objects.create_user(f"nobody-{id(console)}", password=PASSWORD)
    console.force_login(nobody)
    assert console.get("/admin/").status_code == 302


def test_the_cookies_stay_in_the_console(operator: User) -> None:
    console = Client(headers=HOST)
    log_in(console, operator, PASSWORD)
    session = console.cookies["sessionid"]
    assert session["path"] == "/admin/"
    assert session["httponly"]
    assert session["samesite"] == "Lax"
    assert console.cookies["csrftoken"]["path"] == "/admin/"


@pytest.mark.parametrize("address", ["/admin/login/", "/admin/", "/admin/sites/site/", "/admin/nothing-is-here/"])
def test_every_page_forbids_what_it_does_not_need(console: Client, address: str) -> None:
    response = console.get(address, follow=True)
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy + ";"
    assert "style-src 'self';" in policy + ";"
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in response.headers["Cache-Control"]
    assert b"<style" not in response.content
    assert b" style=" not in response.content


def test_static_files_say_what_they_are(console: Client) -> None:
    response = console.get("/static/memory_site/console.css")
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/css")
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_a_form_from_elsewhere_is_refused_on_a_page_that_says_so(operator: User) -> None:
    console = Client(headers=HOST, enforce_csrf_checks=True)
    console.force_login(operator)
    response = console.post("/admin/sites/site/add/", {"slug": "from-elsewhere"})
    assert response.status_code == 403
    assert "This form is out of date" in response.text


def test_staff_who_manage_users_cannot_give_themselves_more(make_staff: Callable[..., User]) -> None:
    manager = make_staff("view_user", "change_user")
    console = Client(headers=HOST)
    console.force_login(manager)
    address = f"/admin/auth/user/{manager.pk}/change/"
    assert console.get(address).status_code == 200
    form = {"username": manager.username, "is_active": "on", "is_staff": "on", "is_superuser": "on"}
    assert console.post(address, form).status_code == 302
    manager.refresh_from_db()
    assert not manager.is_superuser


def test_operators_are_not_deleted_and_their_log_stays(console: Client, viewer: User) -> None:
    assert console.get(f"/admin/auth/user/{viewer.pk}/delete/").status_code == 403
    assert console.post(f"/admin/auth/user/{viewer.pk}/delete/", {"post": "yes"}).status_code == 403
    assert User.objects.filter(pk=viewer.pk).exists()
