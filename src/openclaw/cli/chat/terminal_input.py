"""Reads what a person types at a terminal, with the keys and the history of prompt_toolkit."""

import asyncio
import io
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app_or_none
from prompt_toolkit.completion import Completer
from prompt_toolkit.history import FileHistory, History
from prompt_toolkit.input.defaults import create_input
from prompt_toolkit.input.typeahead import clear_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.defaults import create_output

from openclaw.cli.chat.input import HINT, Interrupts, Say
from openclaw.cli.environment import Environment
from openclaw.cli.terminal import Redact, wants_colour
from openclaw.config.paths import private_file

_HISTORY_BYTES = 1_000_000
_ESCAPE_SECONDS = 0.1  # an arrow key begins with Esc too, and the rest follows at once


class TerminalInput:
    def __init__(
        self, env: Environment, completer: Completer, interrupts: Interrupts, say: Say
    ) -> None:
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


class EscapeKey:
    """Stops what runs when Esc is pressed. Other keys wait, unseen, for the next prompt."""

    def __init__(self, stdin: TextIO) -> None:
        self._stdin, self._input = stdin, create_input(stdin)
        self._stop: Callable[[], object] = lambda: None
        self._typed: list[KeyPress] = []
        self._held: ExitStack | None = None  # while it reads

    @contextmanager
    def stops(self, stop: Callable[[], object]) -> Generator[None]:
        self._stop = stop
        self._begin()
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Leave the terminal to a question."""
        reads = self._held is not None
        self._end()
        try:
            yield
        finally:
            if reads:
                self._begin()

    def _begin(self) -> None:
        if sys.platform == "win32":
            return
        import termios
        import tty

        terminal, self._held = self._stdin.fileno(), ExitStack()
        self._held.callback(
            termios.tcsetattr, terminal, termios.TCSADRAIN, termios.tcgetattr(terminal)
        )
        tty.setcbreak(terminal, termios.TCSADRAIN)  # in which Ctrl-C still interrupts
        self._held.enter_context(self._input.attach(self._read))

    def _end(self) -> None:
        if self._held is None:
            return
        self._typed += [*self._input.read_keys(), *self._input.flush_keys()]
        self._held.close()
        self._held = None
        store_typeahead(self._input, [key for key in self._typed if key.key != Keys.Escape])
        self._typed = []

    def _read(self) -> None:
        self._typed += self._input.read_keys()
        asyncio.get_running_loop().call_later(_ESCAPE_SECONDS, self._flush)

    def _flush(self) -> None:
        if self._held is None:
            return
        late = self._input.flush_keys()
        self._typed += late
        if any(key.key == Keys.Escape for key in late):
            self._stop()


async def ask_line(stdin: TextIO, stdout: TextIO, question: str) -> str:
    session: PromptSession[str] = PromptSession(
        input=create_input(stdin), output=create_output(stdout)
    )
    # Ctrl-C arrives as a key here; prompt_toolkit's signal handler would replace the turn's.
    return await session.prompt_async(question, handle_sigint=False)


def discard_typed(stdin: TextIO) -> None:
    if not stdin.isatty():
        return
    clear_typeahead(create_input(stdin))  # keys typed after the last line's Enter
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    _ = send, new_line
    return keys


class _RedactedHistory(FileHistory):
    def __init__(self, path: Path, redact: Redact) -> None:
        super().__init__(path)
        self._redact = redact

    def store_string(self, string: str) -> None:
        super().store_string(self._redact(string))


def _history(path: Path, redact: Redact) -> History:
    private_file(path)
    if path.stat().st_size > _HISTORY_BYTES:
        text = path.read_bytes()
        start = text.find(b"\n# ", len(text) - _HISTORY_BYTES // 2)
        path.write_bytes(text[start:] if start >= 0 else b"")
    return _RedactedHistory(path, redact)


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
