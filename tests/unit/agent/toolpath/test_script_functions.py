"""Tools as Python functions."""

import ast
import keyword
from typing import Any

import pytest
from tests.support.code_kit import spec

from openclaw.agent.toolpath.script_functions import tool_functions
from openclaw.core.tools import ToolSpec

HOSTILE: list[Any] = [
    {"properties": 5},
    {"properties": {"a": None, "b": [], "c": {"type": 7}, "d": {"enum": "x"}}},
    {"properties": {"a": {"$ref": "#/properties/a"}}},
    {"properties": {"a": {"$ref": "http://example/x"}, "b": {"$ref": "#/no/such"}}},
    {"properties": {"a\nimport os": {"type": "string"}, "b'\"": {"enum": ['"\n#', "'"]}}},
    {
        "properties": {"a": {"type": "object", "properties": {"k\n": {"const": "\n"}}}},
        "required": 3,
    },
    {"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}] * 50}}},
]


def signature(tool: ToolSpec) -> str:
    [one] = tool_functions([tool]).values()
    return one.signature()


def test_required_parameters_come_first() -> None:
    tool = spec("f", "b", a={"type": "integer"}, b={"type": "string"}, c={})
    assert signature(tool) == "f(b: str, a: int = ..., c: Any = ...)"


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "array", "items": {"type": "string"}}, "list"),
        ({"type": ["number", "null"]}, "float | None"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "bool | None"),
        ({"oneOf": [{"type": "object"}, {"$ref": "#/$defs/x"}]}, "dict | Any"),
        ({"type": [{"a": 1}, 5]}, "Any"),
    ],
)
def test_a_parameter_shows_its_outermost_type(schema: Any, shown: str) -> None:
    assert signature(spec("f", "x", x=schema)) == f"f(x: {shown})"


def test_names_become_identifiers_that_stay_apart_whatever_their_order() -> None:
    names = ["mcp_a-b", "mcp_a.b", "mcp_a_b", "class", "print", "9x", "_tool", "日本"]
    forwards = {one.spec.name: ident for ident, one in tool_functions([*map(spec, names)]).items()}
    backwards = tool_functions([*map(spec, names[::-1])])
    assert forwards == {one.spec.name: ident for ident, one in backwards.items()}
    assert len(set(forwards.values())) == len(names)
    assert all(ident.isidentifier() and not keyword.iskeyword(ident) for ident in backwards)
    assert forwards["mcp_a_b"] == "mcp_a_b"
    assert forwards["print"] == "print_"


def test_arguments_get_their_own_names_back() -> None:
    odd: dict[str, Any] = {"from": {"type": "string"}, "x-y": {}}
    tool = spec("f", "from", **odd)
    function = tool_functions([tool])["f"]
    assert function.bind(["a"], {"x_y": 1, "more": 2}) == {"from": "a", "x-y": 1, "more": 2}
    assert function.bind([], {"from_": "a", "x-y": 1}) == {"from": "a", "x-y": 1}
    with pytest.raises(TypeError, match="two values"):
        function.bind(["a"], {"from_": "b"})
    with pytest.raises(TypeError, match="takes 2"):
        function.bind([1, 2, 3], {})


@pytest.mark.parametrize("schema", HOSTILE)
def test_a_hostile_schema_gives_a_plain_signature(schema: Any) -> None:
    text = signature(ToolSpec("f", "line\nimport os\n# more", schema, "f"))
    assert "\n" not in text
    ast.parse(f"def {text}: ...")
