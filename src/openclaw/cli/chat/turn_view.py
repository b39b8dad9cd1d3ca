"""Shows a turn as it happens: running tools, a spinner, the answer piece by piece."""

import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import anyio

from openclaw.cli.terminal import (
    FENCES,
    Redact,
    console,
    counted,
    is_dumb,
    rendered,
    shortened,
    visible,
    visible_lines,
    wants_colour,
)
from openclaw.core import events
from openclaw.core.content import text_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

THINKING = "thinking…"
_CONNECTING = "connecting"
_NAMED = 3
_OUTPUT_CHARS = 60
_BAR = 24  # columns


class ActivityLine:
    def __init__(self) -> None:
        self._starting: dict[str, None] = {}
        self._running: dict[str, str] = {}
        self._output = ""  # the last line of a running command's
        self._begun = False
        self._fetching: events.Downloading | None = None

    def note(self, event: events.Event) -> None:
        match event:
            case events.ServerChanged():
                self._starting.pop(event.server, None)
                if event.state == _CONNECTING:
                    self._starting[event.server] = None
            case events.TurnStarted():
                self._begun = True
                self._running.clear()
            case events.ToolStarted():
                self._running[event.call_id] = command_of(event) or event.label
            case events.ToolProgress():
                self._output = shortened(event.message.strip(), _OUTPUT_CHARS)
            case events.ToolFinished():
                self._running.pop(event.call_id, None)
                self._output = ""
            case events.Downloading():
                self._fetching = None if event.done == event.total else event
            case _:
                pass

    @property
    def words(self) -> str:
        if self._fetching is not None:
            return download_bar(self._fetching)
        if self._running:
            return f"running {named(list(self._running.values()))}… {self._output}".rstrip()
        if self._starting and not self._begun:
            return f"starting {named(list(self._starting))}…"
        return THINKING


def download_bar(at: events.Downloading) -> str:
    done = f"{at.done / 1e6:.0f}"
    if not at.total:
        return f"{at.what}: {done} MB…"
    filled = _BAR * at.done // at.total
    bar = "█" * filled + "░" * (_BAR - filled)
    return f"{at.what} {bar} {done} of {at.total / 1e6:.0f} MB"


def named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


_TICK_SECONDS = 0.1
SPINNER_AFTER_SECONDS = 1.0
_ARGUMENT_CHARS = 100
_COMMAND_CHARS = 100
_ERROR_CHARS = 160
_SCRIPT_LINES = 20
_DIFF_LINES = 30
_DIFF_STYLES = {"+ ": "green", "- ": "red", "@@": "cyan"}


class TurnView:
    """Shows what happens in a turn, except for the answer; on a terminal, with a spinner.

    `words`, if set, replaces the text that the events give.
    """

    _at_once = False  # whether the live display starts without delay

    def __init__(
        self,
        stream: TextIO,
        redact: Redact,
        environ: Mapping[str, str] | None = None,
        words: Callable[[], str] | None = None,
    ) -> None:
        self._stream, self._redact, self._environ = stream, redact, environ or {}
        self._live: Live | None = None
        self._calls = CallLines(Path(self._environ["HOME"]) if "HOME" in self._environ else None)
        self._paused, self._last_change = False, 0.0
        activity = ActivityLine()
        self._words, self.note = words or (lambda: activity.words), activity.note

    def show(self, event: events.Event) -> None:
        self.note(event)
        for line in self._calls.lines(event):
            self.say_diff(line) if isinstance(line, DiffText) else self.say(visible(line))

    def say(self, line: str) -> None:
        self._write(self._redact(line))

    def say_diff(self, diff: "DiffText") -> None:
        from rich.text import Text

        for line in self._redact(diff.text).split("\n"):
            shown = visible_lines(line)
            self._write(Text(shown, _DIFF_STYLES.get(line[:2], "")))
        if diff.left:
            self._write(f"  … {counted(diff.left, 'more line')}")

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause the animation, because the person is being asked something."""
        self._paused = True
        if self._live is not None:
            self._live.stop()
        try:
            yield
        finally:
            self._paused = False
            if self._live is not None:
                self._live.start()
            self._last_change = time.monotonic()

    @asynccontextmanager
    async def working(self, *, quiet: bool = False) -> AsyncGenerator[None]:
        if quiet or not self._stream.isatty() or is_dumb(self._environ):
            yield
            return
        self._last_change = time.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._move, name="spinner")
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    def _write(self, line: "str | Text") -> None:
        self._last_change = time.monotonic()
        coloured = not isinstance(line, str) and wants_colour(self._stream, self._environ)
        if self._live is not None or coloured:
            self._console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)
        else:
            self._stream.write(f"{line}\n")
            self._stream.flush()

    @cached_property
    def _console(self) -> "Console":
        return console(self._stream, self._environ)

    async def _move(self) -> None:
        if not self._at_once:
            await anyio.sleep(SPINNER_AFTER_SECONDS)
        from rich.console import Group
        from rich.live import Live

        self._live = live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=lambda: Group(*self._moving()),
        )
        try:
            if not self._paused:
                live.start(refresh=True)
            while True:
                await anyio.sleep(_TICK_SECONDS)
                if not self._paused:
                    live.refresh()
        finally:
            self._last_change = time.monotonic()  # the last frame has no spinner in it
            live.stop()
            self._live = None

    @cached_property
    def _spinner(self) -> "Spinner":
        from rich.spinner import Spinner

        return Spinner("dots", style="status.spinner")

    def _moving(self) -> "Iterator[RenderableType]":
        """What is shown below the finished output, and changes."""
        from rich.text import Text

        if time.monotonic() - self._last_change >= SPINNER_AFTER_SECONDS:
            self._spinner.update(text=Text(visible(self._redact(self._words()))))
            yield self._spinner


def finished_blocks(text: str) -> int:
    """The length of the final part: up to the last blank line outside a code fence."""
    fence = ""
    position = done = 0
    for line in text.splitlines(keepends=True):
        position += len(line)
        start = line.strip()
        if not fence and start.startswith(FENCES):
            fence = start[:3]
        elif fence and start.startswith(fence):
            fence = ""
        elif not fence and not start and line.endswith("\n"):
            done = position
    return done


def without_last_word(text: str) -> str:
    """The last word may be the beginning of a secret."""
    return text.removesuffix(re.split(r"\s", text)[-1])


class AnswerView(TurnView):
    """Shows the answer too, each piece as soon as it is final, on `out`; the rest goes to `notes`."""

    _tail, _streamed = "", False

    def __init__(
        self, out: TextIO, notes: TextIO, redact: Redact, environ: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(notes, redact, environ)
        self._out = out

    def show(self, event: events.Event) -> None:
        self._last_change = time.monotonic()
        if isinstance(event, events.TextDelta):
            self._streamed = True
            self._tail += event.text
            self._settle(self._final())
        elif isinstance(event, _BETWEEN):
            self._settle(len(self._tail))
            self._streamed = self._streamed and not isinstance(event, events.BlockReply)
        super().show(event)

    def finish(self, text: str) -> None:
        if not self._streamed:
            self._tail = text or "(No response)"
        self._settle(len(self._tail))

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        self._streamed, self._tail = False, ""
        try:
            yield
        finally:
            self._settle(len(self._tail))

    def _settle(self, length: int) -> None:
        done, self._tail = self._tail[:length], self._tail[length:]
        if done:
            self._print(done)

    def _final(self) -> int:
        """How much of the tail is final."""
        return self._tail.rfind("\n") + 1

    def _print(self, done: str) -> None:
        self._out.write(self._redact(done).removesuffix("\n") + "\n")
        self._out.flush()


class TerminalView(AnswerView):
    """For a person: paragraphs as Markdown, and below them what isn't final yet."""

    _at_once = True

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        async with self.working(), super().turn():
            yield

    def _final(self) -> int:
        return finished_blocks(self._tail)

    def _print(self, done: str) -> None:
        if done.strip():
            self._console.print(rendered(self._redact(done)))

    def _moving(self) -> "Iterator[RenderableType]":
        shown = without_last_word(self._tail)
        if shown.strip():
            yield self._last_lines(self._redact(shown))
        yield from super()._moving()

    def _last_lines(self, text: str) -> "RenderableType":
        from rich.segment import Segment, Segments

        lines = self._console.render_lines(rendered(text), pad=False)
        room = max(self._console.size.height - 4, 1)
        parts = [part for line in lines[-room:] for part in (*line, Segment.line())]
        return Segments(parts[:-1])


_MARKS = {"completed": "✓", "in_progress": "▸", "pending": "·"}
# What ends the piece of the answer before it.
_BETWEEN = (
    events.BlockReply,
    events.ToolStarted,
    events.ToolProgress,
    events.ToolFinished,
    events.Notice,
)


@dataclass(frozen=True, slots=True)
class DiffText:
    """A diff's first lines; `left` counts the others."""

    text: str
    left: int = 0


class CallLines:
    """The lines that say what a turn does: one for a command or a changed file, when it is over."""

    def __init__(self, home: Path | None = None) -> None:
        self._home = home
        self._started: dict[str, events.ToolStarted] = {}
        self._asked: set[str] = set()  # calls that the person has seen in full

    def lines(self, event: events.Event) -> "list[str | DiffText]":
        match event:
            case events.ToolStarted():
                self._started[event.call_id] = event
                return [] if command_of(event) or event.diff else [*_call_lines(event)]
            case events.ToolProgress():
                return [] if event.name == _EXEC else [f"  {event.name}: {event.message}"]
            case events.ToolApproval():
                self._asked.add(event.call_id)
                return []
            case events.ToolFinished():
                return self._finished(event)
            case events.Notice():
                return [f"{event.level.capitalize()}: {event.message}"]
            case _:
                return []

    def _finished(self, event: events.ToolFinished) -> "list[str | DiffText]":
        started, result = self._started.pop(event.call_id, None), event.result
        mark, took = "✗" if result.is_error else "✓", f"{event.duration_ms / 1000:.1f} s"
        if started is None:  # it was not made
            return [f"{mark} {event.name}: {_first_line(event)}"]
        indent = "  " if started.within else ""
        if (command := command_of(started)) is not None:
            code, where = result.details.get("exitCode"), result.details.get("directory")
            ending = f"exit code {code}" if code else _first_line(event) if result.is_error else ""
            facts = (command, where and self._short(str(where)), ending, took)
            return [f"{indent}{mark} {' · '.join(filter(None, facts))}"]
        if started.diff and not result.is_error:
            lines = started.diff.split("\n")
            added, removed = (sum(one.startswith(f"{m} ") for one in lines) for m in "+-")
            head = (
                f"{indent}{mark} {event.name} {started.arguments.get('path')} (+{added} -{removed})"
            )
            cut = DiffText("\n".join(lines[:_DIFF_LINES]), max(0, len(lines) - _DIFF_LINES))
            return [head] if event.call_id in self._asked else [head, cut]
        if event.name == events.PLAN_TOOL and not result.is_error:
            return []
        why = f": {_first_line(event)}" if result.is_error else ""
        return [f"{indent}{mark} {event.name} ({took}){why}"]

    def _short(self, where: str) -> str:
        path = Path(where)
        if self._home is None or not path.is_relative_to(self._home):
            return where
        return str(Path("~") / path.relative_to(self._home))


_EXEC = "exec"


def command_of(call: events.ToolStarted) -> str | None:
    """A shell command, on one line."""
    command = call.arguments.get("command")
    if call.name != _EXEC or not isinstance(command, str):
        return None
    return f"$ {shortened(' '.join(command.split()), _COMMAND_CHARS)}"


def _first_line(event: events.ToolFinished) -> str:
    text = text_of(event.result.outputs) or text_of(event.result.blocks)
    return shortened(text.strip().partition("\n")[0], _ERROR_CHARS)


def _call_lines(event: events.ToolStarted) -> list[str]:
    if plan := events.plan_of(event.name, event.arguments):
        return ["Plan:", *(f"  {_MARKS[one.status]} {one.step}" for one in plan)]
    if event.name == events.RUN_CODE:
        lines = str(event.arguments.get("code", "")).splitlines()
        left = len(lines) - _SCRIPT_LINES
        more = [f"  … {left} more lines"] if left > 0 else []
        return [f"→ {event.label}", *(f"  │ {line}" for line in lines[:_SCRIPT_LINES]), *more]
    given = json.dumps(dict(event.arguments), ensure_ascii=False, default=str)
    short = given if len(given) <= _ARGUMENT_CHARS else f"{given[:_ARGUMENT_CHARS]}…"
    return [f"{'  ' if event.within else ''}→ {event.label} {short}"]
