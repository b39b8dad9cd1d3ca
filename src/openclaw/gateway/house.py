"""What the gateway needs of the agent's house: the runtime, as seen from below it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from openclaw.agent.context import Ask, MessageContext, OnBlockReply, OnToolResult, Reply
from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.core.events import Emit
from openclaw.core.tools import Elicit
from openclaw.media.transcription import Transcriber

if TYPE_CHECKING:
    from openclaw.mcp_client.manager import McpManager
    from openclaw.secrets.redactor import Redactor
    from openclaw.sessions.store import SessionStore


class House(Protocol):
    """The agents, their servers and their sessions."""

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

    def transcriber(self) -> Transcriber:
        """Turns recordings into words, as the configuration says."""
        ...

    def order_facts(self, agent_id: str | None) -> Mapping[str, object]:
        """What a front end in another process has to know to take orders for this agent."""
        ...

    async def get_reply(
        self,
        context: MessageContext,
        *,
        on_block_reply: OnBlockReply | None = None,
        on_tool_result: OnToolResult | None = None,
        on_event: Emit | None = None,
        ask: Ask | None = None,
        elicit: Elicit | None = None,
    ) -> Reply:
        """Answer one message."""
        ...

    async def apply(self, loaded: LoadedConfig) -> None:
        """Take a new configuration; raises without having changed anything."""
        ...
