"""What the gateway needs of the agent's house: the runtime, as seen from below it."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from openclaw.agent.port import MessageContext, Reply, TurnListener
from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.core.tools import ToolSpec
from openclaw.media.transcription import Transcriber

if TYPE_CHECKING:
    from openclaw.mcp_client.lifecycle.manager import McpManager
    from openclaw.secrets.redactor import Redactor
    from openclaw.sessions.store import SessionStore


class Cluster(Protocol):
    """The gateways that share a database, as one of them sees them."""

    url: str
    """Where this gateway is, for the others to show."""

    @property
    def reachable(self) -> bool:
        """Whether the database answered lately."""
        ...

    def drain(self) -> None:
        """Take nothing more to run: this gateway is going to stop."""
        ...

    async def cancel_turn(self, turn: str) -> int:
        """Stop a turn wherever it runs or waits; returns how many were stopped."""
        ...

    async def cancel_session(self, key: str, agent: str | None) -> int:
        """Stop what runs in a session anywhere, and what waits for it."""
        ...

    def watch_turn(self, turn: str, after: int = 0) -> AsyncGenerator[tuple[int, str, Any]]:
        """Number, name and body of a turn's events; the last is `reply` or `error`."""
        ...

    async def gateways(self) -> list[dict[str, Any]]:
        """Every gateway, as it last said it was."""
        ...

    def figures(self) -> list[tuple[str, str, str, float]]:
        """For the metrics: kind, name, help and value of each."""
        ...


class House(Protocol):
    """The agents, their servers and their sessions."""

    @property
    def member(self) -> "Cluster | None":
        """This gateway among others, where the sessions are shared with some."""
        ...

    @property
    def manager(self) -> "McpManager":
        """The MCP servers."""
        ...

    @property
    def store(self) -> "SessionStore":
        """The sessions."""
        ...

    @property
    def redactor(self) -> "Redactor":
        """Knows every secret that was resolved."""
        ...

    @property
    def agents(self) -> Mapping[str, EffectiveAgent]:
        """The agents there are now."""
        ...

    def agent(self, agent_id: str | None) -> EffectiveAgent:
        """The agent of this id, or the default one; raises `NotFound`."""
        ...

    def tools(self, agent_id: str) -> Sequence[ToolSpec]:
        """The tools that this agent may use now."""
        ...

    def transcriber(self) -> Transcriber:
        """Turns recordings into words, as the configuration says."""
        ...

    def order_facts(self, agent_id: str | None) -> Mapping[str, object]:
        """What a front end in another process has to know to take orders for this agent."""
        ...

    async def get_reply(self, context: MessageContext, **listener: Unpack[TurnListener]) -> Reply:
        """Answer one message."""
        ...

    async def settle(self, agent_id: str, session: str | None = None) -> None:
        """Wait, within a bound, until the agent's servers have said what they have."""
        ...

    async def model_names(self, agent_id: str) -> tuple[str, ...]:
        """The models that answer for this agent, the first one first."""
        ...

    async def apply(self, loaded: LoadedConfig) -> None:
        """Take a new configuration; raises without having changed anything."""
        ...
