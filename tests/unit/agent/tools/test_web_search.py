"""`web_search` on engines of one's own, over real HTTP."""

import json
from collections.abc import Generator
from typing import Any

import pytest
from tests.support.fake_http import QuietHandler, serving
from tests.unit.agent.tools.conftest import CONTEXT

from openclaw.agent.tools.base import NativeTools
from openclaw.agent.tools.web import engine_of, search_tool
from openclaw.config.schema import WebSearchConfig
from openclaw.content.frame import frame_result
from openclaw.core.content import text_of
from openclaw.core.errors import SecretUnavailable
from openclaw.core.tools import ToolResult

FOUND = {"title": "Tides\n", "url": "https://tides.example", "content": "High  at noon."}


class Engine(QuietHandler):
    seen: list[tuple[str, str, dict[str, str], bytes]] = []  # noqa: RUF012 - one for each test
    status = 200

    def do_GET(self) -> None:
        self.answer({"results": [FOUND]} if "format=json" in self.path else {"web": brave()})

    def do_POST(self) -> None:
        self.answer({"results": [FOUND, FOUND]})

    def answer(self, found: Any) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.command, self.path, dict(self.headers.items()), sent))
        body = json.dumps(found).encode() if "broken" not in self.path else b"<html>"
        self.reply(body, self.status)


def brave() -> dict[str, Any]:
    return {"results": [{"title": "T", "url": "https://a.example", "description": "D"}, "odd"]}


@pytest.fixture
def address() -> Generator[str]:
    Engine.seen, Engine.status = [], 200
    with serving(Engine) as url:
        yield url


async def resolve(reference: str) -> str:
    if reference.endswith("missing"):
        raise SecretUnavailable(reference, "is not set")
    return "key-0123"


async def asked(search: WebSearchConfig, query: str = "tide  times") -> ToolResult:
    tools = NativeTools([search_tool(search, resolve, {})])
    return frame_result(await tools.call("web_search", {"query": query}, CONTEXT))


def found(provider: Any, address: str, **more: Any) -> WebSearchConfig:
    settings = {"provider": provider, "baseUrl": address, **more}
    search = engine_of(WebSearchConfig.model_validate(settings), {})
    assert search is not None
    return search


async def test_searxng_is_asked_for_json_and_its_words_are_framed(address: str) -> None:
    result = await asked(found("searxng", f"{address}/"))
    text = text_of(result.blocks)
    assert "Source: Web Search\nFrom: 127.0.0.1" in text
    assert "1. Tides\n   https://tides.example\n   High at noon." in text
    assert Engine.seen[0][:2] == ("GET", "/search?q=tide+times&format=json")


async def test_brave_and_tavily_get_their_key_in_their_own_way(address: str) -> None:
    first = await asked(found("brave", address, apiKey="secret://env/B"))
    assert "1. T\n   https://a.example\n   D" in text_of(first.blocks)
    second = await asked(found("tavily", address, apiKey="secret://env/T", maxResults=1))
    assert "2." not in text_of(second.blocks)
    assert Engine.seen[0][2]["X-Subscription-Token"] == "key-0123"
    assert Engine.seen[1][2]["Authorization"] == "Bearer key-0123"
    assert json.loads(Engine.seen[1][3]) == {"query": "tide times", "max_results": 1}


async def test_what_goes_wrong_is_told(address: str) -> None:
    search = found("searxng", address)
    assert "Give `query`" in text_of((await asked(search, "  ")).blocks)
    nowhere = search.model_copy(update={"base_url": "http://127.0.0.1:9/search"})
    assert "could not be reached" in text_of((await asked(nowhere)).blocks)
    odd = search.model_copy(update={"base_url": f"{address}/broken"})
    assert "did not answer in JSON" in text_of((await asked(odd)).blocks)
    unset = search.model_copy(update={"api_key": "secret://env/missing"})
    assert "The search has no key" in text_of((await asked(unset)).blocks)
    Engine.status = 403
    assert "HTTP status 403; it refused the key" in text_of((await asked(search)).blocks)


@pytest.mark.parametrize(
    ("settings", "environ", "engine"),
    [
        ({}, {}, None),
        ({"enabled": False}, {"BRAVE_API_KEY": "k"}, None),
        ({"provider": "native"}, {"BRAVE_API_KEY": "k"}, None),
        ({}, {"BRAVE_API_KEY": "k"}, "brave"),
        ({}, {"TAVILY_API_KEY": "k"}, "tavily"),
        ({}, {"SEARXNG_BASE_URL": "http://s.example"}, "searxng"),
        ({"apiKey": "secret://env/X"}, {}, "brave"),
        ({"baseUrl": "http://s.example"}, {}, "searxng"),
        ({"provider": "tavily"}, {"BRAVE_API_KEY": "k", "TAVILY_API_KEY": "k"}, "tavily"),
    ],
)
def test_the_engine_is_the_named_one_or_one_that_is_at_hand(
    settings: Any, environ: dict[str, str], engine: str | None
) -> None:
    search = engine_of(WebSearchConfig.model_validate(settings), environ)
    assert (search.provider if search else None) == engine
    assert search is None or search.api_key is None or search.api_key.startswith("secret://env/")
