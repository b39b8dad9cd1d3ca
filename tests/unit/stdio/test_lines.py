"""Lines come out as they went in, however they are cut; one that is too long costs itself alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.stdio.lines import LineSplitter, TooLong


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(0, 40)))
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    whole = b"\n".join(lines)
    expected = [line for line in whole.split(b"\n") if line and not line.isspace()]
    splitter = LineSplitter()
    found: list[bytes | TooLong] = []
    at = 0
    for cut in cuts:
        found += splitter.feed(whole[at : at + cut])
        at += cut
    found += splitter.feed(whole[at:])
    assert found + splitter.finish() == expected
    assert splitter.finish() == []
    assert splitter.too_long is None


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_line_above_the_limit_is_let_go_and_the_next_is_read(piece: int) -> None:
    data = b"short\n" + b"h" * 50 + b"t" * 51 + b"\n" + b"x" * 100 + b"\nlast\n"
    splitter = LineSplitter(100)
    found: list[bytes | TooLong] = []
    for at in range(0, len(data), piece):
        found += splitter.feed(data[at : at + piece])
    first, long, whole, last = found
    assert (first, whole, last) == (b"short", b"x" * 100, b"last")
    assert isinstance(long, TooLong)
    assert long.head.startswith(b"hhh")
    assert long.tail.endswith(b"ttt")


def test_only_the_ends_of_what_is_too_long_are_kept() -> None:
    splitter = LineSplitter(10_000)
    for _ in range(1000):
        assert splitter.feed(b"x" * 10_000) == []
    (long,) = splitter.feed(b"end\n")
    assert isinstance(long, TooLong)
    assert len(long.head) + len(long.tail) < 10_000
    assert long.tail.endswith(b"xend")


def test_a_line_that_is_too_long_is_known_before_it_ends() -> None:
    splitter = LineSplitter(10)
    assert splitter.feed(b"12345") == []
    assert splitter.too_long is None
    assert splitter.feed(b"678901") == []
    assert splitter.too_long is not None
    assert (splitter.too_long.head, splitter.too_long.limit) == (b"12345678901", 10)


@pytest.mark.parametrize("chunk", [b"12345678901\n", b"1\n12345678901\n2\n", b"1\n12345678901"])
def test_a_line_over_the_limit_is_noticed_though_it_comes_at_once(chunk: bytes) -> None:
    splitter = LineSplitter(10)
    splitter.feed(chunk)
    assert splitter.too_long is not None
    assert splitter.too_long.head == b"12345678901"


def test_many_small_pieces_take_linear_time() -> None:
    splitter = LineSplitter(1 << 30)
    for _ in range(200_000):
        splitter.feed(b"x" * 50)
    (line,) = splitter.feed(b"\n")
    assert isinstance(line, bytes)
    assert len(line) == 10_000_000
