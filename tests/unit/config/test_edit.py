"""Changes to the text that leave everything else as it was."""

import copy
import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.config.edit import append_value, delete_value, set_value
from openclaw.config.json5 import KeyPath, Node, parse
from openclaw.core.errors import InvalidRequest

FILE = """\
// my agent
{
  // the servers
  mcp: {
    servers: {
      time: { command: "uvx", args: ["mcp-server-time"] }, // what time is it
      /* notes */
      docs: {
        url: 'https://docs.example/mcp', // remote
      },
    },
  },
  gateway: { port: 18789 } // the end
}
"""


def test_a_new_server_is_written_in_the_style_of_its_neighbours() -> None:
    value = {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}}
    assert set_value(FILE, ("mcp", "servers", "files"), value) == FILE.replace(
        """\
        url: 'https://docs.example/mcp', // remote
      },
""",
        """\
        url: 'https://docs.example/mcp', // remote
      },
      files: {
        command: "npx",
        args: ["-y", "x"],
        env: {
          A: "1"
        }
      },
""",
    )


def test_a_new_section_goes_behind_the_last_one_and_its_remark() -> None:
    assert set_value(FILE, ("agents", "defaults", "model"), "local/x") == FILE.replace(
        "  gateway: { port: 18789 } // the end\n",
        "  gateway: { port: 18789 }, // the end\n"
        "  agents: {\n"
        "    defaults: {\n"
        '      model: "local/x"\n'
        "    }\n"
        "  }\n",
    )


def test_a_value_is_replaced_in_its_place() -> None:
    changed = set_value(FILE, ("gateway", "port"), 5)
    assert changed == FILE.replace("18789", "5")
    assert set_value(FILE, ("mcp", "servers", "docs", "url"), "http://a") == FILE.replace(
        "'https://docs.example/mcp'", '"http://a"'
    )


def test_an_object_on_one_line_stays_on_one_line() -> None:
    assert set_value(FILE, ("gateway", "auth"), {"token": "t"}) == FILE.replace(
        "{ port: 18789 }", '{ port: 18789, auth: { token: "t" } }'
    )
    assert set_value("{a: [1, 2,],}", ("b",), []) == "{a: [1, 2,], b: [],}"
    assert set_value("{a: [1, 2,],}", ("a", 2), 3) == "{a: [1, 2, 3,],}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("// later\n", '// later\n{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}\n", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{\n  // nothing\n}\n", '{\n  // nothing\n  "a": {\n    "b": 1\n  }\n}\n'),
        ('{\n\t"x": 1\n}', '{\n\t"x": 1,\n\t"a": {\n\t\t"b": 1\n\t}\n}'),
        ("{\r\n    x: 1,\r\n}", "{\r\n    x: 1,\r\n    a: {\r\n        b: 1\r\n    },\r\n}"),
        ("{\n  a: {},\n}", "{\n  a: {\n    b: 1\n  },\n}"),
        ("{\n  a: { // why\n  },\n}", "{\n  a: { // why\n    b: 1\n  },\n}"),
        ("\ufeff{\n  a: {c: 2}}", "\ufeff{\n  a: {c: 2, b: 1}}"),
    ],
)
def test_what_is_missing_on_the_way_is_made(text: str, expected: str) -> None:
    assert set_value(text, ("a", "b"), 1) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            ("mcp", "servers", "time"),
            FILE.replace(
                '      time: { command: "uvx", args: ["mcp-server-time"] }, // what time is it\n',
                "",
            ),
        ),
        (
            ("mcp", "servers", "docs"),
            FILE.replace(
                "      docs: {\n        url: 'https://docs.example/mcp', // remote\n      },\n", ""
            ),
        ),
        (
            ("mcp", "servers", "time", "args"),
            FILE.replace('"uvx", args: ["mcp-server-time"] }', '"uvx" }'),
        ),
        (("mcp", "servers", "time", "command"), FILE.replace('command: "uvx", ', "")),
        (("mcp", "servers", "time", "args", 0), FILE.replace('["mcp-server-time"]', "[]")),
        (("mcp", "servers", "nobody"), FILE),
        (("gateway",), FILE.replace("  },\n  gateway: { port: 18789 } // the end\n", "  }\n")),
    ],
)
def test_what_is_deleted_takes_its_comma_and_its_line_and_nothing_else(
    path: KeyPath, expected: str
) -> None:
    assert delete_value(FILE, path) == expected


def test_nothing_can_be_put_into_a_value_that_is_no_object() -> None:
    with pytest.raises(InvalidRequest, match=r"a: is not an object"):
        set_value("{a: 1}", ("a", "b"), 2)
    with pytest.raises(InvalidRequest, match=r"a: is a list"):
        set_value("{a: [1]}", ("a", "b"), 2)
    with pytest.raises(InvalidRequest, match=r"a: is a list"):
        set_value("{a: [1]}", ("a", 5), 2)
    with pytest.raises(InvalidRequest, match="there is no such list"):
        set_value("{}", ("a", 0), 2)


LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", 'q"\\', "é\n"])
KEYS = st.sampled_from(["a", "b", "c d", "", "e-f"])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A tree of objects as a person might have written it, with remarks anywhere."""
    remark = st.sampled_from(["", "", " ", "\n", "\n    ", " /* r, } */ ", " // r, }\n", "\r\n"])

    def write(value: Any) -> str:
        if isinstance(value, dict):
            entries = [
                f"{draw(remark)}{json.dumps(key)}{draw(remark)}:{draw(remark)}{write(child)}{draw(remark)}"
                for key, child in value.items()  # pyright: ignore[reportUnknownVariableType]
            ]
            return "{" + _joined(entries) + "}"
        if isinstance(value, list):
            items = [f"{draw(remark)}{write(child)}{draw(remark)}" for child in value]  # pyright: ignore[reportUnknownVariableType]
            return "[" + _joined(items) + "]"
        return json.dumps(value)

    def _joined(entries: list[str]) -> str:
        trailing = "," if entries and draw(st.booleans()) else ""
        return ",".join(entries) + trailing + draw(remark)

    return draw(remark) + write(draw(st.dictionaries(KEYS, TREES, max_size=4))) + draw(remark)


def _put(tree: dict[str, Any], path: list[str], value: Any) -> bool:
    for part in path[:-1]:
        inner: Any = tree.setdefault(part, {})
        if not isinstance(inner, dict):
            return False
        tree = cast("dict[str, Any]", inner)
    tree[path[-1]] = value
    return True


@given(texts(), st.lists(KEYS, min_size=1, max_size=3), TREES)
def test_setting_changes_that_value_and_no_other_whatever_the_text_looks_like(
    text: str, path: list[str], value: Any
) -> None:
    before = parse(text).root.plain()
    expected = copy.deepcopy(before)
    if not _put(expected, path, value):
        with pytest.raises(InvalidRequest):
            set_value(text, tuple(path), value)
        return
    changed = set_value(text, tuple(path), value)
    assert parse(changed).root.plain() == expected
    if parse(text).find(path) is None:  # nothing was replaced: no remark may be lost
        assert changed.count("r, }") == text.count("r, }")


def _places(node: Node, path: KeyPath = ()) -> Iterator[KeyPath]:
    yield path
    for key, member in node.members.items():
        yield from _places(member, (*path, key))
    for index, item in enumerate(node.items):
        yield from _places(item, (*path, index))


@given(texts(), st.data())
def test_deleting_takes_that_value_and_no_other_whatever_the_text_looks_like(
    text: str, data: st.DataObject
) -> None:
    document = parse(text)
    places = [path for path in _places(document.root) if path]
    if not places:
        return
    path = data.draw(st.sampled_from(places))
    expected = document.root.plain()
    place: Any = expected
    for part in path[:-1]:
        place = place[part]
    del place[path[-1]]
    assert parse(delete_value(text, path)).root.plain() == expected


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", {"tools": {"approved": ["write"]}}),
        ("{ tools: {} } // mine", {"tools": {"approved": ["write"]}}),
        ('{ tools: { approved: ["read"] } }', {"tools": {"approved": ["read", "write"]}}),
        ('{ tools: { approved: ["write"] } }', {"tools": {"approved": ["write"]}}),
    ],
)
def test_a_value_is_added_to_a_list_once(text: str, after: dict[str, Any]) -> None:
    changed = append_value(text, ("tools", "approved"), "write")
    assert parse(changed).root.plain() == after
    assert "// mine" in changed or "// mine" not in text
