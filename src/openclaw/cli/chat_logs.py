"""Log lines in the middle of a conversation."""

import io
import threading
from collections.abc import Callable
from typing import TextIO

from prompt_toolkit.application import get_app_or_none


class LinesAbove(io.TextIOBase):
    """A stream whose lines appear above the prompt or the answer, whichever is on the screen.

    Lines of other threads, and those that come while nothing is on the screen, are written directly.
    """

    def __init__(self, say: Callable[[str], None], stream: TextIO) -> None:
        super().__init__()
        self._say, self._stream = say, stream
        self._home = threading.get_ident()
        self._unfinished = ""

    def isatty(self) -> bool:
        """As the stream behind it."""
        return self._stream.isatty()

    def write(self, text: str, /) -> int:
        """Write whole lines; a line that is not finished waits for its end."""
        lines, newline, self._unfinished = (self._unfinished + text).rpartition("\n")
        if newline:
            self._print(lines)
        return len(text)

    def _print(self, lines: str) -> None:
        app = get_app_or_none()
        if threading.get_ident() != self._home:
            self._stream.write(f"{lines}\n")
        elif app is not None and app.is_running:
            app.renderer.erase()
            self._say(lines)
            app.invalidate()
        else:
            self._say(lines)
