"""The agent behind the protocol: what is needed of it, and how it is opened and closed."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.abc import TaskStatus

from openclaw.agent.port import Ask, MessageContext, Reply
from openclaw.config.merge import EffectiveAgent
from openclaw.config.paths import StatePaths
from openclaw.config.schema import Config, McpServerConfig
from openclaw.core.errors import DeveloperFacing, OpenClawError
from openclaw.core.events import Emit
from openclaw.core.tools import Elicit
from openclaw.media.transcription import Transcriber
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.store import SessionStore

if TYPE_CHECKING:
    from openclaw.mcp_client.bridge.prompts import PromptInfo

logger = logging.getLogger(__name__)


class HostFacts(Protocol):
    """What the agent was built from."""

    @property
    def config(self) -> Config:
        """The configuration."""
        ...

    @property
    def paths(self) -> StatePaths:
        """Where state is kept."""
        ...

    @property
    def redactor(self) -> Redactor:
        """Takes secrets out of text."""
        ...


class AgentHost(Protocol):
    """The agent with all that it uses."""

    @property
    def host(self) -> HostFacts:
        """What it was built from."""
        ...

    @property
    def store(self) -> SessionStore:
        """The conversations."""
        ...

    @property
    def agents(self) -> Mapping[str, EffectiveAgent]:
        """The agents there are now."""
        ...

    def agent(self, agent_id: str | None) -> EffectiveAgent:
        """The agent of this id, or the default one; raises `NotFound`."""
        ...

    async def get_reply(
        self,
        context: MessageContext,
        *,
        on_event: Emit | None = None,
        ask: Ask | None = None,
        elicit: Elicit | None = None,
    ) -> Reply:
        """Answer one message."""
        ...

    async def bring(
        self, session: str, agent_id: str, servers: Mapping[str, McpServerConfig]
    ) -> None:
        """Have these servers stand beside the agent's own in a session, until `end_session`.

        Whoever calls it again for the session means the same servers, for another agent.
        """
        ...

    def end_session(self, session: str) -> None:
        """Stop the servers that were brought along for a session."""
        ...

    async def settle(self, agent_id: str, session: str | None = None) -> None:
        """Wait, within a bound, until the agent's servers have said what they have."""
        ...

    def prompts(self, agent_id: str, session: str | None = None) -> "tuple[PromptInfo, ...]":
        """The prompts that may be called by a message to this agent."""
        ...

    async def model_names(self, agent_id: str) -> tuple[str, ...]:
        """The models that answer for this agent, the first one first."""
        ...

    def transcriber(self) -> Transcriber:
        """Turns recordings into words."""
        ...


OpenHost = Callable[[], AbstractAsyncContextManager[AgentHost]]
"""Opens the agent."""


class HostLink:
    """Opens the agent when it is first wanted. A failure is told to who waits and tried again next time.

    The agent is opened and closed in one task, `run`, because what it holds must be.
    """

    def __init__(self, open_host: OpenHost) -> None:
        self._open = open_host
        self._wanted = anyio.Event()
        self._settled = anyio.Event()
        self._host: AgentHost | None = None
        self._failure: OpenClawError | None = None

    async def get(self) -> AgentHost:
        """The agent, as soon as it is there; raises what kept it from opening."""
        if self._host is not None:
            return self._host
        self._wanted.set()
        await self._settled.wait()
        if self._host is None:
            raise self._failure or OpenClawError("the agent is closed")
        return self._host

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hold the agent until cancelled."""
        task_status.started()
        while True:
            await self._wanted.wait()
            try:
                async with self._open() as host:
                    self._host = host
                    self._settled.set()
                    await anyio.sleep_forever()
            except OpenClawError as error:
                logger.warning("the agent cannot be opened: %s", error)
                self._failure = error
            except Exception as error:  # the client is told, and may try again
                logger.exception("the agent cannot be opened")
                told = f"the agent cannot be opened: unexpected {type(error).__name__}"
                self._failure = DeveloperFacing(told, hint="see the agent's log")
            finally:
                self._host = None
            settled, self._settled, self._wanted = self._settled, anyio.Event(), anyio.Event()
            settled.set()
