"""What a reader of lines needs of a pair of pipes, whoever moves the bytes."""

from asyncio import Future
from collections.abc import Callable
from typing import Any, Protocol

from openclaw.stdio.lines import Oversize

READ_BYTES = 256 * 1024
"""Read at once; a flood of small messages in it is handled in some milliseconds."""

HIGH_WATER = 1 << 20
"""Unsent bytes from which a caller waits before it adds more."""

HARD_LIMIT = 8 << 20
"""Unsent bytes past which answers to the server are dropped: it asks and does not listen."""

EXIT_AFTER_EOF = 0.25
"""Seconds in which a process that closed its output is expected to exit and say why."""

OnLines = Callable[[list[bytes]], None]
OnEnd = Callable[[str, Oversize | None], None]


class StderrSink(Protocol):
    """Takes what the server says beside the protocol."""

    def feed(self, chunk: bytes) -> None:
        """Take some bytes."""
        ...

    def flush(self) -> None:
        """The server has ended: nothing more comes."""
        ...


class Pipe(Protocol):
    """Lines in, lines out; whoever made it hears once that it ended, and why."""

    def open(self) -> None:
        """Start to read."""
        ...

    def pause(self) -> None:
        """Read no more until `resume`."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    @property
    def congested(self) -> bool:
        """Whether so much is unsent that a caller should wait."""
        ...

    async def drained(self, unless: "Future[Any]") -> None:
        """Wait until the server has taken what is unsent, or is gone, or `unless` is done."""
        ...

    def answer(self, line: bytes) -> None:
        """Send something that nobody waits for."""
        ...

    def write(self, line: bytes) -> bool:
        """Send a line; False where it cannot be sent."""
        ...

    def discard(self) -> None:
        """Send no more and let go what still comes."""
        ...

    def close(self) -> None:
        """Stop to read and write."""
        ...


async def either(first: "Future[Any]", second: "Future[Any]") -> None:
    """Wait for one of two futures, which stay as they are when the waiting is cancelled."""
    waiter: Future[None] = first.get_loop().create_future()

    def wake(_: "Future[Any]") -> None:
        if not waiter.done():
            waiter.set_result(None)

    first.add_done_callback(wake)
    second.add_done_callback(wake)
    try:
        await waiter
    finally:
        first.remove_done_callback(wake)
        second.remove_done_callback(wake)


def nobody(lines: list[bytes]) -> None:
    """Takes lines that nobody wants any more."""
