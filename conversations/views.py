"""The REST door of conversations: which call is at which address. The rules are in the operations."""

from django.conf import settings

from conversations import contracts, log
from memory_site.sites.models import Site
from memory_site.wire.operation import OperationViewSet, operation
from memory_site.wire.structs import Written

IN_PATH = ("conversation_id",)


class ConversationViewSet(OperationViewSet):
    """``/v1/conversations``"""

    lookup_url_kwarg = "conversation_id"
    lookup_value_converter = "str"

    @operation(
        "get",
        takes=contracts.ListConversations,
        returns=contracts.Conversations,
        permission="list",
        problems=("invalid_cursor",),
    )
    def list(self, site: Site, call: contracts.ListConversations) -> contracts.Conversations:
        """List the site's conversations that have an item, most recently appended first."""
        return log.list_conversations(site, call)

    @operation(
        "post",
        "items",
        takes=contracts.AppendItems,
        returns=contracts.Appended,
        permission="put",
        path=IN_PATH,
        status=201,
        problems=(
            "invalid_conversation_id",
            "empty_batch",
            "too_many_items",
            "invalid_item",
            "payload_too_large",
            "batch_too_large",
            "conversation_full",
            "idempotency_key_reused",
            "seq_conflict",
            "stale_generation",
        ),
    )
    def append(self, site: Site, call: contracts.AppendItems) -> Written[contracts.Appended]:
        """Append a batch of items: all of it or nothing, in order, on disk when it is answered."""
        return log.append(site, call)

    @operation(
        "get",
        "recall",
        takes=contracts.RecallItems,
        returns=contracts.Items,
        permission="get",
        path=IN_PATH,
        problems=("invalid_conversation_id", "response_too_large", "corrupted"),
    )
    def recall(self, site: Site, call: contracts.RecallItems) -> contracts.Items:
        """Read the last items, oldest first."""
        return log.recall(site, call, max_bytes=settings.MAX_RESPONSE_BYTES)

    @operation(
        "get",
        "replay",
        takes=contracts.ReplayItems,
        returns=contracts.Items,
        permission="get",
        path=IN_PATH,
        problems=("invalid_conversation_id", "response_too_large", "corrupted"),
    )
    def replay(self, site: Site, call: contracts.ReplayItems) -> contracts.Items:
        """Read items from a sequence number on; a page shorter than `limit` is the last."""
        return log.replay(site, call, max_bytes=settings.MAX_RESPONSE_BYTES)
