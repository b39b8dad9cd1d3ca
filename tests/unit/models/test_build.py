"""From a candidate to a model, with keys and headers resolved and no more imported than needed."""

import subprocess
import sys
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.test import TestModel
from tests.support.agent_kit import APIS, agent_kit, scripted_config

from openclaw.config.agent_schema import ProviderConfig
from openclaw.core.clock import SystemClock
from openclaw.core.errors import MissingExtra, ModelUnavailable, SecretUnavailable
from openclaw.models.build import BuiltModel, ModelBuilder
from openclaw.models.choose import (
    FALLBACK_CONTEXT_WINDOW,
    Candidate,
    ModelCandidates,
    resolve,
)
from openclaw.models.fallback import ContextOverflow, FallbackModels, ModelFactory, StreamCallbacks
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure, SecretResolver
from openclaw.testing.scripted_model import Step, scripted_model


class Environment:
    """The one backend these tests need."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    async def read(self, ref: SecretRef) -> str:
        for name, value in self._values.items():
            if ref.text.endswith(name):
                return value
        raise BackendFailure("not set")


def builder(**values: str) -> ModelBuilder:
    resolver = SecretResolver({"env": Environment(values)}, Redactor())
    return ModelBuilder(resolver=resolver, environ={})


CANDIDATE = Candidate("acme", "m", "openai-completions", base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize("api", APIS)
async def test_every_api_has_its_model(api: Any) -> None:
    built = await builder().build(replace(CANDIDATE, api=api), temperature=0.5)
    assert built.model.model_name == "m"
    assert built.settings.get("temperature") == 0.5
    assert built.context_window == FALLBACK_CONTEXT_WINDOW
    assert not built.accepts_images
    await built.aclose()


@pytest.mark.parametrize(
    ("ref", "window"),
    [
        ("anthropic/claude-sonnet-5-5", 1_000_000),
        ("anthropic/claude-sonnet-of-the-future", 200_000),
        ("openai/gpt-4o", 128_000),
        ("openai/gpt-5-mini", 400_000),
        ("openrouter/anthropic/claude-sonnet-5", 1_000_000),
        ("ollama/gpt-oss:20b", 8_192),
    ],
)
async def test_context_windows_come_from_the_library(ref: str, window: int) -> None:
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY")
    candidate = resolve(ref, {}, dict.fromkeys(keys, "k"))
    built = await builder(**dict.fromkeys(keys, "k")).build(candidate)
    assert built.context_window == window
    await built.aclose()


async def test_a_configured_context_window_wins_and_a_thinking_model_gets_no_temperature() -> None:
    entry = {"id": "gpt-4o", "contextWindow": 50_000, "maxTokens": 40_000, "reasoning": True}
    providers = {"openai": ProviderConfig.model_validate({"apiKey": "k", "models": [entry]})}
    built = await builder().build(resolve("openai/gpt-4o", providers, {}), temperature=0.5)
    assert built.context_window == 50_000
    assert built.output_room == 25_000, "half of the context is left to ask with"
    assert "temperature" not in built.settings
    assert built.model.profile.get("supports_thinking")
    await built.aclose()


async def test_key_and_headers_come_from_secrets_and_reach_the_provider() -> None:
    async with scripted_model([Step(text="ok")]) as server:
        candidate = replace(
            CANDIDATE,
            base_url=f"{server.url}/v1",
            api_key="secret://env/KEY",
            headers={"X-Team": "team secret://env/TEAM"},
        )
        built = await builder(KEY="the-key-123", TEAM="blue").build(candidate)
        from pydantic_ai.messages import ModelRequest
        from pydantic_ai.models import ModelRequestParameters

        await built.model.request(
            [ModelRequest.user_text_prompt("hi")], None, ModelRequestParameters()
        )
        await built.aclose()
    assert server.requests[0].headers["authorization"] == "Bearer the-key-123"
    assert server.requests[0].headers["x-team"] == "team blue"


async def test_a_provider_whose_library_is_not_installed_names_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.models.google", None)
    with pytest.raises(MissingExtra) as caught:
        await builder().build(replace(CANDIDATE, api="google-generative-ai"))
    assert caught.value.extra == "google"


async def test_a_missing_key_says_where_to_put_it() -> None:
    candidate = replace(CANDIDATE, key_hint="ACME_KEY")
    with pytest.raises(ModelUnavailable) as caught:
        await builder().build(candidate)
    assert caught.value.message == "acme/m needs a key"
    assert caught.value.hint == "set ACME_KEY, or models.providers.acme.apiKey"


async def test_a_missing_address_says_where_to_put_it() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        await builder().build(replace(CANDIDATE, base_url=None))
    assert caught.value.hint == "set models.providers.acme.baseUrl"


async def test_a_secret_that_cannot_be_had_names_its_reference() -> None:
    with pytest.raises(SecretUnavailable, match="secret://env/GONE"):
        await builder().build(replace(CANDIDATE, api_key="secret://env/GONE"))


async def test_the_embedded_model_is_built_by_whoever_brings_it() -> None:
    candidate = Candidate("local", "tiny", "local", context_window=2048, max_tokens=64)
    with pytest.raises(MissingExtra):
        await builder().build(candidate)

    async def local(name: str, *limits: Any) -> Any:
        return TestModel(model_name=name)

    resolver = SecretResolver({}, Redactor())
    built = await ModelBuilder(resolver=resolver, environ={}, local=local).build(candidate)
    assert (built.model.model_name, built.context_window) == ("tiny", 2048)
    assert built.settings == {"max_tokens": 64}
    await built.aclose()


async def test_a_fallback_that_cannot_be_built_does_not_keep_the_others_from_answering() -> None:
    config = scripted_config("http://127.0.0.1:9", provider={"apiKey": "secret://env/GONE"})
    async with scripted_model([Step(text="still here")]) as server:
        good = {"baseUrl": f"{server.url}/v1", "models": [{"id": "m"}]}
        raw = config.model_dump(by_alias=True, exclude_unset=True)
        raw["models"]["providers"]["good"] = good
        raw["agents"]["defaults"]["model"]["fallbacks"] = ["good/m"]
        async with agent_kit(type(config).model_validate(raw)) as kit:
            assert (await kit.say("hi")).text == "still here"


async def test_no_model_at_all_is_told_with_every_reason() -> None:
    async def build(candidate: Candidate) -> BuiltModel:
        raise ModelUnavailable(f"{candidate.model} is not there", hint="fetch it")

    other = replace(CANDIDATE, model="n")
    stack = FallbackModels(ModelCandidates((CANDIDATE, other), "test"), build, clock=SystemClock())
    with pytest.raises(ModelUnavailable) as caught:
        await stack.primary()
    assert caught.value.message == (
        "no model answered: acme/m: m is not there; acme/n: n is not there"
    )
    assert caught.value.hint == "fetch it"


async def test_a_provider_that_asks_for_a_long_wait_is_not_waited_for() -> None:
    async with (
        scripted_model(default=Step(status=429, retry_after=3600)) as server,
        agent_kit(scripted_config(server.url)) as kit,
    ):
        with pytest.raises(ModelUnavailable, match="asks for a long wait"):
            await kit.say("hi")
    assert len(server.requests) == 1


async def test_the_same_choice_gives_the_same_stack() -> None:
    config = scripted_config("http://127.0.0.1:9")
    builds = ModelBuilder(SecretResolver({}, Redactor()), {})
    built = ModelFactory(config.models.providers, builds, SystemClock())
    async with aclosing(built) as factory:
        model = config.agents.defaults.model
        assert await factory.models_of(model) is await factory.models_of(model)
        assert await factory.models_of(model) is not await factory.models_of(model, temperature=0.1)
        await (await factory.models_of(model)).primary()


async def test_a_request_that_is_too_long_says_so() -> None:
    async with scripted_model(default=Step(overflow=True)) as server:
        config = scripted_config(server.url)
        builds = ModelBuilder(SecretResolver({}, Redactor()), {})
        built = ModelFactory(config.models.providers, builds, SystemClock())
        async with aclosing(built) as factory:
            stack = await factory.models_of(config.agents.defaults.model)
            asked: list[ModelMessage] = [ModelRequest.user_text_prompt("hi")]
            with pytest.raises(ContextOverflow, match="does not fit into the model's context"):
                await stack.respond(
                    lambda built, keep: asked, ModelRequestParameters(), StreamCallbacks()
                )


def test_a_watcher_need_not_listen() -> None:
    StreamCallbacks().notice("nobody hears this")


def test_choosing_a_model_imports_no_model_library() -> None:
    code = (
        "import sys, openclaw.models.choose;"
        "print([m for m in ('pydantic_ai', 'openai', 'anthropic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_agent_and_a_gateway_start_without_the_extras() -> None:
    code = (
        "import sys, openclaw.runtime.runtime, openclaw.runtime.gateway_runtime;"
        "import openclaw.gateway.daemon, openclaw.mcp_server.stdio, openclaw.cli.main;"
        "extras = ('asyncpg', 'opentelemetry.sdk', 'keyring', 'boto3', 'google.auth', 'xllamacpp');"
        "print([m for m in extras if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("api", APIS)
async def test_nothing_of_the_process_environment_reaches_a_provider(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_ORG_ID",
        "OPENAI_PROJECT_ID",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "GOOGLE_API_KEY",
        "GOOGLE_CLOUD_PROJECT",
    ):
        monkeypatch.setenv(name, f"leaked-{name}")
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "X-Leak: leaked\nAuthorization: Bearer leaked\nX-Api-Key: leaked")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with (
        scripted_model([Step(text="ok")]) as server,
        agent_kit(scripted_config(server.url, api=api)) as kit,
    ):
        assert (await kit.say("hi")).text == "ok"
    assert "leak" not in repr(dict(server.requests[0].headers)).lower()
