"""`openclaw agent`, as the process that a person starts."""

import base64
import io
import json
import os
import pty
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from openclaw.agent.port import Reply
from openclaw.cli.chat.input import read_attachments
from openclaw.cli.chat.turn_view import CallLines, DiffText, TurnView
from openclaw.cli.terminal import as_json, print_markdown
from openclaw.core.content import Media
from openclaw.core.errors import InvalidRequest
from openclaw.core.events import (
    Notice,
    TextDelta,
    ToolApproval,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    Usage,
)
from openclaw.core.tools import ToolResult, failed
from openclaw.media.transcription import NoTranscriber
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    rules = [
        Step(when="list", role="user", calls=(("list", {}),)),
        Step(role="tool", text="I looked."),
        Step(when="fail", status=401, message="bad key"),
    ]
    async with scripted_model(rules=rules, default=Step(text="# Title\n\n**{last}**")) as running:
        yield running


@pytest.fixture
def config(home: Path, model: ScriptedModel) -> Path:
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir(mode=0o700)
    provider = {
        "baseUrl": f"{model.url}/v1",
        "apiKey": "k-0123456789",
        "models": [{"id": "m", "input": ["text", "image"]}],
    }
    path.write_text(
        json.dumps({"models": {"providers": {"acme": provider}}, "dataflow": {"mode": "off"}})
    )
    path.chmod(0o600)
    return path


async def openclaw(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "openclaw", "agent", *arguments]
    home = os.environ["HOME"]  # no project, whose instructions would be sent along
    return await anyio.run_process(command, input=stdin, check=False, cwd=home)


@pytest.mark.usefixtures("config")
async def test_the_answer_goes_to_stdout_as_it_is_when_piped() -> None:
    done = await openclaw("-m", "hello")
    assert (done.returncode, done.stdout.decode()) == (0, "# Title\n\n**hello**\n")
    assert done.stderr == b""


@pytest.mark.usefixtures("config")
async def test_tool_calls_are_shown_on_stderr_as_they_run() -> None:
    done = await openclaw("-m", "list it")
    assert done.stdout.decode() == "I looked.\n"
    assert [line[0] for line in done.stderr.decode().splitlines()] == ["→", "✓"]


@pytest.mark.usefixtures("config")
async def test_json_is_all_there_is_on_stdout(model: ScriptedModel) -> None:
    done = await openclaw("-m", "hello", "--json", "--session-key", "mine")
    facts = json.loads(done.stdout)
    assert facts["text"] == "# Title\n\n**hello**"
    assert (facts["outcome"], facts["sessionKey"]) == ("ok", "mine")
    assert facts["usage"]["requests"] == 1
    assert model.requests[0].stream, "whoever reads the answer, silence is what times out"


@pytest.mark.usefixtures("config")
async def test_a_message_starts_a_new_conversation_unless_told_to_continue_one(
    model: ScriptedModel,
) -> None:
    await openclaw("-m", "one", "--session-key", "mine")
    await openclaw("-m", "two", "--session-key", "mine")
    await openclaw("-m", "three")
    await openclaw("-m", "an order", "--session-key", "mcp-1-a")
    await openclaw("-c", "four")
    counts = [len(request.body["messages"]) for request in model.requests]
    assert counts == [2, 4, 2, 2, 4]
    assert model.requests[-1].body["messages"][1]["content"] == "three"


@pytest.mark.usefixtures("config")
async def test_what_is_piped_in_goes_with_the_message_as_a_file_does(model: ScriptedModel) -> None:
    done = await openclaw("summarise", stdin=b"ERROR disk full\n")
    assert done.returncode == 0
    words, piped = model.requests[0].body["messages"][-1]["content"]
    assert words["text"] == "summarise"
    assert "EXTERNAL_UNTRUSTED_CONTENT" in piped["text"]
    assert "ERROR disk full" in piped["text"]
    assert "stdin" in piped["text"]
    await openclaw(stdin=b"just this")
    assert model.requests[1].body["messages"][-1]["content"] == "just this"
    long = await openclaw("long", stdin=b"x" * 200_001)
    assert b"Warning: stdin: cut to 200000 characters" in long.stderr
    assert "cut to 200000 characters" in str(model.requests[2].body["messages"][-1]["content"])


@pytest.mark.usefixtures("config")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
async def test_a_pipe_that_our_parent_leaves_open_is_not_waited_for(model: ScriptedModel) -> None:
    command = [sys.executable, "-m", "openclaw", "agent", "hi"]
    with anyio.fail_after(60):
        async with await anyio.open_process(command, stderr=None) as process:
            assert await process.wait() == 0
    assert model.requests[0].body["messages"][-1]["content"] == "hi"


@pytest.mark.usefixtures("config")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
async def test_a_pipe_that_is_written_to_late_is_waited_for_and_says_so(
    model: ScriptedModel, tmp_path: Path
) -> None:
    # Another process than our parent holds the pipe open until it has read the notice.
    said = tmp_path / "said"
    os.mkfifo(said)
    command = shlex.join([sys.executable, "-m", "openclaw", "agent", "hi"])
    late = f"(grep -m1 'Waiting for piped input' {said} >&2; echo late) | {command} 2>{said}"
    with anyio.fail_after(120):
        done = await anyio.run_process(["/bin/sh", "-c", late])
    assert b"Waiting for piped input" in done.stderr
    assert "late" in str(model.requests[0].body["messages"][-1]["content"])


@pytest.mark.usefixtures("config")
async def test_an_input_that_never_ends_is_not_waited_for_unless_it_is_a_pipe(
    model: ScriptedModel,
) -> None:
    ours, theirs = socket.socketpair()  # as some supervisors start their children
    with ours, theirs:
        command = [sys.executable, "-m", "openclaw", "agent", "hello"]
        done = await anyio.run_process(command, stdin=theirs.fileno(), check=False)
    assert done.returncode == 0
    assert model.requests[0].last_text == "hello"


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("words", [["hello there"], ["hello", "there"], ["--local", "hello there"]])
async def test_the_message_may_be_given_as_plain_words(
    model: ScriptedModel, words: list[str]
) -> None:
    assert (await openclaw(*words)).returncode == 0
    assert model.requests[0].body["messages"][-1]["content"] == "hello there"


@pytest.mark.usefixtures("config")
async def test_the_message_may_come_from_stdin_with_files(
    model: ScriptedModel, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "notes.txt").write_text("buy milk")
    done = await openclaw(
        *("-m", "-", "--image", str(tmp_path / "a.png"), "--file", str(tmp_path / "notes.txt")),
        stdin=b"  look\n",
    )
    assert done.returncode == 0
    content = model.requests[0].body["messages"][-1]["content"]
    assert content[0]["text"] == "  look\n"
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert "EXTERNAL_UNTRUSTED_CONTENT" in content[2]["text"]
    assert "buy milk" in content[2]["text"]


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["-m", " "], 2, "The message is empty"),
        ([], 2, "No message given"),
        (["hello", "-m", "x"], 2, "Give the message only once"),
        (["-m", "x", "--agent", "nobody"], 1, "There is no agent 'nobody'"),
        (["-m", "x", "--image", "/no/such.png"], 2, "No such file"),
        (["-m", "fail"], 1, "acme/m: it refused the key (HTTP 401: bad key)"),
    ],
)
async def test_what_goes_wrong_is_one_line_and_an_exit_code(
    arguments: list[str], code: int, says: str
) -> None:
    done = await openclaw(*arguments)
    assert (done.returncode, done.stdout) == (code, b"")
    assert says in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


async def test_files_are_taken_by_what_they_are(tmp_path: Path) -> None:
    places = {
        "a.png": PNG,
        "data.csv": b"a,b\n",
        "README": b"words",
        "song.wav": b"RIFF\0\0\0\0WAVEfmt ",
        "x.zip": b"PK\x03\x04",
    }
    for name, content in places.items():
        (tmp_path / name).write_bytes(content)
    paths = [tmp_path / name for name in places]
    read = await read_attachments([], paths, NoTranscriber())
    types = [one.media.mime_type for one in read]
    assert types == ["image/png", "text/csv", "text/plain", "audio/wav", "application/zip"]
    assert [one.text for one in read] == [None, "a,b\n", "words", None, None]
    assert "not transcribed" in (read[3].note or "")


async def test_text_beyond_the_budget_is_cut_or_left_out(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("0123456789abcdef")
    first, second = await read_attachments(
        [], [tmp_path / "a.txt", tmp_path / "b.txt"], NoTranscriber(), budget=10
    )
    assert (first.text, first.note) == ("0123456789", "cut to 10 characters")
    assert second.text is None


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"\x7fELF\0\0", "is application/x-executable"), (b"\0\1\2\3" * 9, "octet-stream")],
)
async def test_files_of_no_use_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "thing"
    path.write_bytes(content)
    with pytest.raises(InvalidRequest, match=says):
        await read_attachments([], [path], NoTranscriber())


@pytest.mark.parametrize("option", ["--image", "--file"])
async def test_a_broken_image_is_refused(tmp_path: Path, option: str) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(PNG[:18])
    images, files = ([path], []) if option == "--image" else ([], [path])
    with pytest.raises(InvalidRequest, match=r"broken\.png: cannot be shown to a model"):
        await read_attachments(images, files, NoTranscriber())


async def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        file.truncate(16 * 1024 * 1024)
    with pytest.raises(InvalidRequest, match=r"the limit is 15\.0 MB"):
        await read_attachments([], [path], NoTranscriber())


def test_events_are_told_in_a_line() -> None:
    shown = CallLines().lines
    started = ToolStarted("1", "t", "Tool", {"text": "x" * 300})
    assert str(shown(started)[0]).startswith('→ Tool {"text": "xxx')
    assert shown(ToolProgress("1", "t", "half")) == ["  t: half"]
    assert shown(ToolFinished("1", "t", failed("no"), 1234)) == ["✗ t (1.2 s): no"]
    assert shown(started)
    assert shown(ToolFinished("1", "t", ToolResult(()), 0)) == ["✓ t (0.0 s)"]
    assert shown(Notice("warning", "careful")) == ["Warning: careful"]
    assert shown(TextDelta("x")) == []


def test_a_command_is_one_line_with_its_directory_and_its_outcome() -> None:
    shown = CallLines(Path("/home/me")).lines
    command = {"command": "make \\\n  test"}
    for details, error, line in (
        ({"exitCode": 0, "directory": "/home/me/project"}, False, "✓ $ make \\ test · ~/project · 0.2 s"),
        ({"exitCode": 2, "directory": "/srv"}, True, "✗ $ make \\ test · /srv · exit code 2 · 0.2 s"),
    ):  # fmt: skip
        assert shown(ToolStarted("1", "exec", "Run", command)) == []
        assert shown(ToolProgress("1", "exec", "a line of output")) == []
        result = ToolResult((), is_error=error, details=details)
        assert shown(ToolFinished("1", "exec", result, 200)) == [line]


def test_a_changed_file_is_shown_with_its_diff_unless_the_person_has_just_seen_it() -> None:
    shown = CallLines().lines
    diff = "\n".join(["@@ -1 +1,40 @@", "- old", *(f"+ {n}" for n in range(40))])
    started = ToolStarted("1", "edit", "Edit", {"path": "a.py"}, diff=diff)
    finished = ToolFinished("1", "edit", ToolResult(()), 5)
    assert shown(started) == []
    head, body = shown(finished)
    assert head == "✓ edit a.py (+40 -1)"
    assert isinstance(body, DiffText)
    assert body.text.startswith("@@ -1 +1,40 @@\n- old\n+ 0\n")
    assert body.left == 12
    shown(ToolApproval("1", "edit", "Edit", "Edit a.py?", diff, "once", "Once", allowed=True))
    shown(started)
    assert shown(finished) == [head]


def test_nothing_a_tool_says_drives_the_terminal() -> None:
    stream = io.StringIO()
    view = TurnView(stream, lambda text: text.replace("hunter2", "[REDACTED]"))
    view.show(Notice("info", "\x1b[2J hunter2\nforged line"))
    view.show(TextDelta("quiet"))
    assert stream.getvalue() == "Info: \\x1b[2J [REDACTED]\\nforged line\n"


class Terminal(io.StringIO):
    """A terminal that knows when a spinner was drawn on it."""

    def __init__(self) -> None:
        super().__init__()
        self.thinking = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "thinking" in text:
            self.thinking.set()
        return super().write(text)


def test_a_terminal_gets_markdown_rendered_and_made_harmless() -> None:
    terminal = Terminal()
    print_markdown(terminal, "**bold** \x1b[2J")
    assert "**" not in terminal.getvalue()
    assert "\x1b[2J" not in terminal.getvalue()


async def test_a_spinner_shows_after_a_second_and_lines_go_above_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("openclaw.cli.chat.turn_view.SPINNER_AFTER_SECONDS", 0)
    terminal = Terminal()
    view = TurnView(terminal, lambda text: text)
    async with view.working():
        assert await anyio.to_thread.run_sync(terminal.thinking.wait, 20)
        view.show(Notice("info", "a [b]line[/b]"))
    assert "Info: a [b]line[/b]" in terminal.getvalue()
    quiet = Terminal()
    async with TurnView(quiet, lambda text: text).working(quiet=True):
        pass
    assert quiet.getvalue() == ""


def test_a_reply_is_told_as_facts() -> None:
    media = (
        Media("image/png", path=Path("/a.png")),
        Media("image/png", url="https://x/b.png"),
        Media("image/png", data=b"xyz"),
    )
    facts = as_json(Reply("hi", "s", "t", media, Usage(1, 2, requests=3, tool_calls=4)), "key")
    assert [one["where"] for one in facts["media"]] == [
        "/a.png",
        "https://x/b.png",
        "unnamed, 3 bytes",
    ]
    counted = {"inputTokens": 1, "outputTokens": 2, "requests": 3, "toolCalls": 4}
    assert facts["usage"] == {**counted, "cost": 0.0}
    unknown = as_json(
        Reply("hi", "s", "t", (), Usage(1, 2, requests=3, tool_calls=4, unpriced=3)), "key"
    )
    assert unknown["usage"]["cost"] is None


@pytest.mark.usefixtures("config")
async def test_on_a_real_terminal_the_answer_is_rendered() -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "openclaw", "agent", "-m", "hello"]
    process = await anyio.open_process(
        command, stdin=subprocess.DEVNULL, stdout=follower, stderr=subprocess.DEVNULL
    )
    async with process:
        assert await process.wait() == 0
    os.close(follower)
    shown = os.read(leader, 65_536).decode()
    os.close(leader)
    assert "Title" in shown
    assert "**hello**" not in shown
