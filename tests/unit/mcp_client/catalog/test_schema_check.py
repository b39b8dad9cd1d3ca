import time
from typing import Any

import pytest

from openclaw.mcp_client.catalog.schema_check import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_EXPANDED_NODES,
    BadSchema,
    check_schema,
    expanded_size,
    resolve_reference,
)


def doubling(levels: int) -> dict[str, Any]:
    """Each definition refers to the next one twice."""
    definitions: dict[str, Any] = {
        f"d{n}": {
            "type": "object",
            "properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in ("a", "b")},
        }
        for n in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "string"}
    return {"type": "object", "$defs": definitions, "properties": {"x": {"$ref": "#/$defs/d0"}}}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


HONEST: list[dict[str, Any]] = [
    {"type": "object"},
    {"type": "object", "properties": {"a": True, "b": {"type": ["string", "null"]}}},
    {"type": "object", "properties": {"$ref": {"type": "string"}}},
    {
        "type": "object",
        "properties": {"x": {"default": {"type": 7}, "examples": [{"$ref": 1}]}},
    },
    {"type": "object", "properties": {"x": {"items": [{"type": "string"}, True]}}},
    {"type": "object", "properties": {"x": {"$anchor": "here"}, "y": {"$ref": "#here"}}},
    {"type": "object", "properties": {"self": {"$ref": "#"}}},
    {"type": "object", "anyOf": [{"required": ["a"]}, {"not": {"required": ["b"]}}]},
    {
        "type": "object",
        "$defs": {"a/b~c": {}},
        "properties": {"x": {"$ref": "#/$defs/a~1b~0c"}},
    },
    {"type": "object", "anyOf": [{}], "properties": {"x": {"$ref": "#/anyOf/0"}}},
]


@pytest.mark.requirement("FR-2.3")
@pytest.mark.parametrize("schema", HONEST)
def test_an_honest_schema_is_taken_as_it_is(schema: dict[str, Any]) -> None:
    assert check_schema(schema) == schema


def test_a_schema_without_a_type_means_an_object() -> None:
    assert check_schema({}) == {"type": "object"}


BAD: list[tuple[object, str]] = [
    ([], "not an object"),
    (None, "not an object"),
    ({"type": "array"}, "does not describe an object"),
    ({"type": ["object", "null"]}, "does not describe an object"),
    ({"type": "object", "properties": []}, "'properties'"),
    ({"type": "object", "properties": {"x": "string"}}, "not a schema"),
    ({"type": "object", "properties": {"x": {"type": "text"}}}, "'type'"),
    ({"type": "object", "properties": {"x": {"type": []}}}, "'type'"),
    ({"type": "object", "properties": {"x": {"type": [{}]}}}, "'type'"),
    ({"type": "object", "required": "x"}, "'required'"),
    ({"type": "object", "required": [1]}, "'required'"),
    ({"type": "object", "anyOf": {}}, "'anyOf'"),
    ({"type": "object", "properties": {"x": {"enum": "a"}}}, "'enum'"),
    ({"type": "object", "description": 5}, "'description'"),
    ({"type": "object", "properties": {"x": {"pattern": 5}}}, "'pattern'"),
    ({"type": "object", "properties": {"x": {"$ref": 5}}}, "'$ref'"),
    ({"type": "object", "properties": {"x": {"$ref": "https://e.com/s"}}}, "another document"),
    ({"type": "object", "properties": {"x": {"$ref": "other.json#/a"}}}, "another document"),
    ({"type": "object", "properties": {"x": {"$ref": "#/$defs/no"}}}, "not there"),
    ({"type": "object", "properties": {"x": {"$ref": "#nowhere"}}}, "not there"),
    ({"type": "object", "anyOf": [{}], "allOf": [{"$ref": "#/anyOf/9"}]}, "not there"),
    ({"type": "object", "description": "x" * (MAX_CHARACTERS + 1)}, "too large"),
    ({"type": "object", "properties": {"x": {"enum": [0] * 25_000}}}, "too many parts"),
    (nested(MAX_DEPTH), "too deep"),
    (doubling(30), "references multiply"),
]


@pytest.mark.parametrize(("schema", "reason"), BAD)
def test_a_bad_schema_is_refused_with_the_reason(schema: object, reason: str) -> None:
    with pytest.raises(BadSchema, match=r".") as caught:
        check_schema(schema)
    assert reason in str(caught.value)


def test_a_schema_that_refers_to_itself_counts_once() -> None:
    schema = {"type": "object", "properties": {"children": {"items": {"$ref": "#"}}}}
    assert expanded_size(schema) < 10


def test_a_long_chain_of_references_is_refused_without_recursion() -> None:
    links = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5000)}
    schema = {"type": "object", "$defs": {**links, "d5000": {}}, "allOf": [{"$ref": "#/$defs/d0"}]}
    with pytest.raises(BadSchema, match="references multiply"):
        check_schema(schema)


def test_doubling_references_are_counted_without_being_followed() -> None:
    began = time.thread_time()
    assert expanded_size(doubling(60)) > MAX_EXPANDED_NODES
    assert time.thread_time() - began < 0.5


def test_something_20000_deep_is_refused_at_once() -> None:
    deep: Any = {}
    for _ in range(20_000):
        deep = {"properties": {"x": deep}}
    with pytest.raises(BadSchema, match="too deep"):
        check_schema({"type": "object", **deep})


def test_a_reference_leads_to_what_it_names() -> None:
    assert resolve_reference({"$defs": {"a": {"type": "string"}}}, "#/$defs/a") == {
        "type": "string"
    }


def test_a_reference_may_be_percent_encoded_or_name_an_id() -> None:
    text = {"type": "string"}
    root: dict[str, Any] = {
        "$id": "https://e.com/schemas/tool.json",
        "$defs": {"a b": text, "Map<string>": text, "part": {"$id": "part.json", **text}},
    }
    assert resolve_reference(root, "#/$defs/a%20b") == text
    assert resolve_reference(root, "#/$defs/Map%3Cstring%3E") == text
    assert resolve_reference(root, "https://e.com/schemas/tool.json#/$defs/a%20b") == text
    assert resolve_reference(root, "tool.json#/$defs/a%20b") == text
    assert resolve_reference(root, "part.json") == root["$defs"]["part"]
    with pytest.raises(BadSchema, match="another document"):
        resolve_reference(root, "https://elsewhere.com/schemas/tool.json")
