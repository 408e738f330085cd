"""The README's own code, run as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

from memory_site.sites.models import Credential, Site
from tests.conftest import Server

README = Path(__file__).parent.parent / "README.md"


def test_the_readmes_python_stores_and_reads_back(server: Server) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    site, _ = Site.objects.get_or_create(slug="default", defaults={"name": "As the first run makes it"})
    _, secret = Credential.issue(site=site)
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MEMORY_URL": server.address, "MEMORY_SECRET": secret},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "{'first_seq': 0, 'last_seq': 1, 'generation': 0}" in run.stdout
    assert "{'role': 'assistant', 'content': 'Hi!'}" in run.stdout


def test_every_file_that_the_documents_name_exists() -> None:
    root = README.parent
    for document in [*root.glob("*.md"), *root.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} names {target}"
