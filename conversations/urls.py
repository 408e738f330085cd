"""The addresses of conversations, under ``/v1/``."""

from rest_framework.routers import SimpleRouter

from conversations.views import ConversationViewSet

router = SimpleRouter(trailing_slash=False, use_regex_path=False)
router.register("conversations", ConversationViewSet, basename="conversations")

urlpatterns = router.urls
