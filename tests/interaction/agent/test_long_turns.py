"""Long work: the order stays intact, room is used well, and limits stop with an account."""

import json
from bisect import bisect
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import anyio
import pytest
from tests.support.agent_kit import FakeTools, agent_kit, scripted_config
from tests.support.loop_time import pass_time, pass_time_after
from tests.support.vendors.rules import Conversation
from tests.support.vendors.server import refusal

from openclaw.agent import compaction
from openclaw.agent.budget import Budget, LimitReached, estimate
from openclaw.agent.port import MessageContext, TurnListener
from openclaw.agent.transcript import NOT_MADE
from openclaw.config.agent_schema import TurnLimits
from openclaw.core.content import Text
from openclaw.core.events import Usage
from openclaw.core.questions import Answer, Question
from openclaw.core.tools import CallContext, JsonObject, ToolResult
from openclaw.policy.decide import Rules
from openclaw.sessions.records import EntryKind
from openclaw.testing.scripted_model import Request, Script, Step, scripted_model

ORDER = "Sort all 200 files into folders.\n\n  NEVER delete anything.  Ask before you rename.\n"
PLAN = [
    {"step": "Read the index", "status": "completed"},
    {"step": "Sort every file", "status": "in_progress"},
    {"step": "Report what was moved", "status": "pending"},
]
NOTES = (
    "## Goal\nSort files.\n## Constraints\n“NEVER delete anything.”\n## Open\nWhich folder for b?"
)


def summarises(request: Request) -> bool:
    return "Write notes on the conversation" in json.dumps(request.body)


def said(request: Request) -> list[str]:
    """Every text that is sent as the person's."""
    messages = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
    return [
        text
        for content in messages
        for text in ([content] if isinstance(content, str) else [p["text"] for p in content])
    ]


class Working(Script):
    """Calls tools for as long as there are steps; notes on the conversation are always the same."""

    def __init__(self, steps: Iterator[Step], notes: str = NOTES) -> None:
        super().__init__()
        self._work = steps
        self._notes = notes

    def answer(self, request: Request) -> Step:
        self.requests.append(request)
        step = Step(text=self._notes) if summarises(request) else next(self._work)
        return replace(step, input_tokens=estimate(json.dumps(request.body)))


def work(count: int, argument_chars: int) -> Iterator[Step]:
    yield Step(calls=(("update_plan", {"plan": PLAN}),))
    for number in range(count - 2):
        path = f"out/{number:03}.txt"
        content = f"{number} " + "w" * argument_chars
        yield Step(calls=(("write", {"path": path, "content": content}), ("read", {"path": path})))
    yield Step(text="All sorted.")


def file_tools(result_chars: int) -> FakeTools:
    anything = {
        "path": {"type": "string"},
        "content": {"type": "string"},
        "plan": {"type": "array"},
    }
    tools = FakeTools()
    for name, says in (("update_plan", "noted"), ("write", "ok"), ("read", "r" * result_chars)):
        tools.add(name, says, schema={"type": "object", "properties": anything})
    return tools


async def test_a_turn_of_many_steps_on_a_small_window_keeps_its_order_and_plan(
    soaking: bool,
) -> None:
    steps, window, answer = (200, 64_000, 8_000) if soaking else (60, 24_000, 3_000)
    script = Working(work(steps, 2_400))
    model = {"contextWindow": window, "maxTokens": answer}
    async with (
        scripted_model(script=script) as server,
        agent_kit(scripted_config(server.url, model=model), tools=file_tools(4_000)) as kit,
    ):
        reply = await kit.say(ORDER)
        assert (reply.text, reply.outcome) == ("All sorted.", "ok")
        session = await kit.store.open_session("main", "s")
        history = await kit.store.history(session)
    asked = [request for request in script.requests if not summarises(request)]
    assert len(asked) == steps
    assert len(script.requests) - len(asked) >= 5, "it was summarised again and again"
    for request in asked:
        assert ORDER in said(request)
        assert refusal(request.api, Conversation(request.body, request.model)) is None
        assert estimate(json.dumps(request.body)) < window - answer
    last = json.dumps(asked[-1].body, ensure_ascii=False)
    assert "- [in_progress] Sort every file" in last
    assert "“NEVER delete anything.”" in last
    assert "Which folder for b?" in last
    assert "- out/000.txt" in last
    # What the next turn gets has the order as well.
    assert any(entry.kind is EntryKind.COMPACTION for entry in history)
    assert history[0].data["messages"][0]["text"] == ORDER


async def test_two_large_results_do_not_erase_a_conversation_that_fits() -> None:
    tools = file_tools(40_000)
    steps = [
        *(Step(text=f"answer {number}") for number in range(5)),
        Step(calls=(("read", {}),)),
        Step(calls=(("read", {}),)),
        Step(text="done"),
    ]
    script = Working(iter(steps))
    async with (
        scripted_model(script=script) as server,
        agent_kit(scripted_config(server.url, model={"contextWindow": 20_000}), tools=tools) as kit,
    ):
        for number in range(5):
            await kit.say(f"question {number}")
        await kit.say("read both")
    assert not any(map(summarises, script.requests))
    last = json.dumps(script.requests[-1].body)
    for number in range(5):
        assert f"question {number}" in last
        assert f"answer {number}" in last
    # The room is 80 % of the window, and at least nine tenths of it are used.
    assert estimate(last) > 20_000 * 0.8 * 0.9 * 0.9


async def test_room_for_the_answer_is_reserved() -> None:
    model = {"contextWindow": 16_000, "maxTokens": 8_000}
    script = Working(iter([Step(text="x" * 12_000) for _ in range(12)]))
    async with (
        scripted_model(script=script) as server,
        agent_kit(scripted_config(server.url, model=model)) as kit,
    ):
        for number in range(8):
            await kit.say(f"message {number}")
    sizes = [estimate(json.dumps(r.body["messages"])) for r in script.requests]
    assert max(sizes) <= 8_000 * 1.15


async def test_compact_summarises_what_came_before_and_keeps_what_the_person_names() -> None:
    script = Working(iter([Step(text="one"), Step(text="two"), Step(text="three")]))
    async with (
        scripted_model(script=script) as server,
        agent_kit(scripted_config(server.url)) as kit,
    ):
        await kit.say("first words")
        await kit.say("second words")
        reply = await kit.say("/compact the port numbers", prompt_calls=True)
        await kit.say("go on")
    assert "I summarised the conversation" in reply.text
    (asked,) = filter(summarises, script.requests)
    assert "keep above all: the port numbers" in json.dumps(asked.body)
    last = json.dumps(script.requests[-1].body)
    assert "first words" not in last
    assert "Which folder for b?" in last


async def test_a_section_that_new_notes_leave_out_stays() -> None:
    before = compaction.SummaryItem(NOTES)
    again = compaction.summary_of([before], "## Done\nsorted a to f", 1_000)
    assert "“NEVER delete anything.”" in again.summary
    assert "Which folder for b?" in again.summary
    assert "sorted a to f" in again.summary


def test_cached_input_does_not_use_up_the_budget() -> None:
    budget = Budget(TurnLimits())
    for _ in range(100):
        budget.before_request()
        budget.usage += Usage(95_000, 500, 94_000, requests=1)
    budget.usage += Usage(cost=25.0)
    with pytest.raises(LimitReached, match=r"cost \$25.00"):
        budget.before_request()


async def test_configured_prices_bound_a_turn() -> None:
    cost = {"input": 1_000_000, "output": 0}
    async with (
        scripted_model(default=Step(calls=(("read", {}),), input_tokens=10)) as server,
        agent_kit(
            scripted_config(server.url, model={"cost": cost}, limits={"maxCost": 30}),
            tools=file_tools(10),
        ) as kit,
    ):
        reply = await kit.say("go")
    assert reply.outcome == "limit"
    assert "this turn cost $30.00" in reply.text


async def test_a_limit_is_followed_by_what_was_done_and_what_is_left() -> None:
    steps = [
        Step(calls=(("read", {}),)),
        Step(calls=(("read", {}),)),
        Step(text="I read two of 9."),
    ]
    async with (
        scripted_model(steps) as server,
        agent_kit(scripted_config(server.url, limits={"maxSteps": 2}), tools=file_tools(10)) as kit,
    ):
        reply = await kit.say("read all 9")
    assert reply.outcome == "limit"
    assert reply.text.startswith("I stopped: this turn reached its limit of 2 steps")
    assert reply.text.endswith("I read two of 9.")
    assert "what is left to do" in server.requests[-1].last_text


async def test_without_a_model_the_account_names_tools_files_and_plan() -> None:
    steps = [Step(calls=(("update_plan", {"plan": PLAN}), ("write", {"path": "a.txt"})))]
    async with (
        scripted_model(steps, default=Step(status=400)) as server,
        agent_kit(scripted_config(server.url, limits={"maxSteps": 1}), tools=file_tools(10)) as kit,
    ):
        reply = await kit.say("go")
    assert "Files changed: a.txt." in reply.text
    assert "- [pending] Report what was moved" in reply.text


async def test_waiting_for_a_person_does_not_use_up_the_time() -> None:
    async def ask(request: Question) -> Answer:
        pass_time(600)
        await anyio.sleep(0.01)  # a limit that counted this would end it here
        return Answer("once")

    async with (
        scripted_model([Step(calls=(("read", {}),)), Step(text="done")]) as server,
        agent_kit(
            scripted_config(server.url, limits={"timeoutMs": 500_000}),
            tools=file_tools(10),
            policy=[Rules("tools", ask=["read"])],
        ) as kit,
    ):
        reply = await kit.reply(MessageContext("go", "s"), TurnListener(ask=ask))
    assert (reply.text, reply.outcome) == ("done", "ok")


async def test_a_call_that_still_waited_for_approval_did_not_happen() -> None:
    asked = anyio.Event()

    async def ask(request: Question) -> Answer:
        asked.set()
        await anyio.sleep_forever()
        return Answer("once")

    async with (
        scripted_model([Step(calls=(("read", {}),)), Step(text="fine")]) as server,
        agent_kit(
            scripted_config(server.url),
            tools=file_tools(10),
            policy=[Rules("tools", ask=["read"])],
        ) as kit,
    ):

        async def turn() -> None:
            await kit.reply(MessageContext("go", "s"), TurnListener(ask=ask))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await asked.wait()
            # A crash here would leave no trace of the call either.
            session = await kit.store.open_session("main", "s")
            kinds = [entry.kind for entry in await kit.store.history(session)]
            assert EntryKind.TOOL_CALL not in kinds
            tasks.cancel_scope.cancel()
        await kit.say("and now?")
    sent = json.dumps(server.requests[-1].body)
    assert NOT_MADE in sent
    assert "may or may not have happened" not in sent.replace("call may or may not have", "")


@pytest.mark.parametrize("api", ["openai-completions", "anthropic-messages"])
async def test_a_call_that_the_output_limit_cuts_is_explained_and_tried_once_more(api: str) -> None:
    finish = "max_tokens" if api.startswith("anthropic") else "length"
    cut = Step(calls=(("write", '{"path": "a", "content": "aaa'),), finish=finish)
    async with (
        scripted_model([cut, cut, Step(text="I could not write it.")]) as server,
        agent_kit(scripted_config(server.url, api=api), tools=file_tools(10)) as kit,
    ):
        reply = await kit.say("write a long file")
    assert kit.tools.calls == []
    assert "reached the limit on its length" in server.requests[1].last_text
    assert "twice in a row" in reply.text
    assert len(server.requests) == 3


@pytest.mark.parametrize("stream", [True, False])
async def test_every_request_is_streamed_and_only_silence_ends_it(stream: bool) -> None:
    slow: dict[str, Any] = {"timeoutMs": 120_000, "maxRetries": 3}
    step = Step(text="word " * 16, delay=10)  # longer than that in all, and never silent so long
    async with (
        scripted_model([step]) as server,
        agent_kit(scripted_config(server.url, provider=slow)) as kit,
        anyio.create_task_group() as group,
    ):

        async def let_time_pass() -> None:
            while True:
                await pass_time_after(lambda: server.requests, 10)
                await anyio.sleep(0.01)

        group.start_soon(let_time_pass)
        assert (await kit.say("go", stream=stream)).text == "word " * 16
        group.cancel_scope.cancel()
    assert [request.stream for request in server.requests] == [True]


async def test_a_request_that_timed_out_is_sent_once_more_and_not_three_times() -> None:
    async with (
        scripted_model(default=Step(hang=True)) as server,
        agent_kit(scripted_config(server.url, provider={"timeoutMs": 60_000})) as kit,
        anyio.create_task_group() as group,
    ):

        async def let_time_pass() -> None:
            await pass_time_after(lambda: len(server.requests) == 1, 60)
            await pass_time_after(lambda: len(server.requests) == 2, 60)

        group.start_soon(let_time_pass)
        with pytest.raises(Exception, match="did not answer in time"):
            await kit.say("go", stream=False)
    assert len(server.requests) == 2


async def test_a_tool_that_runs_is_told_to_the_model_as_unknown_when_stopped() -> None:
    running = anyio.Event()

    async def forever(arguments: JsonObject, context: CallContext) -> ToolResult:
        running.set()
        await anyio.sleep_forever()
        return ToolResult(blocks=(Text("never"),))

    tools = FakeTools()
    tools.add("forever", forever)
    async with (
        scripted_model([Step(calls=(("forever", {}),)), Step(text="fine")]) as server,
        agent_kit(scripted_config(server.url), tools=tools) as kit,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kit.say, "go")
            await running.wait()
            tasks.cancel_scope.cancel()
        await kit.say("and now?")
    assert "It may or may not have happened" in json.dumps(server.requests[-1].body)


async def test_nearly_all_of_a_request_is_what_the_one_before_began_with(soaking: bool) -> None:
    """Providers cache that, both before the context is full and once things have to be cut."""
    steps, window, chars = (180, 64_000, 900) if soaking else (90, 24_000, 350)
    script = Working(work(steps, chars))
    model = {"contextWindow": window, "maxTokens": 2_000}
    async with (
        scripted_model(script=script) as server,
        agent_kit(scripted_config(server.url, model=model), tools=file_tools(chars)) as kit,
    ):
        await kit.say(ORDER)
    asked = [
        json.dumps([request.body["tools"], request.body["messages"]])
        for request in script.requests
        if not summarises(request)
    ]
    assert len(asked) == steps
    shared = [
        bisect(range(len(one)), 0, key=lambda at: not other.startswith(one[: at + 1]))
        for one, other in pairwise(asked)
    ]
    sizes = [len(request) for request in asked[1:]]
    cuts = [
        at for at, (same, size) in enumerate(zip(shared, sizes, strict=True)) if same < size / 2
    ]
    assert cuts, "the context was never full"
    for phase in (slice(cuts[0]), slice(cuts[0], None)):
        assert sum(shared[phase]) / sum(sizes[phase]) >= 0.95
