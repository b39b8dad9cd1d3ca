"""Input schemas as providers take them."""

from typing import Any

import pytest
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.tools import ToolDefinition
from tests.support.vendors.rules import Conversation
from tests.support.vendors.server import refusal

from openclaw.models.build import profile_of
from openclaw.models.choose import Api, Candidate
from openclaw.models.tool_schema import AdaptedTool, adapted, without_choice_at_top

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


def adapt(api: Api, schema: Any, description: str = "Does it.") -> AdaptedTool:
    tool = ToolDefinition(name="t", parameters_json_schema=schema, description=description)
    return adapted(tool, api)


def sent(api: Api, schema: dict[str, Any]) -> dict[str, Any]:
    profile: ModelProfile = profile_of(Candidate("p", "m", api))
    transformer = profile.get("json_schema_transformer")
    assert transformer is not None
    schema = adapt(api, schema).definition.parameters_json_schema
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
    converted = without_choice_at_top(schema)
    assert converted["required"] == ["a", "b"]
    assert set(converted["properties"]) == {"a", "b"}


def test_a_choice_below_the_top_stays() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"x": {"anyOf": [{"type": "string"}, {}]}},
    }
    assert without_choice_at_top(schema) == schema


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
    converted = without_choice_at_top(schema)
    assert converted["properties"] == {}
    assert "anyOf" not in converted


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("schema", [RICH, CHOICE])
def test_the_schema_given_is_never_changed(api: Api, schema: dict[str, Any]) -> None:
    before = repr(schema)
    sent(api, schema)
    assert repr(schema) == before


LONG = "x" * 70
ODD: dict[str, Any] = {
    "an array without items": {"properties": {"a": {"type": "array"}}},
    "one in a choice": {"properties": {"a": {"anyOf": [{"type": "array"}, {"type": "null"}]}}},
    "one of several types": {"properties": {"a": {"type": ["array", "null"]}}},
    "an object without properties": {"type": "object"},
    "one further down": {"properties": {"a": {"type": "object"}}},
    "nothing": {},
    "another type": {"type": "string"},
    "odd keys": {
        "properties": {"filter[id]": {}, "$top": {}, LONG: {}, "filter_id": {}, "é": {}, "": {}},
        "required": ["$top", LONG],
    },
    "odd keys further down": {
        "properties": {"a": {"type": "array", "items": {"properties": {"$b c": {}}}}}
    },
    "draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {
            "a": {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "required": True}
        },
    },
    "draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"p": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]}},
        "properties": {"a": {"$ref": "#/definitions/p"}},
    },
    "unknown types": {"properties": {"a": {"type": "file"}, "b": {"type": ["any", "string"]}}},
    "no schemas": {"properties": {"a": None, "b": "string", "c": True}, "required": "a"},
    "lost references": {"properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "other.json"}}},
    "empty choices": {"properties": {"a": {"enum": []}, "b": {"anyOf": []}, "c": {"enum": [""]}}},
    "a choice at the top": CHOICE,
    "a deep one": {"properties": {"a": {}}},
}
_deep: dict[str, Any] = ODD["a deep one"]["properties"]["a"]
for _ in range(100):
    _deep["items"] = {}
    _deep = _deep["items"]
_deep["type"] = "array"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_schema_is_made_acceptable(api: Api, odd: str) -> None:
    before = repr(ODD[odd])
    tool = adapt(api, ODD[odd], "d" * 3000)
    assert repr(ODD[odd]) == before
    definition = tool.definition
    schema = sent(api, ODD[odd])
    function = {"name": "t", "description": definition.description, "parameters": schema}
    described = {"name": "t", "description": definition.description}
    said = {"role": "user", "content": "hi"}
    requests: dict[Api, Any] = {
        "openai-completions": {
            "messages": [said],
            "tools": [{"type": "function", "function": function}],
        },
        "openai-responses": {"input": [said], "tools": [{"type": "function", **function}]},
        "anthropic-messages": {
            "messages": [said],
            "max_tokens": 9,
            "tools": [{**described, "input_schema": schema}],
        },
        "google-generative-ai": {
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "tools": [{"functionDeclarations": [{**described, "parametersJsonSchema": schema}]}],
        },
    }
    wires: Any = dict(zip(APIS, ("chat", "responses", "anthropic", "google"), strict=True))
    assert refusal(wires[api], Conversation(requests[api], "scripted")) is None
    # And it is the same in whichever way it is adapted again.
    assert adapted(definition, api).definition == definition


def test_changed_keys_come_back_as_they_were() -> None:
    tool = adapt("anthropic-messages", ODD["odd keys"])
    schema = tool.definition.parameters_json_schema
    assert len(schema["properties"]) == 6
    assert {tool.keys[name] for name in schema["required"]} == {"$top", LONG}
    back = tool.restore({key: [{"top": 1}] for key in schema["properties"]})
    assert set(back) == set(ODD["odd keys"]["properties"])
    assert back["$top"] == [{"$top": 1}]


def test_what_is_lost_is_said() -> None:
    told = adapt("openai-responses", CHOICE).definition.description
    assert told == "Does it.\n(Give these arguments together: `a`, `common`; or `common`.)"
    lost = adapt("openai-responses", ODD["lost references"]).definition.description or ""
    assert "missing: other.json" in lost
    kinds = adapt("openai-responses", ODD["unknown types"]).definition.parameters_json_schema
    assert kinds["properties"]["a"] == {"description": "(type: file)"}


def test_a_long_description_continues_in_the_schema() -> None:
    words = " ".join(f"word{number}" for number in range(500))
    definition = adapt("openai-completions", {"description": "Own."}, words).definition
    head, rest = definition.description or "", definition.parameters_json_schema["description"]
    assert len(head) <= 1024
    assert f"{head.partition(' […')[0]} {rest}" == f"{words}\nOwn."
    assert adapt("anthropic-messages", {}, words).definition.description == words


def test_draft_4_and_7_mean_the_same_afterwards() -> None:
    four = adapt("anthropic-messages", ODD["draft 4"]).definition.parameters_json_schema
    assert four["properties"]["a"] == {"type": "integer", "exclusiveMinimum": 1}
    seven = adapt("openai-responses", ODD["draft 7"]).definition.parameters_json_schema
    tuple_ = [{"type": "string"}, {"type": "number"}]
    assert seven["definitions"]["p"] == {"type": "array", "prefixItems": tuple_, "items": {}}
