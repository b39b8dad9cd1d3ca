"""Structured results held to the schemas that their tools declared, within bounds that hold."""

import time
from contextlib import suppress
from typing import Any

import pytest

from openclaw.mcp_client.catalog.schema_check import Undecided, enforce_output_schema, why_unfit
from openclaw.mcp_client.errors import InvalidResult

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
        "boss": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        "kind": {"const": "person"},
        "place": {"prefixItems": [{"type": "number"}, {"type": "number"}], "items": False},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "value",
    [
        {"name": "Ann"},
        {"name": "Ann", "age": 4.0, "tags": ["a", "b"], "boss": {"name": "Bob", "boss": None}},
        {"name": "Ann", "kind": "person", "place": [1, 2.5]},
    ],
)
def test_what_fits_fits(value: Any) -> None:
    assert why_unfit(PERSON, value) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "the value is not of type object"),
        ({}, "the value lacks 'name'"),
        ({"name": 5}, "/name is not of type string"),
        ({"name": ""}, "/name is beyond its minLength"),
        ({"name": "abcdef"}, "/name is beyond its maxLength"),
        ({"name": "A", "age": True}, "/age is not of type integer"),
        ({"name": "A", "age": -1}, "/age is beyond its minimum"),
        ({"name": "A", "age": 150}, "/age is beyond its exclusiveMaximum"),
        ({"name": "A", "tags": ["a", "a", "a"]}, "/tags is beyond its maxItems"),
        ({"name": "A", "tags": ["c"]}, "/tags/0 is not one of the allowed values"),
        ({"name": "A", "boss": {"name": 1}}, "/boss fits none of the choices of 'anyOf'"),
        ({"name": "A", "kind": "dog"}, "/kind is not the allowed value"),
        ({"name": "A", "place": [1, 2, 3]}, "/place/2 is not allowed"),
        ({"name": "A", "other": 1}, "/other is not allowed"),
        ({"name": "A", "o\x1bther": 1}, "/? is not allowed"),
    ],
)
def test_the_first_misfit_is_named_with_its_place(value: Any, reason: str) -> None:
    assert why_unfit(PERSON, value) == reason


def test_what_is_not_judged_is_let_pass() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^(a+)+$", "format": "email"}},
        "patternProperties": {"^x": {"type": "number"}},
        "additionalProperties": False,
        "allOf": [True, {"not": {"required": ["b"], "pattern": "x"}}],
    }
    assert why_unfit(schema, {"a": "b", "x1": 1}) is None


def test_what_a_schema_excludes_does_not_fit() -> None:
    assert why_unfit({"not": {"type": "string"}}, "a") == "the value matches what it must not"
    assert why_unfit({"not": {"type": "string"}}, 1) is None


@pytest.mark.parametrize("value", [True, 1, "a", None, []])
def test_a_type_that_json_does_not_have_excludes_nothing(value: Any) -> None:
    assert why_unfit({"type": "any"}, value) is None


DOUBLING: dict[str, Any] = {
    "type": "object",
    "$ref": "#/$defs/d0",
    "$defs": {
        **{
            f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
            for n in range(40)
        },
        "d40": {},
    },
}


SLOW: list[tuple[dict[str, Any], Any]] = [
    (DOUBLING, {}),
    ({"$ref": "#"}, {}),
    ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, {}),
    ({"properties": {"a": {"pattern": "^(a|a)*$"}}}, {"a": "a" * 100_000 + "!"}),
    ({"items": {"enum": list(range(10_000))}}, [10_001] * 10_000),
    ({"additionalProperties": {"$ref": "#"}}, {str(n): {"x": {}} for n in range(100_000)}),
]


@pytest.mark.parametrize(("schema", "value"), SLOW)
def test_no_schema_and_no_value_takes_long(schema: dict[str, Any], value: Any) -> None:
    began = time.process_time()
    with suppress(Undecided):
        why_unfit(schema, value)
    assert time.process_time() - began < 2.0  # a tenth of that, where nothing measures it


@pytest.mark.parametrize(
    "reference", ["http://127.0.0.1:1/schema", "file:///etc/passwd", "#/nowhere"]
)
def test_no_reference_leaves_the_schema(reference: str) -> None:
    assert why_unfit({"$ref": reference}, {}) is None


async def test_a_misfit_is_left_out_and_told_where_there_are_words() -> None:
    words = {"type": "text", "text": "Ann"}
    held = await enforce_output_schema(
        PERSON, {"content": [words], "structuredContent": {"name": 5}}
    )
    assert "structuredContent" not in held
    assert held["content"][0] == words
    assert "/name is not of type string" in held["content"][1]["text"]


async def test_a_misfit_alone_is_no_result() -> None:
    with pytest.raises(InvalidResult, match="does not match the tool's own output schema"):
        await enforce_output_schema(PERSON, {"content": [], "structuredContent": {"name": 5}})


@pytest.mark.parametrize(
    "raw",
    [
        {"content": [], "structuredContent": {"name": "Ann"}},
        {"content": [], "isError": True, "structuredContent": {"name": 5}},
        {"content": []},
    ],
)
async def test_what_fits_errors_and_nothing_are_left_alone(raw: dict[str, Any]) -> None:
    assert await enforce_output_schema(PERSON, raw) == raw


@pytest.mark.parametrize(("schema", "value"), SLOW)
async def test_while_a_hostile_one_is_judged_others_go_on(
    schema: dict[str, Any], value: Any
) -> None:
    raw = {"content": [{"type": "text", "text": "x"}], "structuredContent": value}
    assert (await enforce_output_schema(schema, raw))["content"][0] == raw["content"][0]


async def test_a_misfit_far_inside_is_still_found() -> None:
    rows = [{"n": n} for n in range(3_000)]
    schema = {"items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    raw = {"content": [{"type": "text", "text": "x"}], "structuredContent": [*rows, {"n": "x"}]}
    held = await enforce_output_schema(schema, raw)
    assert "/3000/n is not of type integer" in held["content"][1]["text"]
