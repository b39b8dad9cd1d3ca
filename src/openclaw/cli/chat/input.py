"""Reads chat input: from a person at a terminal, or lines from a file or pipe."""

import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import anyio
import anyio.to_thread

from openclaw.cli.environment import text_of
from openclaw.core.clock import Clock
from openclaw.media import kinds
from openclaw.media.intake import TEXT_BUDGET, Intake

if TYPE_CHECKING:
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


def write_exactly(stream: TextIO, text: str) -> None:
    """Write the text without redacting, wrapping or styling it."""
    encoding = stream.encoding or "utf-8"
    stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


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
