"""The commands about sites and credentials, as an operator types them."""

import json
import os
import subprocess
import sys
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memory_site.environment import PROJECT
from memory_site.sites.models import DEFAULT_PERMISSIONS, PERMISSIONS, Credential, Site
from tests.calls import assert_problem, new_id
from tests.conftest import Tenant
from tests.faults import database_url


def run(*arguments: str) -> str:
    """Return what a command writes."""
    written = StringIO()
    call_command(*arguments, stdout=written)
    return written.getvalue()


def run_json(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return found


@pytest.fixture
def slug() -> str:
    return new_id()


def test_a_new_site_with_a_new_credential_lets_a_program_in(slug: str) -> None:
    assert slug in run("create_site", slug, "--name", "A name")
    written = run("create_credential", slug, "--name", "an agent")
    (secret,) = [word for word in written.split() if word.startswith("msk_")]
    site = Site.objects.get(slug=slug)
    assert site.name == "A name"
    with Tenant(site, secret).client() as client:
        assert client.get("/v1/conversations").status_code == 200


def test_a_secret_is_printed_once_and_never_stored(slug: str) -> None:
    run("create_site", slug)
    found = run_json("create_credential", slug)
    secret = found["secret"]
    assert len(secret) >= 4 + 43  # 256 bits in base64url behind the prefix
    credential = Credential.objects.get(pk=found["id"])
    assert secret not in repr(vars(credential))
    assert secret not in str(credential)
    assert secret not in run("revoke_credential", slug, "--all")


@pytest.mark.parametrize(
    "bad",
    ["", "Upper", "-leading", "under_score", "dotted.name", "a" * 64, "new\nline", "end\n", "\u00e9", "a b", "\0"],
)
def test_a_slug_that_does_not_fit_creates_nothing(bad: str) -> None:
    before = Site.objects.count()
    with pytest.raises(CommandError):
        run("create_site", bad)
    assert Site.objects.count() == before


def test_a_slug_is_taken_once(slug: str) -> None:
    run("create_site", slug)
    with pytest.raises(CommandError, match="already"):
        run("create_site", slug)


def test_a_credential_has_the_permissions_that_were_asked_for(slug: str) -> None:
    run("create_site", slug)
    assert tuple(run_json("create_credential", slug)["permissions"]) == DEFAULT_PERMISSIONS
    assert "manage" not in DEFAULT_PERMISSIONS
    found = run_json("create_credential", slug, "--permissions", "get", "list")
    assert found["permissions"] == ["get", "list"]
    assert tuple(run_json("create_credential", slug, "--permissions", *PERMISSIONS)["permissions"]) == PERMISSIONS
    with Tenant(Site.objects.get(slug=slug), found["secret"]).client() as client:
        response = client.post("/v1/conversations/abcdefgh/items", json={"items": [{}]})
        assert_problem(response, "permission_denied", permission="put")
    with pytest.raises(CommandError, match="admin"):
        run("create_credential", slug, "--permissions", "admin")


@pytest.mark.parametrize("command", ["create_credential", "revoke_credential --all"])
def test_an_unknown_site_is_an_error_that_names_it(slug: str, command: str) -> None:
    name, *options = command.split()
    with pytest.raises(CommandError, match=slug):
        run(name, slug, *options)


def test_a_credential_is_revoked_by_its_hint_its_number_or_with_all_others(slug: str) -> None:
    run("create_site", slug)
    made = [run_json("create_credential", slug) for _ in range(4)]
    assert run_json("revoke_credential", slug, "--hint", made[0]["hint"])["revoked"][0]["id"] == made[0]["id"]
    assert run_json("revoke_credential", slug, "--id", str(made[1]["id"]))["revoked"][0]["id"] == made[1]["id"]
    live = Credential.objects.for_site(Site.objects.get(slug=slug)).live()
    assert {credential.pk for credential in live} == {made[2]["id"], made[3]["id"]}
    assert len(run_json("revoke_credential", slug, "--all")["revoked"]) == 2
    assert not live.all().exists()
    # Run again, it has nothing to do.
    assert run_json("revoke_credential", slug, "--all")["revoked"] == []
    assert run_json("revoke_credential", slug, "--id", str(made[1]["id"]))["revoked"] == []


def test_what_does_not_name_one_credential_of_the_site_revokes_nothing(slug: str, tenant: Tenant) -> None:
    run("create_site", slug)
    own = run_json("create_credential", slug)
    foreign = Credential.objects.get(site=tenant.site)
    for which in (
        ["--id", str(foreign.pk)],
        ["--hint", foreign.hint],
        ["--hint", ""],
        ["--hint", "msk_"],
        ["--id", "0"],
    ):
        with pytest.raises(CommandError):
            run("revoke_credential", slug, *which)
    with pytest.raises(CommandError):
        run("revoke_credential", slug)
    Credential.objects.filter(pk=run_json("create_credential", slug)["id"]).update(hint=own["hint"])
    with pytest.raises(CommandError, match="--id"):
        run("revoke_credential", slug, "--hint", own["hint"])
    assert Credential.objects.filter(revoked_at=None, site__slug=slug).count() == 2
    assert Credential.objects.get(pk=foreign.pk).revoked_at is None


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(slug: str) -> None:
    assert run_json("create_site", slug, "--dry-run")["created"] is False
    assert not Site.objects.filter(slug=slug).exists()
    run("create_site", slug)
    assert "secret" not in run_json("create_credential", slug, "--dry-run")
    assert not Credential.objects.filter(site__slug=slug).exists()
    made = run_json("create_credential", slug)
    found = run_json("revoke_credential", slug, "--all", "--dry-run")
    assert (found["revoked"], [entry["id"] for entry in found["would_revoke"]]) == ([], [made["id"]])
    assert "would be revoked" in run("revoke_credential", slug, "--hint", made["hint"], "--dry-run")
    assert Credential.objects.get(pk=made["id"]).revoked_at is None


def test_a_failed_command_ends_with_status_1_and_one_line(slug: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "create_credential", slug],
        cwd=PROJECT,
        env={**os.environ, "DATABASE_URL": database_url()},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert slug in done.stderr
    assert "Traceback" not in done.stderr
