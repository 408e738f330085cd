"""How Django is told of the console: this replaces the entries of the admin and of its users in INSTALLED_APPS.

Apart from ``apps.py``, where Django would take the first of these for the project's own.
"""

from django.contrib.admin.apps import AdminConfig
from django.contrib.auth.apps import AuthConfig


class ConsoleConfig(AdminConfig):
    verbose_name = "Audit"
    default_site = "memory_site.overview.Console"


class OperatorsConfig(AuthConfig):
    verbose_name = "Operators"
