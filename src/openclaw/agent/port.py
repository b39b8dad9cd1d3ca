"""The agent as every front end sees it: the input and output of a turn."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from openclaw.core.content import Block, InboundMedia, Media
from openclaw.core.errors import NotFound, OpenClawError
from openclaw.core.events import Emit, Usage
from openclaw.core.outcome import Outcome
from openclaw.core.prompts import PartialArgument, PromptInfo
from openclaw.core.questions import Ask
from openclaw.core.tools import ToolResult, ToolSpec

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.media.transcription import Transcriber
    from openclaw.models.choose import ModelOptions
    from openclaw.secrets.redactor import Redactor
    from openclaw.sessions.lanes import Lane
    from openclaw.sessions.records import SessionRef
    from openclaw.sessions.store import SessionStore

DEFAULT_AGENT = "main"

T = TypeVar("T")


def named_agent(agents: Mapping[str, T], wanted: str) -> T:
    if wanted not in agents:
        known = ", ".join(sorted(agents))
        raise NotFound(f"there is no agent '{wanted}'", hint=f"available: {known}")
    return agents[wanted]


@dataclass(frozen=True, slots=True)
class CallItem:
    """A call. `arguments` may not be JSON; `cut` means that the model reached its output limit."""

    id: str
    name: str
    arguments: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ClientResult:
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class MessageContext:
    """A message exactly as it was given.

    Messages with the same `idempotency_key` in one session are one order, carried out once. With
    `prompt_calls`, the message `/server:prompt key=value` calls that prompt of an MCP server.
    `workspace`, `model` and `thinking` replace the agent's own. `options` is what the sender asks of
    the model; such a sender reads `Reply.finish_reason` too. `results` answer the calls that ended
    the session's last turn; the text may then be empty. `delegated_by` is the agent that gave this
    as a task: its rules apply as well, and the turn gets a part of its limits.
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
    scope: str | None = None  # of the front end's own MCP servers, if it is not the session's key
    claim: "Claim | None" = None  # of a message that came out of a queue
    options: "ModelOptions | None" = None
    results: tuple[ClientResult, ...] = ()
    typed: str | None = None  # what the person wrote themselves, if `text` is somebody else's
    delegated_by: str | None = None

    @property
    def server_scope(self) -> str:
        return self.scope or self.session_key


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer.

    A turn that was cancelled or failed raises instead.
    """

    text: str
    session_id: str
    turn_id: str
    media: tuple[Media, ...] = ()  # what tools handed to the person
    usage: Usage = field(default_factory=Usage)
    outcome: Outcome = Outcome.OK
    finish_reason: str = "stop"  # or length (the model's answer was cut) or content_filter
    calls: tuple[CallItem, ...] = ()  # for the sender to run: its next message has the results
    questions: tuple[str, ...] = ()  # ids of those that wait for an answer since this turn


class Claim(Protocol):
    """Holds a message that came out of a queue, so that its turn and its queue entry end together."""

    @property
    def refusal(self) -> OpenClawError | None: ...  # the turn ends with this error

    @property
    def yielding(self) -> bool: ...  # another process continues the turn: do not end it

    def lane(
        self, store: "SessionStore", session: "SessionRef"
    ) -> "AbstractAsyncContextManager[Lane]":
        """The session's lane, ahead of messages that do not come from the queue."""
        ...

    async def finish(self, lane: "Lane", outcome: Outcome, result: "Reply | BaseException") -> None:
        """Have the lane's next `finish_turn` end the message's queue entry as well."""
        ...


OnBlockReply = Callable[[tuple[Block, ...]], None]
OnToolResult = Callable[[str, ToolResult], None]


@dataclass(frozen=True, slots=True)
class TurnListener:
    """Callbacks to watch an answer as it is written, and to ask the user.

    The callbacks must not block. Blocks, tool results and events come in order, before the reply.
    With `on_event` the answer is streamed. Without `ask`, or if it answers NOBODY, calls that need
    approval wait for it (see `agent.questions`), and MCP servers' forms are declined. `attended`
    says whether somebody is there to be asked.
    """

    on_block_reply: OnBlockReply | None = None
    on_tool_result: OnToolResult | None = None
    on_event: Emit | None = None
    ask: Ask | None = None
    attended: bool = True


NO_LISTENER = TurnListener(attended=False)


@dataclass(frozen=True, slots=True)
class AgentInfo:
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What a front end must know to take messages for one agent."""

    id: str
    temp_root: Path  # for attachments
    directories: tuple[Path, ...]  # of files that the agent may hand over
    audio: str  # auto, audio or resource
    all_tool_text: bool
    redactor: "Redactor"
    transcriber: "Transcriber"
    model_choices: tuple[str, ...] = ()  # besides the agent's own
    config_digest: str = ""
    order_workspace: str = "agent"  # where orders of MCP clients work: roots, cwd or agent
    private: tuple[Path, ...] = ()  # no client may have the agent work in or above these
    task_after: float = 2.0  # seconds until an order becomes a task, for clients that support it
    timezone: str = "UTC"


class Agent(Protocol):
    """The agents of one configuration, in this process or in another.

    An agent id of None means the default agent. A `session` is a session's key. Every method raises
    `NotFound` for an agent that does not exist.
    """

    async def agents(self) -> Sequence[AgentInfo]: ...

    async def settings(self, agent_id: str | None = None) -> AgentSettings: ...

    async def reply(self, context: MessageContext, listener: TurnListener = NO_LISTENER) -> Reply:
        """Answer one message. Cancelling the call stops the turn, wherever it runs."""
        ...

    async def tools(self, agent_id: str, session: str | None = None) -> Sequence[ToolSpec]:
        """The tools that the agent may use, once its servers have had some time to start."""
        ...

    def prompts(self, agent_id: str, session: str | None = None) -> Sequence[PromptInfo]: ...

    async def complete(
        self, agent_id: str, begun: PartialArgument, session: str | None = None
    ) -> Sequence[str]:
        """A server's suggestions for an argument that somebody has begun to type."""
        ...

    async def refresh(
        self, agent_id: str, session: str | None = None, *, wait: bool = False
    ) -> None:
        """Update the list of prompts; with `wait`, servers get some time to start first."""
        ...

    async def models(self, agent_id: str) -> Sequence[str]: ...

    async def model_problem(self, ref: str) -> str | None:
        """Why there is no such model; None if it exists, or if its provider cannot be asked."""
        ...

    async def store(self) -> "SessionStore": ...

    async def add_servers(
        self, session: str, agent_id: str, servers: "Mapping[str, McpServerConfig]"
    ) -> None:
        """Run a front end's own MCP servers beside the agent's in a session, until `end_session`.

        Calling it again for the session runs the same servers for another agent.
        """
        ...

    def end_session(self, session: str) -> None: ...

    async def forward(
        self, agent_id: str | None, request: "dict[str, Any]", notify: "Notify"
    ) -> "dict[str, Any] | None":
        """Have a running gateway answer an MCP request for this agent; None if no gateway runs."""
        ...


Notify = Callable[[str, dict[str, Any]], Awaitable[None]]  # a notification's method and parameters
OpenAgent = Callable[[], "AbstractAsyncContextManager[Agent]"]  # loaded when it is first used
