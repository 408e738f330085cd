"""Django's settings, from the environment alone (see ``environment.py`` for every variable)."""

import logging
import secrets
from typing import Any

import dj_database_url
import django_stubs_ext

from memory_site.database import embedded, state
from memory_site.environment import PROJECT, VERSION, read, split

django_stubs_ext.monkeypatch()

ENVIRONMENT = read()
STATE = state.state_folder()

DEBUG = ENVIRONMENT.debug
ALLOWED_HOSTS = split(ENVIRONMENT.allowed_hosts)
CSRF_TRUSTED_ORIGINS = split(ENVIRONMENT.allowed_origins)
# Commands that need no signature (migrate, check) run without a key file; what serves makes one first.
SECRET_KEY = ENVIRONMENT.secret_key or state.read_secret_key(STATE) or secrets.token_urlsafe(50)

INSTALLED_APPS = [
    "memory_site.admin_config.ConsoleConfig",
    "memory_site.admin_config.OperatorsConfig",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "memory_site",
    "memory_site.sites",
    "conversations",
    "checkpoints",
]

# The API passes through the first of these alone: each of the others is for the pages that people look at
# and steps aside elsewhere (Django's own stack costs every request about 175 µs).
MIDDLEWARE = [
    "memory_site.wire.edge.Edge",
    "memory_site.console.Security",
    "memory_site.console.StaticFiles",
    "memory_site.console.ContentSecurityPolicy",
    "memory_site.console.Sessions",
    "memory_site.console.Common",
    "memory_site.console.CsrfView",
    "memory_site.console.Authentication",
    "memory_site.console.Messages",
    "memory_site.console.ClickjackingProtection",
]
# These look for Django's own three by their names; memory_site.console has the same, for the pages alone.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]

ROOT_URLCONF = "memory_site.urls"
WSGI_APPLICATION = "memory_site.wsgi.application"
APPEND_SLASH = True

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PROJECT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# -- The database ------------------------------------------------------------------------------------------

# Prepared statements through a pooler in transaction mode can run another client's statement: they are used
# only where nothing stands between.
DATABASE_DIRECT = ENVIRONMENT.database_url is None or ENVIRONMENT.database_direct
_database: dict[str, Any] = (
    dict(dj_database_url.parse(ENVIRONMENT.database_url))
    if ENVIRONMENT.database_url
    else embedded.django_database(STATE)
)
DATABASES = {
    "default": {
        **_database,
        "ENGINE": "memory_site.database.postgresql",
        "ATOMIC_REQUESTS": False,
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": True,
        "OPTIONS": {
            **_database.get("OPTIONS", {}),
            "application_name": "memory-site",
            "connect_timeout": 5,
            "server_side_binding": DATABASE_DIRECT,
            "prepare_threshold": 0 if DATABASE_DIRECT else None,
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# -- Limits, in UTF-8 bytes of the JSON text ---------------------------------------------------------------

MAX_BODY_BYTES = ENVIRONMENT.max_body_bytes
MAX_MCP_BODY_BYTES = ENVIRONMENT.max_mcp_body_bytes
MAX_RESPONSE_BYTES = ENVIRONMENT.max_response_bytes
MAX_MCP_RESPONSE_BYTES = ENVIRONMENT.max_mcp_response_bytes
MAX_BUNDLE_BYTES = ENVIRONMENT.max_bundle_bytes
# The edge refuses by the announced length before a byte is read; Django's own limit would answer in HTML.
DATA_UPLOAD_MAX_MEMORY_SIZE = max(MAX_BODY_BYTES, MAX_MCP_BODY_BYTES)

# -- The API -----------------------------------------------------------------------------------------------

TRUSTED_PROXIES = ENVIRONMENT.trusted_proxies
METRICS_TOKEN = ENVIRONMENT.metrics_token
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["memory_site.sites.basic.BasicAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["memory_site.sites.basic.HasPermission"],
    "DEFAULT_PARSER_CLASSES": ["memory_site.wire.rest.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["memory_site.wire.rest.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "memory_site.wire.openapi.OperationSchema",
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "memory_site.wire.rest.problem_response",
    "UNAUTHENTICATED_USER": None,
    "NUM_PROXIES": TRUSTED_PROXIES,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Memory Site",
    "DESCRIPTION": "The durable memory of AI agents.",
    "VERSION": VERSION,
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": [],
    "SCHEMA_PATH_PREFIX": r"/v1",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SORT_OPERATION_PARAMETERS": False,
    # Its own hook takes enums to be Django's choices; the structs' schemas are whole as they are.
    "POSTPROCESSING_HOOKS": [],
}

# -- People ------------------------------------------------------------------------------------------------

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "admin:login"
SESSION_COOKIE_AGE = 12 * 60 * 60
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
# Calls of the API from the same browser do not carry them.
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = "/admin/"
CSRF_FAILURE_VIEW = "memory_site.error_pages.csrf_failure"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}
if ENVIRONMENT.https:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_HSTS_SECONDS = 31_536_000
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True

STATIC_URL = "/static/"
STATIC_ROOT = None
STATICFILES_DIRS = [PROJECT / "memory_site" / "static"]
WHITENOISE_USE_FINDERS = True

LANGUAGE_CODE = "en-us"
USE_I18N = False
FORMAT_MODULE_PATH = "memory_site.formats"
USE_TZ = True
TIME_ZONE = "UTC"

# -- Logs: one JSON object a line on standard error --------------------------------------------------------

# What no line says is not looked up for each of them.
logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
logging._srcfile = None  # the documented way to say so
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": "pythonjsonlogger.msgspec.MsgspecFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s %(message)s",
            "rename_fields": {"asctime": "time", "levelname": "level", "name": "logger"},
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "memory_site": {"level": ENVIRONMENT.log_level},
        # Its records carry the arguments of a call.
        "django_mcpz.calls": {"level": "CRITICAL", "propagate": False},
        # It names a 4xx a warning, without our words; the request line says it.
        "django.request": {"level": "CRITICAL"},
    },
}
