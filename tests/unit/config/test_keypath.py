"""Key paths as text and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.config.json5 import KeyPath, format_path, parse_path

NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("agents", "list", 0, "mcp", "servers", "time"), "agents.list[0].mcp.servers.time"),
        (("mcp", "servers", "my server", "url"), 'mcp.servers["my server"].url'),
        (("mcp", "servers", "a-b"), "mcp.servers.a-b"),
        (('say "hi"\\',), '["say \\"hi\\"\\\\"]'),
        (("a\x1b[2J\u202e",), '["a\\u001b[2J\\u202e"]'),
        ((3,), "[3]"),
    ],
)
def test_a_path_is_written_as_people_write_it(path: KeyPath, text: str) -> None:
    assert format_path(path) == text
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["a..b", "a[", "a[x]", "a b", ".", 'a["x]', "a[0]b"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a key path"):
        parse_path(text)


@given(st.lists(NAMES | st.integers(0, 999), max_size=5))
def test_every_path_comes_back(path: list[str | int]) -> None:
    assert parse_path(format_path(path)) == tuple(path)
