from django.apps import AppConfig


class SitesConfig(AppConfig):
    name = "memory_site.sites"
    label = "sites"
    verbose_name = "Access"
