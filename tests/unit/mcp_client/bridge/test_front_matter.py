"""The head of a skill, as it is written and as a server lists it."""

from typing import Any

import pytest

from openclaw.mcp_client.bridge.front_matter import parse_front_matter, same_fields


@pytest.mark.parametrize(
    ("text", "listed", "same"),
    [
        ("name: a\ndescription: b", {"name": "a", "description": "b"}, True),
        ("name: a", {"name": "a", "license": "MIT"}, False),
        ("name: a\nlicense: MIT", {"name": "a"}, False),
        ('description: "it\'s: #1"', {"description": "it's: #1"}, True),
        ("description: >-\n  one\n  two", {"description": "one two"}, True),
        (
            "metadata:\n  version: 1.0\n  draft: yes",
            {"metadata": {"version": 1, "draft": True}},
            True,
        ),
        ('version: "1.0"', {"version": "1.0"}, True),
        ("version: 2", {"version": 1}, False),
        ("draft: yes", {"draft": False}, False),
        ("tools: [a, b]", {"tools": ["a", "b"]}, True),
        ("tools: [a, b]", {"tools": ["a"]}, False),
        ("tools:\n- a", {"tools": "a"}, False),
        ("empty:", {"empty": None}, True),
        ("n: x", {"n": 1}, False),
    ],
)
def test_front_matter_is_compared_field_by_field(
    text: str, listed: dict[str, Any], same: bool
) -> None:
    fields = parse_front_matter(f"---\n{text}\n---\nbody".encode())
    assert same_fields(listed, fields) is same


@pytest.mark.parametrize(
    "text",
    [
        "no head",
        "---\nname: a\n",
        "---\n- a\n---\n",
        "---\na: &x [1]\nb: *x\n---\n",
        "---\na: [" + "[" * 5000 + "\n---\n",
        "---\na: {\n---\n",
        "---\n" + "# comment\n" * 10_000 + "---\n",
    ],
)
def test_a_head_that_cannot_be_read_is_none(text: str) -> None:
    assert parse_front_matter(text.encode()) is None


def test_windows_wrote_it_as_well() -> None:
    assert parse_front_matter(b"\xef\xbb\xbf---\r\nname: a\r\n---\r\nbody") == {"name": "a"}
