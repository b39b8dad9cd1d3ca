"""Searching the web: by the model's provider, by an engine, or not at all."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model(default=Step(text="Done.")) as running:
        yield running


async def asked(home: Path, model: ScriptedModel, api: str, tools: Any) -> tuple[str, list[str]]:
    """The system prompt and the names of the tools that the model was sent."""
    state = home / ".openclaw"
    state.mkdir(mode=0o700)
    path = "/v1" if api.startswith("openai") else ""
    provider = {"baseUrl": model.url + path, "apiKey": "k", "api": api, "models": [{"id": "gpt-5"}]}
    config = {"models": {"providers": {"acme": provider}}, "tools": tools}
    (state / "openclaw.json").write_text(json.dumps(config))
    (state / "openclaw.json").chmod(0o600)
    command = [sys.executable, "-m", "openclaw", "agent", "go"]
    done: subprocess.CompletedProcess[bytes] = await anyio.run_process(command, check=False)
    assert b"Done." in done.stdout, done.stderr
    body = model.requests[0].body
    tools = [
        tool.get("name") or tool.get("function", {}).get("name") or tool["type"]
        for tool in body["tools"]
    ]
    return json.dumps(body), tools


async def test_a_provider_that_searches_itself_is_let_to(home: Path, model: ScriptedModel) -> None:
    search = {"web": {"search": {"provider": "native"}}}
    prompt, tools = await asked(home, model, "openai-responses", search)
    assert tools.count("web_search") == 1
    assert '"type": "web_search"' in prompt
    assert "There is no web search" not in prompt


async def test_a_search_that_the_rules_forbid_is_nobodys(home: Path, model: ScriptedModel) -> None:
    rules = {"web": {"search": {"provider": "native"}}, "deny": ["web_search"]}
    prompt, tools = await asked(home, model, "openai-responses", rules)
    assert "web_search" not in tools
    assert "There is no web search" in prompt


async def test_an_engine_is_a_tool_of_ours(home: Path, model: ScriptedModel) -> None:
    search = {"web": {"search": {"provider": "searxng", "baseUrl": "http://127.0.0.1:9"}}}
    prompt, tools = await asked(home, model, "openai-responses", search)
    assert "web_search" in tools
    assert '"type": "web_search"' not in prompt


async def test_without_any_the_model_is_told_so(home: Path, model: ScriptedModel) -> None:
    prompt, tools = await asked(home, model, "openai-completions", {})
    assert "web_search" not in tools
    assert "web_fetch" in tools
    assert "There is no web search" in prompt
