"""Which models a provider says that it has, and what is said of one that it does not have."""

import http.server
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from openclaw.config.agent_schema import ProviderConfig
from openclaw.models.provider_check import model_problem, models_named
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver

NOTHING: dict[str, str] = {}


@contextmanager
def answering(status: int, body: object) -> Generator[tuple[str, list[str]]]:
    """A provider that answers everything so; its address, and the paths that were asked for."""
    asked: list[str] = []

    class Provider(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def problem(ref: str, weights: Path, **provider: Any) -> str | None:
    providers = {"acme": ProviderConfig.model_validate(provider)} if provider else {}
    resolver = SecretResolver({}, Redactor())
    return anyio.run(model_problem, ref, providers, resolver, NOTHING, weights)


OPENAI = {"data": [{"id": "gpt-9"}, {"id": "claude-7-20270101"}, {"id": "llama:latest"}]}
GOOGLE = {"models": [{"name": "models/gemini-9"}]}


@pytest.mark.parametrize("name", ["gpt-9", "claude-7", "claude-7-latest", "llama", "gpt-9:online"])
def test_a_model_is_known_without_its_date_and_its_tag(name: str, tmp_path: Path) -> None:
    with answering(200, OPENAI) as (url, _):
        assert problem(f"acme/{name}", tmp_path, baseUrl=url, api="openai-completions") is None


def test_the_nearest_is_named_and_otherwise_what_there_is(tmp_path: Path) -> None:
    with answering(200, OPENAI) as (url, asked):
        near = problem("acme/gtp-9", tmp_path, baseUrl=url, api="openai-completions")
        assert near == "there is no model 'gtp-9' at acme; did you mean acme/gpt-9?"
        far = problem("acme/zzzz", tmp_path, baseUrl=url, api="openai-completions")
        assert (
            far == "there is no model 'zzzz' at acme; it has gpt-9, claude-7-20270101, llama:latest"
        )
        assert asked == ["/models", "/models"]


def test_each_interface_lists_in_its_own_way(tmp_path: Path) -> None:
    with answering(200, GOOGLE) as (url, asked):
        found = problem("acme/gemini-8", tmp_path, baseUrl=url, api="google-generative-ai")
        assert "acme/gemini-9" in (found or "")
    with answering(200, OPENAI) as (url, more):
        assert problem("acme/zzzz", tmp_path, baseUrl=url, api="anthropic-messages")
        assert asked + more == ["/v1beta/models?pageSize=1000", "/v1/models?limit=1000"]


@pytest.mark.parametrize(
    ("api", "version"),
    [
        ("anthropic-messages", "/v1"),
        ("google-generative-ai", "/v1beta"),
        ("google-generative-ai", "/v1/"),
    ],
)
def test_a_version_in_the_address_is_not_repeated(api: str, version: str, tmp_path: Path) -> None:
    body = GOOGLE if api.startswith("google") else OPENAI
    name = "gemini-9" if api.startswith("google") else "claude-7"
    with answering(200, body) as (url, asked):
        assert problem(f"acme/{name}", tmp_path, baseUrl=url + version, api=api) is None
    (path,) = asked
    assert path.count("/v1") == 1


@pytest.mark.parametrize("status", [401, 404, 500, 200])
def test_a_provider_that_cannot_list_leaves_it_open(status: int, tmp_path: Path) -> None:
    with answering(status, {}) as (url, _):
        assert problem("acme/zzzz", tmp_path, baseUrl=url, api="openai-completions") is None
    assert (
        problem("acme/z", tmp_path, baseUrl="http://127.0.0.1:9", api="openai-completions") is None
    )


def test_a_configured_model_is_not_asked_for(tmp_path: Path) -> None:
    with answering(200, OPENAI) as (url, asked):
        own = [{"id": "mine"}]
        assert problem("acme/mine", tmp_path, baseUrl=url, models=own) is None
        assert asked == []


def test_embedded_models_are_those_of_the_catalogue_and_files(tmp_path: Path) -> None:
    assert "local/smollm2-135m-instruct" in (problem("local/smollm2-135m", tmp_path) or "")
    assert problem("local//tmp/x.gguf", tmp_path) is None
    assert "unknown provider" in (problem("nobody/x", tmp_path) or "")


def test_a_change_names_models_only_where_models_are_named() -> None:
    place = ("agents", "defaults", "model")
    assert models_named(place, "a/b") == ["a/b"]
    assert models_named(place, {"primary": "a/b", "fallbacks": ["c/d"]}) == ["a/b", "c/d"]
    assert models_named(("agents", "list", 0), {"id": "x", "model": "a/b"}) == ["a/b"]
    assert models_named(("gateway", "port"), 1) == []
    assert models_named(("media", "model"), "tiny") == []
