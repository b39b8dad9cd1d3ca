"""The agent for a front end: the running gateway's where there is one, else one in this process."""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import anyio

from openclaw.cli.environment import Environment
from openclaw.config.paths import config_path
from openclaw.core.errors import InvalidConfig, NotFound, OpenClawError
from openclaw.core.events import Emit, discard
from openclaw.gateway.client import GatewayClient, GatewayGone
from openclaw.gateway.lock import GatewayInfo, running_gateway
from openclaw.mcp_server.agent_link import AgentLink, OrderSettings, OrderTaker

if TYPE_CHECKING:
    from openclaw.agent.port import MessageContext, Reply, TurnListener

logger = logging.getLogger(__name__)


def usable_gateway(env: Environment) -> GatewayInfo | None:
    """The gateway that runs on this state directory with this configuration, if any."""
    info = running_gateway(env.paths.gateway_lock)
    if info is None or not info.url:
        return None
    ours = (env.config_option or config_path(env.environ)).absolute()
    if Path(info.config) != ours:
        logger.warning("the running gateway uses another configuration (%s)", info.config)
        return None
    return info


class SharedAgent:
    """Asks the gateway while one runs. Otherwise the agent is opened here, once, when it is needed."""

    def __init__(self, env: Environment, local: AgentLink) -> None:
        self._env = env
        self._local = local
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._default: str | None = None
        self._here: OrderTaker | None = None

    async def prepare(self) -> None:
        """Know the agents, wherever they are."""
        info = usable_gateway(self._env)
        if info is not None:
            try:
                await self._learn(info)
            except GatewayGone:
                logger.info("the gateway went away", exc_info=True)
            else:
                return
        self._here = await self._local.get()

    async def _learn(self, info: GatewayInfo) -> None:
        async with GatewayClient(info.url, self._env.paths.root) as client:
            answer = await client.request("GET", "/api/agents")
        self._facts = {row["id"]: row["settings"] for row in answer["agents"]}
        self._default = answer["agents"][0]["id"]

    def order_settings(self, agent_id: str | None) -> OrderSettings:
        """How orders are taken for this agent; raises `NotFound`."""
        if self._here is not None:
            return self._here.order_settings(agent_id)
        wanted = agent_id or self._default or ""
        if wanted not in self._facts:
            known = ", ".join(sorted(self._facts))
            raise NotFound(f"there is no agent '{wanted}'", hint=f"there are: {known}")
        try:
            return self._configured(wanted)
        except OpenClawError as error:  # the gateway keeps what it had
            self._warn_of(error)
            return _settings(self._facts[wanted])

    def _warn_of(self, error: OpenClawError) -> None:
        env = self._env
        if isinstance(error, InvalidConfig) and error.message not in env.warned:
            env.warned.add(error.message)
            env.warn(
                f"{env.program}: warning: {error.message}; the gateway still answers with what it read"
                f" before ('{env.program} config validate' lists what is wrong)"
            )

    def _configured(self, agent_id: str) -> OrderSettings:
        from openclaw.config.load import load_config
        from openclaw.runtime import order_settings_elsewhere

        env = self._env
        loaded = load_config(env.config_option, env.environ)
        for value in loaded.credentials:
            env.redactor.register(value)
        return order_settings_elsewhere(loaded, env.environ, env.redactor, agent_id)

    async def get_reply(
        self, context: "MessageContext", **listener: "Unpack[TurnListener]"
    ) -> "Reply":
        """Answer one message. An order that a gateway may have begun is never given again."""
        info = usable_gateway(self._env)
        if info is not None:
            try:
                async with GatewayClient(info.url, self._env.paths.root) as client:
                    reply = await client.get_reply(context, **listener)
                self._facts |= client.settings
            except GatewayGone as gone:
                if gone.sent:
                    raise
                logger.info("the gateway went away before it took the order")
            else:
                return reply
        self._here = await self._local.get()
        return await self._here.get_reply(context, **listener)


def _settings(facts: Mapping[str, Any]) -> OrderSettings:
    from openclaw.mcp_server.outbound import OutboundRules
    from openclaw.media.transcription import NoTranscriber

    return OrderSettings(
        agent_id=facts["agent"],
        all_tool_text=facts["allToolText"],
        temp_root=Path(facts["tempRoot"]),
        outbound=OutboundRules(
            directories=tuple(map(Path, facts["directories"])), fetch=None, audio=facts["audio"]
        ),
        transcriber=NoTranscriber(),
    )


def open_here(
    env: Environment, *, hurried: bool, emit: Emit = discard
) -> AbstractAsyncContextManager[OrderTaker]:
    """The agent in this process."""
    from openclaw.runtime import open_runtime

    return open_runtime(env.load_config(), env.environ, env.redactor, hurried=hurried, emit=emit)


@asynccontextmanager
async def open_agent(
    env: Environment,
    *,
    local: bool = False,
    hurried: bool = False,
    emit: Emit = discard,
) -> AsyncGenerator[OrderTaker]:
    """Whoever answers: a running gateway, or with `local` or without one, this process.

    `emit` is told what happens outside of turns in this process.
    """
    if local or usable_gateway(env) is None:
        async with open_here(env, hurried=hurried, emit=emit) as agent:
            yield agent
        return
    link = AgentLink(lambda: open_here(env, hurried=hurried, emit=emit))
    failure: OpenClawError | None = None
    async with anyio.create_task_group() as group:
        await group.start(link.run, name="agent")
        try:
            shared = SharedAgent(env, link)
            await shared.prepare()
            yield shared
        except OpenClawError as error:
            failure = error  # raised in here, it would come out in a group of errors
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
