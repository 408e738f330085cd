"""Every address of the server."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from memory_site import health, metrics, schema

urlpatterns = [
    path("v1/", include("conversations.urls")),
    path("v1/", include("checkpoints.urls")),
    path("", include("memory_site.mcp")),
    path("v1/schema", schema.schema, name="schema"),
    path("v1/schema/page", schema.page, name="schema-page"),
    path("metrics", metrics.metrics, name="metrics"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
]

handler400 = "memory_site.error_pages.bad_request"
handler403 = "memory_site.error_pages.permission_denied"
handler404 = "memory_site.error_pages.not_found"
handler500 = "memory_site.error_pages.server_error"
