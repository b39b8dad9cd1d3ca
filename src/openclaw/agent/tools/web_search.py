"""`web_search`, through an engine of the person's choice."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast
from urllib.parse import urlencode, urlsplit

from openclaw.agent.tools.base import Arguments, FunctionTool, quoted, schema
from openclaw.config.schema import WebSearchConfig
from openclaw.core.errors import OpenClawError, ToolFailure
from openclaw.core.events import WEB_SEARCH
from openclaw.core.tools import CallContext, ToolResult, ToolSpec
from openclaw.net.proxies import open_client

_SOURCE = "Web Search"
_MAX_BYTES = 2 * 1024 * 1024
_SNIPPET_CHARS = 500

Engine = Literal["brave", "tavily", "searxng"]
_ADDRESSES: Mapping[str, str] = {
    "brave": "https://api.search.brave.com/res/v1/web/search",
    "tavily": "https://api.tavily.com/search",
}
_KEYS: Mapping[str, Engine] = {"BRAVE_API_KEY": "brave", "TAVILY_API_KEY": "tavily"}
_SEARXNG = "SEARXNG_BASE_URL"

_SPEC = ToolSpec(
    name=WEB_SEARCH,
    description="Search the web: titles, addresses and snippets. Read a page with web_fetch.",
    input_schema=schema(["query"], query=""),
    label="Search the web",
    read_only=True,
    destructive=False,
)


@dataclass(frozen=True, slots=True)
class Search:
    """An engine and what it needs. `key` is a reference or a value not yet resolved."""

    engine: Engine
    address: str
    key: str | None
    most: int
    seconds: float


def engine_of(settings: WebSearchConfig, environ: Mapping[str, str]) -> Search | None:
    """The engine that is configured, else one whose key or address is in the environment."""
    if not settings.enabled or settings.provider == "native":
        return None
    engine, key, address = settings.provider, settings.api_key, settings.base_url
    if engine is None and (key or address):
        engine = "searxng" if address and not key else "brave"
    for variable, whose in _KEYS.items():
        if environ.get(variable) and key is None and engine in (None, whose):
            engine, key = whose, f"secret://env/{variable}"
    if environ.get(_SEARXNG) and address is None and engine in (None, "searxng"):
        engine, address = "searxng", environ[_SEARXNG]
    if engine is None:
        return None
    address = address or _ADDRESSES.get(engine, "")
    if engine == "searxng":
        address = f"{address.rstrip('/').removesuffix('/search')}/search"
    return Search(engine, address, key, settings.max_results, float(settings.timeout_seconds))


def search_tool(
    search: Search, resolve: Callable[[str], Awaitable[str]], environ: Mapping[str, str]
) -> FunctionTool:
    """The tool; `resolve` gives the engine's key its value."""

    async def run(arguments: Arguments, context: CallContext) -> ToolResult:
        query = " ".join(arguments.text("query").split())[:400]
        if not query:
            raise ToolFailure("Give `query` as a few words.")
        try:
            key = await resolve(search.key) if search.key else ""
        except OpenClawError as error:
            raise ToolFailure(f"The search has no key: {error.message}.") from error
        host = urlsplit(search.address).hostname or search.engine
        found = _results(await _ask(search, query, key, environ, host))
        lines = [_shown(number, one) for number, one in enumerate(found[: search.most], 1)]
        return quoted("\n".join(lines) or "Nothing was found.", _SOURCE, host)

    return FunctionTool(_SPEC, run)


async def _ask(
    search: Search, query: str, key: str, environ: Mapping[str, str], host: str
) -> Mapping[str, Any]:
    import httpx2

    method, address = "GET", search.address
    headers: dict[str, str] = {}
    content: bytes | None = None
    if search.engine == "tavily":
        method, content = "POST", json.dumps({"query": query, "max_results": search.most}).encode()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    else:
        own = {"format": "json"} if search.engine == "searxng" else {"count": search.most}
        address = f"{address}?{urlencode({'q': query, **own})}"
        headers = {"X-Subscription-Token": key} if key else {}
    body = bytearray()
    try:
        async with (
            open_client(search.address, environ, silence=search.seconds) as client,
            client.stream(method, address, headers=headers, content=content) as answer,
        ):
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > _MAX_BYTES:
                    raise ToolFailure(f"{host} answered with too much.")
    except httpx2.HTTPError as error:
        raise ToolFailure(f"{host} could not be asked: {error or type(error).__name__}.") from error
    if answer.status_code != 200:
        hint = "; its key is refused" if answer.status_code in (401, 403) else ""
        raise ToolFailure(f"{host} answered with HTTP status {answer.status_code}{hint}.")
    try:
        parsed: Any = json.loads(body)
    except ValueError:
        raise ToolFailure(
            f"{host} did not answer in JSON (SearXNG: allow the format json)."
        ) from None
    return _object(parsed)


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _results(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The results, wherever this engine puts them."""
    found: object = _object(answer.get("web", answer)).get("results")
    results = cast("list[object]", found) if isinstance(found, list) else []
    return [one for one in map(_object, results) if one]


def _shown(number: int, one: Mapping[str, Any]) -> str:
    title, url, snippet = (
        " ".join(str(one.get(name) or "").split())
        for name in ("title", "url", "content" if "content" in one else "description")
    )
    return f"{number}. {title}\n   {url}\n   {snippet[:_SNIPPET_CHARS]}"
