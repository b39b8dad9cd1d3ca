"""Which model is asked, as configuration and environment say."""

from collections.abc import Sequence
from typing import Any

import pytest

from openclaw.config.agent_schema import ModelChoice
from openclaw.config.schema import Config
from openclaw.core.errors import ModelUnavailable
from openclaw.models.choose import (
    choose,
    known_providers,
    ollama_models,
    ollama_url,
    resolve,
)
from openclaw.testing.scripted_model import scripted_model


def providers(**named: dict[str, Any]) -> Any:
    return Config.model_validate({"models": {"providers": named}}).models.providers


async def nobody(url: str) -> Sequence[str]:
    return []


async def somebody(url: str) -> Sequence[str]:
    return ["nomic-embed-text:latest", "llama3.2:latest"]


async def test_what_is_configured_wins_with_its_fallbacks_in_order() -> None:
    known = providers(acme={"baseUrl": "http://a/v1", "models": [{"id": "m"}]})
    choice = ModelChoice(primary="acme/m", fallbacks=("anthropic/claude-opus-5", "local/x"))
    chosen = await choose(choice, known, {"OPENAI_API_KEY": "k"}, probe=somebody)
    assert [one.ref for one in chosen.candidates] == [
        "acme/m",
        "anthropic/claude-opus-5",
        "local/x",
    ]
    assert chosen.reason == "configured"


async def test_a_configured_provider_comes_before_a_key_in_the_environment() -> None:
    known = providers(acme={"baseUrl": "http://a/v1", "models": [{"id": "m"}]})
    chosen = await choose(None, known, {"OPENAI_API_KEY": "k"}, probe=somebody)
    assert chosen.candidates[0].ref == "acme/m"


@pytest.mark.parametrize(
    ("variables", "provider"),
    [
        (["OPENROUTER_API_KEY"], "openrouter"),
        (["GOOGLE_API_KEY"], "google"),
        (["GEMINI_API_KEY", "OPENROUTER_API_KEY"], "google"),
        (["OPENAI_API_KEY", "GEMINI_API_KEY"], "openai"),
        (["ANTHROPIC_API_KEY", "OPENAI_API_KEY"], "anthropic"),
    ],
)
async def test_a_key_in_the_environment_picks_its_provider(
    variables: list[str], provider: str
) -> None:
    environ = dict.fromkeys(variables, "some-key")
    chosen = await choose(None, {}, environ, probe=somebody)
    assert chosen.candidates[0].provider == provider
    assert chosen.candidates[0].model == known_providers()[provider].default_model
    assert chosen.candidates[0].api_key == f"secret://env/{variables[0]}"
    assert chosen.reason == f"{variables[0]} is set"


async def test_an_empty_key_is_no_key() -> None:
    chosen = await choose(None, {}, {"OPENAI_API_KEY": ""}, probe=nobody)
    assert chosen.candidates[0].provider == "local"


async def test_an_ollama_that_answers_comes_before_the_embedded_model() -> None:
    chosen = await choose(None, {}, {}, probe=somebody)
    assert chosen.candidates[0].ref == "ollama/llama3.2:latest"
    assert chosen.candidates[0].base_url == "http://127.0.0.1:11434/v1"
    assert chosen.candidates[0].context_window == 8_192


async def test_with_nothing_at_hand_the_embedded_model_answers() -> None:
    chosen = await choose(None, {}, {}, probe=nobody)
    assert chosen.candidates[0].provider == "local"
    assert chosen.candidates[0].api == "local"


def test_a_model_entry_says_what_its_provider_does_not() -> None:
    known = providers(
        acme={
            "baseUrl": "http://a/v1",
            "apiKey": "secret://env/K",
            "headers": {"X-A": "1"},
            "timeoutMs": 5000,
            "maxRetries": 7,
            "models": [
                {
                    "id": "m",
                    "api": "anthropic-messages",
                    "contextWindow": 9000,
                    "maxTokens": 100,
                    "input": ["text", "image"],
                }
            ],
        }
    )
    found = resolve("acme/m", known, {})
    assert (found.api, found.context_window, found.max_tokens) == ("anthropic-messages", 9000, 100)
    assert (found.api_key, found.headers) == ("secret://env/K", {"X-A": "1"})
    assert (found.timeout, found.max_retries) == (5.0, 7)
    assert found.accepts == {"text", "image"}
    unlisted = resolve("acme/other", known, {})
    assert (unlisted.api, unlisted.context_window) == ("openai-completions", None)


def test_configuration_of_a_built_in_provider_is_laid_over_what_is_known_of_it() -> None:
    known = providers(anthropic={"baseUrl": "http://proxy"})
    found = resolve("anthropic/claude-opus-5", known, {"ANTHROPIC_API_KEY": "k"})
    assert found.base_url == "http://proxy"
    assert found.api == "anthropic-messages"
    assert found.api_key == "secret://env/ANTHROPIC_API_KEY"


def test_a_model_may_have_slashes_in_its_name() -> None:
    found = resolve("openrouter/meta/llama-4", {}, {})
    assert (found.provider, found.model) == ("openrouter", "meta/llama-4")


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("claude-opus-5", "anthropic"),
        ("gpt-5", "openai"),
        ("o3", "openai"),
        ("gemini-3.5-flash", "google"),
        ("mine", "acme"),
    ],
)
def test_a_bare_name_is_taken_where_it_is_plain_whose_it_is(name: str, provider: str) -> None:
    known = providers(acme={"baseUrl": "http://a", "models": [{"id": "mine"}]})
    assert resolve(name, known, {}).provider == provider


@pytest.mark.parametrize("name", ["olive", "whatever", "/x", "acme/"])
def test_a_name_that_says_nothing_is_refused(name: str) -> None:
    with pytest.raises(ModelUnavailable):
        resolve(name, {}, {})


def test_an_unknown_provider_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        resolve("nobody/x", {}, {})
    assert "unknown provider 'nobody'" in caught.value.message
    assert "anthropic" in (caught.value.hint or "")


def test_a_local_model_takes_its_file_from_its_entry() -> None:
    known = providers(local={"models": [{"id": "mine", "path": "/w.gguf", "contextWindow": 2048}]})
    found = resolve("local/mine", known, {})
    assert (found.path, found.context_window, found.api) == ("/w.gguf", 2048, "local")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("box", "http://box:11434"),
        ("0.0.0.0:99", "http://127.0.0.1:99"),
        ("https://box:1/", "https://box:1"),
    ],
)
def test_ollama_is_looked_for_where_its_variable_says(host: str, url: str) -> None:
    assert ollama_url({"OLLAMA_HOST": host}) == url


async def test_the_probe_lists_the_models_of_a_server_that_answers() -> None:
    async with scripted_model() as server:
        assert await ollama_models(server.url) == ["scripted:latest"]
        assert await ollama_models(f"{server.url}/nothing") == []


async def test_the_probe_finds_nothing_where_nothing_listens() -> None:
    assert await ollama_models("http://127.0.0.1:9") == []
