"""`openclaw chat` on a real terminal, and without one."""

import base64
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.support import disguised_call
from tests.support.fake_server import server_entry
from tests.support.fake_tools import one_pixel_png
from tests.support.mcp_server_kit import fake_tool
from tests.support.terminal import Terminal, on_terminal

from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

PNG = base64.b64decode(one_pixel_png())
GREETING = {
    "name": "greet",
    "description": "Greets somebody.",
    "arguments": [{"name": "who", "required": True}, {"name": "language"}],
    "messages": [{"role": "user", "content": {"type": "text", "text": "greet them"}}],
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "sure": {"type": "boolean"},
    },
    "required": ["colour"],
}
SERVER = {
    "tools": [fake_tool("ask", elicit={"message": "Which one?", "requestedSchema": SCHEMA})],
    "prompts": [GREETING],
}
CHANGED = {
    "path": "long.txt",
    "content": "\n".join("line twenty" if n == 20 else f"line {n}" for n in range(40)),
}
RULES = [
    Step(when="slowly", role="user", text="word " * 400, delay=0.05),
    Step(when="ask me", role="user", calls=(("mcp_fake_ask", {}),)),
    Step(when="list it", role="user", calls=(("list", {}),)),
    Step(when="disguised", role="user", calls=(("write", disguised_call.ARGUMENTS),)),
    Step(
        when="think first",
        role="user",
        calls=(("write", {"path": "b.txt", "content": "b"}),),
        delay=1.0,
    ),
    Step(when="change a line", role="user", calls=(("write", CHANGED),)),
    Step(when="write it", role="user", calls=(("write", {"path": "a.txt", "content": "b"}),)),
    Step(when="never", role="user", hang=True),
    Step(when="fail", role="user", status=401, message="bad key"),
    Step(role="tool", text="The tool said {last}"),
]


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    answer = Step(text="# Title\n\nYou said **{last}**\n\n```py\nx = 1\n\ny = 2\n```\n")
    async with scripted_model(rules=RULES, default=answer) as running:
        yield running


@pytest.fixture
def environ(home: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(home)  # who stands there works in the configured directory
    return configured(home, model)


def configured(home: Path, model: ScriptedModel) -> dict[str, str]:
    """A home with a configuration, and the environment of a terminal in it."""
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir(mode=0o700)
    provider = {
        "baseUrl": f"{model.url}/v1",
        "apiKey": "k-0123456789",
        "models": [{"id": "m", "input": ["text", "image"]}],
    }
    config = {
        "models": {"providers": {"acme": provider}},
        "dataflow": {"mode": "off"},
        "mcp": {"servers": {"fake": server_entry(SERVER)}},
        "tools": {"ask": ["write"]},
    }
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "TERM": "xterm-256color",
        "PROMPT_TOOLKIT_NO_CPR": "1",
    }


CHAT = [sys.executable, "-m", "openclaw", "chat"]
AGENT = [sys.executable, "-m", "openclaw", "agent", "-m"]


async def at_terminal(
    environ: dict[str, str], typing: Callable[[Terminal], None], *options: str
) -> None:
    """Let somebody type at a chat until the program has left by itself."""

    def whole() -> None:
        with on_terminal([*CHAT, *options], environ) as terminal:
            typing(terminal)
            terminal.send("/quit")
            assert terminal.ended() == 0

    await anyio.to_thread.run_sync(whole)


async def test_an_answer_is_rendered_and_the_conversation_goes_on(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.until("workspace. /help lists the commands.")
        terminal.until("This is a new conversation.")
        terminal.send("hello")
        shown = terminal.until("y = 2")
        assert "You said hello" in shown
        assert "**" not in shown
        assert "#" not in shown
        terminal.send("again")
        terminal.until("You said again")

    await at_terminal(environ, typing)
    assert [len(request.body["messages"]) for request in model.requests] == [2, 4]
    assert all(request.stream for request in model.requests)


async def test_the_last_conversation_continues_with_a_recap_and_new_starts_another(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    await anyio.run_process([*AGENT, "the old one", "--session-key", "a"], env=environ)
    await anyio.run_process(CHAT, input=b"the latest\n", env=environ)
    await anyio.run_process([*AGENT, "one shot"], env=environ)

    def typing(terminal: Terminal) -> None:
        terminal.until("Continuing “the latest” (2 messages)")
        terminal.until("you: the latest")
        terminal.until("agent: # Title You said **the latest**")
        terminal.send("more")
        terminal.until("You said more")
        terminal.send("/session a")
        terminal.until("Continuing “the old one”")
        terminal.send("/new")
        terminal.until("This is a new conversation.")
        terminal.send("fresh")
        terminal.until("You said fresh")

    await at_terminal(environ, typing)
    assert [len(request.body["messages"]) for request in model.requests] == [2, 2, 2, 4, 2]


async def test_ctrl_c_stops_the_answer_and_not_the_program(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.send("say it slowly")
        terminal.until("word word word")
        terminal.type("\x03")
        terminal.until("(stopped)")
        terminal.send("hello")
        terminal.until("You said hello")

    await at_terminal(environ, typing)
    assert [request.last_text for request in model.requests] == ["say it slowly", "hello"]


async def test_esc_stops_the_answer_and_other_keys_wait_for_the_prompt(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.send("say it slowly")
        terminal.until("word word word")
        terminal.type("hello\x1b[D\x1b[C")  # arrow keys begin with Esc, too
        terminal.until("word word word")
        terminal.type("\x1b")
        terminal.until("(stopped)")
        terminal.until("> hello")
        terminal.type("\r")
        terminal.until("You said hello")

    await at_terminal(environ, typing)
    assert [request.last_text for request in model.requests] == ["say it slowly", "hello"]


async def test_a_spinner_shows_that_something_goes_on(environ: dict[str, str]) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.send("never answer")
        terminal.until("thinking…")
        terminal.type("\x03")
        terminal.until("(stopped)")

    await at_terminal(environ, typing)


async def test_ctrl_c_at_the_prompt_drops_the_line_and_ctrl_d_leaves(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    def typing() -> None:
        with on_terminal(CHAT, environ) as terminal:
            terminal.ready()
            terminal.type("never mind\x03")
            terminal.ready()
            terminal.type("\x04")
            assert terminal.ended() == 0

    await anyio.to_thread.run_sync(typing)
    assert model.requests == []


async def test_ctrl_c_twice_at_the_prompt_leaves(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    def typing() -> None:
        with on_terminal(CHAT, environ) as terminal:
            terminal.ready()
            terminal.type("never mind\x03")
            terminal.until("(press Ctrl-C again")
            terminal.ready()
            terminal.type("\x03")
            assert terminal.ended() == 0

    await anyio.to_thread.run_sync(typing)
    assert model.requests == []


async def test_ctrl_c_after_the_one_that_stopped_the_answer_leaves(
    environ: dict[str, str],
) -> None:
    def typing() -> None:
        with on_terminal(CHAT, environ) as terminal:
            terminal.send("say it slowly")
            terminal.until("word word word")
            terminal.type("\x03")
            terminal.until("(stopped)")
            terminal.until("(press Ctrl-C again")
            terminal.ready()
            terminal.type("\x03")
            assert terminal.ended() == 0

    await anyio.to_thread.run_sync(typing)


async def test_several_lines_make_one_message(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.send("one\x1b\rtwo\\\rthree")
        terminal.until("You said")
        terminal.ready()
        terminal.type("\x1b[200~four\rfive\x1b[201~\r")
        terminal.until("You said")

    await at_terminal(environ, typing)
    assert [request.last_text for request in model.requests] == ["one\ntwo\nthree", "four\nfive"]


async def test_prompts_of_servers_are_completed_and_expanded(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.send("/tools")  # by then the server has answered
        terminal.until("tools.")
        terminal.ready()
        terminal.type("/fa\t")
        terminal.until("/fake:greet")
        terminal.type(" w\t")
        terminal.until("who=")
        terminal.type("Ada\r")
        terminal.until("You said")
        terminal.send("/fake:greet")
        terminal.until("Error: /fake:greet needs who")
        terminal.send("/etc/hosts: what is it?")
        terminal.until("You said")

    await at_terminal(environ, typing)
    first, second = (request.last_text for request in model.requests)
    assert "From: fake\n---\ngreet them\n" in first
    assert "EXTERNAL_UNTRUSTED_CONTENT" in first
    assert second == "/etc/hosts: what is it?"


async def test_images_and_files_go_with_the_message(
    environ: dict[str, str], model: ScriptedModel, tmp_path: Path
) -> None:
    (tmp_path / "a b.png").write_bytes(PNG)
    (tmp_path / "notes.txt").write_text("buy milk")
    text = f'look @"{tmp_path / "a b.png"}" and read @{tmp_path / "notes.txt"}'

    def typing(terminal: Terminal) -> None:
        terminal.send(f"{text}, @nothing and me@example.com")
        terminal.until("You said")

    await at_terminal(environ, typing)
    (request,) = model.requests
    sent = json.dumps(request.body["messages"][-1])
    assert "data:image/png;base64," in sent
    assert sent.count("buy milk") == 1
    assert f"read @{tmp_path / 'notes.txt'}, @nothing and me@example.com" in sent


async def test_a_server_asks_the_person_and_gets_the_answer(environ: dict[str, str]) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.send("ask me")
        terminal.until("MCP server 'fake' asks: Which one?")
        terminal.send("y")
        terminal.until("2. blue")
        terminal.send("3")
        terminal.until("choose 1 to 2")
        terminal.send("2")
        terminal.send("yes")
        shown = terminal.until('"sure": true')
        assert '"colour": "blue"' in shown

    await at_terminal(environ, typing)


async def test_a_question_may_be_declined_or_left_and_then_the_turn_be_stopped(
    environ: dict[str, str],
) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.send("ask me")
        terminal.send("n")
        terminal.until('"decline"')
        terminal.send("ask me again")
        terminal.ready()
        terminal.type("\x03")
        terminal.until("(not answered)")
        terminal.until('"cancel"')
        terminal.send("say it slowly")
        terminal.until("word word")
        terminal.type("\x03")
        terminal.until("(stopped)")

    await at_terminal(environ, typing)


async def test_a_tool_that_needs_permission_is_asked_about(environ: dict[str, str]) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.send("write it")
        terminal.until("Write a.txt?")
        terminal.until("a.txt")
        terminal.send("n")
        terminal.until("did not allow")
        terminal.send("write it again")
        terminal.until("Write a.txt?")
        terminal.send("y")
        terminal.until("✓ write")
        terminal.until("The tool said")

    await at_terminal(environ, typing)


async def test_an_answer_can_hold_for_the_session_or_for_always(environ: dict[str, str]) -> None:
    home = Path(environ["HOME"])
    config = home / ".openclaw" / "openclaw.json"

    def typing(terminal: Terminal) -> None:
        terminal.send("write it")
        terminal.until("s  In this session: every call of write")
        terminal.send("s")
        terminal.until("✓ write")
        terminal.send("write it again")  # without a question
        assert "Allow it?" not in terminal.until("✓ write")
        terminal.send("/new")
        terminal.send("write it")
        terminal.send("n put it elsewhere")
        terminal.until("They say: put it elsewhere")
        terminal.send("write it")
        terminal.send("a")
        terminal.until("✓ write")

    await at_terminal(environ, typing)
    assert json.loads(config.read_text())["tools"] == {"ask": ["write"], "approved": ["write"]}

    def later(terminal: Terminal) -> None:
        terminal.send("write it")
        assert "Allow it?" not in terminal.until("✓ write")
        terminal.until("The tool said")

    await at_terminal(environ, later)


async def test_a_change_to_a_file_is_shown_as_a_diff(environ: dict[str, str]) -> None:
    workspace = Path(environ["HOME"]) / ".openclaw" / "workspace"
    workspace.mkdir()
    lines = [f"line {number}" for number in range(40)]
    (workspace / "long.txt").write_text("\n".join(lines))

    def typing(terminal: Terminal) -> None:
        terminal.send("change a line")
        shown = terminal.until("Allow it?")
        for line in ("path: long.txt", "@@ -18,7 +18,7 @@", "- line 20", "+ line twenty"):
            assert line in shown
        assert "line 30" not in shown
        terminal.type("y\r")
        terminal.until("✓ write")

    await at_terminal(environ, typing)
    assert "line twenty" in (workspace / "long.txt").read_text()


async def test_a_script_gives_its_consent_or_is_told_what_it_lacks(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    written = Path(environ["HOME"]) / ".openclaw" / "workspace" / "a.txt"

    async def run(*options: str) -> tuple[str, str]:
        done = await anyio.run_process([*AGENT, "write it", *options], env=environ)
        return done.stdout.decode(), done.stderr.decode()

    out, err = await run()
    assert "Waiting for your answer: Write a.txt?" in out
    assert "They say" not in out
    assert "Needed your approval: write." in err
    assert "add --yes-to write" in err
    assert not written.exists()
    out, _ = await run("--json")
    assert json.loads(out)["refused"] == ["write"]
    _, err = await run("--yes-to", "wri*")
    assert "consent" not in err
    assert written.read_text() == "b"


async def test_the_call_that_runs_is_shown_to_its_end_before_it_can_be_allowed(
    environ: dict[str, str],
) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.send("disguised")
        shown = terminal.until("or n to refuse:")
        terminal.type("y\r")
        terminal.until("or answer n.")
        terminal.send("")
        shown += terminal.until("Allow it?")
        terminal.type("sure\r")
        terminal.until("Please answer y, s, a or n.")
        terminal.send("y")
        terminal.until("✓ write")
        assert disguised_call.TITLE in shown
        assert "AWS_SECRET_ACCESS_KEY=`touch$IFS/pwned` ls" in shown
        assert shown.count("x") > 4000
        assert "; rm -rf ~' https://a.example" in shown
        assert "+ echo :warning: <U+E0041><U+200B><U+3164><U+001B>[2J" in shown
        terminal.until("The tool said")

    await at_terminal(environ, typing)
    written = Path(environ["HOME"]) / ".openclaw" / "workspace" / "run.sh"
    assert written.read_text() == disguised_call.CONTENT


async def test_what_is_typed_before_the_question_is_no_consent(environ: dict[str, str]) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.ready()
        terminal.type("think first\ry\r")  # the second line waits in the line editor
        terminal.type("y\ry\r")  # and these in the terminal
        terminal.until("Allow it?")
        terminal.type("n\r")
        terminal.until("did not allow")

    await at_terminal(environ, typing)
    assert not (Path(environ["HOME"]) / ".openclaw" / "workspace" / "b.txt").exists()


async def test_a_single_message_asks_at_a_terminal_too(environ: dict[str, str]) -> None:
    def whole() -> None:
        with on_terminal([*AGENT, "ask me"], environ) as terminal:
            terminal.until("MCP server 'fake' asks: Which one?")
            terminal.send("y")
            terminal.until("1. red")
            terminal.send("red")
            terminal.send("")
            terminal.until('"colour": "red"')
            assert terminal.ended() == 0
        with on_terminal([*AGENT, "write it"], environ) as terminal:
            terminal.until("Write a.txt?")
            terminal.send("y")
            terminal.until("✓ write")
            assert terminal.ended() == 0

    await anyio.to_thread.run_sync(whole)


async def test_commands(environ: dict[str, str], model: ScriptedModel) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.send("/tools")  # by then the server has answered
        terminal.until("mcp_fake_ask: ")
        terminal.send("/help")
        assert "/session [KEY]" in terminal.until("/fake:greet who=… language=…")
        terminal.send("/model")
        terminal.until("acme/m")
        terminal.send("/session")
        terminal.until("This is conversation 'mine'.")
        terminal.send("hello")
        terminal.until("You said hello")
        terminal.send("/new")
        terminal.until("This is a new conversation.")
        terminal.send("hello")
        terminal.until("You said hello")
        terminal.send("/session mine")
        terminal.until("Continuing “hello” (2 messages)")
        terminal.send("list it")
        terminal.until("✓ list")
        terminal.until("The tool said")
        terminal.send("now fail")
        terminal.until("Error: ")
        terminal.until("bad key")

    await at_terminal(environ, typing, "--session-key", "mine")
    counts = [len(request.body["messages"]) for request in model.requests]
    assert counts[:4] == [2, 2, 4, 6]


async def test_what_was_typed_is_remembered_privately_and_without_secrets(
    environ: dict[str, str], home: Path
) -> None:
    def first(terminal: Terminal) -> None:
        terminal.send("my key is k-0123456789")
        terminal.until("You said")

    def second(terminal: Terminal) -> None:
        terminal.ready()
        terminal.type("\x1b[A\x1b[A\r")  # up, past /quit
        terminal.until("You said my key")

    await at_terminal(environ, first)
    history = home / ".openclaw" / "chat-history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "my key is" in history.read_text()
    assert "k-0123456789" not in history.read_text()
    await at_terminal(environ, second)


async def test_no_colour_where_none_is_wanted(environ: dict[str, str]) -> None:
    seen: list[bytes] = []

    def typing() -> None:
        for extra in ({}, {"NO_COLOR": "1"}):
            with on_terminal(CHAT, {**environ, **extra}) as terminal:
                terminal.send("hello")
                terminal.until("You said")
                terminal.send("/quit")
                assert terminal.ended() == 0
                seen.append(terminal.everything)

    await anyio.to_thread.run_sync(typing)
    coloured = [b"\x1b[38;" in one or b"\x1b[48;" in one or b"\x1b[3" in one for one in seen]
    assert coloured == [True, False]


async def by_lines(environ: dict[str, str], *lines: str) -> tuple[int, str, str]:
    done = await anyio.run_process(
        CHAT, input="".join(f"{line}\n" for line in lines).encode(), env=environ, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_without_a_terminal_every_line_is_a_message(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    code, said, notes = await by_lines(environ, "one", "", "two\\", "three", "/session", "list it")
    assert code == 0
    assert [request.last_text for request in model.requests][:2] == ["one", "two\nthree"]
    assert said.count("You said **") == 2
    assert "The tool said" in said
    assert "\x1b" not in said + notes
    assert "This is conversation 'chat-" in notes
    assert "→ List {}" in notes


async def test_without_a_terminal_a_server_is_told_that_nobody_answers(
    environ: dict[str, str],
) -> None:
    code, said, _ = await by_lines(environ, "ask me")
    assert code == 0
    assert '"decline"' in said


async def test_without_a_terminal_a_failure_shows_in_the_exit_code_and_the_rest_is_answered(
    environ: dict[str, str],
) -> None:
    code, said, notes = await by_lines(environ, "fail", "hello", "/quit", "not read")
    assert code == 1
    assert "bad key" in notes
    assert said.count("You said") == 1


async def test_a_prompt_call_is_expanded_in_a_single_message_too(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    command = [sys.executable, "-m", "openclaw", "agent", "-m"]
    asked = ["/fake:greet who=Ada", "  /etc: what\tis it?  ", "see /fake:greet who=Ada"]
    for message in asked:
        await anyio.run_process([*command, message], env=environ)
    first, *others = (request.last_text for request in model.requests)
    assert "From: fake\n---\ngreet them\n" in first
    assert others == asked[1:]
    wrong = await anyio.run_process([*command, "/fake:greet"], env=environ, check=False)
    assert (wrong.returncode, wrong.stderr) == (2, b"openclaw: /fake:greet needs who\n")


async def test_a_model_that_the_provider_does_not_have_is_not_taken(
    environ: dict[str, str], model: ScriptedModel
) -> None:
    def typing(terminal: Terminal) -> None:
        terminal.send("/model acme/scriptd")
        terminal.until("There is no model 'scriptd' at acme; did you mean acme/scripted?")
        terminal.send("/model nobody/x")
        terminal.until("unknown provider 'nobody'")
        terminal.send("/model acme/scripted")
        terminal.until("acme/scripted")
        terminal.send("hello")
        terminal.until("y = 2")

    await at_terminal(environ, typing)
    assert [request.body["model"] for request in model.requests] == ["scripted"]
