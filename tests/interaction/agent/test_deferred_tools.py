"""Tools that the model's provider searches and loads by itself."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.support.agent_kit import FakeTools, agent_kit

from openclaw.agent.budget import estimate
from openclaw.agent.toolpath.search import MOST_AT_FIRST, SEARCH_TOOL
from openclaw.config.schema import Config
from openclaw.models import choose
from openclaw.testing.scripted_model import Request, ScriptedModel, Step, scripted_model

MODELS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5.4"}
SEARCHES = {"anthropic": "tool_search_tool_bm25_20251119", "openai": "tool_search"}


def many(count: int = 500, text: str = "Does a thing to the records of a customer. ") -> FakeTools:
    tools = FakeTools()
    for number in range(count):
        tools.add(f"mcp_s_t{number}", description=f"{text * 3}{number}", server="s")
    return tools


def config(
    model: ScriptedModel, provider: str, patch: pytest.MonkeyPatch, *, vendor: bool = True
) -> Config:
    """A provider at its known address, which is that of the scripted model, or elsewhere."""
    known = choose.known_providers()[provider]
    url = model.url + ("/v1" if provider == "openai" else "")
    if vendor:
        providers = cast("dict[str, choose.KnownProvider]", choose.known_providers())
        patch.setitem(providers, provider, replace(known, base_url=url))
    name = MODELS[provider]
    entry = {"baseUrl": url, "apiKey": "key", "api": known.api, "models": [{"id": name}]}
    choice = {"primary": f"{provider}/{name}"}
    return Config.model_validate(
        {"models": {"providers": {provider: entry}}, "agents": {"defaults": {"model": choice}}}
    )


def sent(request: Request) -> tuple[list[Mapping[str, Any]], set[str]]:
    """What takes room in the context, and the names of what does not."""
    tools: list[Mapping[str, Any]] = request.body["tools"]
    shown = [tool for tool in tools if not tool.get("defer_loading")]
    return shown, {tool["name"] for tool in tools if tool.get("defer_loading")}


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_provider_that_loads_tools_gets_them_deferred_and_its_own_search(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        scripted_model([Step(text="done")]) as model,
        agent_kit(config(model, provider, monkeypatch), tools=many()) as kit,
    ):
        await kit.say("Find a customer")
    shown, deferred = sent(model.requests[0])
    names = {tool.get("name") for tool in shown}
    assert SEARCHES[provider] in {tool.get("type") for tool in shown}
    assert SEARCH_TOOL not in names
    assert estimate(json.dumps(shown, separators=(",", ":"))) <= MOST_AT_FIRST
    assert not names & deferred
    assert {f"mcp_s_t{number}" for number in range(500)} <= names | deferred


async def test_what_the_provider_found_is_called_and_shown_from_the_next_turn_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = "mcp_s_t377"
    steps = [Step(found=(found,), calls=((found, {}),)), Step(text="done"), Step(text="again")]
    tools = many()
    async with (
        scripted_model(steps) as model,
        agent_kit(config(model, "anthropic", monkeypatch), tools=tools) as kit,
    ):
        assert (await kit.say("Find a customer")).text == "done"
        await kit.say("and now?")
    first, second, later = model.requests
    assert [name for name, *_ in tools.calls] == [found]
    assert first.body["tools"] == second.body["tools"]
    history = json.dumps(second.body["messages"])
    assert '"tool_reference"' in history  # it stays loaded for the rest of the turn
    assert found in sent(second)[1]
    assert '"tool_reference"' not in json.dumps(later.body["messages"])
    assert found in {tool.get("name") for tool in sent(later)[0]}


async def test_others_who_speak_the_interface_get_our_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        scripted_model([Step(text="done")]) as model,
        agent_kit(config(model, "anthropic", monkeypatch, vendor=False), tools=many()) as kit,
    ):
        await kit.say("Find a customer")
    shown, deferred = sent(model.requests[0])
    assert not deferred
    assert SEARCH_TOOL in {tool.get("name") for tool in shown}


async def test_few_tools_and_far_too_many_are_not_deferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for tools, searches in ((many(3), False), (many(3_000), True)):
        async with (
            scripted_model([Step(text="done")]) as model,
            agent_kit(config(model, "anthropic", monkeypatch), tools=tools) as kit,
        ):
            await kit.say("Find a customer")
        shown, deferred = sent(model.requests[0])
        assert not deferred
        assert (SEARCH_TOOL in {tool.get("name") for tool in shown}) is searches
