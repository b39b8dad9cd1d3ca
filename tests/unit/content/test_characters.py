"""Sets of characters that are looked for by the codec machinery: they must say what a regex says."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.content.folding import CharSet, Projection, has_beyond, members

RANGES = "a\u00ad\u0300-\u036f\u0400-\u04ff\ufe00-\ufe0f"
SET = CharSet(members(RANGES))
PATTERN = re.compile(f"[{RANGES}]")


def test_the_members_of_ranges_are_all_of_their_characters() -> None:
    assert list(members("b-dx\n-\x0b")) == ["b", "c", "d", "x", "\n", "\x0b"]


def test_each_member_is_found_among_others() -> None:
    lost = [
        char for char in members(RANGES) if not SET.may_be_in(f"\0 bcd {char} \u4e00 \U0001f600")
    ]
    assert lost == []


@given(st.text())
def test_what_a_regex_finds_is_found_and_nothing_else(text: str) -> None:
    assert SET.may_be_in(text) is (PATTERN.search(text) is not None)


@pytest.mark.parametrize("char", ["\U0001d173", "\U0001d17a", "\U000e0041", "\U000e01ef"])
def test_a_control_or_selector_beyond_the_basic_plane_is_noticed(char: str) -> None:
    assert has_beyond(f"a{char}".encode())
    assert not has_beyond("a \U0001f600 \u4e00".encode())


def test_neither_nul_nor_half_a_pair_nor_an_emoji_is_taken_for_a_member() -> None:
    assert not SET.may_be_in("\0\0 \ud800 \udfff \U0001f600 \U000f0000")


def test_a_projection_keeps_what_stands_for_a_letter_and_its_order() -> None:
    letters = Projection({"x": "xX\u0445", "t": "tT7"})
    assert letters.of("e\u0445\0t-7 T?\U0001d431X") == b"xtttx"


def test_a_projection_has_no_room_for_more_than_one_table() -> None:
    with pytest.raises(ValueError, match="too many"):
        Projection({"x": members("\u0100-\u01ff")})
