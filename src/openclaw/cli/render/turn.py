"""Shows one turn in the terminal: running tools, a spinner, the answer as Markdown."""

import json
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TextIO

import anyio

from openclaw.cli.environment import Environment
from openclaw.cli.render.terminal import Redact, console, is_dumb, visible
from openclaw.core.events import (
    PLAN_TOOL,
    RUN_CODE,
    Downloading,
    Event,
    Notice,
    ServerChanged,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnStarted,
    plan_of,
)

if TYPE_CHECKING:
    from rich.status import Status

    from openclaw.embedded.pull import Progress

THINKING = "thinking…"
_CONNECTING = "connecting"
_NAMED = 3
_BAR = 24  # columns


class Doing:
    def __init__(self) -> None:
        self._starting: dict[str, None] = {}
        self._running: dict[str, str] = {}
        self._begun = False
        self._fetching: Downloading | None = None

    def note(self, event: Event) -> None:
        match event:
            case ServerChanged():
                self._starting.pop(event.server, None)
                if event.state == _CONNECTING:
                    self._starting[event.server] = None
            case TurnStarted():
                self._begun = True
                self._running.clear()
            case ToolStarted():
                self._running[event.call_id] = event.label
            case ToolFinished():
                self._running.pop(event.call_id, None)
            case Downloading():
                self._fetching = None if event.done == event.total else event
            case _:
                pass

    @property
    def words(self) -> str:
        if self._fetching is not None:
            return download_bar(self._fetching)
        if self._running:
            return f"running {named(list(self._running.values()))}…"
        if self._starting and not self._begun:
            return f"starting {named(list(self._starting))}…"
        return THINKING


def download_bar(at: "Downloading | Progress") -> str:
    done = f"{at.done / 1e6:.0f}"
    if not at.total:
        return f"{at.what}: {done} MB…"
    filled = _BAR * at.done // at.total
    bar = "█" * filled + "░" * (_BAR - filled)
    return f"{at.what} {bar} {done} of {at.total / 1e6:.0f} MB"


def named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


@asynccontextmanager
async def waiting(
    env: Environment, words: Callable[[], str], *, quiet: bool = False
) -> AsyncGenerator[None]:
    """Shows these words if this takes a while."""
    view = TurnView(env.stderr, env.redactor.redact, env.environ, words)
    async with view.working(quiet=quiet):
        yield


_TICK_SECONDS = 0.2
SPINNER_AFTER_SECONDS = 1.0
_ARGUMENT_CHARS = 100
_SCRIPT_LINES = 20


class TurnView:
    """Shows a turn on stderr, without the answer. `words` says what is happening, instead of the events."""

    def __init__(
        self,
        stream: TextIO,
        redact: Redact,
        environ: Mapping[str, str] | None = None,
        words: Callable[[], str] | None = None,
    ) -> None:
        self._stream, self._redact, self._environ = stream, redact, environ or {}
        self._status: Status | None = None
        self._paused = False
        self._doing = Doing()
        self._said = words or (lambda: self._doing.words)
        self.note = self._doing.note

    def show(self, event: Event) -> None:
        self.note(event)
        for line in event_lines(event):
            self._write(visible(self._redact(line)))

    def say(self, line: str) -> None:
        self._write(self._redact(line))

    @contextmanager
    def paused(self) -> Generator[None]:
        """Nothing moves meanwhile: the person is being asked something."""
        self._paused = True
        if self._status is not None:
            self._status.stop()
        try:
            yield
        finally:
            self._paused = False
            if self._status is not None:
                self._status.start()

    def _write(self, line: str) -> None:
        if self._status is not None:
            self._status.console.print(line, markup=False, highlight=False)
        else:
            self._stream.write(f"{line}\n")
            self._stream.flush()

    @asynccontextmanager
    async def working(self, *, quiet: bool = False) -> AsyncGenerator[None]:
        if quiet or not self._stream.isatty() or is_dumb(self._environ):
            yield
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._spin, name="spinner")
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _spin(self) -> None:
        await anyio.sleep(SPINNER_AFTER_SECONDS)
        self._status = console(self._stream, self._environ).status(self._words())
        try:
            if not self._paused:
                self._status.start()
            while True:
                await anyio.sleep(_TICK_SECONDS)
                self._status.update(self._words())
        finally:
            self._status.stop()
            self._status = None

    def _words(self) -> str:
        from rich.markup import escape

        return escape(visible(self._redact(self._said())))


_MARKS = {"completed": "✓", "in_progress": "▸", "pending": "·"}


def event_lines(event: Event) -> list[str]:
    if isinstance(event, ToolStarted) and (plan := plan_of(event.name, event.arguments)):
        return ["Plan:", *(f"  {_MARKS[one.status]} {one.step}" for one in plan)]
    if isinstance(event, ToolFinished) and event.name == PLAN_TOOL and not event.result.is_error:
        return []
    if isinstance(event, ToolStarted) and event.name == RUN_CODE:
        lines = str(event.arguments.get("code", "")).splitlines()
        left = len(lines) - _SCRIPT_LINES
        more = [f"  … {left} more lines"] if left > 0 else []
        return [f"→ {event.label}", *(f"  │ {line}" for line in lines[:_SCRIPT_LINES]), *more]
    line = describe_event(event)
    return [] if line is None else [line]


def describe_event(event: Event) -> str | None:
    match event:
        case ToolStarted():
            given = json.dumps(dict(event.arguments), ensure_ascii=False, default=str)
            short = given if len(given) <= _ARGUMENT_CHARS else f"{given[:_ARGUMENT_CHARS]}…"
            return f"{'  ' if event.within else ''}→ {event.label} {short}"
        case ToolProgress():
            return f"  {event.name}: {event.message}"
        case ToolFinished():
            mark = "✗" if event.result.is_error else "✓"
            return f"{mark} {event.name} ({event.duration_ms / 1000:.1f} s)"
        case Notice():
            return f"{event.level.capitalize()}: {event.message}"
        case _:
            return None
