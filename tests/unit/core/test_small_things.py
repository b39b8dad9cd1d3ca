import re
from pathlib import Path

import pytest

from openclaw.core.clock import SystemClock, order_session_key, random_id
from openclaw.core.content import Media, ResourceLink, Text, text_of
from openclaw.core.tools import failed


def test_a_random_id_has_64_bits_and_is_never_the_same() -> None:
    ids = {random_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"[0-9a-f]{16}", name) for name in ids)


@pytest.mark.requirement("O-4")
def test_an_order_without_a_session_gets_a_key_of_its_own() -> None:
    keys = {order_session_key(SystemClock()) for _ in range(100)}
    assert len(keys) == 100
    assert all(re.fullmatch(r"mcp-\d{13}-[0-9a-f]{16}", key) for key in keys)


def test_the_clock_only_grows() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()


def test_media_comes_from_exactly_one_place() -> None:
    assert Media("image/png", data=b"x").kind == "image"
    with pytest.raises(ValueError, match="exactly one"):
        Media("image/png")
    with pytest.raises(ValueError, match="exactly one"):
        Media("image/png", data=b"x", path=Path("x"))


def test_the_text_of_blocks_is_their_words_a_line_each() -> None:
    link = ResourceLink("file:///x", "x")
    assert text_of((Text("a"), Media("image/png", data=b"x"), link, Text("b"))) == "a\nb"


def test_a_failed_call_is_a_result_that_says_so() -> None:
    result = failed("no such file")
    assert result.is_error
    assert text_of(result.blocks) == "no such file"
