# What a person types. It needs make and a Python from 3.11 to 3.13 with venv, and nothing else:
#
#   make up                     the whole server (HOST=, PORT=, WORKERS=, or ARGS="--threads 8")
#   make test                   the whole suite against real PostgreSQL (ARGS="-k append" for a part)
#   make lint                   style, types, import contracts, migrations, deployment check, OpenAPI
#   make bench                  the benchmark; make bench-peers, beside what people use today
#   make fuzz, make conformance longer runs of their own
#   make soak                   kill everything for minutes (SOAK_SECONDS=120 for each kind of fault), and check the history
#
# PYTHON=python3.13 uses that Python, in a virtual environment of its own.

PYTHON ?= python3
VENV = .venv$(if $(filter-out python3 python,$(notdir $(PYTHON))),-$(notdir $(PYTHON)))
PY = $(VENV)/bin/python
PIP = PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 $(PY) -m pip install --quiet --require-hashes

# From make's command line only: some shells export HOST as this machine's name, and listening there opens it up.
given = $(if $(filter command,$(firstword $(origin $(1)))),--$(2) $($(1)))
UP_OPTIONS = $(call given,HOST,host) $(call given,PORT,port) $(call given,WORKERS,workers)
TEST_PROCESSES ?= 2

.PHONY: up test lint bench bench-peers fuzz conformance soak

up: $(VENV)/.installed
	$(PY) manage.py up $(UP_OPTIONS) $(ARGS)

test: $(VENV)/.installed-dev
	$(PY) -m pytest -p tests.postgres_plugin -n $(TEST_PROCESSES) $(ARGS)

# A deployment's settings, so that the deployment check sees what production sees.
lint: export MEMORY_SITE_HTTPS = true
lint: export MEMORY_SITE_ALLOWED_HOSTS = memory.example.com
lint: $(VENV)/.installed-dev
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy .
	$(VENV)/bin/lint-imports
	export MEMORY_SITE_SECRET_KEY=$$($(PY) -c 'import secrets; print(secrets.token_urlsafe(50))') && \
	$(PY) -W 'ignore:Got an error checking a consistent migration history' manage.py makemigrations --check --dry-run && \
	$(PY) manage.py check --deploy --fail-level WARNING && \
	$(PY) manage.py spectacular --validate --fail-on-warn --file /dev/null

bench: $(VENV)/.installed-dev
	$(PY) -m bench $(ARGS)

# The peers have an environment of their own (PEERS_PYTHON=python3.12: one of them needs that); once it is there,
# make bench measures them too.
PEERS_PYTHON ?= $(PYTHON)
bench-peers: .venv-peers/.installed bench

.venv-peers/.installed: bench/requirements-peers.lock
	test -x .venv-peers/bin/python || $(PEERS_PYTHON) -m venv .venv-peers
	PIP_ROOT_USER_ACTION=ignore .venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r bench/requirements-peers.lock
	@touch $@

fuzz: $(VENV)/.installed-dev
	MEMORY_SITE_TEST_FUZZ_EXAMPLES=1000 $(PY) -m pytest -p tests.postgres_plugin --timeout 0 tests/wire/test_fuzz.py $(ARGS)

conformance: $(VENV)/.installed-dev .venv-conformance/.installed
	MEMORY_SITE_TEST_CONFORMANCE=$(abspath .venv-conformance) $(PY) -m pytest -p tests.postgres_plugin --timeout 0 -s tests/conformance $(ARGS)

SOAK_SECONDS ?= 120
soak: $(VENV)/.installed-dev
	MEMORY_SITE_TEST_SECONDS=$(SOAK_SECONDS) $(PY) -m pytest -p tests.postgres_plugin --timeout 0 tests/history $(ARGS)

# The official suite of MCP, on a Node of its own.
.venv-conformance/.installed: tests/conformance/requirements.lock
	$(PYTHON) -m venv .venv-conformance
	.venv-conformance/bin/pip install --quiet --require-hashes -r tests/conformance/requirements.lock
	PATH=$(abspath .venv-conformance)/bin:$$PATH npm install --prefix .venv-conformance --no-fund --no-audit --no-package-lock --silent @modelcontextprotocol/conformance@0.2.0-alpha.12
	@touch $@

# A stamp says that the lock file it is newer than has been installed: a second run takes no time.
$(VENV)/.installed: requirements.lock | $(PY)
	$(PIP) -r requirements.lock
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	$(PIP) -r requirements-dev.lock
	@touch $@

$(PY):
	@$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info < (3, 14) or sys.exit("Memory Site needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is %d.%d. Name another: make PYTHON=python3.13" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
