"""The agent as every front end sees it: what goes into a turn and what comes out of it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from openclaw.core.content import Block, InboundMedia, Media
from openclaw.core.errors import OpenClawError
from openclaw.core.events import Emit
from openclaw.core.tools import Ask, Elicit, ToolResult, ToolSpec
from openclaw.models.options import ModelOptions

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.mcp_client.bridge.prompts import BegunArgument, PromptInfo
    from openclaw.media.transcription import Transcriber
    from openclaw.secrets.redactor import Redactor
    from openclaw.sessions.model import SessionRef
    from openclaw.sessions.store import Lane, SessionStore

DEFAULT_AGENT = "main"


@dataclass(frozen=True, slots=True)
class ClientCall:
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ClientResult:
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class MessageContext:
    """A message exactly as it was given, and where it belongs.

    Two messages with the same `idempotency_key` in one session are one order, carried out once.
    With `prompt_calls`, a message that is exactly `/server:prompt key=value` stands for that prompt
    of an MCP server; without it, every message is taken as it is. `workspace`, `model` and
    `thinking` stand in for the agent's own where the front end lets the person choose them. `scope` names the MCP
    servers that the front end brought along, where it is not the session's key that names them.
    `claim` is how a message is held that came out of a queue. `options` is what the sender asks of
    the model; a sender that gives any reads `Reply.finish_reason` as well. `results` answer the calls
    with which the session's last turn ended; the text may be empty then. `typed` is what the person
    wrote themselves, if `text` is somebody else's. `delegated_by` is the agent that gave this as a
    task: its rules hold as well, and the turn gets a part of its limits.
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
    thinking: str | None = None
    scope: str | None = None
    claim: "Claim | None" = None
    options: ModelOptions | None = None
    results: tuple[ClientResult, ...] = ()
    typed: str | None = None
    delegated_by: str | None = None

    @property
    def server_scope(self) -> str:
        """Under which name servers stand beside the agent's own for this message."""
        return self.scope or self.session_key


@dataclass(frozen=True, slots=True)
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0
    cached_tokens: int = 0  # of the input
    reasoning_tokens: int = 0  # of the output
    cost: float = 0.0  # in US dollars, as far as prices are known
    unpriced: int = 0  # requests whose price is not


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer.

    `outcome` is ok; limit, where a bound on the turn ended it and the text says which; or
    duplicate, where the order had been carried out before and this is its answer again. A turn that
    was cancelled or failed raises instead. `media` is what tools handed to the person.
    `finish_reason` is stop, length (the model's answer was cut) or content_filter. `calls` are for the
    sender to run: its next message has their results.
    """

    text: str
    session_id: str
    turn_id: str
    media: tuple[Media, ...] = ()
    usage: Usage = field(default_factory=Usage)
    outcome: str = "ok"
    finish_reason: str = "stop"
    calls: tuple[ClientCall, ...] = ()


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


@dataclass(frozen=True, slots=True)
class TurnListener:
    """Who hears of an answer while it is written, and who is asked.

    The callbacks must not block. Blocks, tool results and events come in order, before the reply.
    With `on_event` the answer is streamed. Without `ask`, tools that a person must agree to are
    denied; without `elicit`, what MCP servers ask is declined.
    """

    on_block_reply: OnBlockReply | None = None
    on_tool_result: OnToolResult | None = None
    on_event: Emit | None = None
    ask: Ask | None = None
    elicit: Elicit | None = None


NOBODY = TurnListener()


@dataclass(frozen=True, slots=True)
class AgentInfo:
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What a front end must know to take messages for one agent.

    Attachments are put below `temp_root`; files that the agent hands over come from `directories`.
    `model_choices` are the models that a person may choose besides the agent's own. `config_digest`
    says from which content of the configuration file all of this is.
    `order_workspace` is where orders of MCP clients work: roots, cwd or agent. `private` are places
    that no client may have the agent work in or above. After `task_after` seconds an order becomes a
    task, for clients that can have one.
    """

    id: str
    temp_root: Path
    directories: tuple[Path, ...]
    audio: str  # auto, audio or resource
    all_tool_text: bool
    redactor: "Redactor"
    transcriber: "Transcriber"
    model_choices: tuple[str, ...] = ()
    config_digest: str = ""
    order_workspace: str = "agent"
    private: tuple[Path, ...] = ()
    task_after: float = 2.0
    timezone: str = "UTC"


class Agent(Protocol):
    """The agents of one configuration, in this process or in another.

    An agent id of None means the default agent. A `session` is a session's key. Every method raises
    `NotFound` for an agent that does not exist.
    """

    async def agents(self) -> Sequence[AgentInfo]: ...

    async def settings(self, agent_id: str | None = None) -> AgentSettings:
        """What a front end must know to take messages for this agent."""
        ...

    async def reply(self, context: MessageContext, listener: TurnListener = NOBODY) -> Reply:
        """Answer one message. To cancel the call is to stop the turn, wherever it runs."""
        ...

    async def tools(self, agent_id: str, session: str | None = None) -> Sequence[ToolSpec]:
        """The tools that the agent may use, once its servers had some time to start."""
        ...

    def prompts(self, agent_id: str, session: str | None = None) -> "Sequence[PromptInfo]": ...

    async def complete(
        self, agent_id: str, begun: "BegunArgument", session: str | None = None
    ) -> Sequence[str]:
        """What a server suggests for an argument that somebody has begun to type."""
        ...

    async def refresh(
        self, agent_id: str, session: str | None = None, *, wait: bool = False
    ) -> None:
        """Learn which prompts there are; with `wait`, servers that start get some time first."""
        ...

    async def models(self, agent_id: str) -> Sequence[str]: ...

    async def model_problem(self, ref: str) -> str | None:
        """Why there is no such model; None if there is, or if its provider cannot be asked."""
        ...

    async def store(self) -> "SessionStore": ...

    async def add_servers(
        self, session: str, agent_id: str, servers: "Mapping[str, McpServerConfig]"
    ) -> None:
        """Run a front end's own MCP servers beside the agent's in a session, until `end_session`.

        To call it again for the session is to run the same servers for another agent.
        """
        ...

    def end_session(self, session: str) -> None: ...

    async def forward(
        self, agent_id: str | None, request: "dict[str, Any]", notify: "Notify"
    ) -> "dict[str, Any] | None":
        """Have a running gateway answer an MCP request for this agent; None if none runs."""
        ...


Notify = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Passes on a notification: its method and its parameters."""

OpenAgent = Callable[[], "AbstractAsyncContextManager[Agent]"]
"""Opens the way to the agent; the agent itself is loaded when it is first used."""
