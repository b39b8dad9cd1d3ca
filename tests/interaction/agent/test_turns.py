"""What a turn leaves behind when it is bounded, stopped, repeated or cut off by a crash."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.agent_kit import AgentKit, FakeTools, agent_kit, scripted_config
from tests.support.connection_bench import until
from tests.support.loop_time import pass_time, pass_time_after

from openclaw.agent.model_messages import MOST_CALLS
from openclaw.agent.port import MessageContext, TurnListener
from openclaw.agent.tool_calls import MOST_AT_ONCE
from openclaw.agent.tools.native_tools import native_tools
from openclaw.core.clock import SystemClock
from openclaw.core.content import Text
from openclaw.core.errors import InvalidRequest, ModelUnavailable
from openclaw.core.events import Event, TextDelta, ToolProgress, TurnFinished
from openclaw.core.outcome import Outcome
from openclaw.core.tools import CallContext, JsonObject, ToolResult
from openclaw.models.build import BuiltModel
from openclaw.models.choose import Candidate, ModelCandidates
from openclaw.models.fallback import FallbackModels
from openclaw.sessions.records import EntryKind, NewEntry, SessionRef
from openclaw.sessions.store import SessionStore
from openclaw.testing.scripted_model import Request, Step, scripted_model

LOOPING = Step(calls=(("again", {}),))


def looping_tools() -> FakeTools:
    tools = FakeTools()
    tools.add("again", "once more")
    return tools


async def kinds(store: SessionStore, key: str = "s") -> list[EntryKind]:
    session = await store.open_session("main", key)
    return [entry.kind for entry in await store.history(session)]


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"maxSteps": 3}, "limit of 3 steps"),
        ({"maxToolCalls": 2}, "limit of 2 tool calls"),
        ({"maxTokens": 40}, "its limit is 40"),
    ],
)
async def test_a_limit_ends_the_turn_with_a_clear_message(
    limits: dict[str, int], says: str
) -> None:
    async with (
        scripted_model(default=LOOPING) as model,
        agent_kit(scripted_config(model.url, limits=limits), tools=looping_tools()) as kit,
    ):
        reply = await kit.say("go")
        assert reply.outcome == "limit"
        assert says in reply.text
        model.script.default = Step(text="fine")
        assert (await kit.say("and now?")).text == "fine"
    roles = [message["role"] for message in model.requests[-1].body["messages"]]
    assert roles[-2:] == ["assistant", "user"]
    assert roles.count("tool") == len(kit.tools.calls) + (1 if "maxToolCalls" in limits else 0)


async def test_the_time_limit_stops_a_tool_and_tells_the_model_later() -> None:
    async def forever(arguments: JsonObject, context: CallContext) -> ToolResult:
        pass_time(61)
        await anyio.sleep_forever()
        raise AssertionError

    tools = FakeTools()
    tools.add("forever", forever)
    async with (
        scripted_model(
            [Step(calls=(("forever", {}),)), Step(text="I waited."), Step(text="fine")]
        ) as model,
        agent_kit(scripted_config(model.url, limits={"timeoutMs": 60_000}), tools=tools) as kit,
    ):
        reply = await kit.say("go")
        assert reply.outcome == "limit"
        assert "time limit of 60 s" in reply.text
        assert reply.text.endswith("I waited.")
        await kit.say("and now?")
    sent = json.dumps(model.requests[-1].body["messages"])
    assert "the turn's time was up. This call may or may not have happened." in sent


async def test_a_hanging_model_is_stopped_by_the_time_limit() -> None:
    async with (
        scripted_model([Step(hang=True)]) as model,
        agent_kit(scripted_config(model.url, limits={"timeoutMs": 60_000})) as kit,
        anyio.create_task_group() as group,
    ):

        async def let_time_pass() -> None:
            await until(lambda: bool(model.requests))
            pass_time(61)

        group.start_soon(let_time_pass)
        assert (await kit.say("go")).outcome == "limit"


async def test_a_silent_provider_is_given_up_and_named() -> None:
    provider = {"timeoutMs": 60_000, "maxRetries": 1}
    async with (
        scripted_model(default=Step(hang=True)) as model,
        agent_kit(scripted_config(model.url, provider=provider)) as kit,
        anyio.create_task_group() as group,
    ):

        async def let_time_pass() -> None:
            await pass_time_after(lambda: len(model.requests) == 1, 60)
            await pass_time_after(lambda: len(model.requests) == 2, 60)

        group.start_soon(let_time_pass)
        with pytest.raises(ModelUnavailable, match="did not answer in time"):
            await kit.say("go")
    assert len(model.requests) == 2


async def test_cancelling_keeps_what_was_finished() -> None:
    started = anyio.Event()

    async def forever(arguments: JsonObject, context: CallContext) -> ToolResult:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    tools = looping_tools()
    tools.add("forever", forever)
    steps = [Step(calls=(("again", {}), ("forever", {}))), Step(text="fine")]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), tools=tools) as kit,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kit.say, "go")
            await started.wait()
            tasks.cancel_scope.cancel()
        assert kit.events[-1] == TurnFinished("s", _turn(kit.events), Outcome.CANCELLED)
        assert (await kinds(kit.store))[-1] is EntryKind.TURN_CANCELLED
        await kit.say("and now?")
    messages = model.requests[-1].body["messages"]
    roles = [message["role"] for message in messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]
    results = [message["content"] for message in messages if message["role"] == "tool"]
    assert "once more" in results[0]
    assert "Cancelled" in results[1]


async def test_calls_of_an_answer_that_was_never_recorded_have_no_results_on_record() -> None:
    steps = [Step(text="I look it up.", calls=(("again", {}),))]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), tools=looping_tools()) as kit,
    ):
        with anyio.CancelScope() as scope:
            listener = TurnListener(on_block_reply=lambda blocks: scope.cancel())
            await kit.reply(MessageContext("go", "s"), listener)
        recorded = await kinds(kit.store)
    assert EntryKind.TOOL_CALL not in recorded
    assert EntryKind.TOOL_RESULT not in recorded
    assert recorded[-1] is EntryKind.TURN_CANCELLED


def _turn(events: list[Event]) -> str:
    return next(event.turn for event in events if isinstance(event, TurnFinished))


async def test_cancelling_while_the_model_writes_leaves_a_session_that_goes_on() -> None:
    async with (
        scripted_model([Step(text="word " * 50, delay=0.05), Step(text="fine")]) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        seen = anyio.Event()

        async def watched() -> None:
            await kit.reply(MessageContext("go", "s"), TurnListener(on_event=notice))

        def notice(event: Event) -> None:
            if isinstance(event, TextDelta):
                seen.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watched)
            await seen.wait()
            tasks.cancel_scope.cancel()
        assert (await kit.say("and now?")).text == "fine"
    roles = [message["role"] for message in model.requests[-1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]


async def crashed_turn(store: SessionStore, tool: str) -> SessionRef:
    """A turn whose process died while a tool ran: begun, a call recorded, and nothing after it."""
    session = await store.open_session("main", "s")
    call = {"id": "c1", "name": tool, "arguments": "{}"}
    async with store.acquire_lane(session) as lane:
        turn = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {"text": "pay the rent"})])
        await lane.append(
            turn,
            [
                NewEntry(EntryKind.ASSISTANT_MESSAGE, {"text": "", "calls": [call]}),
                NewEntry(EntryKind.TOOL_CALL, {"name": tool, "arguments": {}}, call_id="c1"),
            ],
        )
    return session


async def test_a_call_of_unknown_outcome_is_told_and_never_run_again() -> None:
    tools = FakeTools()
    tools.add("pay")
    async with (
        scripted_model([Step(text="I will check first.")]) as model,
        agent_kit(scripted_config(model.url), tools=tools) as kit,
    ):
        await crashed_turn(kit.store, "pay")
        await kit.say("did it work?")
    messages = model.requests[0].body["messages"]
    assert [m["role"] for m in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert "It may or may not have happened" in messages[3]["content"]
    assert tools.calls == []


async def test_a_failed_turn_is_visible_and_the_next_one_works() -> None:
    async with (
        scripted_model([Step(status=400, message="no"), Step(text="fine")]) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        with pytest.raises(ModelUnavailable):
            await kit.say("first")
        assert (await kinds(kit.store))[-1] is EntryKind.TURN_ERROR
        assert kit.events[-1] == TurnFinished("s", _turn(kit.events), Outcome.ERROR)
        assert (await kit.say("second")).text == "fine"
    messages = model.requests[-1].body["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user"]
    assert "ended with an error" in messages[2]["content"]


async def test_one_order_sent_twice_is_carried_out_once() -> None:
    async with (
        scripted_model([Step(text="done")]) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        first = await kit.say("go", idempotency_key="k1")
        again = await kit.say("go", idempotency_key="k1")
    assert (first.outcome, again.outcome) == ("ok", "duplicate")
    assert again.text == "done"
    assert again.turn_id == first.turn_id
    assert len(model.requests) == 1


async def test_an_order_that_failed_is_not_repeated_under_its_key() -> None:
    async with (
        scripted_model([Step(status=400)]) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        with pytest.raises(ModelUnavailable):
            await kit.say("go", idempotency_key="k1")
        with pytest.raises(InvalidRequest, match=r"order with this key failed .*HTTP 400"):
            await kit.say("go", idempotency_key="k1")


async def test_what_is_wrong_with_an_idempotency_key_is_said() -> None:
    async with (
        scripted_model([Step(text="done")]) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        await kit.say("go", idempotency_key="k1")
        with pytest.raises(InvalidRequest, match="another message was sent with this key"):
            await kit.say("stop", idempotency_key="k1")
        with pytest.raises(InvalidRequest, match="idempotencyKey: the turn id has 600 characters"):
            await kit.say("go", idempotency_key="k" * 600)


async def test_turns_of_one_session_run_one_after_another() -> None:
    running = 0
    most = 0

    async def busy(arguments: JsonObject, context: CallContext) -> ToolResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1
        return ToolResult(blocks=(Text("ok"),))

    tools = FakeTools()
    tools.add("busy", busy)
    rules = [Step(calls=(("busy", {}),), role="user"), Step(text="done", role="tool")]
    async with (
        scripted_model(rules=rules) as model,
        agent_kit(scripted_config(model.url), tools=tools) as kit,
        anyio.create_task_group() as tasks,
    ):
        for number in range(4):
            tasks.start_soon(kit.say, f"go {number}")
    assert most == 1
    assert len(model.requests) == 8


async def test_tools_may_appear_and_vanish_between_two_steps() -> None:
    tools = FakeTools()

    async def swap(arguments: JsonObject, context: CallContext) -> ToolResult:
        del tools.tools["swap"]
        tools.add("fresh", "I am new")
        context.progress("swapping")
        return ToolResult(blocks=(Text("swapped"),))

    tools.add("swap", swap)
    steps = [Step(calls=(("swap", {}),)), Step(calls=(("fresh", {}),)), Step(text="done")]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), tools=tools) as kit,
    ):
        assert (await kit.say("go")).text == "done"
    assert [request.tools for request in model.requests] == [("swap",), ("fresh",), ("fresh",)]
    assert [e.message for e in kit.events if isinstance(e, ToolProgress)] == ["swapping"]


def five_hundred() -> FakeTools:
    tools = FakeTools()
    tools.add("read", description="Read a file.")
    for number in range(500):
        tools.add(f"mcp_many_tool{number}", description=f"Thing {number}.", server="many")
    tools.add("mcp_ship_track", "at sea", description="Track a parcel by number.", server="ship")
    return tools


def defined(request: Request) -> str:
    """The definitions of tools exactly as they were sent."""
    return json.dumps(request.body["tools"])


async def test_five_hundred_tools_cost_the_context_of_a_few() -> None:
    steps = [
        Step(calls=(("tool_search", {"query": "thing 477", "limit": 2}),)),
        Step(calls=(("mcp_many_tool477", {}),)),
        Step(text="At sea."),
    ]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), tools=five_hundred()) as kit,
    ):
        assert (await kit.say("Where is my parcel?")).text == "At sea."
    first, second, third = (request.tools for request in model.requests)
    assert len(defined(model.requests[0])) < 16_000
    assert {"tool_search", "read", "mcp_ship_track"} <= set(first)
    assert "mcp_many_tool477" not in first
    assert second[: len(first)] == first
    assert second[len(first)] == "mcp_many_tool477"
    assert third == second
    assert kit.tools.calls == [("mcp_many_tool477", {})]


async def test_the_list_of_tools_is_sent_byte_for_byte_alike_over_steps_and_turns() -> None:
    steps = [
        Step(calls=(("read", {}),)),
        Step(calls=(("mcp_ship_track", {}),)),
        Step(text="one"),
        Step(text="two"),
        Step(calls=(("tool_search", {"queries": ["thing 477", "thing 478"], "limit": 1}),)),
        Step(text="three"),
        Step(text="four"),
    ]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), tools=five_hundred()) as kit,
    ):
        for text in ("Where is my parcel?", "Read a file", "thing 300", "and now?"):
            await kit.say(text)
    sent = [defined(request) for request in model.requests]
    assert len(sent) == 7
    assert len(set(sent[:5])) == 1
    assert len(set(sent[5:])) == 1
    assert sent[5].startswith(sent[0].removesuffix("]"))


async def test_a_tool_that_was_not_shown_can_be_called_and_is_shown_from_then_on() -> None:
    steps = [Step(calls=(("mcp_many_tool477", {}),)), Step(text="done"), Step(text="again")]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), tools=five_hundred()) as kit,
    ):
        await kit.say("go")
        await kit.say("go on")
    assert kit.tools.calls == [("mcp_many_tool477", {})]
    first, second, third = (request.tools for request in model.requests)
    assert second == third == (*first, "mcp_many_tool477")


async def test_a_summary_in_place_of_the_first_message_does_not_change_the_list() -> None:
    config = {"contextWindow": 12_000, "maxTokens": 100}
    async with (
        scripted_model([Step(text="ok")] * 40) as model,
        agent_kit(scripted_config(model.url, model=config), tools=five_hundred()) as kit,
    ):
        await kit.say("Where is my parcel?")
        for number in range(12):
            await kit.say(f"message {number} " + "x" * 4_000)
    sent = [defined(request) for request in model.requests if request.body.get("tools")]
    assert len(model.requests) > len(sent)  # summaries were asked for
    assert len(set(sent)) == 1


async def test_the_prompt_is_assembled_in_our_own_order(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "AGENTS.md").write_text("Speak like a sailor.")
    async with (
        scripted_model([Step(text="Aye.")]) as model,
        agent_kit(
            scripted_config(model.url),
            workspace=workspace,
            resources="<<<EXTERNAL_UNTRUSTED_CONTENT>>>\nresource words\n"
            "<<<END_EXTERNAL_UNTRUSTED_CONTENT>>>",
        ) as kit,
    ):
        await kit.say("Ahoy")
    whole = "\n".join(m["content"] for m in model.requests[0].body["messages"])
    order = ["You are OpenClaw", str(workspace), "resource words", "Speak like a sailor.", "Ahoy"]
    places = [whole.index(words) for words in order]
    assert places == sorted(places)


async def converse(kit: AgentKit, count: int) -> None:
    for number in range(count):
        await kit.say(f"message {number} " + "x" * 400)


async def test_a_long_conversation_is_summarised_and_the_transcript_kept() -> None:
    rules = [
        Step(text="SUMMARY of it all", when="[the person]"),
        Step(text="ok " + "y" * 400, when="message"),
    ]
    async with (
        scripted_model(rules=rules) as model,
        agent_kit(scripted_config(model.url, model={"contextWindow": 4000})) as kit,
    ):
        await converse(kit, 14)
        session = await kit.store.open_session("main", "s")
        everything = await kit.store.history(session, since_compaction=False)
    asked = [request for request in model.requests if "[the person]" in request.last_text]
    assert asked, "nothing was summarised"
    assert "untrusted" in json.dumps(asked[0].body)
    last = json.dumps(model.requests[-1].body["messages"])
    assert "SUMMARY of it all" in last
    assert "message 0 " not in last
    texts = [entry.text for entry in everything if entry.kind is EntryKind.USER_MESSAGE]
    assert len(texts) == 14


@pytest.mark.parametrize("api", ["openai-completions", "anthropic-messages", "openai-responses"])
async def test_an_overflow_is_answered_by_compaction_and_not_by_a_crash(api: str) -> None:
    rules = [Step(text="SUMMARY", when="[the person]")]
    steps = [Step(text="one"), Step(text="two"), Step(overflow=True), Step(text="three")]
    async with (
        scripted_model(steps, rules=rules) as model,
        agent_kit(scripted_config(model.url, api=api)) as kit,
    ):
        await kit.say("first")
        await kit.say("second")
        assert (await kit.say("third")).text == "three"
    assert "SUMMARY" in json.dumps(model.requests[-1].body)
    assert model.requests[-1].last_text == "third"


async def test_calls_and_results_are_never_parted_by_compaction() -> None:
    tools = FakeTools()
    tools.add("look", "z" * 1500)
    rules = [Step(text="SUMMARY", when="[called look")]
    calls = [Step(calls=(("look", {}), ("look", {}))) for _ in range(6)]
    async with (
        scripted_model([*calls, Step(text="done")], rules=rules) as model,
        agent_kit(scripted_config(model.url, model={"contextWindow": 3000}), tools=tools) as kit,
    ):
        assert (await kit.say("look around, please")).text == "done"
    for request in model.requests:
        open_calls: set[str] = set()
        for message in request.body["messages"]:
            open_calls |= {call["id"] for call in message.get("tool_calls", ())}
            if message["role"] == "tool":
                assert message["tool_call_id"] in open_calls
                open_calls.discard(message["tool_call_id"])
        assert not open_calls
    assert "look around, please" in json.dumps(model.requests[-1].body)


async def test_a_message_that_cannot_fit_is_refused_plainly() -> None:
    async with (
        scripted_model(default=Step(overflow=True)) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        with pytest.raises(InvalidRequest, match="does not fit"):
            await kit.say("too much")


async def test_a_summary_that_no_model_can_make_is_made_without_one() -> None:
    rules = [Step(status=400, when="[the person]")]
    steps = [Step(text="one"), Step(overflow=True), Step(text="two")]
    async with (
        scripted_model(steps, rules=rules) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        await kit.say("remember the milk")
        assert (await kit.say("go on")).text == "two"
    assert "- remember the milk" in json.dumps(model.requests[-1].body)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (
            Step(text="Half an ans", finish="length"),
            "Half an ans\n\n[The answer was cut off at the model's limit on its length.]",
        ),
        (Step(finish="content_filter"), "The provider's content filter stopped the answer."),
        (
            Step(text="I would", finish="content_filter"),
            "I would\n\n[The provider's content filter stopped the answer.]",
        ),
        (Step(), "The model gave no answer."),
    ],
)
async def test_an_answer_that_was_stopped_says_so(step: Step, text: str) -> None:
    async with (
        scripted_model(default=step) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        assert (await kit.say("go")).text == text


async def test_a_flood_of_calls_is_bounded_in_number_and_at_once() -> None:
    running = most = 0
    together = anyio.Event()

    async def busy(arguments: JsonObject, context: CallContext) -> ToolResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running > 1:
            together.set()
        with anyio.fail_after(60):
            await together.wait()
        running -= 1
        return ToolResult(blocks=(Text("ok"),))

    tools = FakeTools()
    tools.add("busy", busy)
    nothing: dict[str, Any] = {}
    flood = (("busy", nothing),) * 500
    async with (
        scripted_model([Step(calls=flood), Step(text="done")]) as model,
        agent_kit(scripted_config(model.url, limits={"maxToolCalls": 50}), tools=tools) as kit,
    ):
        reply = await kit.say("go")
        session = await kit.store.open_session("main", "s")
        results = [e for e in await kit.store.history(session) if e.kind is EntryKind.TOOL_RESULT]
    assert reply.outcome == "limit"
    assert len(tools.calls) == 50
    assert 1 < most <= MOST_AT_ONCE
    assert len(results) == MOST_CALLS


async def test_a_secret_in_a_result_reaches_neither_the_model_nor_the_transcript() -> None:
    tools = FakeTools()
    tools.add("env", "TOKEN=hunter2-hunter2-hunter2 \ud800")
    async with (
        scripted_model([Step(calls=(("env", {}),)), Step(text="ok")]) as model,
        agent_kit(scripted_config(model.url), tools=tools) as kit,
    ):
        kit.redactor.register("hunter2-hunter2-hunter2")
        await kit.say("print it")
        session = await kit.store.open_session("main", "s")
        kept = repr(await kit.store.history(session))
    assert "[REDACTED]" in model.requests[1].last_text
    assert "hunter2" not in kept + json.dumps(model.requests[1].body)


async def test_text_that_cannot_be_sent_is_refused() -> None:
    async with (
        scripted_model() as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        with pytest.raises(InvalidRequest, match="message: contains characters"):
            await kit.say("a \ud800 b")


async def test_a_session_is_named_after_its_first_words() -> None:
    async with (
        scripted_model(default=Step(text="ok")) as model,
        agent_kit(scripted_config(model.url)) as kit,
    ):
        await kit.say("\n  Plan the trip to Lisbon " + "x" * 100 + "\nand book it")
        await kit.say("Something else")
        session = await kit.store.open_session("main", "s")
        title = (await kit.store.show(session)).title or ""
    assert title.startswith("Plan the trip to Lisbon")
    assert len(title) == 80


async def test_tools_that_cost_a_model_nothing_do_not_drive_the_conversation_out() -> None:
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    seen: list[int] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(len(info.function_tools))
        return ModelResponse(parts=[TextPart("ok")])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        answer(messages, info)
        yield "ok"

    class Ruled(FunctionModel):
        reads_every_tool = True

    async def build(candidate: Candidate) -> BuiltModel:
        return BuiltModel(candidate, Ruled(answer, stream_function=stream), {})

    tools = FakeTools()
    for number in range(100):
        tools.add(f"tool{number}", description="word " * 100)
    candidate = Candidate("local", "ruled", "local", context_window=2048)
    stack = FallbackModels(ModelCandidates((candidate,), "test"), build, clock=SystemClock())
    async with agent_kit(scripted_config("http://127.0.0.1:9"), tools=tools, stack=stack) as kit:
        for _ in range(4):
            await kit.say("short", stream=False)
        session = await kit.store.open_session("main", "s")
        kinds = [entry.kind for entry in await kit.store.history(session)]
    assert seen == [100] * 4
    assert EntryKind.COMPACTION not in kinds


async def test_edits_of_one_answer_build_on_each_other(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("version 0")
    edits = [("edit", {"path": "f", "old_text": f"version {n}", "new_text": f"version {n + 1}"})
             for n in range(16)]  # fmt: skip
    tools = native_tools("main", tmp_path, plugins=False)
    fakes = FakeTools()
    fakes.tools = {spec.name: (spec, partial(tools.call, spec.name)) for spec in tools.specs()}
    steps = [Step(calls=tuple(edits)), Step(text="Done.")]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), tools=fakes) as kit,
    ):
        await kit.say("Count to 16.")
        results = [m["content"] for m in model.requests[1].body["messages"] if m["role"] == "tool"]
    assert (tmp_path / "f").read_text() == "version 16"
    assert results == ["Changed 'f' in one place."] * 16
