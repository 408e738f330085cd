"""The filters of lists. The struct of the call has validated every value; these only apply it."""

from typing import Any

from django_filters import Filter, FilterSet, IsoDateTimeFilter

from checkpoints.models import Record, RecordQuerySet


class RecordFilter(FilterSet):
    """Filters of the list of records: of tags and topics all must match, both bounds of time are exclusive."""

    prefix = Filter(method="with_prefix")
    kind = Filter(field_name="kind")
    tags = Filter(field_name="tags", lookup_expr="contains")
    topics = Filter(field_name="topics", lookup_expr="contains")
    event_after = IsoDateTimeFilter(field_name="event_time", lookup_expr="gt")
    event_before = IsoDateTimeFilter(field_name="event_time", lookup_expr="lt")

    class Meta:
        model = Record
        fields = ("prefix", "kind", "tags", "topics", "event_after", "event_before")

    def with_prefix(self, queryset: RecordQuerySet, _: str, prefix: Any) -> RecordQuerySet:
        return queryset.with_prefix(prefix)
