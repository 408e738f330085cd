"""The addresses of records and checkpoints, under ``/v1/``."""

from django.urls import path, register_converter

from checkpoints.views import CheckpointViewSet, RecordViewSet, SessionViewSet


class KeyConverter:
    """The rest of an address, whatever it is: the call says what of it is a key, and why not."""

    regex = r"(?s:.*)"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(KeyConverter, "key")

urlpatterns = [
    path("namespaces/<str:namespace>/records", RecordViewSet.as_view({"get": "list"}, basename="records")),
    path(
        "namespaces/<str:namespace>/records/<key:key>",
        RecordViewSet.as_view({"put": "update", "get": "retrieve", "delete": "destroy"}, basename="records"),
    ),
    path(
        "namespaces/<str:namespace>/checkpoints", CheckpointViewSet.as_view({"post": "create"}, basename="checkpoints")
    ),
    path(
        "namespaces/<str:namespace>/checkpoints/<str:checkpoint_id>",
        CheckpointViewSet.as_view({"get": "retrieve", "delete": "destroy"}, basename="checkpoints"),
    ),
    path(
        "namespaces/<str:namespace>/sessions/<str:agent_id>/<str:session_id>/latest",
        SessionViewSet.as_view({"get": "latest"}, basename="sessions"),
    ),
]
