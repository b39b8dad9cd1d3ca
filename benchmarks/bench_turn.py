"""One turn with one tool call against an instant model: ours, and plain pydantic-ai.

Ours does more: lane, transcript on disk, policy, prompt assembly, events. The goal is at most 3 ms
on top of plain pydantic-ai.
"""

import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from anyio.from_thread import BlockingPortal, start_blocking_portal
from harness import Comparison, Contender, compare, report
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from tests.support.agent_kit import FakeTools

from openclaw.agent.port import MessageContext
from openclaw.agent.service import AgentService, TurnSetup
from openclaw.agent.toolpath.toolbox import ToolPathDeps, tool_path
from openclaw.config.merge import EffectiveAgent, effective_agents
from openclaw.config.schema import Config
from openclaw.core.clock import SystemClock
from openclaw.models.build import BuiltModel
from openclaw.models.choose import Candidate, ModelCandidates
from openclaw.models.fallback import FallbackModels
from openclaw.policy.decide import Rules
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.sqlite.store import open_sqlite_store
from openclaw.sessions.store import SessionStore

TURNS = 20
GOAL_SECONDS = 0.003
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

Turn = Callable[[], Awaitable[str]]


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Calls the tool once, then answers."""
    if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
        return ModelResponse(parts=[TextPart("It is raining.")])
    return ModelResponse(parts=[ToolCallPart("weather", {"city": "Bern"})])


async def streamed(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """The same, as our loop asks for it."""
    if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
        yield "It is raining."
    else:
        yield {0: DeltaToolCall(name="weather", json_args='{"city": "Bern"}')}


def plain() -> Turn:
    agent = Agent(FunctionModel(answer), instructions="Answer briefly.")

    @agent.tool_plain
    async def weather(city: str) -> str:
        return "rain"

    async def turn() -> str:
        return (await agent.run("What is the weather in Bern?")).output

    return turn


def ours(store: SessionStore, tool_count: int = 1, session: str | None = None) -> Turn:
    """A turn with so many tools; each in a session of its own, or all in one."""
    candidate = Candidate("instant", "model", "local", context_window=128_000)
    built = BuiltModel(candidate, FunctionModel(answer, stream_function=streamed), {})

    async def build(wanted: Candidate) -> BuiltModel:
        return built

    async def stack_for(
        agent: EffectiveAgent, model: str | None, thinking: str | None
    ) -> FallbackModels:
        return stack

    stack = FallbackModels(ModelCandidates((candidate,), "benchmark"), build, clock=SystemClock())
    tools = FakeTools()
    tools.add("weather", "rain", schema=SCHEMA)
    for other in range(tool_count - 1):
        tools.add(f"tool_{other}", "nothing", schema=SCHEMA)
    policy = [Rules("tools", deny=("exec",))]
    deps = ToolPathDeps(Redactor(), SystemClock())
    service = AgentService(
        store=store,
        models=stack_for,
        server_context=lambda agent, scope, usable: "",
        redactor=deps.redactor,
    )
    agent = effective_agents(Config())["main"]
    setup = TurnSetup(agent, lambda session: tool_path([tools], policy, deps))
    number = 0

    async def turn() -> str:
        nonlocal number
        number += 1
        key = session or f"session-{number}"
        context = MessageContext("What is the weather in Bern?", key)
        return (await service.reply(context, setup)).text

    return turn


def contender(name: str, turn: Turn, portal: BlockingPortal) -> Contender:
    async def turns() -> float:
        started = time.perf_counter()
        for _ in range(TURNS):
            assert await turn() == "It is raining."
        return (time.perf_counter() - started) / TURNS

    return Contender(name, lambda: portal.call(turns))


def measure() -> Comparison:
    with (
        tempfile.TemporaryDirectory() as directory,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            open_sqlite_store(Path(directory) / "sessions.db", SystemClock())
        ) as store,
    ):
        return compare(
            "one turn with one tool call, instant model (goal: 3 ms more than plain)",
            [
                contender("plain pydantic-ai", portal.call(made, plain), portal),
                contender("ours", portal.call(made, ours, store), portal),
            ],
            warmup=2,
        )


async def made(make: Callable[..., Turn], *arguments: object) -> Turn:
    """Make a contender inside the loop in which it will run."""
    return make(*arguments)


def main() -> None:
    comparison = measure()
    base = comparison.rows[0].median
    notes: list[str] = []
    for row in comparison.rows[1:]:
        more = row.median - base
        verdict = "within" if more <= GOAL_SECONDS else "over"
        notes.append(f"{row.name}: {more * 1000:+.2f} ms against plain, {verdict} the goal")
    report([comparison], notes=notes)


if __name__ == "__main__":
    main()
