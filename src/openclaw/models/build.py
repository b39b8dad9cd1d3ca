"""Builds a model from a candidate. Each provider's library is imported on first use."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import NATIVE_TOOL_TYPES, AbstractNativeTool, WebSearchTool
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
from pydantic_ai.settings import ModelSettings

from openclaw.config.agent_schema import ProviderConfig
from openclaw.core.errors import InvalidRequest, MissingExtra, ModelUnavailable
from openclaw.media.images import STRICT_BYTES
from openclaw.models.choose import Candidate, ModelOptions, known_providers
from openclaw.models.tool_schema import UnchangedSchema, wire_name, without_choice_at_top
from openclaw.net.http_request import open_client
from openclaw.secrets.resolver import SecretResolver

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.profiles import ModelProfile

_PLACEHOLDER_KEY = "none"  # the client libraries insist on one
# How much of the context an answer may take up; a larger `maxTokens` would leave no room to ask.
MOST_OUTPUT_SHARE = 0.5

# For all images of a request; Google counts the whole request, in base64: 20 MB.
_IMAGE_BYTES = {"google-generative-ai": 14 * 1024 * 1024}

# Takes a name, a path, and the most tokens of an answer and of the context.
LocalBuilder = Callable[[str, str | None, int | None, int | None], Awaitable["Model"]]
SearchMode = Literal["auto", "native", "off"]
TOOL_SEARCH: AbstractNativeTool = NATIVE_TOOL_TYPES["tool_search"](optional=True)


@dataclass(frozen=True, slots=True)
class BuiltModel:
    candidate: Candidate
    model: "Model"
    settings: ModelSettings
    client: "httpx2.AsyncClient | None" = None
    native_search: bool = False  # whether the provider searches the web itself
    loads_tools: bool = False  # whether it searches deferred tools and loads what it finds

    @property
    def context_window(self) -> int:
        """In tokens: as configured, else as the library knows the model, else a small guess."""
        known = self.candidate.context_window or self.model.context_window
        return known or self.candidate.smallest_window

    @property
    def output_room(self) -> int:
        return min(self.candidate.max_tokens or 0, int(self.context_window * MOST_OUTPUT_SHARE))

    def price_of(self, response: "ModelResponse") -> float | None:
        """In US dollars: as configured, else as the library knows; None if neither says."""
        if self.candidate.api == "local":
            return 0.0
        cost, usage = self.candidate.cost, response.usage
        if cost is not None:
            plain = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
            dollars = (
                max(0, plain) * cost.input
                + usage.cache_read_tokens * cost.cache_read
                + usage.cache_write_tokens * cost.cache_write
                + usage.output_tokens * cost.output
            )
            return dollars / 1_000_000
        try:
            return float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError):
            return None

    @property
    def maker(self) -> str:
        """Whose signatures and ids these are: they mean nothing to anybody else."""
        return f"{self.candidate.api} {self.candidate.ref} {self.candidate.base_url}"

    @property
    def thinks(self) -> bool:
        return bool(self.model.profile.get("supports_thinking", False))

    @property
    def image_bytes(self) -> int:
        return _IMAGE_BYTES.get(self.candidate.api, STRICT_BYTES)

    @property
    def accepts_images(self) -> bool:
        return "image" in self.candidate.accepts

    @property
    def reads_every_tool(self) -> bool:
        """Whether rules choose its tools, so that it can be given any number of them."""
        return bool(getattr(self.model, "reads_every_tool", False))

    async def aclose(self) -> None:
        if self.client is not None:
            await self.client.aclose()


@dataclass(frozen=True, slots=True)
class ModelBuilder:
    resolver: SecretResolver
    environ: Mapping[str, str]
    local: LocalBuilder | None = None
    search: SearchMode = "auto"

    async def build(
        self, candidate: Candidate, *, temperature: float | None = None, thinking: str | None = None
    ) -> BuiltModel:
        settings = _settings(candidate, temperature, thinking)
        if candidate.api == "local":
            if self.local is None:
                raise MissingExtra("the embedded model", "local")
            model = await self.local(
                candidate.model, candidate.path, candidate.max_tokens, candidate.context_window
            )
            return BuiltModel(candidate, model, settings)
        if candidate.base_url is None:
            raise ModelUnavailable(
                f"{candidate.ref}: its provider has no address",
                hint=f"set models.providers.{candidate.provider}.baseUrl",
            )
        key, headers = await candidate.credentials(self.resolver)
        if key is None and candidate.key_hint:
            raise ModelUnavailable(
                f"{candidate.ref} needs a key",
                hint=f"set {candidate.key_hint}, or models.providers.{candidate.provider}.apiKey",
            )
        client = open_client(candidate.base_url, self.environ, silence=candidate.timeout)
        try:
            model = _BUILDERS[candidate.api](candidate, key or _PLACEHOLDER_KEY, headers, client)
        except BaseException:
            await client.aclose()
            raise
        native = self.search == "native" or (self.search == "auto" and _is_at_vendor(candidate))
        known = model.profile.get("supported_native_tools", frozenset())
        loads = _is_at_vendor(candidate) and type(TOOL_SEARCH) in known
        return BuiltModel(
            candidate, model, settings, client, native and WebSearchTool in known, loads
        )


def _settings(
    candidate: Candidate, temperature: float | None, thinking: str | None
) -> ModelSettings:
    settings: ModelSettings = {}
    if candidate.max_tokens is not None:
        settings["max_tokens"] = candidate.max_tokens
    # These words for effort are not levels.
    effort = {"off": False, "on": True, "adaptive": True}.get(thinking or "", thinking)
    if effort is not None:
        settings["thinking"] = cast("Any", effort)
    # Models that think refuse a temperature.
    if temperature is not None and not candidate.reasoning and not effort:
        settings["temperature"] = temperature
    if candidate.api == "anthropic-messages" or _is_openrouter(candidate):
        settings["cache"] = True
    return settings


def _is_at_vendor(candidate: Candidate) -> bool:
    """Whether the vendor serves it: others with the same interface seldom search the web."""
    known = known_providers().get(candidate.provider)
    return known is not None and known.base_url == candidate.base_url


def _is_openrouter(candidate: Candidate) -> bool:
    home = known_providers()["openrouter"].base_url
    return candidate.provider == "openrouter" or (candidate.base_url or "").startswith(home)


def profile_of(candidate: Candidate) -> "ModelProfile":
    google = candidate.api == "google-generative-ai"
    profile: ModelProfile = {
        "json_schema_transformer": GoogleJsonSchemaTransformer if google else UnchangedSchema,
        "supports_image_input": "image" in candidate.accepts,
    }
    if candidate.reasoning:
        profile["supports_thinking"] = True
    return profile


class StreamEnd:
    """Says whether a stream of events that ended did so with its end mark, `[DONE]`."""

    is_done: bool = False

    @contextmanager
    def watched(self) -> Generator[None]:
        """What is read from providers in the context belongs to this stream."""
        token = _STREAM_END.set(self)
        try:
            yield
        finally:
            _STREAM_END.reset(token)


_STREAM_END: ContextVar[StreamEnd | None] = ContextVar("stream end", default=None)
_DONE = b"[DONE]"


def _watching(stream: "httpx2.AsyncByteStream", end: StreamEnd) -> "httpx2.AsyncByteStream":
    import httpx2

    class Watched(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            tail = b""
            async for piece in stream:
                tail = (tail + piece)[-64:]
                end.is_done = _DONE in tail
                yield piece

        async def aclose(self) -> None:
            await stream.aclose()

    return Watched()


async def _watch_end(response: "httpx2.Response") -> None:
    end, stream = _STREAM_END.get(), response.stream
    if end is not None and hasattr(stream, "__aiter__"):
        response.stream = _watching(cast("httpx2.AsyncByteStream", stream), end)


# Headers that the vendors' libraries may send, besides the configured ones and the key.
_OWN_HEADERS = (
    *("host", "accept", "accept-encoding", "connection", "content-type", "content-length"),
    *("transfer-encoding", "user-agent", "idempotency-key", "x-goog-api-client"),
    *("anthropic-version", "anthropic-beta"),
)


def _send_only(headers: Mapping[str, str], client: "httpx2.AsyncClient", **key: str) -> None:
    """Have the client send these headers, and none that a library read from the environment.

    `key` is the header with the provider's key, unless `headers` has another one.
    """
    ours = {name.lower(): value for name, value in {**key, **headers}.items()}

    async def clean(request: "httpx2.Request") -> None:
        for name in list(request.headers):
            if name not in _OWN_HEADERS and not name.startswith("x-stainless-"):
                del request.headers[name]
        request.headers.update(ours)

    client.event_hooks = {"request": [clean], "response": [_watch_end]}


def _openai(
    candidate: Candidate, key: str, headers: dict[str, str], client: "httpx2.AsyncClient"
) -> "Model":
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    base_url, profile = candidate.base_url, profile_of(candidate)
    _send_only(headers, client, authorization=f"Bearer {key}")
    sdk = AsyncOpenAI(api_key=key, base_url=base_url, http_client=client, max_retries=0)
    provider = OpenAIProvider(openai_client=sdk)
    if candidate.api == "openai-responses":
        return OpenAIResponsesModel(candidate.model, provider=provider, profile=profile)
    if _is_openrouter(candidate):
        from pydantic_ai.models.openrouter import OpenRouterModel
        from pydantic_ai.providers.openrouter import OpenRouterProvider

        openrouter = OpenRouterProvider(openai_client=sdk)
        return OpenRouterModel(candidate.model, provider=openrouter, profile=profile)
    return OpenAIChatModel(candidate.model, provider=provider, profile=profile)


def _anthropic(
    candidate: Candidate, key: str, headers: dict[str, str], client: "httpx2.AsyncClient"
) -> "Model":
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    _send_only(headers, client, **{"x-api-key": key})
    url = candidate.server_url
    sdk = AsyncAnthropic(api_key=key, base_url=url, http_client=client, max_retries=0)
    provider = AnthropicProvider(anthropic_client=sdk)
    return AnthropicModel(candidate.model, provider=provider, profile=profile_of(candidate))


def _google(
    candidate: Candidate, key: str, headers: dict[str, str], client: "httpx2.AsyncClient"
) -> "Model":
    try:
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider
    except ImportError as error:
        raise MissingExtra(f"{candidate.ref}", "google") from error
    _send_only(headers, client, **{"x-goog-api-key": key})
    provider = GoogleProvider(api_key=key, base_url=candidate.server_url, http_client=client)
    return GoogleModel(candidate.model, provider=provider, profile=profile_of(candidate))


_BUILDERS: Mapping[str, Callable[..., "Model"]] = {
    "openai-completions": _openai,
    "openai-responses": _openai,
    "anthropic-messages": _anthropic,
    "google-generative-ai": _google,
}


def preload(providers: Iterable[ProviderConfig]) -> None:
    """Import what the builders need for these providers; run it in a thread."""
    for vendor in {one.api.partition("-")[0] for one in providers if one.api}:
        for kind in ("models", "providers"):
            with suppress(ImportError):
                import_module(f"pydantic_ai.{kind}.{vendor}")


_LEAST_TOKENS = {"openai-responses": 16}  # the API refuses less
_SAMPLING = frozenset({"max_tokens", "temperature", "top_p"})
_PENALTIES = frozenset({"presence_penalty", "frequency_penalty"})

# What each provider's API supports; the library silently drops the rest.
_SUPPORTED: Mapping[str, frozenset[str]] = {
    "openai-completions": _SAMPLING | _PENALTIES | {"stop", "seed"},
    "openai-responses": _SAMPLING,
    "anthropic-messages": _SAMPLING | {"stop"},
    "google-generative-ai": _SAMPLING | _PENALTIES | {"stop", "seed"},
    "local": frozenset({"max_tokens"}),
}
_KEYS = (*sorted(_SAMPLING), *sorted(_PENALTIES), "stop", "seed")


def with_settings(built: BuiltModel, options: ModelOptions | None) -> BuiltModel:
    if options is None:
        return built
    asked = {key: getattr(options, key) for key in _KEYS if getattr(options, key) not in (None, ())}
    supported = _SUPPORTED.get(built.candidate.api, _SAMPLING)
    if options.tools and built.candidate.api == "local":
        raise InvalidRequest("the embedded model cannot call a client's tools", field="tools")
    for key in asked:
        if key not in supported:
            raise InvalidRequest(f"{built.candidate.ref} does not support it", field=key)
    settings: dict[str, Any] = {**built.settings, **asked}
    if "stop" in settings:
        settings["stop_sequences"] = list(settings.pop("stop"))
    if options.verbosity and built.candidate.api == "openai-responses":
        settings["openai_text_verbosity"] = options.verbosity
    if options.must_call:
        settings["tool_choice"] = [wire_name(name) for name in options.must_call]
    bound = built.settings.get("max_tokens")
    if options.max_tokens is not None:
        least = _LEAST_TOKENS.get(built.candidate.api, 1)
        settings["max_tokens"] = max(least, min(bound or options.max_tokens, options.max_tokens))
    return replace(built, settings=cast(ModelSettings, settings))


def with_search(parameters: ModelRequestParameters, built: BuiltModel) -> ModelRequestParameters:
    """The request with the provider's search of the web and of tools, or ours if it has none."""
    if not parameters.native_tools:
        return parameters
    known = {WebSearchTool.kind: built.native_search, TOOL_SEARCH.kind: built.loads_tools}
    native = [tool for tool in parameters.native_tools if known.get(tool.kind)]
    tools = parameters.function_tools
    if not built.loads_tools:
        tools = [tool for tool in tools if not tool.defer_loading]
    if any(isinstance(tool, WebSearchTool) for tool in native):
        tools = [tool for tool in tools if tool.name != WebSearchTool.kind]
    return replace(parameters, native_tools=native, function_tools=tools)


def with_output(
    parameters: ModelRequestParameters, built: BuiltModel, options: ModelOptions | None
) -> ModelRequestParameters:
    """The request for JSON if the options ask for it; `InvalidRequest` if the model can't."""
    if options is None or not options.structured:
        return parameters
    if built.candidate.api == "local":
        raise InvalidRequest("the embedded model cannot answer in JSON", field="response_format")
    if options.schema is None:
        form = OutputObjectDefinition(json_schema={"type": "object"})
        return replace(parameters, output_mode="prompted", output_object=form)
    if not built.model.profile.get("supports_json_schema_output", False):
        raise InvalidRequest(
            f"{built.candidate.ref} cannot answer with a JSON schema", field="response_format"
        )
    form = OutputObjectDefinition(
        json_schema=without_choice_at_top(dict(options.schema)),
        name=options.schema_name,
        strict=options.schema_strict,
    )
    return replace(parameters, output_mode="native", output_object=form)
