"""Conversations and their items: one durable, gapless log per conversation id of a site."""

import uuid
from datetime import datetime
from typing import ClassVar, Self

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q

from memory_site.sites.models import Site


def conversation_key(site: Site, conversation_id: str) -> uuid.UUID:
    """Return the primary key of a conversation: a name-based UUID (RFC 9562, version 5), found without a look-up.

    It makes a second unique index on (site, conversation id) needless, and two first appends at once safe:
    ``ON CONFLICT`` arbitrates a single index.
    """
    return uuid.uuid5(site.id, conversation_id)


class ConversationQuerySet(models.QuerySet["Conversation"]):
    def for_site(self, site: Site) -> Self:
        """Limit to one site's conversations."""
        return self.filter(site=site)

    def listed(self) -> Self:
        """Limit to those with an item, most recently appended first, ties by id: what the list promises."""
        return self.filter(last_appended_at__isnull=False, first_seq__lt=F("next_seq")).order_by(
            "-last_appended_at", "conversation_id"
        )

    def after(self, last_appended_at: datetime, conversation_id: str) -> Self:
        """Limit to what follows a position in the order of ``listed`` (the first condition bounds the index)."""
        return self.filter(last_appended_at__lte=last_appended_at).filter(
            Q(last_appended_at__lt=last_appended_at) | Q(conversation_id__gt=conversation_id)
        )


class Conversation(models.Model):
    """One log. The row is what writers lock: it holds the next sequence number and nothing that changes besides."""

    id = models.UUIDField(primary_key=True, editable=False)
    # The index that the list reads begins with the site; one more would be paid by every append.
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="conversations", db_index=False)
    conversation_id = models.CharField(max_length=64, db_collation="C")
    generation = models.IntegerField(default=0)
    first_seq = models.BigIntegerField(default=0)
    next_seq = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(null=True)
    last_appended_at = models.DateTimeField(null=True)

    objects = ConversationQuerySet.as_manager()

    class Meta:
        db_table = "conversation"
        # To look at pages is one thing, to take a whole conversation away another.
        permissions = (("export_conversation", "Can export conversations"),)
        constraints: ClassVar[list[models.BaseConstraint]] = [
            # A pruner that overtakes the writers, or a counter that went back, would hide or reuse numbers.
            models.CheckConstraint(
                name="conversation_seq_in_order",
                condition=Q(first_seq__gte=0, generation__gte=0, next_seq__gte=F("first_seq")),
            ),
            # What was appended to has both times, what was not has neither: the list orders by the second.
            models.CheckConstraint(
                name="conversation_times_together",
                condition=Q(created_at__isnull=True, last_appended_at__isnull=True)
                | Q(created_at__isnull=False, last_appended_at__isnull=False),
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            # GET /v1/conversations: a site's conversations by recency, ties by id, from a cursor's position.
            models.Index(
                F("site"),
                F("last_appended_at").desc(),
                F("conversation_id"),
                name="conversation_by_recency",
                condition=Q(last_appended_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.conversation_id

    @property
    def stored_items(self) -> int:
        """How many items of the current generation are kept."""
        return self.next_seq - self.first_seq


class Item(models.Model):
    """One record of a log: never changed after its append, removed only by retention, reset or delete.

    The payload is the JSON text as it was sent. It is text, not jsonb: that would drop the order of keys, the
    spelling of numbers and duplicate keys, and refuse ``\\u0000``.
    """

    pk = models.CompositePrimaryKey("conversation_id", "generation", "seq")
    # No constraint in the database: its triggers cost a third of the work of a batch. The append is its only writer.
    conversation = models.ForeignKey(
        Conversation, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    generation = models.IntegerField()
    seq = models.BigIntegerField()
    recorded_at = models.DateTimeField()
    payload = models.TextField()

    class Meta:
        db_table = "item"
        indexes: ClassVar[list[models.Index]] = [
            # The console's count of items by hour. It notes the times of stretches of the table, not of items: what an
            # append pays for it could not be measured.
            BrinIndex(F("recorded_at"), name="item_by_time", autosummarize=True),
        ]

    def __str__(self) -> str:
        return f"item {self.seq}"


class Receipt(models.Model):
    """The first answer to an Idempotency-Key, committed with what it wrote.

    Key and content are kept as digests: a receipt holds none of the client's text.
    """

    pk = models.CompositePrimaryKey("conversation_id", "key_digest")
    conversation = models.ForeignKey(
        Conversation, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    key_digest = models.BinaryField(max_length=32)
    content_digest = models.BinaryField(max_length=32)
    generation = models.IntegerField()
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField()
    recorded_at = models.DateTimeField()

    class Meta:
        db_table = "receipt"

    def __str__(self) -> str:
        return f"receipt of {self.first_seq} to {self.last_seq}"
