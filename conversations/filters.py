"""The filters of lists. The struct of the call has validated every value; these only apply it."""

from django_filters import FilterSet, IsoDateTimeFilter

from conversations.models import Conversation


class ConversationFilter(FilterSet):
    """Filters of ``GET /v1/conversations``: both bounds are exclusive."""

    appended_after = IsoDateTimeFilter(field_name="last_appended_at", lookup_expr="gt")
    appended_before = IsoDateTimeFilter(field_name="last_appended_at", lookup_expr="lt")

    class Meta:
        model = Conversation
        fields = ("appended_after", "appended_before")
