"""A whole conversation as JSON lines, in memory that does not grow with it."""

from collections.abc import Iterator
from dataclasses import dataclass

from conversations.models import Conversation
from memory_site.database import statements
from memory_site.database.expressions import RFC3339_TEXT

WINDOW = 50  # items that are in memory together: 12.5 MiB at the most

COUNT = """
SELECT count(*) FROM item WHERE conversation_id = %(id)s::uuid AND generation = %(generation)s::int
AND seq >= %(start)s::bigint AND seq < %(end)s::bigint
"""
READ_WINDOW = f"""
SELECT seq, {RFC3339_TEXT.format("recorded_at")}, payload FROM item
WHERE conversation_id = %(id)s::uuid AND generation = %(generation)s::int
AND seq >= %(start)s::bigint AND seq < %(end)s::bigint ORDER BY seq
"""  # noqa: S608  # a constant of ours
# Raw line breaks stand between the tokens of JSON, never in a string: a blank there means the same.
ONE_LINE = str.maketrans("\r\n", "  ")


class Changed(Exception):
    """Items went away while they were read (a reset, say): the export is broken off, not quietly shorter."""


@dataclass(frozen=True, slots=True)
class Export:
    """What will be exported: fixed beforehand, whatever is appended meanwhile."""

    conversation: Conversation
    items: int

    @property
    def missing(self) -> int:
        """How many numbers of the range have no item; it is 0, or the conversation is corrupted."""
        return self.conversation.stored_items - self.items

    def lines(self) -> Iterator[bytes]:
        """Yield the lines, several at a time: ``{"seq", "recorded_at", "payload"}``, the payload's text as stored.

        Only line breaks between its tokens become blanks. Raises ``Changed`` at the end if items went away.
        """
        conversation = self.conversation
        found = 0
        for start in range(conversation.first_seq, conversation.next_seq, WINDOW):
            rows = statements.read(READ_WINDOW, window(conversation, start, min(start + WINDOW, conversation.next_seq)))
            found += len(rows)
            yield "".join(
                f'{{"seq":{seq},"recorded_at":"{recorded_at}","payload":{payload.translate(ONE_LINE)}}}\n'
                for seq, recorded_at, payload in rows
            ).encode()
        if found != self.items:
            raise Changed


def plan_export(conversation: Conversation) -> Export:
    """Return the export of a conversation as it is now, having counted its items by their index."""
    parameters = window(conversation, conversation.first_seq, conversation.next_seq)
    ((items,),) = statements.read(COUNT, parameters)
    return Export(conversation, items)


def window(conversation: Conversation, start: int, end: int) -> dict[str, object]:
    return {"id": conversation.pk, "generation": conversation.generation, "start": start, "end": end}
