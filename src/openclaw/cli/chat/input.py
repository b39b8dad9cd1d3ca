"""Reads chat input: from a person at a terminal, or lines from a file or pipe."""

import io
import os
import stat
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import anyio
import anyio.to_thread

from openclaw.cli.environment import Environment, text_of
from openclaw.cli.terminal import wants_colour
from openclaw.config.paths import private_file
from openclaw.core.clock import Clock
from openclaw.media import kinds
from openclaw.media.intake import TEXT_BUDGET, Intake

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from openclaw.cli.terminal import Redact
    from openclaw.core.content import InboundMedia
    from openclaw.media.transcription import Transcriber

Say = Callable[[str], None]

MOMENT = 2.0  # seconds within which a second press counts
HINT = "(press Ctrl-C again or Ctrl-D to quit)"


class Interrupts:
    """Counts presses of Ctrl-C. `leave` ends the program without waiting."""

    def __init__(self, clock: Clock, leave: Callable[[], None]) -> None:
        self._clock, self.leave = clock, leave
        self._last: float | None = None

    @property
    def lately(self) -> bool:
        return self._last is not None and self._clock.monotonic() - self._last <= MOMENT

    def again(self) -> bool:
        """Count a press; returns whether it is the second within a moment."""
        second = self.lately
        self._last = self._clock.monotonic()
        return second

    def forget(self) -> None:
        self._last = None


_PIECE = 65_536
_HISTORY_BYTES = 1_000_000


class LineInput:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = _waitable(stream)
        self._buffer = b""
        self._parts: list[str] = []

    async def read(self) -> str | None:
        while (line := await self._line()) is not None:
            self._parts.append(line.removesuffix("\\"))
            if not line.endswith("\\"):
                break
        parts, self._parts = self._parts, []
        return "\n".join(parts) if parts else None

    async def _line(self) -> str | None:
        if self._descriptor is None:
            line = await anyio.to_thread.run_sync(text_of, self._stream.readline)
            return line.rstrip("\r\n") if line else None
        while b"\n" not in self._buffer:
            # Not in a thread: a thread waiting for a line would keep the program from ending.
            await anyio.wait_readable(self._descriptor)
            piece = os.read(self._descriptor, _PIECE)
            if not piece:
                break
            self._buffer += piece
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return text_of(lambda: line).rstrip("\r")


def _waitable(stream: TextIO) -> int | None:
    """The descriptor of a pipe, socket or terminal; None if reading never has to wait."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return None
    mode = os.fstat(descriptor).st_mode
    waits = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
    return descriptor if waits and sys.platform != "win32" else None


class TerminalInput:
    def __init__(
        self, env: Environment, completer: "Completer", interrupts: Interrupts, say: Say
    ) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.input.defaults import create_input
        from prompt_toolkit.output import ColorDepth
        from prompt_toolkit.output.defaults import create_output

        self._interrupts, self._say = interrupts, say
        self._session: PromptSession[str] = PromptSession(
            "> ",
            multiline=True,
            prompt_continuation="… ",
            key_bindings=_keys(),
            completer=completer,
            complete_while_typing=False,
            history=_history(env.paths.chat_history, env.redactor.redact),
            color_depth=None if wants_colour(env.stdout, env.environ) else ColorDepth.DEPTH_1_BIT,
            input=create_input(env.stdin),
            output=create_output(env.stdout),
        )

    async def read(self) -> str | None:
        """The next message; None after Ctrl-D or two presses of Ctrl-C."""
        if self._interrupts.lately:
            self._say(HINT)
        while True:
            try:
                return await self._session.prompt_async()
            except KeyboardInterrupt:
                if self._interrupts.again():
                    return None
                self._say(HINT)
            except EOFError:
                return None


async def ask_line(stdin: TextIO, stdout: TextIO, question: str) -> str:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.input.defaults import create_input
    from prompt_toolkit.output.defaults import create_output

    session: PromptSession[str] = PromptSession(
        input=create_input(stdin), output=create_output(stdout)
    )
    # Ctrl-C arrives as a key here; prompt_toolkit's signal handler would replace the turn's.
    return await session.prompt_async(question, handle_sigint=False)


def discard_typed(stdin: TextIO) -> None:
    if not stdin.isatty():
        return
    from prompt_toolkit.input.defaults import create_input
    from prompt_toolkit.input.typeahead import clear_typeahead

    clear_typeahead(create_input(stdin))  # keys typed after the last line's Enter
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)


def write_exactly(stream: TextIO, text: str) -> None:
    """Write the text without redacting, wrapping or styling it."""
    encoding = stream.encoding or "utf-8"
    stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _keys() -> "KeyBindings":
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def send(event: "KeyPressEvent") -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: "KeyPressEvent") -> None:
        event.current_buffer.insert_text("\n")

    _ = send, new_line
    return keys


def _history(path: Path, redact: "Redact") -> "History":
    from prompt_toolkit.history import FileHistory

    class RedactedHistory(FileHistory):
        def store_string(self, string: str) -> None:
            super().store_string(redact(string))

    private_file(path)
    if path.stat().st_size > _HISTORY_BYTES:
        text = path.read_bytes()
        start = text.find(b"\n# ", len(text) - _HISTORY_BYTES // 2)
        path.write_bytes(text[start:] if start >= 0 else b"")
    return RedactedHistory(path)


async def read_attachments(
    images: Sequence[Path],
    files: Sequence[Path],
    transcriber: "Transcriber",
    *,
    budget: int | None = None,
) -> "tuple[InboundMedia, ...]":
    """Raises `InvalidRequest`, naming the file that cannot be sent."""
    intake = Intake(transcriber, budget=TEXT_BUDGET if budget is None else budget)
    wanted = [(path, kinds.IMAGE_TYPES) for path in images]
    wanted += [(path, kinds.FILE_TYPES + kinds.IMAGE_TYPES) for path in files]
    checked = [await intake.check_file(path, allowed) for path, allowed in wanted]
    return tuple([await intake.read(media) for media in checked])


class LinesAbove(io.TextIOBase):
    """A stream whose lines appear above the prompt or the answer; other threads' are written directly."""

    def __init__(self, say: Say, stream: TextIO) -> None:
        super().__init__()
        self._say, self._stream = say, stream
        self._home = threading.get_ident()
        self._unfinished = ""

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, text: str, /) -> int:
        """Write whole lines; an unfinished line is buffered."""
        from prompt_toolkit.application import get_app_or_none

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
