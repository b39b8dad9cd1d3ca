"""Which models to ask, in order, by configuration and environment, and a message's own options."""

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from openclaw.config.agent_schema import ModelChoice, ModelCost, ModelEntry, ProviderConfig
from openclaw.core.errors import ModelUnavailable
from openclaw.net.http_request import get

if TYPE_CHECKING:
    from openclaw.secrets.resolver import SecretResolver

Api = Literal[
    "openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai", "local"
]

LOCAL_PROVIDER = "local"
DEFAULT_LOCAL_MODEL = "smollm2-135m-instruct"
FALLBACK_CONTEXT_WINDOW = 32_768  # of an unknown model: small enough for most


@dataclass(frozen=True, slots=True)
class KnownProvider:
    name: str
    api: Api
    base_url: str
    key_variables: Sequence[str] = ()
    default_model: str = ""
    smallest_window: int = FALLBACK_CONTEXT_WINDOW  # for a model that the library does not know yet
    # What it uses, whatever the model could hold: Ollama cuts a longer prompt without saying so.
    context_window: int | None = None
    accepts: Sequence[str] = ("text", "image")
    key_page: str = ""  # where to create a key


@cache
def known_providers() -> Mapping[str, KnownProvider]:
    """In the order in which a key in the environment picks its provider."""
    listed = json.loads(Path(__file__).with_name("providers.json").read_bytes())
    return {name: KnownProvider(name, **facts) for name, facts in listed.items()}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be asked, and how. `api_key` is a reference or a value not yet resolved.

    `context_window` is None if the library's data decide, `max_tokens` if the provider decides.
    """

    provider: str
    model: str
    api: Api
    base_url: str | None = None
    api_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    context_window: int | None = None
    smallest_window: int = FALLBACK_CONTEXT_WINDOW
    max_tokens: int | None = None
    reasoning: bool = False
    cost: ModelCost | None = None
    accepts: frozenset[str] = frozenset({"text"})
    timeout: float = 300.0
    max_retries: int = 3
    path: str | None = None
    key_hint: str = ""

    @property
    def ref(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def server_url(self) -> str:
        """`base_url` without the version, which Anthropic's and Google's paths start with."""
        base = (self.base_url or "").rstrip("/")
        versions = {"anthropic-messages": ("/v1",), "google-generative-ai": ("/v1beta", "/v1")}
        found = [one for one in versions.get(self.api, ()) if base.endswith(one)]
        return base.removesuffix(found[0]) if found else base

    @property
    def key_setting(self) -> str:
        """Where its key comes from and how to set it, for a person; never the key."""
        setting, key = f"models.providers.{self.provider}.apiKey", self.api_key or ""
        scheme, _, name = key.rpartition("/")
        if scheme == "secret://env" and name in self.key_hint:
            return f"the environment variable {name}"
        if scheme == "secret://store":
            return f"{setting} ({key}); set it with: openclaw secrets set {name}"
        return f"{setting} ({key})" if key.startswith("secret://") else setting

    async def credentials(self, resolver: "SecretResolver") -> tuple[str | None, dict[str, str]]:
        """Its key, if it has one, and its headers."""
        found = await resolver.resolve_map({"": self.api_key or "", **self.headers})
        texts = {name: secret.reveal() for name, secret in found.items()}
        return texts.pop("") or None, texts


@dataclass(frozen=True, slots=True)
class ModelCandidates:
    candidates: tuple[Candidate, ...]
    reason: str


DEFAULT_OLLAMA = "http://127.0.0.1:11434"
PROBE_SECONDS = 0.5  # enough for a process on this machine, and hardly felt if there is none


def ollama_url(environ: Mapping[str, str]) -> str:
    """Where Ollama would be, as `OLLAMA_HOST` says: an address with or without scheme and port."""
    host = environ.get("OLLAMA_HOST", "").strip().rstrip("/")
    if not host:
        return DEFAULT_OLLAMA
    if "://" not in host:
        host = f"http://{host}"
    scheme, _, rest = host.partition("://")
    # A server that listens on every interface is reached on loopback.
    name, colon, port = rest.partition(":")
    name = "127.0.0.1" if name in ("", "0.0.0.0") else name  # noqa: S104 - read, not bound
    return f"{scheme}://{name}{colon}{port}" if colon else f"{scheme}://{name}:11434"


async def ollama_models(url: str) -> Sequence[str]:
    """The models of the Ollama at `url`; none if it doesn't answer in time."""
    return await _listed(f"{url}/api/tags", "models", "name")


async def lmstudio_models(url: str) -> Sequence[str]:
    return await _listed(f"{url}/models", "data", "id")


async def _listed(url: str, key: str, name: str) -> Sequence[str]:
    try:
        _, content = await get(url, {}, {}, PROBE_SECONDS)
        return [str(model[name]) for model in json.loads(content)[key]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


_LIBRARIES = {"google-generative-ai": ("google.genai", "google"), "local": ("xllamacpp", "local")}


def missing_extra(api: Api) -> str | None:
    """The extra that provides the library for this kind of API, if it is not installed."""
    module, extra = _LIBRARIES.get(api, ("", None))
    if extra is None or module in sys.modules:
        return None
    try:
        return extra if find_spec(module) is None else None
    except ModuleNotFoundError:  # its parent package is missing, too
        return extra


Probe = Callable[[str], Awaitable[Sequence[str]]]
Providers = Mapping[str, ProviderConfig]

_PREFIXES = {"claude": "anthropic", "gpt": "openai", "o": "openai", "gemini": "google"}


async def choose(
    choice: ModelChoice | None,
    providers: Providers,
    environ: Mapping[str, str],
    *,
    probe: Probe = ollama_models,
) -> ModelCandidates:
    """The models for an agent.

    What is configured wins. Else the first model in `models.providers`; else the first provider
    whose key is in the environment (Anthropic, OpenAI, Google, OpenRouter); else a local Ollama
    that answers; else the embedded model.
    """
    if choice is not None and choice.primary:
        refs = (choice.primary, *choice.fallbacks)
        return ModelCandidates(
            tuple(resolve(ref, providers, environ) for ref in refs), "configured"
        )
    for name, provider in providers.items():
        if provider.models:
            ref = f"{name}/{provider.models[0].id}"
            found = resolve(ref, providers, environ)
            return ModelCandidates((found,), f"the first model in models.providers.{name}")
    return _from_keys(providers, environ) or await _without_keys(providers, environ, probe)


def _from_keys(providers: Providers, environ: Mapping[str, str]) -> ModelCandidates | None:
    keyed = [
        (variable, known)
        for known in known_providers().values()
        if (variable := next((name for name in known.key_variables if environ.get(name)), None))
    ]
    # Providers whose library is installed come first; without one, the error says how to install it.
    for variable, known in sorted(keyed, key=lambda one: missing_extra(one[1].api) is not None):
        found = resolve(f"{known.name}/{known.default_model}", providers, environ)
        return ModelCandidates((found,), f"{variable} is set")
    return None


async def _without_keys(
    providers: Providers, environ: Mapping[str, str], probe: Probe
) -> ModelCandidates:
    address = ollama_url(environ)
    models = [name for name in await probe(address) if "embed" not in name]
    if models:
        found = resolve(f"ollama/{models[0]}", providers, environ)
        return ModelCandidates((found,), f"Ollama answers at {address}")
    found = resolve(f"{LOCAL_PROVIDER}/{DEFAULT_LOCAL_MODEL}", providers, environ)
    return ModelCandidates(
        (found,), "no key in the environment and no Ollama, so the embedded model"
    )


def resolve(ref: str, providers: Providers, environ: Mapping[str, str]) -> Candidate:
    """The model that `ref` names: `provider/model`, or just the model if its provider is clear."""
    provider, model = _split(ref, providers)
    config = providers.get(provider)
    entry = next((one for one in config.models if one.id == model), None) if config else None
    if provider == LOCAL_PROVIDER:
        local = Candidate(LOCAL_PROVIDER, model, "local")
        if entry is None:
            return local
        window, most = entry.context_window, entry.max_tokens
        return replace(local, context_window=window, max_tokens=most, path=entry.path)
    known = known_providers().get(provider)
    if config is None and known is None:
        names = ", ".join(sorted({*providers, *known_providers(), LOCAL_PROVIDER}))
        raise ModelUnavailable(
            f"the model {ref!r} names an unknown provider {provider!r}",
            hint=f"known providers: {names}; add others under models.providers",
        )
    known = known or KnownProvider(provider, "openai-completions", "", accepts=("text",))
    candidate = _built_in(known, model, environ)
    return candidate if config is None else _configured(candidate, config, entry)


def _split(ref: str, providers: Providers) -> tuple[str, str]:
    provider, slash, model = ref.partition("/")
    if slash and provider and model:
        return provider, model
    owners = [name for name, one in providers.items() if any(m.id == ref for m in one.models)]
    if len(owners) == 1:
        return owners[0], ref
    for prefix, who in _PREFIXES.items():
        following = ref.removeprefix(prefix)[:1]
        if ref.startswith(prefix) and (following == "-" or following.isdigit()):
            return who, ref
    raise ModelUnavailable(f"the model {ref!r} has no provider", hint="write it as provider/model")


def _built_in(known: KnownProvider, model: str, environ: Mapping[str, str]) -> Candidate:
    variable = next((name for name in known.key_variables if environ.get(name)), None)
    ollama = known.name == "ollama"
    return Candidate(
        provider=known.name,
        model=model,
        api=known.api,
        base_url=f"{ollama_url(environ)}/v1" if ollama else known.base_url or None,
        # A reference, so that the redactor knows the value before anything else gets it.
        api_key=f"secret://env/{variable}" if variable else None,
        context_window=known.context_window,
        smallest_window=known.smallest_window,
        accepts=frozenset(known.accepts),
        key_hint=" or ".join(known.key_variables),
    )


def _configured(base: Candidate, config: ProviderConfig, entry: ModelEntry | None) -> Candidate:
    candidate = replace(
        base,
        api=(entry and entry.api) or config.api or base.api,
        base_url=config.base_url or base.base_url,
        api_key=config.api_key if config.api_key is not None else base.api_key,
        headers=dict(config.headers),
        timeout=config.timeout_ms / 1000,
        max_retries=config.max_retries,
    )
    if entry is None:
        return candidate
    return replace(
        candidate,
        context_window=entry.context_window or candidate.context_window,
        max_tokens=entry.max_tokens,
        reasoning=entry.reasoning,
        cost=entry.cost,
        accepts=frozenset(entry.input),
    )


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A sender's own tool: the model may call it, and the sender runs it."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Settings for one message; None leaves a setting to the configuration.

    `json_output` asks for any JSON object, `schema` for one that fits it. `tools` are the sender's;
    the model has to call one of `must_call`, if that names any.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    json_output: bool = False
    schema: Mapping[str, Any] | None = None
    schema_name: str | None = None
    schema_strict: bool | None = None
    tools: tuple[ClientTool, ...] = ()
    must_call: tuple[str, ...] = ()
    verbosity: str | None = None  # a wish, which only OpenAI's models know

    @property
    def structured(self) -> bool:
        return self.json_output or self.schema is not None
