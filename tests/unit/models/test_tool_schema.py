"""Input schemas as providers take them."""

from typing import Any

import pytest
from pydantic_ai.profiles import ModelProfile

from openclaw.models.build import OneObject, profile_of
from openclaw.models.choose import Api, Candidate

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
APIS: list[Api] = [
    "openai-completions",
    "openai-responses",
    "anthropic-messages",
    "google-generative-ai",
]


def sent(api: Api, schema: dict[str, Any]) -> dict[str, Any]:
    profile: ModelProfile = profile_of(Candidate("p", "m", api))
    transformer = profile.get("json_schema_transformer")
    assert transformer is not None
    return transformer(schema, strict=False).walk()


@pytest.mark.parametrize("api", APIS[:3])
def test_what_a_provider_can_take_is_not_touched(api: Api) -> None:
    assert sent(api, RICH) == RICH


@pytest.mark.parametrize("api", APIS)
def test_a_choice_at_the_top_becomes_one_object(api: Api) -> None:
    assert sent(api, CHOICE) == {
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
    converted = OneObject(schema).walk()
    assert converted["required"] == ["a", "b"]
    assert set(converted["properties"]) == {"a", "b"}


def test_a_choice_below_the_top_stays() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"x": {"anyOf": [{"type": "string"}, {}]}},
    }
    assert OneObject(schema).walk() == schema


def test_google_gets_one_value_as_an_enumeration() -> None:
    converted = sent("google-generative-ai", RICH)
    assert converted["properties"]["mode"] == {"enum": ["fast"], "type": "string"}
    assert converted["properties"]["at"] == {"$ref": "#/$defs/point"}


@pytest.mark.parametrize(
    "reference", ["#/$defs/none", "#/$defs/loop", "https://elsewhere/x", 5, "#anchor", "#/type/x"]
)
def test_a_branch_that_leads_nowhere_is_left_out(reference: object) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "$defs": {"loop": {"$ref": "#/$defs/loop"}},
        "anyOf": [{"$ref": reference}],
    }
    converted = OneObject(schema).walk()
    assert converted["properties"] == {}
    assert "anyOf" not in converted


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("schema", [RICH, CHOICE])
def test_the_schema_given_is_never_changed(api: Api, schema: dict[str, Any]) -> None:
    before = repr(schema)
    sent(api, schema)
    assert repr(schema) == before
