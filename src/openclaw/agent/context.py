"""What goes into a turn and what comes out of it."""

from dataclasses import dataclass, field

from openclaw.core.content import Media


@dataclass(frozen=True, slots=True)
class InboundMedia:
    """Something that came with a message, validated and stored by the front end.

    `text` is what was extracted from it, where anything was; `note` says what the model should know
    of it (a name, why it could not be read).
    """

    media: Media
    text: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class MessageContext:
    """A message exactly as it was given, and where it belongs."""

    text: str
    session_key: str
    agent_id: str = "main"
    media: tuple[InboundMedia, ...] = ()
    origin: str = "cli"
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a turn cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer. `outcome` is ok, cancelled, limit or error."""

    text: str
    session_id: str
    turn_id: str
    media: tuple[Media, ...] = ()
    usage: Usage = field(default_factory=Usage)
    outcome: str = "ok"
