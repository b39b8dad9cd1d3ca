"""The agent for an ACP client, in a gateway that runs.

Conversations are read from the store directly; turns, and the client's own MCP servers, are the
gateway's. Where the gateway goes away, the next prompt is answered by an agent in this process.
"""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio
import anyio.abc

from openclaw.acp_agent.host import AgentHost, HostLink, OpenHost
from openclaw.agent.port import Ask, MessageContext, Reply
from openclaw.cli.chat.agent import prompt_of
from openclaw.cli.environment import Environment
from openclaw.cli.open_agent import usable_gateway
from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.core.clock import SystemClock
from openclaw.core.errors import NotFound, OpenClawError
from openclaw.core.events import Emit
from openclaw.core.tools import Elicit
from openclaw.gateway.client import GatewayClient, GatewayGone
from openclaw.mcp_client.bridge.prompts import PromptInfo
from openclaw.mcp_client.transport.child_process import child_environment
from openclaw.runtime.host import Host, open_secrets
from openclaw.runtime.orders import transcriber_of
from openclaw.secrets.refs import has_reference

if TYPE_CHECKING:
    from openclaw.config.load import LoadedConfig
    from openclaw.config.schema import McpServerConfig
    from openclaw.media.transcription import Transcriber
    from openclaw.sessions.store import SessionStore

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 30.0  # the gateway itself waits less long for servers that start


@asynccontextmanager
async def open_shared(env: Environment, open_here: OpenHost) -> AsyncGenerator[AgentHost]:
    """The agent of the gateway that runs; `open_here` opens one in this process, should it go."""
    from openclaw.sessions.open import open_store

    loaded = env.load_config()
    secrets = open_secrets(loaded.config, env.environ, env.redactor)
    where = loaded.config.sessions.store
    async with (
        open_store(where, env.paths, resolve=secrets.resolve_text) as store,
        anyio.create_task_group() as tasks,
    ):
        here = HostLink(open_here)
        await tasks.start(here.run, name="agent")
        yield SharedHost(env, loaded, store, here, tasks)
        tasks.cancel_scope.cancel()


@dataclass(slots=True)
class _Scope:
    """Servers that the gateway runs for a session of ours, while a connection to it lasts."""

    url: str
    id: str = ""
    prompts: tuple[PromptInfo, ...] = ()
    opened: anyio.Event = field(default_factory=anyio.Event)
    settled: anyio.Event = field(default_factory=anyio.Event)
    connection: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    failure: OpenClawError | None = None
    over: bool = False

    def close(self) -> None:
        self.over = True
        self.connection.cancel()


@dataclass(slots=True)
class _Brought:
    """What a session brought along, and where that runs now."""

    agent: str
    servers: "Mapping[str, McpServerConfig]"
    scope: _Scope | None = None
    here: AgentHost | None = None


class SharedHost:
    """Asks the gateway while one runs, and an agent in this process otherwise."""

    def __init__(
        self,
        env: Environment,
        loaded: "LoadedConfig",
        store: "SessionStore",
        here: HostLink,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        self.host = Host(loaded, env.environ, env.redactor, env.paths, SystemClock())
        self.store = store
        self.agents: Mapping[str, EffectiveAgent] = effective_agents(loaded.config)
        self._env, self._here, self._tasks = env, here, tasks
        self._sessions: dict[str, _Brought] = {}

    def agent(self, agent_id: str | None) -> EffectiveAgent:
        """The agent of this id, or the default one; raises `NotFound`."""
        wanted = agent_id or default_agent_id(self.host.config)
        if wanted not in self.agents:
            known = ", ".join(sorted(self.agents))
            raise NotFound(f"there is no agent '{wanted}'", hint=f"there are: {known}")
        return self.agents[wanted]

    def transcriber(self) -> "Transcriber":
        """Turns recordings into words, in this process."""
        secrets = open_secrets(self.host.config, self._env.environ, self._env.redactor)
        return transcriber_of(self.host, secrets)

    async def bring(
        self, session: str, agent_id: str, servers: "Mapping[str, McpServerConfig]"
    ) -> None:
        """Have the gateway start these servers for a session; those it had before are stopped after."""
        before = self._sessions.get(session)
        brought = self._sessions[session] = _Brought(agent_id, servers)
        await self._place(brought, session)
        if before is not None:
            _end(before, session)

    def end_session(self, session: str) -> None:
        """Stop the servers that were brought along for a session."""
        brought = self._sessions.pop(session, None)
        if brought is not None:
            _end(brought, session)

    async def get_reply(
        self,
        context: MessageContext,
        *,
        on_event: Emit | None = None,
        ask: Ask | None = None,
        elicit: Elicit | None = None,
    ) -> Reply:
        """Answer one message. An order that a gateway may have begun is never given again."""
        brought = self._sessions[context.session_key]
        await self._place(brought, context.session_key)
        if brought.scope is not None:
            there = replace(context, scope=brought.scope.id)
            try:
                async with GatewayClient(brought.scope.url, self._env.paths.root) as client:
                    return await client.get_reply(there, on_event=on_event, ask=ask, elicit=elicit)
            except GatewayGone as gone:
                if gone.sent:
                    raise
                logger.info("the gateway went away before it took the order")
        here = await self._bring_here(brought, context.session_key)
        return await here.get_reply(context, on_event=on_event, ask=ask, elicit=elicit)

    async def settle(self, agent_id: str, session: str | None = None) -> None:
        """Wait, within a bound, until the servers have said what they have."""
        brought = self._sessions.get(session or "")
        if brought is None:
            return
        if brought.scope is not None:
            with anyio.move_on_after(_SETTLE_SECONDS):
                await brought.scope.settled.wait()
        elif brought.here is not None:
            await brought.here.settle(agent_id, session)

    def prompts(self, agent_id: str, session: str | None = None) -> tuple[PromptInfo, ...]:
        """The prompts that may be called, as far as they are known now."""
        brought = self._sessions.get(session or "")
        if brought is None:
            return ()
        if brought.scope is not None:
            return brought.scope.prompts
        return brought.here.prompts(agent_id, session) if brought.here is not None else ()

    async def model_names(self, agent_id: str) -> tuple[str, ...]:
        """The models that answer for this agent, the first one first."""
        info = usable_gateway(self._env)
        if info is None:
            return await (await self._here.get()).model_names(agent_id)
        async with GatewayClient(info.url, self._env.paths.root) as client:
            answer = await client.request("GET", f"/api/models?agent={agent_id}")
        return tuple(answer["models"])

    # ---- where a session's servers run

    async def _place(self, brought: _Brought, session: str) -> None:
        """See that what the session brought runs: in the gateway that there is now, or else here."""
        scope = brought.scope
        info = usable_gateway(self._env)
        if scope is not None and not scope.over and info is not None and info.url == scope.url:
            return
        brought.scope = None
        if scope is not None:
            scope.close()
        if info is not None and brought.here is None:
            try:
                brought.scope = await self._open_scope(brought, info.url, session)
            except GatewayGone:
                logger.info("the gateway went away", exc_info=True)
            else:
                return
        await self._bring_here(brought, session)

    async def _bring_here(self, brought: _Brought, session: str) -> AgentHost:
        if brought.here is None:
            if brought.scope is not None:
                brought.scope.close()
                brought.scope = None
            brought.here = await self._here.get()
            await brought.here.bring(session, brought.agent, brought.servers)
        return brought.here

    async def _open_scope(self, brought: _Brought, url: str, session: str) -> _Scope:
        scope = _Scope(url)
        self._tasks.start_soon(self._hold, scope, brought, name=f"servers of {session}")
        try:
            await scope.opened.wait()
        except BaseException:
            scope.close()
            raise
        if scope.failure is not None:
            raise scope.failure
        return scope

    async def _hold(self, scope: _Scope, brought: _Brought) -> None:
        """Keep the connection that the servers live by."""
        try:
            with scope.connection:
                async with GatewayClient(scope.url, self._env.paths.root) as client:
                    await self._follow(client, scope, brought)
        except OpenClawError as error:
            scope.failure = error
        finally:
            scope.over = True
            scope.opened.set()
            scope.settled.set()

    async def _follow(self, client: GatewayClient, scope: _Scope, brought: _Brought) -> None:
        servers = {name: self._described(one) for name, one in brought.servers.items()}
        async with client.scope(brought.agent, servers) as events:
            async for name, data in events:
                if name == "opened":
                    scope.id = data["scope"]
                    scope.opened.set()
                elif name == "settled":
                    scope.prompts = tuple(map(prompt_of, data["prompts"]))
                    scope.settled.set()

    def _described(self, config: "McpServerConfig") -> dict[str, object]:
        """The server as the gateway is to start it: in the environment that it would have here."""
        described = config.model_dump(
            mode="json", by_alias=True, exclude_unset=True, exclude_none=True
        )
        if config.kind == "stdio":
            basics = child_environment(self._env.environ, {}, inherit=False)
            plain = {name: one for name, one in basics.items() if not has_reference(one)}
            described["env"] = {**plain, **{name: str(one) for name, one in config.env.items()}}
        return described


def _end(brought: _Brought, session: str) -> None:
    if brought.scope is not None:
        brought.scope.close()
    if brought.here is not None:
        brought.here.end_session(session)
