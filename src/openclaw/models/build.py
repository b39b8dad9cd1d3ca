"""Builds a model from a candidate. Each provider's library is imported on first use."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from pydantic_ai import JsonSchemaTransformer
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import NATIVE_TOOL_TYPES, AbstractNativeTool, WebSearchTool
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
from pydantic_ai.settings import ModelSettings

from openclaw.config.agent_schema import ProviderConfig
from openclaw.core.errors import InvalidRequest, MissingExtra, ModelUnavailable
from openclaw.media.images import STRICT_BYTES
from openclaw.models.choose import Candidate, ModelOptions, known_providers
from openclaw.net.http_request import open_client
from openclaw.secrets.resolver import SecretResolver

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.profiles import ModelProfile

T = TypeVar("T")

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
        "json_schema_transformer": OneGoogleObject if google else OneObject,
        "supports_image_input": "image" in candidate.accepts,
    }
    if candidate.reasoning:
        profile["supports_thinking"] = True
    return profile


def _only_with(headers: dict[str, str], sdk: Callable[..., T], **options: Any) -> T:
    """A vendor's client that sends these headers and none from the process environment.

    The user's own servers must not get those.
    """
    made = sdk(default_headers=headers, max_retries=0, **options)
    vars(made)["_custom_headers"] = headers  # there is no other way
    return made


@cache
def _spare_chats() -> None:
    """Keep the libraries from doing work that no chat needs.

    The SDK walks through every message and tool of each request to rename fields that differ in
    JSON, which none in a chat does: a third of a short turn's cost, and it grows with the history.
    And the library imports 150 modules to see that a chat's answer is not from the other API.
    """
    from openai._utils import is_given
    from openai.resources.chat.completions import completions
    from pydantic_ai.models import openai as library

    searches: Callable[[Any], int] = vars(library)["_web_search_requests"]

    async def given_values(data: Mapping[str, Any], _: object) -> dict[str, Any]:
        return {name: value for name, value in data.items() if is_given(value)}

    def searches_of(response: object) -> int:
        is_chat = type(response).__module__.startswith("openai.types.chat.")
        return 0 if is_chat else searches(response)

    setattr(completions, "async_maybe_transform", given_values)  # noqa: B010 - a module's own
    setattr(library, "_web_search_requests", searches_of)  # noqa: B010


def _read_pieces_fast(sdk: Any) -> None:
    """Build each piece of a streamed chat with pydantic's validator.

    The SDK builds it field by field in Python, which took most of the time of a long answer. A piece
    that doesn't fit the schema, which many servers send, is still built that way.
    """
    from openai.types.chat import ChatCompletionChunk
    from pydantic import ValidationError

    slowly: Callable[..., Any] = sdk._process_response_data  # noqa: SLF001

    def read(*, data: object, cast_to: type, response: object) -> Any:
        if cast_to is ChatCompletionChunk:
            with suppress(ValidationError):
                return ChatCompletionChunk.model_validate(data)
        return slowly(data=data, cast_to=cast_to, response=response)

    sdk._process_response_data = read  # noqa: SLF001


def _openai(
    candidate: Candidate, key: str, headers: dict[str, str], client: "httpx2.AsyncClient"
) -> "Model":
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    base_url, profile = candidate.base_url, profile_of(candidate)
    sdk = _only_with(headers, AsyncOpenAI, api_key=key, base_url=base_url, http_client=client)
    sdk.organization = sdk.project = None
    provider = OpenAIProvider(openai_client=sdk)
    if candidate.api == "openai-responses":
        return OpenAIResponsesModel(candidate.model, provider=provider, profile=profile)
    _spare_chats()
    _read_pieces_fast(sdk)
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

    url = candidate.server_url
    sdk = _only_with(headers, AsyncAnthropic, api_key=key, base_url=url, http_client=client)
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
    client.headers.update(headers)
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


# A schema goes to a provider as the tool's maker wrote it, except for what that provider is known to
# refuse: all of them refuse a choice at the top level, where OpenAI and Anthropic want one object.
# The model library rewrites what else Google cannot take.

Schema = dict[str, Any]

_CHOICES = ("anyOf", "oneOf", "allOf")
_REFUSED_AT_TOP = frozenset({*_CHOICES, "enum", "const", "not", "if", "then", "else"})
_MOST_REFERENCES = 20  # in a row


class OneObject(JsonSchemaTransformer):
    def __init__(self, schema: Schema, *, strict: bool | None = None) -> None:
        super().__init__({}, strict=strict)  # what it copies is not needed
        self.schema = schema

    def walk(self) -> Schema:
        return without_choice_at_top(self.schema)

    def transform(self, schema: Schema) -> Schema:
        return schema


class OneGoogleObject(GoogleJsonSchemaTransformer):
    def __init__(self, schema: Schema, *, strict: bool | None = None) -> None:
        super().__init__(without_choice_at_top(schema), strict=strict)


def without_choice_at_top(schema: Schema) -> Schema:
    """One object that allows what any branch allows; the server still checks what it gets."""
    if not _REFUSED_AT_TOP & schema.keys():
        return schema
    kept = {key: value for key, value in schema.items() if key not in _REFUSED_AT_TOP}
    properties: Schema = dict(_object(kept.get("properties")))
    required: list[str] = list(kept.get("required") or ())
    for keyword in _CHOICES:
        branches = [_followed(schema, branch) for branch in schema.get(keyword) or ()]
        for branch in branches:
            for name, value in _object(branch.get("properties")).items():
                properties.setdefault(name, value)
        named = [cast(list[str], branch.get("required") or []) for branch in branches]
        enough = 1 if keyword == "allOf" else len(named)
        every = sorted({name for names in named for name in names} - set(required))
        required += [n for n in every if sum(n in names for names in named) >= enough]
    merged: Schema = {**kept, "type": "object", "properties": properties}
    return {**merged, "required": required} if required else merged


def _followed(root: Schema, schema: object) -> Schema:
    """The schema at the end of a chain of references; empty if there is none."""
    found = dict(_object(schema))
    for _ in range(_MOST_REFERENCES):
        if "$ref" not in found:
            return found
        reference = found["$ref"]
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return {}
        target: object = root
        for step in reference[2:].split("/"):
            target = _object(target).get(step.replace("~1", "/").replace("~0", "~"))
        found = dict(_object(target))
    return {}


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


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
    if options.must_call:
        settings["tool_choice"] = list(options.must_call)
    bound = built.settings.get("max_tokens")
    if options.max_tokens is not None and bound is not None:
        settings["max_tokens"] = min(bound, options.max_tokens)
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
        json_schema=dict(options.schema), name=options.schema_name, strict=options.schema_strict
    )
    return replace(parameters, output_mode="native", output_object=form)
