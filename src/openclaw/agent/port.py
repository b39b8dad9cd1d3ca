"""What goes into a turn and what comes out of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict

from openclaw.core.content import Block, Media
from openclaw.core.errors import OpenClawError
from openclaw.core.events import Emit
from openclaw.core.tools import Ask, Elicit, PermissionRequest, ToolResult

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from openclaw.sessions.model import SessionRef
    from openclaw.sessions.store import Lane, SessionStore

__all__ = [
    "DEFAULT_AGENT",
    "Ask",
    "Claim",
    "InboundMedia",
    "MessageContext",
    "OnBlockReply",
    "OnToolResult",
    "PermissionRequest",
    "Reply",
    "TurnListener",
    "Usage",
]

DEFAULT_AGENT = "main"


@dataclass(frozen=True, slots=True)
class InboundMedia:
    """Something that came with a message, validated and stored by the front end.

    `text` is what was extracted from it, where anything was, as it stands there: the agent frames
    it. `note` says what the model should know of it (why it could not be read, that it was cut).
    """

    media: Media
    text: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class MessageContext:
    """A message exactly as it was given, and where it belongs.

    Two messages with the same `idempotency_key` in one session are one order, carried out once.
    With `prompt_calls`, a message that is exactly `/server:prompt key=value` stands for that prompt
    of an MCP server; without it, every message is taken as it is. `workspace` and `model` stand in
    for the agent's own where the front end lets the person choose them. `scope` names the MCP
    servers that the front end brought along, where it is not the session's key that names them.
    `claim` is how a message is held that came out of a queue.
    """

    text: str
    session_key: str
    agent_id: str = DEFAULT_AGENT
    media: tuple[InboundMedia, ...] = ()
    origin: str = "cli"
    idempotency_key: str | None = None
    prompt_calls: bool = False
    workspace: Path | None = None
    model: str | None = None
    scope: str | None = None
    claim: "Claim | None" = None

    @property
    def server_scope(self) -> str:
        """Under which name servers stand beside the agent's own for this message."""
        return self.scope or self.session_key


@dataclass(frozen=True, slots=True)
class Usage:
    """What a turn cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer.

    `outcome` is ok; limit, where a bound on the turn ended it and the text says which; or
    duplicate, where the order had been carried out before and this is its answer again. A turn that
    was cancelled or failed raises instead. `media` is what tools handed to the person.
    """

    text: str
    session_id: str
    turn_id: str
    media: tuple[Media, ...] = ()
    usage: Usage = field(default_factory=Usage)
    outcome: str = "ok"


class Claim(Protocol):
    """How a message that came out of a queue is held, so that its turn and its place there end as one."""

    @property
    def refusal(self) -> OpenClawError | None:
        """Why the turn must not go on, where it must not; it then ends with this error."""
        ...

    @property
    def yielding(self) -> bool:
        """True where another process is to go on with the turn, so that it must not be ended."""
        ...

    def lane(
        self, store: "SessionStore", session: "SessionRef"
    ) -> "AbstractAsyncContextManager[Lane]":
        """The session's lane, ahead of those who do not come from the queue."""
        ...

    async def settle(self, lane: "Lane", outcome: str, result: "Reply | BaseException") -> None:
        """Have the lane's next `finish_turn` end the message's place in the queue as well."""
        ...


OnBlockReply = Callable[[tuple[Block, ...]], None]
OnToolResult = Callable[[str, ToolResult], None]


class TurnListener(TypedDict, total=False):
    """Who hears of an answer while it is made, and who is asked. Whoever hands an order on hands this on."""

    on_block_reply: OnBlockReply | None
    on_tool_result: OnToolResult | None
    on_event: Emit | None
    ask: Ask | None
    elicit: Elicit | None
