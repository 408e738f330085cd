"""What goes over the wire for checkpoints: the bundle, its capsule, and what restore gives back of them."""

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from checkpoints.contracts import Key, NamespaceName, Revision, Time, check, fault_of_key, fault_of_namespace
from memory_site.problems import Problem, pointer
from memory_site.wire.structs import MAX_INT64, problem_of

MAX_CAPSULE_BYTES = 16 * 1024  # UTF-8 bytes of its JSON text, as sent
MAX_BUNDLE_BYTES = 1024 * 1024  # of the largest answer that a restore of it can be
MAX_REFERENCES = 64
MIN_BUDGET = 512  # bytes
DEFAULT_BUDGET = 32 * 1024

CHECKPOINT_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
PART_ID = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")

CheckpointId = Annotated[
    str,
    Meta(
        description="Chosen by the client and never free again in its namespace: 8 to 64 letters, digits, `_` and `-`.",
        examples=["cp-7f3k2m9q"],
        extra_json_schema={"minLength": 8, "maxLength": 64, "pattern": "^[A-Za-z0-9_-]{8,64}$"},
    ),
]
AgentId = Annotated[
    str,
    Meta(
        description="1 to 128 letters, digits and `_.:@-`.",
        examples=["coder"],
        extra_json_schema={"minLength": 1, "maxLength": 128, "pattern": r"^(?!\.\.?$)[A-Za-z0-9_.:@-]{1,128}$"},
    ),
]
SessionId = Annotated[
    str,
    Meta(
        description="1 to 128 letters, digits and `_.:@-`.",
        examples=["2026-01-31-refactor"],
        extra_json_schema={"minLength": 1, "maxLength": 128, "pattern": r"^(?!\.\.?$)[A-Za-z0-9_.:@-]{1,128}$"},
    ),
]
Budget = Annotated[
    int,
    Meta(
        ge=MIN_BUDGET,
        le=MAX_BUNDLE_BYTES,
        description="How many bytes the complete answer may have as JSON; more is refused, and nothing left out.",
    ),
]
Include = Annotated[Literal["capsule"] | None, Meta(description="`capsule` leaves out the references and the details.")]


def fault_of_checkpoint_id(checkpoint_id: str) -> str | None:
    """Say why a text is no checkpoint id, if it is none."""
    if not CHECKPOINT_ID.fullmatch(checkpoint_id):
        return "A checkpoint id is 8 to 64 letters, digits, `_` and `-`."
    return None


def fault_of_part(name: str) -> str | None:
    """Say why a text names no agent or session, if it does not."""
    if name in (".", "..") or not PART_ID.fullmatch(name):
        return "The id of an agent or a session is 1 to 128 letters, digits and `_.:@-`, and not `.` or `..`."
    return None


class Capsule(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What goes back into the prompt: all six parts, and nothing else."""

    goal: Annotated[str, Meta(min_length=1, description="What is to be reached.")]
    summary: Annotated[str, Meta(description="What has happened so far.")]
    next_action: Annotated[str, Meta(description="What to do first after the restore.")]
    constraints: Annotated[list[str], Meta(description="What must hold, and must not be forgotten.")]
    decisions: Annotated[list[str], Meta(description="What has been decided, with the reasons.")]
    open_tasks: Annotated[list[str], Meta(description="What is still to be done.")]


CAPSULE_SCHEMA: dict[str, Any] = msgspec.json.schema_components([Capsule])[1]["Capsule"]
capsule_decoder = msgspec.json.Decoder(Capsule)

CapsuleText = Annotated[
    msgspec.Raw, Meta(description="At most 16 KiB of JSON, kept byte for byte.", extra_json_schema=CAPSULE_SCHEMA)
]
NULL = msgspec.Raw(b"null")


class Reference(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A record that the checkpoint leans on, at the revision that it was read at. It need not exist."""

    namespace: NamespaceName
    key: Key
    revision: Revision


class SaveCheckpoint(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Save the state of a task as the latest checkpoint of its session: all of it or nothing."""

    namespace: NamespaceName
    checkpoint_id: CheckpointId
    agent_id: AgentId
    session_id: SessionId
    expected_revision: Annotated[
        int, Meta(ge=0, le=MAX_INT64, description="The revision of the session's latest checkpoint; 0 for the first.")
    ]
    capsule: CapsuleText
    references: Annotated[
        list[Reference], Meta(description="At most 64.", extra_json_schema={"maxItems": MAX_REFERENCES})
    ] = []
    details: Annotated[msgspec.Raw, Meta(description="Any JSON, kept byte for byte; null without.")] = msgspec.field(
        default_factory=lambda: NULL
    )

    def __post_init__(self) -> None:
        check("namespace", fault_of_namespace(self.namespace))
        check("checkpoint_id", fault_of_checkpoint_id(self.checkpoint_id))
        check("agent_id", fault_of_part(self.agent_id))
        check("session_id", fault_of_part(self.session_id))
        self.decode_capsule()
        size = len(memoryview(self.capsule))
        if size > MAX_CAPSULE_BYTES:
            raise Problem(
                "capsule_too_large",
                f"The capsule has {size} bytes; at most {MAX_CAPSULE_BYTES} are taken. Move what is long to `details`.",
                field="/capsule",
                limit=MAX_CAPSULE_BYTES,
            )
        if len(self.references) > MAX_REFERENCES:
            raise Problem(
                "too_many_references",
                f"There are {len(self.references)} references; at most {MAX_REFERENCES} are taken.",
                field="/references",
                limit=MAX_REFERENCES,
            )
        for index, reference in enumerate(self.references):
            for field, fault in (
                ("namespace", fault_of_namespace(reference.namespace)),
                ("key", fault_of_key(reference.key)),
            ):
                if fault is not None:
                    raise Problem("validation_failed", fault, field=pointer(["references", index, field]))

    def decode_capsule(self) -> Capsule:
        """Return the capsule as a struct; raise ``validation_failed`` for what is none."""
        try:
            return capsule_decoder.decode(self.capsule)
        except msgspec.ValidationError as error:
            raise problem_of(error, within=("capsule",)) from None


class Locator(msgspec.Struct):
    """Where a checkpoint is: what an agent keeps outside of its prompt."""

    namespace: NamespaceName
    agent_id: AgentId
    session_id: SessionId
    checkpoint_id: CheckpointId


class Saved(msgspec.Struct):
    """The place of a checkpoint in its session."""

    checkpoint_id: CheckpointId
    revision: Revision
    locator: Locator


class RestoreCheckpoint(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Read one checkpoint, whole."""

    namespace: NamespaceName
    checkpoint_id: CheckpointId
    max_bytes: Budget = DEFAULT_BUDGET
    include: Include = None

    def __post_init__(self) -> None:
        check("namespace", fault_of_namespace(self.namespace))
        check("checkpoint_id", fault_of_checkpoint_id(self.checkpoint_id))


class RestoreLatest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Read the latest checkpoint of a session, whole."""

    namespace: NamespaceName
    agent_id: AgentId
    session_id: SessionId
    max_bytes: Budget = DEFAULT_BUDGET
    include: Include = None

    def __post_init__(self) -> None:
        check("namespace", fault_of_namespace(self.namespace))
        check("agent_id", fault_of_part(self.agent_id))
        check("session_id", fault_of_part(self.session_id))


class ReferenceStatus(msgspec.Struct):
    """A reference, and what became of the record since."""

    namespace: NamespaceName
    key: Key
    revision: Revision
    status: Annotated[
        Literal["ok", "changed", "expired", "missing"],
        Meta(description="Whether the record still has that revision; `changed` comes with the one that it has now."),
    ]
    current_revision: Revision | UnsetType = UNSET


class Restored(msgspec.Struct):
    """A checkpoint as it was saved, with the present status of its references."""

    checkpoint_id: CheckpointId
    revision: Revision
    created_at: Time
    locator: Locator
    capsule: CapsuleText
    references: list[ReferenceStatus] | UnsetType = UNSET
    details: Annotated[msgspec.Raw, Meta(description="As it was sent.")] | UnsetType = UNSET


class DeleteCheckpoint(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Remove a checkpoint that is not its session's latest."""

    namespace: NamespaceName
    checkpoint_id: CheckpointId

    def __post_init__(self) -> None:
        check("namespace", fault_of_namespace(self.namespace))
        check("checkpoint_id", fault_of_checkpoint_id(self.checkpoint_id))
