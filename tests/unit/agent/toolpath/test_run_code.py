"""`run_code`: what a script can do, what it gives back, and when it ends."""

import json
from functools import partial

import anyio
import pytest
from tests.support.code_kit import Tools, deny, says
from tests.support.loop_time import pass_time

from openclaw.agent.toolpath.run_code import ScriptLimits, ScriptRunner
from openclaw.content.frame import MCP_SERVER, WORKSPACE_FILE
from openclaw.core.content import Media, Text
from openclaw.core.errors import ToolFailure
from openclaw.core.tools import JsonObject, ToolResult, Untrusted


async def test_the_result_of_one_call_feeds_the_next() -> None:
    tools = Tools()
    outcome = await tools.run("x = await echo(text='a')\nawait echo(text=x['text'] + 'b')")
    assert outcome.text() == '{"text": "ab"}'
    assert tools.made == [("echo", {"text": "a"}), ("echo", {"text": "ab"})]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("1 + 1", "2"),
        ("'words'", "words"),
        ("'é', None", '["é", null]'),
        ("{(1, 2): {3}}", "{(1, 2): {3}}"),
        ("print('a')\n'b'", "a\nb"),
        ("return [1]", "[1]"),
        ("x = 1\nx  # a comment", "1"),
        ("(\n1,\n2,\n)", "[1, 2]"),
        ("print(\n1,\n2\n)", "1 2"),
        ("async def main():\n    return 3\nawait main()", "3"),
        ("x = '''\n5\n'''\nx.strip()", "5"),
        ("if True:\n    print(4)", "4"),
    ],
)
async def test_the_value_of_the_last_line_is_shown(source: str, shown: str) -> None:
    assert (await Tools().run(source)).text() == shown


@pytest.mark.parametrize(
    "source", ["x = 5", "x = \\\n5", "x = (\n5\n)", "x = '''\n5\n'''", "# 5", ""]
)
async def test_a_last_line_that_is_no_expression_runs_as_it_is(source: str) -> None:
    outcome = await Tools().run(source)
    assert (outcome.error, outcome.output) == (None, "")


async def test_a_text_that_is_not_an_object_or_array_stays_a_string() -> None:
    async def plain(arguments: JsonObject) -> ToolResult:
        return says(str(arguments["text"]))

    source = "[await plain(text=x) for x in ('12', 'true', '{broken', '[1]')]"
    assert (await Tools(plain=plain).run(source)).text() == '["12", "true", "{broken", [1]]'


async def test_a_refused_call_raises_what_the_tool_said_and_can_be_caught() -> None:
    outcome = await Tools().run("try:\n    await deny()\nexcept RuntimeError as e:\n    print(e)")
    assert outcome.text() == "Not allowed by the policy."


async def test_an_uncaught_failure_names_the_line_and_the_calls_already_made() -> None:
    outcome = await Tools().run("await echo(text='a')\nawait echo(text='b')\nawait deny()")
    assert outcome.text().splitlines() == [
        "RuntimeError: Not allowed by the policy.",
        "  line 3: await deny()",
        "Calls made: echo ×2, deny failed.",  # noqa: RUF001
    ]


async def test_gathered_calls_run_side_by_side_up_to_the_limit() -> None:
    running, most = 0, 0

    async def slow(arguments: JsonObject) -> ToolResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.wait_all_tasks_blocked()
        running -= 1
        return says(str(arguments["text"]))

    runner = ScriptRunner(ScriptLimits(calls_at_once=3))
    source = "import asyncio\nawait asyncio.gather(*[slow(text=str(i)) for i in range(7)])"
    outcome = await Tools(slow=slow).run(source, runner)
    assert json.loads(outcome.text()) == [str(number) for number in range(7)]
    assert most == 3


async def test_calls_still_waiting_are_not_made_once_the_script_has_failed() -> None:
    async def slow(arguments: JsonObject) -> ToolResult:
        await anyio.sleep(3)  # twenty of them give the failure a minute to arrive
        return says("done")

    tools = Tools(deny=deny, slow=slow)
    runner = ScriptRunner(ScriptLimits(calls_at_once=1))
    source = "import asyncio\nawait asyncio.gather(deny(), *[slow() for _ in range(20)])"
    outcome = await tools.run(source, runner)
    assert outcome.error is not None
    assert len(tools.made) == len(outcome.calls) < 21


async def test_a_call_without_await_is_not_made_and_the_model_learns_why() -> None:
    tools = Tools()
    outcome = await tools.run("echo(text='x')\n1")
    assert tools.made == []
    assert "needs `await`" in outcome.text()


async def test_a_call_over_the_limit_raises_in_the_script() -> None:
    tools = Tools()
    source = "for _ in range(9):\n    await echo(text='x')"
    outcome = await tools.run(source, ScriptRunner(ScriptLimits(calls=4)))
    assert len(tools.made) == 4
    assert "may make at most 4 calls" in outcome.text()


@pytest.mark.parametrize("value", ["float('nan')", "10**5000", "b'x'", "'x' * 300_000", "print"])
async def test_arguments_that_json_cannot_carry_are_refused_before_the_call(value: str) -> None:
    tools = Tools()
    outcome = await tools.run(f"await echo(text={value})")
    assert tools.made == []
    assert outcome.error is not None


async def test_output_is_cut_at_the_limit() -> None:
    runner = ScriptRunner(ScriptLimits(output_chars=10))
    outcome = await Tools().run("'x' * 100", runner)
    assert outcome.text() == "x" * 10 + "\n[cut after 10 characters]"


async def test_a_result_too_large_for_the_sandbox_raises_instead_of_killing_it() -> None:
    runner = ScriptRunner(ScriptLimits(result_chars=100))
    outcome = await Tools().run(
        "try:\n    await big()\nexcept ValueError as e:\n    print(e)", runner
    )
    assert "more than a script can take" in outcome.text()


async def test_a_script_that_is_too_long_is_refused() -> None:
    with pytest.raises(ToolFailure, match="longer than 5"):
        await Tools().run("123456", ScriptRunner(ScriptLimits(source_chars=5)))


async def test_media_in_a_result_is_named_and_not_passed_on() -> None:
    async def picture(arguments: JsonObject) -> ToolResult:
        return ToolResult((Text("a cat"), Media("image/png", data=b"x")))

    outcome = await Tools(picture=picture).run("await picture()")
    assert outcome.text() == "a cat\n[image/png: a script cannot read it]"


async def test_the_time_limit_does_not_count_waiting_for_a_call() -> None:
    async def slow(arguments: JsonObject) -> ToolResult:
        await anyio.sleep(3.5)
        return says("done")

    # The worker counts by its own clock: a limit that a busy machine does not use up by itself.
    outcome = await Tools(slow=slow).run("await slow()", ScriptRunner(ScriptLimits(run_seconds=3)))
    assert outcome.text() == "done"


async def test_a_script_in_flight_stops_at_the_total_limit_and_leaves_the_call_in_doubt() -> None:
    async def never(arguments: JsonObject) -> ToolResult:
        pass_time(600)
        await anyio.sleep_forever()
        raise AssertionError

    runner = ScriptRunner(ScriptLimits(total_seconds=600))
    outcome = await Tools(never=never).run("print('before')\nawait never()", runner)
    assert outcome.output == "before"
    assert "stopped after 600 seconds" in outcome.text()
    assert "never (unknown whether it happened)" in outcome.text()


@pytest.mark.parametrize(
    "source", ["await started()\nwhile True:\n    pass", "await started()\nawait never()"]
)
async def test_cancelling_ends_a_script_that_runs_or_waits(source: str) -> None:
    has_started = anyio.Event()

    async def started(arguments: JsonObject) -> ToolResult:
        has_started.set()
        return says("")

    async def never(arguments: JsonObject) -> ToolResult:
        await anyio.sleep_forever()
        raise AssertionError

    tools = Tools(started=started, never=never)
    runner = ScriptRunner(at_once=1)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(tools.run, source, runner))
        await has_started.wait()
        group.cancel_scope.cancel()
    assert (await tools.run("1", runner)).text() == "1", "the slot is free again"


@pytest.mark.parametrize("failing", ["raise SyntaxError('x')", "eval('x x')", "exec('(')"])
async def test_a_syntax_error_at_run_time_repeats_neither_calls_nor_output(failing: str) -> None:
    tools = Tools()
    outcome = await tools.run(f"print('one')\n{failing}")
    assert outcome.output == "one"
    await tools.run(f"await echo(text='x')\n{failing}")
    assert len(tools.made) == 1


async def test_no_call_is_repeated_when_the_worker_dies_between_two() -> None:
    tools = Tools()
    outcome = await tools.run(
        "await echo(text='once')\n'a' * 10**8 + 'b' * 10**8\nawait echo(text='b')"
    )
    assert tools.made == [("echo", {"text": "once"})]
    assert "Calls made: echo." in outcome.text()


async def test_a_file_named_like_a_server_does_not_make_the_servers_words_trusted() -> None:
    strict = Untrusted(MCP_SERVER, "docs", mode="datamark", guarded=True)

    async def search(arguments: JsonObject) -> ToolResult:
        return ToolResult((Text("words"),), untrusted=strict)

    async def read(arguments: JsonObject) -> ToolResult:
        return ToolResult((Text("more"),), untrusted=Untrusted(WORKSPACE_FILE, "docs"))

    outcome = await Tools(search=search, read=read).run("await search() + await read()")
    whose = outcome.whose()
    assert whose is not None
    assert (whose.source, whose.mode, whose.guarded) == (MCP_SERVER, "datamark", True)
