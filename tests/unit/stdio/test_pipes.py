"""Lines over descriptors of every kind; what passes between them is tested where it is used."""

import os
from functools import partial
from pathlib import Path

import anyio
import pytest

from openclaw.stdio.descriptors import ThreadedReader
from openclaw.stdio.lines import LineSplitter, TooLong
from openclaw.stdio.pipes import (
    LineReader,
    ThreadedWriter,
    WatchedReader,
    WatchedWriter,
    open_reader,
    open_writer,
)


async def all_lines(reader: LineReader) -> list[bytes | TooLong]:
    lines: list[bytes | TooLong] = []
    with anyio.fail_after(60):
        while (line := await reader.next()) is not None:
            lines.append(line)
    return lines


async def test_a_file_is_read_and_written_by_threads(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with path.open("wb", buffering=0) as file:
        writer = open_writer(file.fileno())
        assert isinstance(writer, ThreadedWriter)
        for number in range(1000):
            assert writer.write(f"line {number}\n")
        with anyio.fail_after(60):
            await writer.drained(0)
        writer.close()
        assert not writer.write(b"late\n")
    with path.open("rb", buffering=0) as file:
        lines = await all_lines(LineReader(open_reader(file.fileno()), LineSplitter()))
    assert lines == [b"line %d" % number for number in range(1000)]


@pytest.mark.parametrize("threaded", [False, True])
async def test_reading_pauses_while_many_lines_wait(threaded: bool) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    reader = ThreadedReader(partial(os.read, read_end)) if threaded else WatchedReader(read_end)
    lines = LineReader(reader, LineSplitter())
    written, full = 0, 0
    while full < 3:  # neither the pipe nor the reader takes more
        try:
            written += os.write(write_end, b"x" * 1023 + b"\n")
            full = 0
        except BlockingIOError:
            full += 1
            await anyio.sleep(0.05)
    assert written < 4 << 20
    os.set_blocking(write_end, True)
    os.close(write_end)
    assert (
        sum(len(line) + 1 for line in await all_lines(lines) if isinstance(line, bytes)) == written
    )
    lines.close()
    with pytest.raises(anyio.ClosedResourceError):
        await lines.next()
    os.close(read_end)


async def test_a_chunk_that_nobody_took_before_the_loop_is_the_loops() -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"first\n")
    reader = ThreadedReader(partial(os.read, read_end))
    assert reader.get() == b"first\n"
    os.write(write_end, b"second\n")
    reader.wake()
    lines = LineReader(reader, LineSplitter())
    os.write(write_end, b"third")
    os.close(write_end)
    assert await all_lines(lines) == [b"second", b"third"]
    os.close(read_end)


async def test_a_writer_whose_reader_is_gone_says_so_once_and_takes_nothing_more() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    writer = WatchedWriter(write_end)
    told: list[str] = []
    writer.on_broken = lambda: told.append("broken")
    assert not writer.write(b"x" * 100)
    assert isinstance(writer.failure, BrokenPipeError)
    assert not writer.write(b"more")
    with anyio.fail_after(60):
        await writer.drained(0)
    assert told == ["broken"]
    os.close(write_end)
