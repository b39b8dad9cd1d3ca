"""Lines come out as they went in, however they are cut; one that is too long costs itself alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.mcp_server.line_parsing import Assembler, TooLong


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(0, 40)))
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    whole = b"\n".join(lines)
    expected = [line for line in whole.split(b"\n") if line and not line.isspace()]
    assembler = Assembler([])
    found: list[bytes | TooLong] = []
    at = 0
    for cut in cuts:
        found += assembler.feed(whole[at : at + cut])
        at += cut
    found += assembler.feed(whole[at:])
    assert found + assembler.finish() == expected
    assert assembler.finish() == []


def test_what_was_read_before_is_part_of_the_first_line() -> None:
    rest = [b"on", b"e"]
    assembler = Assembler(rest)
    assert rest == []
    assert assembler.feed(b" line\ntwo") == [b"one line"]
    assert assembler.finish() == [b"two"]


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_line_above_the_limit_is_let_go_and_the_next_is_read(piece: int) -> None:
    data = b"short\n" + b"h" * 50 + b"t" * 51 + b"\n" + b"x" * 100 + b"\nlast\n"
    assembler = Assembler([], limit=100)
    found: list[bytes | TooLong] = []
    for at in range(0, len(data), piece):
        found += assembler.feed(data[at : at + piece])
    first, long, whole, last = found
    assert (first, whole, last) == (b"short", b"x" * 100, b"last")
    assert isinstance(long, TooLong)
    assert long.head.startswith(b"hhh")
    assert long.tail.endswith(b"ttt")


def test_only_the_ends_of_what_is_too_long_are_kept() -> None:
    assembler = Assembler([], limit=10_000)
    for _ in range(1000):
        assert assembler.feed(b"x" * 10_000) == []
    (long,) = assembler.feed(b"end\n")
    assert isinstance(long, TooLong)
    assert len(long.head) + len(long.tail) < 10_000
    assert long.tail.endswith(b"xend")
