"""An agent put together from real parts around a scripted model, for tests of whatever calls it."""

import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from openclaw.agent.port import NO_LISTENER, MessageContext, Reply, TurnListener
from openclaw.agent.service import AgentService, TurnSetup
from openclaw.agent.toolpath.approval import Approvals
from openclaw.agent.toolpath.dataflow import SessionFlows
from openclaw.agent.toolpath.search import ToolListLimits, ToolSearch
from openclaw.agent.toolpath.toolbox import Toolbox, ToolPathDeps, tool_path
from openclaw.config.agent_schema import ModelChoice
from openclaw.config.merge import EffectiveAgent, effective_agents
from openclaw.config.schema import Config
from openclaw.core.clock import SystemClock
from openclaw.core.content import Text
from openclaw.core.events import Emit, Event
from openclaw.core.tools import CallContext, JsonObject, Origin, ToolResult, ToolSpec
from openclaw.models.build import ModelBuilder
from openclaw.models.fallback import FallbackModels, ModelFactory
from openclaw.policy.dataflow.rules import FlowRules as FlowRules
from openclaw.policy.decide import Rules
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver
from openclaw.sessions.sqlite.store import open_sqlite_store
from openclaw.sessions.store import SessionStore

Does = Callable[[JsonObject, CallContext], Awaitable[ToolResult]]
APIS = ("openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai")


@dataclass
class FakeTools:
    """A source of tools that a test makes up; `calls` has every call with its arguments."""

    tools: dict[str, tuple[ToolSpec, Does]] = field(
        default_factory=dict[str, tuple[ToolSpec, Does]]
    )
    calls: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )

    def add(
        self,
        name: str,
        does: Does | str = "done",
        *,
        description: str = "A tool.",
        schema: JsonObject | None = None,
        server: str | None = None,
    ) -> None:
        """Offer a tool; `does` as a string is what it always answers."""
        spec = ToolSpec(
            name=name,
            description=description,
            input_schema=schema or {"type": "object", "properties": {}},
            label=name,
            origin=Origin(server, name if server else None),
        )
        answer = does if callable(does) else _always(does)
        self.tools[name] = (spec, answer)

    def specs(self) -> Sequence[ToolSpec]:
        return [spec for spec, _ in self.tools.values()]

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        self.calls.append((name, dict(arguments)))
        return await self.tools[name][1](arguments, context)


def _always(text: str) -> Does:
    async def does(arguments: JsonObject, context: CallContext) -> ToolResult:
        return ToolResult(blocks=(Text(text),))

    return does


@dataclass
class AgentKit:
    service: AgentService
    setups: Mapping[str, TurnSetup]
    store: SessionStore
    factory: ModelFactory
    tools: FakeTools
    redactor: Redactor
    events: list[Event] = field(default_factory=list[Event])

    async def say(
        self, text: str, *, stream: bool = True, session: str = "s", **more: Any
    ) -> Reply:
        context = MessageContext(text=text, session_key=session, **more)
        listener = TurnListener(on_event=self.events.append) if stream else NO_LISTENER
        return await self.reply(context, listener)

    async def reply(self, context: MessageContext, listener: TurnListener = NO_LISTENER) -> Reply:
        return await self.service.reply(context, self.setups[context.agent_id], listener)


def scripted_config(
    url: str,
    *,
    api: str = "openai-completions",
    fallback_url: str | None = None,
    model: Mapping[str, Any] | None = None,
    provider: Mapping[str, Any] | None = None,
    ref: str = "scripted",
    **defaults: Any,
) -> Config:
    path = "/v1" if api.startswith("openai") else ""
    entry = {"id": "scripted", "input": ["text", "image"], **(model or {})}
    common = {"apiKey": "key", "api": api, "models": [entry], **(provider or {})}
    providers = {"acme": {**common, "baseUrl": f"{url}{path}"}}
    choice: dict[str, Any] = {"primary": f"acme/{ref}"}
    if fallback_url is not None:
        providers["other"] = {**common, "baseUrl": f"{fallback_url}{path}"}
        choice["fallbacks"] = ["other/scripted"]
    return Config.model_validate(
        {"models": {"providers": providers}, "agents": {"defaults": {"model": choice, **defaults}}}
    )


@asynccontextmanager
async def agent_kit(
    config: Config,
    *,
    tools: FakeTools | None = None,
    store: SessionStore | None = None,
    resources: str = "",
    workspace: Path | None = None,
    policy: Sequence[Rules] = (),
    stack: FallbackModels | None = None,
    no_delay: bool = True,
    observe: Callable[[], Emit] | None = None,
    data_flow: FlowRules | None = None,
    flows: SessionFlows | None = None,
) -> AsyncGenerator[AgentKit]:
    """An agent with this configuration, or with the models of `stack` in place of its own.

    Retries do not wait unless `no_delay` is off. Where values come from is asked if there are
    rules for it. Without a `store`, conversations end with the agent.
    """
    redactor, box = Redactor(), tools or FakeTools()
    finder, approvals = ToolSearch(), Approvals()
    known = flows or SessionFlows()

    async def models(
        agent: EffectiveAgent, model: str | None, thinking: str | None
    ) -> FallbackModels:
        choice = agent.model if model is None else ModelChoice(primary=model)
        built = stack or await factory.models_of(choice, thinking=thinking or agent.thinking)
        if no_delay:
            built.sleep = _no_sleep
        return built

    def path(agent: EffectiveAgent, session: str) -> Toolbox:
        deps = ToolPathDeps(redactor, SystemClock(), finder=finder, approvals=approvals)
        bounds = ToolListLimits(agent.tool_context_percent, agent.tool_search_limit, agent.code)
        flow = known.of(session, data_flow) if data_flow is not None else None
        return tool_path([box], policy, deps, bounds=bounds, flow=flow)

    agents = effective_agents(config).values()
    async with AsyncExitStack() as opened:
        factory = await opened.enter_async_context(
            aclosing(
                ModelFactory(
                    config.models.providers,
                    ModelBuilder(SecretResolver({}, redactor), {}),
                    SystemClock(),
                )
            )
        )
        if store is None:
            path_of_store = Path(opened.enter_context(tempfile.TemporaryDirectory()), "sessions.db")
            store = await opened.enter_async_context(
                open_sqlite_store(path_of_store, SystemClock())
            )
        service = AgentService(
            store=store,
            models=models,
            server_context=lambda agent, scope, usable: resources,
            redactor=redactor,
            observe=observe,
        )
        setups = {one.id: TurnSetup(one, partial(path, one), workspace) for one in agents}
        yield AgentKit(service, setups, store, factory, box, redactor)


async def _no_sleep(seconds: float) -> None:
    return None
