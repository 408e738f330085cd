"""What operators look at that no client asks for: the sessions of a namespace, and the chain of one session."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from checkpoints.models import Checkpoint, Namespace, Session

PAGE = 50


@dataclass(frozen=True, slots=True)
class Sessions:
    """A page of a namespace's sessions, by agent and session."""

    sessions: list[Session]
    next: Session | None
    """The last of the page, when others follow."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A page of a session's checkpoints, the newest first; of a deleted one its place is left."""

    checkpoints: list[Checkpoint]
    latest: int
    next: int | None
    """The revision that the next page comes before."""


def read_sessions(namespace: Namespace, *, after: tuple[str, str] | None = None) -> Sessions:
    """Return the sessions behind a position, read from the primary key: any page costs the same."""
    found = Session.objects.filter(namespace=namespace).order_by("agent_id", "session_id")
    if after is not None:
        agent_id, session_id = after
        found = found.filter(agent_id__gte=agent_id).filter(Q(agent_id__gt=agent_id) | Q(session_id__gt=session_id))
    page = list(found[: PAGE + 1])
    return Sessions(page[:PAGE], page[PAGE - 1] if len(page) > PAGE else None)


def read_chain(namespace: Namespace, agent_id: str, session_id: str, *, before: int | None = None) -> Chain | None:
    """Return a session's checkpoints before a revision, without their bundles; None for an unknown session."""
    of_session: dict[str, Any] = {"namespace": namespace, "agent_id": agent_id, "session_id": session_id}
    session = Session.objects.filter(**of_session).first()
    if session is None:
        return None
    found = Checkpoint.objects.filter(**of_session).order_by("-revision")
    if before is not None:
        found = found.filter(revision__lt=before)
    page = list(found.only("namespace_id", "checkpoint_id", "revision", "created_at", "deleted_at")[: PAGE + 1])
    return Chain(page[:PAGE], session.revision, page[PAGE - 1].revision if len(page) > PAGE else None)
