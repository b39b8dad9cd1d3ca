from typing import Any

import pytest

from openclaw.mcp_client.provider_schema import schema_for

RICH: dict[str, Any] = {
    "type": "object",
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}}},
    "properties": {"at": {"$ref": "#/$defs/point"}, "mode": {"const": "fast"}},
    "required": ["at"],
    "additionalProperties": False,
}
CHOICE: dict[str, Any] = {
    "type": "object",
    "properties": {"common": {"type": "string"}},
    "anyOf": [
        {"properties": {"a": {"type": "string"}}, "required": ["a", "common"]},
        {"properties": {"b": {"type": "number"}}, "required": ["common"]},
    ],
}


@pytest.mark.parametrize("family", ["openai", "anthropic", "mistral", "local"])
def test_what_a_provider_can_take_is_not_touched(family: str) -> None:
    assert schema_for(family, RICH) == RICH


def test_a_family_that_we_do_not_know_gets_the_schema_as_it_is() -> None:
    assert schema_for("somebody", CHOICE) == CHOICE


@pytest.mark.parametrize("family", ["openai", "anthropic"])
def test_a_choice_at_the_top_becomes_one_object(family: str) -> None:
    assert schema_for(family, CHOICE) == {
        "type": "object",
        "properties": {
            "common": {"type": "string"},
            "a": {"type": "string"},
            "b": {"type": "number"},
        },
        "required": ["common"],
    }


def test_all_of_at_the_top_needs_what_each_needs() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "$defs": {"base": {"properties": {"a": {}}, "required": ["a"]}},
        "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": {}}, "required": ["b"]}],
    }
    converted = schema_for("openai", schema)
    assert converted["required"] == ["a", "b"]
    assert set(converted["properties"]) == {"a", "b"}


def test_a_choice_below_the_top_stays_for_openai() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"x": {"anyOf": [{"type": "string"}, {}]}},
    }
    assert schema_for("openai", schema) == schema


def test_google_gets_references_inlined_and_only_its_own_keywords() -> None:
    assert schema_for("google", RICH) == {
        "type": "object",
        "properties": {
            "at": {"type": "object", "properties": {"x": {"type": "number"}}},
            "mode": {"enum": ["fast"], "type": "string"},
        },
        "required": ["at"],
    }


def test_google_gets_a_schema_that_contains_itself_cut_off() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}},
        "properties": {"list": {"$ref": "#/$defs/n"}},
    }
    inlined = schema_for("google", schema)["properties"]["list"]
    assert inlined["properties"]["next"]["type"] == "object"


def test_google_gets_null_as_nullable_and_one_of_as_any_of() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"], "format": "uri"},
            "b": {"oneOf": [{"type": "string"}, {"type": "integer", "format": "int64"}]},
            "c": {"allOf": [{"type": "object", "properties": {"d": {}}, "required": ["d"]}]},
            "e": {"type": ["null"]},
            "f": {"type": "array", "items": {"enum": [1, None]}},
        },
        "required": ["a", "gone"],
    }
    assert schema_for("google", schema) == {
        "type": "object",
        "properties": {
            "a": {"type": "string", "nullable": True},
            "b": {"anyOf": [{"type": "string"}, {"type": "integer", "format": "int64"}]},
            "c": {"type": "object", "properties": {"d": {}}, "required": ["d"]},
            "e": {"type": "string", "nullable": True},
            "f": {"type": "array", "items": {"enum": ["1"], "type": "string"}},
        },
        "required": ["a"],
    }


def test_a_dangling_or_circular_branch_at_the_top_is_left_out() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "$defs": {"loop": {"$ref": "#/$defs/loop"}},
        "anyOf": [{"$ref": "#/$defs/none"}, {"$ref": "#/$defs/loop"}],
    }
    converted = schema_for("openai", schema)
    assert converted["properties"] == {}
    assert "anyOf" not in converted


def test_the_schema_given_is_never_changed() -> None:
    before = repr(RICH)
    schema_for("google", RICH)
    assert repr(RICH) == before
