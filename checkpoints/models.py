"""Namespaces, the records in them, and the checkpoints of agents' sessions."""

import uuid
from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from memory_site.sites.models import Site


def namespace_key(site: Site, namespace: str) -> uuid.UUID:
    """Return the primary key of a namespace: a name-based UUID (RFC 9562, version 5), found without a look-up.

    The keys of everything in a namespace begin with it, so that its rows sit together, can live on one shard, and
    need no second unique index beside the one that ``ON CONFLICT`` arbitrates.
    """
    return uuid.uuid5(site.id, namespace)


class NamespaceQuerySet(models.QuerySet["Namespace"]):
    def for_site(self, site: Site) -> Self:
        """Limit to one site's namespaces."""
        return self.filter(site=site)


class Namespace(models.Model):
    """A named set of records and checkpoints. Whoever writes a record holds the row shared, whoever prunes alone."""

    id = models.UUIDField(primary_key=True, editable=False)
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="namespaces", db_index=False)
    name = models.CharField(max_length=64, db_collation="C")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # Above every revision of a row that has been removed: a key that comes back goes on from here.
    revision_floor = models.BigIntegerField(default=0, editable=False)
    default_ttl = models.IntegerField(null=True, blank=True, help_text="Seconds, for records put without one.")
    max_records = models.IntegerField(null=True, blank=True, help_text="The oldest written goes when a put passes it.")
    first_checkpoint_at = models.DateTimeField(null=True, editable=False)

    objects = NamespaceQuerySet.as_manager()

    class Meta:
        db_table = "namespace"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            # A first checkpoint and a policy set at the same moment: whichever comes second is refused. A checkpoint
            # whose references vanish by themselves could not be restored as it was saved.
            models.CheckConstraint(
                name="namespace_with_checkpoints_is_durable",
                condition=Q(first_checkpoint_at__isnull=True) | Q(default_ttl__isnull=True, max_records__isnull=True),
            ),
            # A policy of nothing would remove every record as it is put.
            models.CheckConstraint(
                name="namespace_policy_in_bounds",
                condition=(Q(default_ttl__isnull=True) | Q(default_ttl__gte=1))
                & (Q(max_records__isnull=True) | Q(max_records__gte=1)),
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            # The operators' pages: a site's namespaces by name.
            models.Index(F("site"), F("name"), name="namespace_by_name"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def durable(self) -> bool:
        """Whether records stay until they are deleted, unless their own put gave them a lifetime."""
        return self.default_ttl is None and self.max_records is None


class RecordQuerySet(models.QuerySet["Record"]):
    def in_namespace(self, site: Site, namespace: str) -> Self:
        """Limit to one namespace of one site."""
        return self.filter(namespace_id=namespace_key(site, namespace))

    def live(self) -> Self:
        """Leave out what was deleted and what has expired, pruned or not."""
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()), deleted_at__isnull=True)

    def with_prefix(self, prefix: str) -> Self:
        """Limit to keys that begin so: a range of the primary key (a LIKE of an unknown pattern is not one)."""
        end = after_prefix(prefix)
        return self.filter(key__gte=prefix) if end is None else self.filter(key__gte=prefix, key__lt=end)


def after_prefix(prefix: str) -> str | None:
    """Return the first text behind all that begin with the prefix, in the order of bytes; None if there is none."""
    while prefix:
        code = ord(prefix[-1]) + 1
        if code <= 0x10FFFF:
            # UTF-8 sorts as code points do, and the surrogates are none.
            return prefix[:-1] + chr(0xE000 if code == 0xD800 else code)
        prefix = prefix[:-1]
    return None


class Record(models.Model):
    """One JSON value under a key, or the tombstone of one: the row keeps the revision that the next put goes on from.

    The value is the JSON text as it was sent. What lists filter by are columns of their own, filled from it.
    """

    pk = models.CompositePrimaryKey("namespace_id", "key")
    # No constraint in the database: whoever inserts has locked the namespace's row.
    namespace = models.ForeignKey(
        Namespace, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    key = models.CharField(max_length=512, db_collation="C")
    revision = models.BigIntegerField()
    # The revision that its present life began with: a put has created the record if it gave this one.
    first_revision = models.BigIntegerField()
    value = models.TextField(null=True)  # noqa: DJ001  # a tombstone has none, and "" is no JSON
    size = models.IntegerField()
    updated_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    kind = models.TextField(null=True, db_collation="C")  # noqa: DJ001  # "" is a kind
    tags = ArrayField(models.TextField(), null=True)
    topics = ArrayField(models.TextField(), null=True)
    event_time = models.DateTimeField(null=True)

    objects = RecordQuerySet.as_manager()

    class Meta:
        db_table = "record"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            # A revision that went back would let an old If-Match overwrite a newer value.
            models.CheckConstraint(
                name="record_revisions_in_order", condition=Q(first_revision__gte=1, revision__gte=F("first_revision"))
            ),
            # A put and a delete of one key at the same moment leave a value or a tombstone, never half of each.
            models.CheckConstraint(
                name="record_has_value_or_is_deleted",
                condition=Q(value__isnull=False, deleted_at__isnull=True)
                | Q(value__isnull=True, deleted_at__isnull=False, expires_at__isnull=True),
            ),
        ]
        # Not one of these has the revision or the time of the last write: a put of the same structure changes none.
        indexes: ClassVar[list[models.Index]] = [
            # GET records?kind=: by key, like the list itself.
            models.Index(fields=["namespace", "kind", "key"], name="record_by_kind", condition=Q(kind__isnull=False)),
            # GET records?tag= and ?topic=: containment.
            GinIndex(fields=["tags"], name="record_by_tags", condition=Q(tags__isnull=False)),
            GinIndex(fields=["topics"], name="record_by_topics", condition=Q(topics__isnull=False)),
            # prune_records: what has expired, and tombstones, oldest first.
            models.Index(fields=["expires_at"], name="record_by_expiry", condition=Q(expires_at__isnull=False)),
            models.Index(fields=["deleted_at"], name="record_by_deletion", condition=Q(deleted_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.key


class Session(models.Model):
    """The latest checkpoint of one session of an agent: what a compare-and-set compares, and what it sets."""

    pk = models.CompositePrimaryKey("namespace_id", "agent_id", "session_id")
    namespace = models.ForeignKey(
        Namespace, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    agent_id = models.CharField(max_length=128, db_collation="C")
    session_id = models.CharField(max_length=128, db_collation="C")
    revision = models.BigIntegerField()
    checkpoint_id = models.CharField(max_length=64, db_collation="C")
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "checkpoint_session"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(name="checkpoint_session_revision_counts", condition=Q(revision__gte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.agent_id}/{self.session_id}"


class CheckpointQuerySet(models.QuerySet["Checkpoint"]):
    def in_namespace(self, site: Site, namespace: str) -> Self:
        """Limit to one namespace of one site."""
        return self.filter(namespace_id=namespace_key(site, namespace))


class Checkpoint(models.Model):
    """One immutable bundle, or the tombstone of one: its id is never free again."""

    pk = models.CompositePrimaryKey("namespace_id", "checkpoint_id")
    namespace = models.ForeignKey(
        Namespace, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    checkpoint_id = models.CharField(max_length=64, db_collation="C")
    agent_id = models.CharField(max_length=128, db_collation="C")
    session_id = models.CharField(max_length=128, db_collation="C")
    revision = models.BigIntegerField()
    created_at = models.DateTimeField()
    # Tells a retry from another bundle under the same id.
    digest = models.BinaryField(max_length=32)
    capsule = models.TextField(null=True)  # noqa: DJ001  # a tombstone has none
    reference_list = models.TextField(null=True)  # noqa: DJ001  # likewise; a JSON array, as the contracts have it
    details = models.TextField(null=True)  # noqa: DJ001  # likewise
    deleted_at = models.DateTimeField(null=True)

    objects = CheckpointQuerySet.as_manager()

    class Meta:
        db_table = "checkpoint"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            # The net under the pointer: two savers of one session's next revision cannot both be stored. Also the
            # index of a session's chain.
            models.UniqueConstraint(
                fields=["namespace", "agent_id", "session_id", "revision"], name="checkpoint_chain_is_a_line"
            ),
            # A delete that overtakes a reader leaves a whole bundle or none of it.
            models.CheckConstraint(
                name="checkpoint_is_whole_or_deleted",
                condition=Q(
                    deleted_at__isnull=True, capsule__isnull=False, reference_list__isnull=False, details__isnull=False
                )
                | Q(deleted_at__isnull=False, capsule__isnull=True, reference_list__isnull=True, details__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return self.checkpoint_id
