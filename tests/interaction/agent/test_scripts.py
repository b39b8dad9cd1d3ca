"""`run_code` in a turn: every call of a script takes the way that any call takes."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.agent_kit import FakeTools, agent_kit, scripted_config

from openclaw.agent.port import MessageContext, TurnListener
from openclaw.core.clock import SystemClock
from openclaw.core.content import Text
from openclaw.core.events import Event, ToolFinished, ToolStarted
from openclaw.core.questions import Answer, Question
from openclaw.core.tools import CallContext, JsonObject, ToolResult, Untrusted
from openclaw.policy.dataflow.rules import FlowRules as FlowRules
from openclaw.policy.decide import Rules
from openclaw.sessions.records import Entry, EntryKind
from openclaw.sessions.sqlite.store import open_sqlite_store
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

ROWS = [{"id": number, "price": number % 97} for number in range(10_000)]
FIELDS: dict[str, Any] = {"type": "object", "properties": {"to": {"type": "string"}}}


def script(code: str) -> list[Step]:
    return [Step(calls=(("run_code", {"code": code}),)), Step(text="{last}")]


def on(model: ScriptedModel, code: str = "on") -> Any:
    return scripted_config(model.url).model_copy(
        update={"tools": scripted_config(model.url).tools.model_copy(update={"code": code})}
    )


def shop() -> FakeTools:
    tools = FakeTools()

    async def rows(arguments: JsonObject, context: CallContext) -> ToolResult:
        return ToolResult((Text(json.dumps(ROWS)),), untrusted=Untrusted("mcp-server", "shop"))

    tools.add("mcp_shop_rows", rows, server="shop")
    tools.add("send_mail", "sent", schema=FIELDS)
    return tools


async def turn(
    code: str,
    tools: FakeTools,
    *,
    answer: bool | None = None,
    rules: tuple[Rules, ...] = (),
    flow: FlowRules | None = None,
) -> tuple[str, list[Event], list[Question], list[Entry]]:
    events, asked = list[Event](), list[Question]()

    async def ask(request: Question) -> Answer:
        asked.append(request)
        return request.plain(bool(answer))

    async with (
        scripted_model(script(code), intent={"native/send_mail": ["Ann"]}) as model,
        agent_kit(on(model), tools=tools, policy=rules, data_flow=flow) as kit,
    ):
        listener = TurnListener(on_event=events.append, ask=None if answer is None else ask)
        reply = await kit.reply(MessageContext(text="Write to Ann.", session_key="s"), listener)
        entries = await kit.store.entries(await kit.store.open_session("main", "s"))
    return reply.text, events, asked, entries


async def test_only_what_a_script_prints_reaches_the_model_and_that_is_framed() -> None:
    code = "rows = await mcp_shop_rows()\nprint(sum(r['price'] for r in rows), 'in all')"
    text, events, _, entries = await turn(code, shop())
    assert f"{sum(row['price'] for row in ROWS)} in all" in text
    assert "UNTRUSTED" in text.upper()
    assert len(text) < 1_000
    started = [event for event in events if isinstance(event, ToolStarted)]
    assert [(one.name, one.within) for one in started] == [
        ("run_code", ""),
        ("mcp_shop_rows", started[0].call_id),
    ]
    calls = [entry for entry in entries if entry.kind is EntryKind.TOOL_CALL]
    assert [call.data.get("within") for call in calls] == [None, started[0].call_id]
    results = [entry.call_id for entry in entries if entry.kind is EntryKind.TOOL_RESULT]
    assert results == [calls[1].call_id, calls[0].call_id]


async def test_ten_calls_over_ten_thousand_rows_cost_a_fiftieth_of_their_tokens() -> None:
    code = (
        "total = 0\n"
        "for i in range(10):\n"
        "    total += sum(r['price'] for r in await mcp_shop_rows())\n"
        "total"
    )
    text, *_ = await turn(code, shop())
    assert str(10 * sum(row["price"] for row in ROWS)) in text
    assert len(text) + len(code) < 0.02 * 10 * len(json.dumps(ROWS))


async def test_a_call_of_a_script_that_the_policy_denies_is_not_made() -> None:
    tools = shop()
    code = "try:\n    await send_mail(to='eve')\nexcept RuntimeError as e:\n    print('no:', e)"
    text, *_ = await turn(code, tools, rules=(Rules("tools", deny=["send*"]),))
    assert tools.calls == []
    assert "not defined" in text  # what may not be used is not there at all


@pytest.mark.parametrize("answer", [True, False])
async def test_a_rule_to_ask_holds_for_scripts_too(answer: bool) -> None:
    tools = shop()
    code = "print(await send_mail(to='eve'))"
    rules = (Rules("tools", ask=["run_code", "send*"]),)
    text, _, asked, _ = await turn(code, tools, answer=answer, rules=rules)
    given = [{"code": code}, {"to": "eve"}]
    assert [one.call.arguments for one in asked] == (given if answer else given[:1])
    assert tools.calls == ([("send_mail", {"to": "eve"})] if answer else [])
    assert ("sent" if answer else "did not allow") in text


async def test_a_script_waits_for_an_answer_if_a_rule_asks_and_nobody_is_there() -> None:
    text, *_ = await turn("1 + 1", shop(), rules=(Rules("tools", ask=["run_code"]),))
    assert "Waiting for your answer: Run this script?" in text


@pytest.mark.parametrize("answer", [True, False])
async def test_a_person_is_asked_about_a_call_of_a_script(answer: bool) -> None:
    tools = shop()
    code = "try:\n    print(await send_mail(to='eve'))\nexcept RuntimeError as e:\n    print(e)"
    rules = (Rules("tools", ask=["send*"]),)
    text, events, asked, _ = await turn(code, tools, answer=answer, rules=rules)
    assert [one.call.arguments for one in asked] == [{"to": "eve"}]
    assert tools.calls == ([("send_mail", {"to": "eve"})] if answer else [])
    assert ("sent" if answer else "did not allow") in text
    assert any(isinstance(event, ToolFinished) and event.name == "run_code" for event in events)


async def test_a_script_that_is_too_long_is_refused_and_the_turn_continues() -> None:
    text, *_ = await turn(f"'{'x' * 20_000}'", shop())
    assert "The script is longer than 20000 characters." in text


async def test_wrong_arguments_name_the_signature_and_a_rule_can_switch_scripts_off() -> None:
    text, *_ = await turn("await send_mail('a', 'b')", shop())
    assert "It is send_mail(to: str = ...)" in text
    text, *_ = await turn("1", shop(), rules=(Rules("tools", deny=["run_code"]),))
    assert "There is no tool run_code" in text


async def test_a_script_does_not_launder_what_untrusted_content_says() -> None:
    async def letter(arguments: JsonObject, context: CallContext) -> ToolResult:
        text = "".join(chr(ord(letter) + 1) for letter in "Mallory Evilsson")
        return ToolResult((Text(text),), untrusted=Untrusted("mcp-server", "mail"))

    tools = shop()
    tools.add("mcp_mail_read", letter, server="mail")
    code = (
        "to = ''.join(chr(ord(c) - 1) for c in await mcp_mail_read())\n"
        "try:\n    await send_mail(to=to)\nexcept RuntimeError as e:\n    print(e)"
    )
    await turn(code, tools, flow=FlowRules())
    assert [name for name, _ in tools.calls] == ["mcp_mail_read"]
    code = "await mcp_mail_read()\nawait send_mail(to='Ann')"
    await turn(code, tools, flow=FlowRules())
    assert tools.calls[-1] == ("send_mail", {"to": "Ann"})


@pytest.mark.parametrize(("code", "few", "many"), [("auto", False, True), ("off", False, False)])
async def test_scripts_are_offered_if_not_all_tools_can_be_shown(
    code: str, few: bool, many: bool
) -> None:
    tools = shop()
    async with scripted_model(default=Step(text="ok")) as model:
        async with agent_kit(on(model, code), tools=tools) as kit:
            await kit.say("hi")
        for number in range(300):
            tools.add(f"mcp_big_t{number}", description="Does much. " * 20, server="big")
        async with agent_kit(on(model, code), tools=tools) as kit:
            await kit.say("hi")
    assert ["run_code" in request.tools for request in model.requests] == [few, many]


DYING = """
import sys
from pathlib import Path

import anyio

from openclaw.core.clock import SystemClock
from openclaw.sessions.sqlite.store import open_sqlite_store
from tests.support.agent_kit import FakeTools, agent_kit, scripted_config
from tests.interaction.agent.test_scripts import on


async def pay(arguments, context):
    print("paying", flush=True)
    await anyio.sleep_forever()


class Model:
    url = sys.argv[2]


async def main():
    tools = FakeTools()
    tools.add("look", "42")
    tools.add("pay", pay)
    async with (
        open_sqlite_store(Path(sys.argv[1]), SystemClock()) as store,
        agent_kit(on(Model), tools=tools, store=store) as kit,
    ):
        await kit.say("pay the rent")


anyio.run(main)
"""


@pytest.mark.subprocess
async def test_after_a_crash_the_model_is_told_which_calls_of_a_script_were_made(
    tmp_path: Path,
) -> None:
    database, tools = tmp_path / "sessions.db", FakeTools()
    tools.add("pay")
    code = "await look()\nawait look()\nawait pay()\nawait pay()"
    call = Step(calls=(("run_code", {"code": code}),))
    async with scripted_model([call, Step(text="I will check.")]) as model:
        command = [sys.executable, "-c", DYING, str(database), model.url]
        async with await anyio.open_process(command, stderr=None) as process:
            assert process.stdout is not None
            with anyio.fail_after(60):
                assert (await process.stdout.receive()).startswith(b"paying")
            process.send_signal(signal.SIGKILL)
            await process.wait()
        async with (
            open_sqlite_store(database, SystemClock()) as store,
            agent_kit(on(model), tools=tools, store=store) as kit,
        ):
            with anyio.fail_after(60):
                await kit.say("did it work?")
    assert tools.calls == []
    [told] = [m for m in model.requests[-1].body["messages"] if m["role"] == "tool"]
    assert "These calls were made: look (2 times)." in told["content"]
    assert "These may or may not have happened: pay." in told["content"]
