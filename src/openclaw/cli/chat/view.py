"""Shows a conversation in the terminal: streamed answers, running tools, a spinner."""

import io
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TextIO

import anyio
from prompt_toolkit.application import get_app_or_none

from openclaw.cli.render.terminal import Redact, rendered, visible
from openclaw.cli.render.turn import SPINNER_AFTER_SECONDS, THINKING, Doing, TurnView, event_lines
from openclaw.core.events import BlockReply, Event, TextDelta

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.spinner import Spinner

_TICK_SECONDS = 0.1
_FENCES = ("```", "~~~")


def finished_blocks(text: str) -> int:
    """The length of the text up to the last blank line outside of a code fence: that part is final."""
    fence = ""
    position = done = 0
    for line in text.splitlines(keepends=True):
        position += len(line)
        start = line.strip()
        if not fence and start.startswith(_FENCES):
            fence = start[:3]
        elif fence and start.startswith(fence):
            fence = ""
        elif not fence and not start and line.endswith("\n"):
            done = position
    return done


def without_last_word(text: str) -> str:
    """The last word may be the beginning of something secret."""
    end = len(text)
    while end and not text[end - 1].isspace():
        end -= 1
    return text[:end]


class PlainView(TurnView):
    """For a pipe or a file: only the answers on `out`, everything else on `notes`."""

    def __init__(self, out: TextIO, notes: TextIO, redact: Redact) -> None:
        super().__init__(notes, redact)
        self._out, self._tail, self._streamed = out, "", False

    def show(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._streamed = True
            self._tail += event.text
            self._settle(self._tail.rfind("\n") + 1)
        elif isinstance(event, BlockReply) or event_lines(event):
            self._settle(len(self._tail))
            self._streamed = self._streamed and not isinstance(event, BlockReply)
        super().show(event)

    def finish(self, text: str) -> None:
        if not self._streamed:
            self._tail = text or "(No response)"
        self._settle(len(self._tail))

    def _settle(self, length: int) -> None:
        done, self._tail = self._tail[:length], self._tail[length:]
        if done:
            self._out.write(self._redact(done).removesuffix("\n") + "\n")
            self._out.flush()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        self._streamed, self._tail = False, ""
        try:
            yield
        finally:
            self._settle(len(self._tail))


class TerminalView:
    def __init__(self, console: "Console", redact: Redact) -> None:
        self._console, self._redact = console, redact
        self._live: Live | None = None
        self._spinner: Spinner | None = None
        self._paused = self._streamed = False
        self._tail, self._last_change = "", 0.0
        self.doing = Doing()

    def show(self, event: Event) -> None:
        self.doing.note(event)
        if isinstance(event, TextDelta):
            self._streamed = True
            self._tail += event.text
            self._settle(finished_blocks(self._tail))
        elif isinstance(event, BlockReply):
            self._settle(len(self._tail))
            self._streamed = False
        elif told := event_lines(event):
            self._settle(len(self._tail))
            for line in told:
                self.say(visible(line))
        self._changed()

    def finish(self, text: str) -> None:
        if not self._streamed:
            self._tail = text or "(No response)"
        self._settle(len(self._tail))

    def say(self, line: str) -> None:
        self._console.print(self._redact(line), markup=False, highlight=False, soft_wrap=True)

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        self._streamed, self._tail = False, ""
        self._changed()
        async with anyio.create_task_group() as tasks:
            with self._moving_part():
                tasks.start_soon(self._tick, name="chat view")
                try:
                    yield
                finally:
                    self._settle(len(self._tail))
                    tasks.cancel_scope.cancel()

    @contextmanager
    def paused(self) -> Generator[None]:
        if self._live is not None:
            self._paused = True
            self._live.stop()
        try:
            yield
        finally:
            if self._live is not None:
                self._live.start()
                self._paused = False
                self._changed()

    @contextmanager
    def _moving_part(self) -> Generator[None]:
        from rich.live import Live
        from rich.spinner import Spinner

        self._spinner = Spinner("dots", text=THINKING)
        with Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._moving,
        ) as self._live:
            try:
                yield
            finally:
                self._tail = ""
                self._last_change = time.monotonic()  # the last frame has no spinner in it
        self._live = None

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(_TICK_SECONDS)
            if self._live is not None and not self._paused:
                self._live.refresh()

    def _changed(self) -> None:
        self._last_change = time.monotonic()

    def _settle(self, length: int) -> None:
        done, self._tail = self._tail[:length], self._tail[length:]
        if done.strip():
            self._console.print(rendered(self._redact(done)))

    def _moving(self) -> "RenderableType":
        from rich.console import Group

        parts: list[RenderableType] = []
        shown = without_last_word(self._tail)
        if shown.strip():
            parts.append(self._last_lines(self._redact(shown)))
        if time.monotonic() - self._last_change >= SPINNER_AFTER_SECONDS:
            words = visible(self._redact(self.doing.words))
            if self._spinner is not None:
                self._spinner.update(text=words)
            parts.append(self._spinner or words)
        return Group(*parts)

    def _last_lines(self, text: str) -> "RenderableType":
        from rich.segment import Segment, Segments

        lines = self._console.render_lines(rendered(text), pad=False)
        room = max(self._console.size.height - 4, 1)
        segments: list[Segment] = []
        for line in lines[-room:]:
            segments += [*line, Segment.line()]
        return Segments(segments[:-1])


class LinesAbove(io.TextIOBase):
    """A stream whose lines appear above the prompt or the answer; other threads' are written directly."""

    def __init__(self, say: Callable[[str], None], stream: TextIO) -> None:
        super().__init__()
        self._say, self._stream = say, stream
        self._home = threading.get_ident()
        self._unfinished = ""

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, text: str, /) -> int:
        """Write whole lines; a line that is not finished waits for its end."""
        lines, newline, self._unfinished = (self._unfinished + text).rpartition("\n")
        app = get_app_or_none()
        if newline and threading.get_ident() != self._home:
            self._stream.write(f"{lines}\n")
        elif newline and app is not None and app.is_running:
            app.renderer.erase()
            self._say(lines)
            app.invalidate()
        elif newline:
            self._say(lines)
        return len(text)
