"""The agent as a chat uses it: in this process, or in a gateway that runs."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from openclaw.cli.environment import Environment
from openclaw.cli.logs import servers_logged
from openclaw.cli.open_agent import open_agent, usable_gateway
from openclaw.core.errors import OpenClawError
from openclaw.core.events import Emit, discard
from openclaw.mcp_client.bridge.prompts import PromptArgument, PromptInfo

if TYPE_CHECKING:
    from openclaw.agent.port import MessageContext, Reply
    from openclaw.cli.chat.questions import Questions
    from openclaw.core.events import Emit
    from openclaw.mcp_server.agent_link import OrderSettings, OrderTaker
    from openclaw.media.transcription import Transcriber
    from openclaw.runtime import Runtime


@dataclass(frozen=True, slots=True)
class ToolLine:
    """A tool, for a person to read."""

    name: str
    description: str


class ChatAgent(Protocol):
    """What a chat needs of the agent."""

    @property
    def id(self) -> str:
        """Which agent it is."""
        ...

    @property
    def transcriber(self) -> "Transcriber":
        """Turns attached sound into words."""
        ...

    def prompts(self, session: str) -> Sequence[PromptInfo]:
        """The prompts that a message may call, as far as they are known now."""
        ...

    async def refresh(self) -> None:
        """Learn what there is now."""
        ...

    async def tools(self, session: str) -> Sequence[ToolLine]:
        """The tools that it may use."""
        ...

    async def models(self) -> Sequence[str]:
        """The models that answer, the first one first."""
        ...

    async def get_reply(self, context: "MessageContext", on_event: "Emit") -> "Reply":
        """Answer one message, telling what happens meanwhile."""
        ...


@asynccontextmanager
async def open_chat_agent(
    env: Environment,
    agent_id: str | None,
    *,
    local: bool,
    questions: "Questions | None" = None,
    emit: Emit = discard,
) -> AsyncGenerator[ChatAgent]:
    """Whoever answers; `questions` are put to the person at this terminal.

    `emit` is told what happens outside of turns, where the agent runs here.
    """
    if local or usable_gateway(env) is None:
        from openclaw.runtime import open_runtime

        with servers_logged(env):
            async with open_runtime(
                env.load_config(), env.environ, env.redactor, emit=emit
            ) as runtime:
                yield AgentHere(runtime, runtime.order_settings(agent_id), questions)
        return
    async with open_agent(env) as shared:
        agent = AgentElsewhere(env, shared, shared.order_settings(agent_id), questions)
        await agent.refresh()
        yield agent


class AgentHere:
    """The agent in this process."""

    def __init__(
        self, runtime: "Runtime", settings: "OrderSettings", questions: "Questions | None"
    ) -> None:
        self._runtime = runtime
        self._questions = questions
        self.id = settings.agent_id
        self.transcriber = settings.transcriber

    def prompts(self, session: str) -> Sequence[PromptInfo]:
        """The prompts of the servers that have answered."""
        return self._runtime.prompts(self.id, session)

    async def refresh(self) -> None:
        """Nothing to do: what there is now is always at hand."""

    async def tools(self, session: str) -> Sequence[ToolLine]:
        """Our own tools and those of every server that starts within a bound."""
        await self._runtime.settle(self.id, session)
        specs = self._runtime.tools(self.id, session)
        return [ToolLine(spec.name, spec.description) for spec in specs]

    async def models(self) -> Sequence[str]:
        """The models as they are chosen now."""
        return await self._runtime.model_names(self.id)

    async def get_reply(self, context: "MessageContext", on_event: "Emit") -> "Reply":
        """Answer here."""
        return await _asked_here(self._runtime, context, on_event, self._questions)


class AgentElsewhere:
    """The agent of a running gateway."""

    def __init__(
        self,
        env: Environment,
        shared: "OrderTaker",
        settings: "OrderSettings",
        questions: "Questions | None",
    ) -> None:
        self._env = env
        self._shared = shared
        self._questions = questions
        self._known: tuple[PromptInfo, ...] = ()
        self.id = settings.agent_id
        self.transcriber = settings.transcriber

    def prompts(self, session: str) -> Sequence[PromptInfo]:
        """The prompts that the gateway named last."""
        return self._known

    async def refresh(self) -> None:
        """Ask the gateway for its prompts; where it cannot say, those known stay."""
        try:
            rows = (await self._asked("/api/prompts"))["prompts"]
        except OpenClawError:
            return
        self._known = tuple(map(prompt_of, rows))

    async def tools(self, session: str) -> Sequence[ToolLine]:
        """The MCP tools that the gateway offers to this agent."""
        rows = (await self._asked("/api/tools"))["tools"]
        return [ToolLine(row["name"], row["description"]) for row in rows]

    async def models(self) -> Sequence[str]:
        """The model that is configured for this agent."""
        rows = (await self._asked("/api/agents"))["agents"]
        return [row["model"] for row in rows if row["id"] == self.id and row["model"]]

    async def get_reply(self, context: "MessageContext", on_event: "Emit") -> "Reply":
        """Have the gateway answer."""
        return await _asked_here(self._shared, context, on_event, self._questions)

    async def _asked(self, path: str) -> dict[str, Any]:
        from openclaw.gateway.client import GatewayClient, GatewayGone

        info = usable_gateway(self._env)
        if info is None:
            raise GatewayGone("the gateway went away", sent=False)
        async with GatewayClient(info.url, self._env.paths.root) as client:
            return await client.request("GET", f"{path}?agent={self.id}")


async def _asked_here(
    taker: "OrderTaker",
    context: "MessageContext",
    on_event: "Emit",
    questions: "Questions | None",
) -> "Reply":
    """Have it answered, and the person asked where there is one."""
    if questions is None:
        return await taker.get_reply(context, on_event=on_event)
    return await taker.get_reply(
        context, on_event=on_event, ask=questions.permit, elicit=questions.elicit
    )


def prompt_of(row: dict[str, Any]) -> PromptInfo:
    """A prompt as the gateway describes it."""
    return PromptInfo(
        server=row["server"],
        name=row["name"],
        description=row["description"],
        arguments=tuple(PromptArgument(**argument) for argument in row["arguments"]),
    )
