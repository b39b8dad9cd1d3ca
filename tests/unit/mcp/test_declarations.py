"""What servers declare, with mistakes in it. The SDK's models are the oracle for what is right."""

from collections.abc import Callable
from typing import Any

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.mcp import json_text
from openclaw.mcp.declarations import (
    InvalidDeclaration,
    Listing,
    Prompt,
    PromptArgument,
    Resource,
    ResourceTemplate,
    Tool,
    ToolAnnotations,
)

SCHEMA = {"type": "object"}
TOOL = {"name": "t", "inputSchema": SCHEMA}


@pytest.mark.parametrize(
    "mistake",
    [
        {"title": 5},
        {"description": ["x"]},
        {"annotations": ["readOnlyHint"]},
        {"annotations": "none"},
        {"execution": {"taskSupport": 1}},
        {"execution": "fast"},
        {"outputSchema": "text"},
        {"_meta": []},
        {"icons": 7},
        {"inputSchema": {**SCHEMA, "properties": None, "required": None}},
    ],
)
def test_a_mistake_in_what_is_optional_costs_only_that(mistake: dict[str, Any]) -> None:
    assert Tool.parse({**TOOL, **mistake}) == Tool(name="t", input_schema=SCHEMA)


def test_one_wrong_hint_leaves_the_others() -> None:
    hints = {"title": 1, "readOnlyHint": True, "destructiveHint": "no"}
    tool = Tool.parse({**TOOL, "annotations": hints})
    assert tool.annotations == ToolAnnotations(read_only_hint=True)


@pytest.mark.parametrize("support", ["required", "optional", "forbidden", "sometimes", None])
def test_only_tools_that_say_so_take_tasks(support: str | None) -> None:
    tool = Tool.parse({**TOOL, "execution": {"taskSupport": support}})
    assert tool.takes_tasks is (support in ("required", "optional"))


UNUSABLE: list[tuple[Callable[[Any], Any], Any]] = [
    (Tool.parse, {"inputSchema": SCHEMA}),
    (Tool.parse, {"name": 5, "inputSchema": SCHEMA}),
    (Tool.parse, {"name": "t"}),
    (Tool.parse, {"name": "t", "inputSchema": []}),
    (Resource.parse, {"name": "r"}),
    (ResourceTemplate.parse, {"name": "r", "uriTemplate": None}),
    (Prompt.parse, {"arguments": []}),
    (Prompt.parse, {"name": "p", "arguments": [{}]}),
    (Listing.parse, []),
    (Listing.parse, {"tools": [5]}),
]


@pytest.mark.parametrize(("parse", "fields"), UNUSABLE)
def test_what_cannot_be_used_is_refused(parse: Callable[[Any], Any], fields: Any) -> None:
    with pytest.raises(InvalidDeclaration):
        parse(fields)


def test_a_resource_without_a_name_is_called_by_its_address() -> None:
    assert Resource.parse({"uri": "a://b"}).name == "a://b"


def test_prompts_have_their_arguments() -> None:
    prompt = Prompt.parse({"name": "p", "arguments": [{"name": "a", "required": True}, 7]})
    assert prompt.arguments == (PromptArgument(name="a", required=True),)


TEXT = st.text(max_size=5)
OPTIONAL = {"title": TEXT, "description": TEXT}
HINTS = st.fixed_dictionaries({}, optional={"title": TEXT, "readOnlyHint": st.booleans()})
TOOLS = st.fixed_dictionaries(
    {"name": TEXT, "inputSchema": st.just(SCHEMA)},
    optional={**OPTIONAL, "annotations": HINTS, "outputSchema": st.just(SCHEMA)},
)


@given(TOOLS)
def test_what_the_sdk_takes_for_a_tool_is_one_with_the_same_content(fields: dict[str, Any]) -> None:
    theirs = mcp_types.Tool.model_validate(fields, by_name=False)
    expected = theirs.model_dump(by_alias=True, mode="json", exclude_none=True)
    assert Tool.parse(fields).to_json() == expected


@given(st.lists(TOOLS, max_size=3))
def test_a_listing_survives_its_file(tools: list[dict[str, Any]]) -> None:
    listing = Listing(
        tools=tuple(map(Tool.parse, tools)),
        resources=(Resource(uri="a://1", name="one", mime_type="text/plain"),),
        resource_templates=(ResourceTemplate(uri_template="a://{x}", name="any"),),
        prompts=(Prompt(name="p", arguments=(PromptArgument(name="a"),)),),
        instructions="Be kind.",
    )
    assert Listing.parse(json_text.loads(json_text.dumps(listing.to_json()))) == listing
