"""Asks the user at the terminal: MCP servers' questions and approvals.

A server's text is made printable, shortened, and shown under its name. A call is shown in full and
unchanged. Anything typed before a question appeared doesn't count as an answer.
"""

import itertools
import shlex
import shutil
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import anyio

from openclaw.agent.port import TurnListener
from openclaw.cli.chat.input import write_exactly
from openclaw.cli.terminal import wants_colour
from openclaw.content.labels import sanitise_label
from openclaw.core import tools
from openclaw.core.errors import InvalidRequest
from openclaw.core.questions import (
    ACCEPT,
    ALWAYS,
    CANCEL,
    DECLINED,
    NO,
    NOBODY,
    ONCE,
    SESSION,
    Answer,
    AskedCall,
    Form,
    Question,
)
from openclaw.policy.decide import covers, rule_for

if TYPE_CHECKING:
    from openclaw.core.events import Emit

_MESSAGE_CHARS = 1000
_LABEL_CHARS = 200
_MOST_FIELDS = 20
_PROMPT_ROWS = 4  # rows of the screen for the question and the line above it

_CONTINUES = "… "
_KEYS = {ONCE: "y", SESSION: "s", ALWAYS: "a", NO: "n"}
_WORDS = {"yes": "y", "once": "y", "session": "s", "always": "a", "no": "n"}
_REASON_HINT = ", or n and why: n too slow"

ReadLine = Callable[
    [str], Awaitable[str]
]  # raises KeyboardInterrupt or EOFError if the person quits


@dataclass(frozen=True, slots=True)
class Field:
    """One value that a server asks for; `options` are values with their titles."""

    name: str
    schema: Mapping[str, Any]
    required: bool
    options: Sequence[tuple[str, str]]


def fields_of(schema: object) -> list[Field]:
    """The fields of a schema, which may only have the flat shapes that the protocol allows."""
    found = tools.json_object(schema)
    required = tools.json_list(found.get("required"))
    properties = list(tools.json_object(found.get("properties")).items())[:_MOST_FIELDS]
    return [
        Field(name, tools.json_object(one), name in required, _options(tools.json_object(one)))
        for name, one in properties
    ]


def _options(schema: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    if schema.get("type") == "array":
        schema = tools.json_object(schema.get("items"))
    titled = tools.json_list(schema.get("oneOf")) or tools.json_list(schema.get("anyOf"))
    if titled:
        pairs = [(one.get("const"), one.get("title")) for one in map(tools.json_object, titled)]
    else:
        values = tools.json_list(schema.get("enum"))
        names = tools.json_list(schema.get("enumNames"))
        pairs = list(zip(values, names if len(names) == len(values) else values, strict=True))
    return [
        (value, _words(title or value, _LABEL_CHARS))
        for value, title in pairs
        if isinstance(value, str)
    ]


def value_of(field: Field, text: str) -> Any:
    """Raises `InvalidRequest`, saying what is expected."""
    said, kind = text.strip(), field.schema.get("type")
    if kind == "array":
        return [_chosen(field, part.strip()) for part in said.split(",") if part.strip()]
    if field.options:
        return _chosen(field, said)
    if kind == "boolean":
        return _yes_or_no(said)
    if kind in ("integer", "number"):
        try:
            value = int(said) if kind == "integer" else float(said)
        except ValueError:
            wanted = "a whole number" if kind == "integer" else "a number"
            raise InvalidRequest(f"enter {wanted}") from None
        _check_bounds(field, value, "minimum", "maximum")
        return value
    _check_bounds(field, len(text), "minLength", "maxLength", " characters")
    return text


def _chosen(field: Field, said: str) -> str:
    if said.isascii() and said.isdigit() and 1 <= int(said) <= len(field.options):
        return field.options[int(said) - 1][0]
    for value, title in field.options:
        if said.casefold() in (value.casefold(), title.casefold()):
            return value
    raise InvalidRequest(f"choose 1 to {len(field.options)}")


def _yes_or_no(said: str) -> bool:
    answers = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
    if said.casefold() not in answers:
        raise InvalidRequest("answer y or n")
    return answers[said.casefold()]


def _check_bounds(field: Field, size: float, low: str, high: str, unit: str = "") -> None:
    least, most = field.schema.get(low), field.schema.get(high)
    if isinstance(least, int | float) and size < least:
        raise InvalidRequest(f"enter at least {least}{unit}")
    if isinstance(most, int | float) and size > most:
        raise InvalidRequest(f"enter at most {most}{unit}")


def pages_of(text: str, columns: int, rows: int) -> list[str]:
    """The text in pieces that each fit on a screen, with a mark before continued lines.

    Without the mark, a long line could pass for several.
    """
    shown = [row for line in text.split("\n") for row in _rows_of(line, columns)] if text else []
    return ["\n".join(shown[at : at + rows]) for at in range(0, len(shown), rows)]


_COLOURS = {"+ ": "\x1b[32m", "- ": "\x1b[31m", "@@": "\x1b[36m"}


def _coloured(page: str) -> str:
    """A call with colours for its diff. What it shows has no escape sequences of its own."""
    rows = ((_COLOURS.get(row[:2]), row) for row in page.split("\n"))
    return "\n".join(f"{colour}{row}\x1b[0m" if colour else row for colour, row in rows)


def _rows_of(line: str, columns: int) -> Iterator[str]:
    row, width = "", 0
    for char in line:
        cells = 8 if char == "\t" else 1 + (unicodedata.east_asian_width(char) in "WF")
        if width + cells > columns:
            yield row
            row, width = _CONTINUES, len(_CONTINUES)
        row, width = row + char, width + cells
    yield row


# Most turns ask nothing, so prompt_toolkit is only loaded for the first question.


async def _ask_line(stdin: TextIO, stdout: TextIO, question: str) -> str:
    from openclaw.cli.chat.terminal_input import ask_line

    return await ask_line(stdin, stdout, question)


def _discard_typed(stdin: TextIO) -> None:
    from openclaw.cli.chat.terminal_input import discard_typed

    discard_typed(stdin)


class TerminalQuestions:
    """Asks the person, one question at a time.

    `show` writes a call exactly as it is; `discard` drops anything typed so far.
    """

    def __init__(
        self,
        read: ReadLine,
        say: Callable[[str], None],
        paused: Callable[[], AbstractContextManager[None]],
        *,
        show: Callable[[str], None] | None = None,
        discard: Callable[[], None] = lambda: None,
        size: Callable[[], tuple[int, int]] = shutil.get_terminal_size,
        colour: bool = False,
    ) -> None:
        self._read, self._say, self._paused = read, say, paused
        self._show, self._discard, self._size = show or say, discard, size
        self._colour = colour
        self._lock = anyio.Lock()

    @classmethod
    def at_terminal(
        cls,
        stdin: TextIO,
        stream: TextIO,
        say: Callable[[str], None],
        paused: Callable[[], AbstractContextManager[None]],
        environ: Mapping[str, str],
    ) -> "TerminalQuestions":
        return cls(
            partial(_ask_line, stdin, stream),
            say,
            paused,
            show=partial(write_exactly, stream),
            discard=partial(_discard_typed, stdin),
            colour=wants_colour(stream, environ),
        )

    async def ask(self, question: Question) -> Answer:
        async with self._lock:
            with self._paused():
                if question.form is None:
                    return await self._permit(question)
                try:
                    return await self._fill_in(question.form)
                except (KeyboardInterrupt, EOFError):
                    self._say("(not answered)")
                    return Answer(CANCEL)
                except anyio.get_cancelled_exc_class():
                    self._say("(no longer needed)")
                    raise

    async def _permit(self, question: Question) -> Answer:
        self._show_rows(question.title)
        try:
            if not await self._seen(question.body):
                return question.plain(yes=False)
            return await self._chosen(question)
        except (KeyboardInterrupt, EOFError):
            return question.plain(yes=False)

    async def _chosen(self, question: Question) -> Answer:
        others = (str(number) for number in itertools.count(1))  # this question's own choices
        keys = {_KEYS.get(one.id) or next(others): one for one in question.choices}
        for key, choice in keys.items():
            self._show_rows(f"  {key}  {choice.label}{'' if choice.allows else _REASON_HINT}")
        while True:
            self._discard()
            said = (await self._read(f"Allow it? [{'/'.join(keys)}] ")).strip()
            word, _, rest = said.partition(" ")
            choice = keys.get(_WORDS.get(word.casefold(), word.casefold()))
            if choice is not None and (not rest or not choice.allows):
                return Answer(choice.id, rest.strip())
            *most, last = keys
            self._say(
                f"Please answer {', '.join(most)} or {last}." if most else f"Please answer {last}."
            )

    def _show_rows(self, line: str) -> None:
        self._show("\n".join(_rows_of(line, max(self._size()[0], 20))))

    async def _seen(self, body: str) -> bool:
        """Show it, a screen at a time; False if the person refuses before the end."""
        columns, rows = self._size()
        pages = pages_of(body, max(columns, 20), max(rows - _PROMPT_ROWS, 5))
        for number, page in enumerate(pages, 1):
            self._show(_coloured(page) if self._colour else page)
            if number == len(pages):
                break
            left = sum(map(len, pages[number:]))
            question = f"{left:,} more characters. Press Enter to see them, or n to refuse:  "
            self._discard()
            while said := (await self._read(question)).strip().casefold():
                if said in ("n", "no"):
                    return False
                self._say("Press Enter to see the rest, or answer n.")
                self._discard()
        return True

    async def _fill_in(self, form: Form) -> Answer:
        self._say(f"MCP server '{form.server}' asks: {_words(form.message, _MESSAGE_CHARS)}")
        if form.url is not None:
            self._say(f"It asks you to open {_words(form.url, 2000)}")
            return Answer(ACCEPT) if await self._agreed("Have you done that?") else DECLINED
        fields = fields_of(form.schema)
        if not await self._agreed("Answer it?" if fields else "Agree?"):
            return DECLINED
        content: dict[str, Any] = {}
        for field in fields:
            value = await self._answer(field)
            if value is not None:
                content[field.name] = value
        return Answer(ACCEPT, content=content)

    async def _agreed(self, question: str) -> bool:
        while True:
            self._discard()
            try:
                return _yes_or_no((await self._read(f"{question} [y/n] ")).strip())
            except InvalidRequest:
                self._say("Please answer y or n.")

    async def _answer(self, field: Field) -> Any:
        default, about = field.schema.get("default"), field.schema.get("description")
        if about and (description := _words(about, _LABEL_CHARS)):
            self._say(f"  {description}")
        for number, (_, title) in enumerate(field.options, 1):
            self._say(f"  {number}. {title}")
        title = _words(field.schema.get("title") or field.name, _LABEL_CHARS)
        while True:
            said = await self._read(f"  {title}{_hint(field)}: ")
            if not said.strip():
                if default is not None or not field.required:
                    return default
                self._say("  this is required; press Ctrl-C to give no answer at all")
                continue
            try:
                return value_of(field, said)
            except InvalidRequest as error:
                self._say(f"  {error.message}")


_KINDS = {
    "boolean": "y/n",
    "integer": "number",
    "number": "number",
    "array": "several, separated by commas",
}


def _hint(field: Field) -> str:
    declared, default = field.schema.get("type"), field.schema.get("default")
    parts = [_KINDS.get(declared, "") if isinstance(declared, str) else ""]
    parts.append("" if field.required else "optional")
    if default is not None:
        parts.append(f"default {_words(default, _LABEL_CHARS)}")
    hint = ", ".join(part for part in parts if part)
    return f" ({hint})" if hint else ""


def _words(text: object, limit: int) -> str:
    return sanitise_label(str(text), limit)


# ---- approval given on the command line, for scripts and for users who know what will be asked


class CommandLineApprover:
    """Allows what the rules on the command line cover, and asks the user, if one is there."""

    def __init__(self, rules: list[str], there: TerminalQuestions | None) -> None:
        self._rules, self._there = rules, there
        self.refused: list[str] = []

    def listener(self, on_event: "Emit | None" = None) -> "TurnListener":
        return TurnListener(on_event=on_event, ask=self.ask, attended=self._there is not None)

    async def ask(self, question: Question) -> Answer:
        if (
            question.form is None
            and not question.doubts
            and all(map(self._covered, question.calls))
        ):
            return Answer(ONCE)
        if self._there is not None:
            return await self._there.ask(question)
        if question.form is not None:
            return DECLINED
        if not question.doubts:
            call = question.call
            self.refused.append(rule_for(call.name, call.arguments) or call.name)
        return NOBODY

    def _covered(self, call: AskedCall) -> bool:
        return any(covers(rule, call.name, call.arguments) for rule in self._rules)

    def lacking(self) -> str | None:
        """The options that would have allowed what nobody could be asked about."""
        if not self.refused:
            return None
        rules = list(dict.fromkeys(self.refused))
        options = " ".join(f"--yes-to {shlex.quote(rule)}" for rule in rules)
        return (
            f"Needed your approval: {', '.join(rules)}. To allow such calls without a question, "
            f"add {options}. To be asked, run this in a terminal."
        )
