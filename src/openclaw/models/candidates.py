"""What is known of a model before it is asked, and the providers that need no configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Api = Literal[
    "openai-completions",
    "openai-responses",
    "anthropic-messages",
    "google-generative-ai",
    "local",
]

LOCAL_PROVIDER = "local"
DEFAULT_LOCAL_MODEL = "smollm2-135m-instruct"
FALLBACK_CONTEXT_WINDOW = 32_768
"""What a model of which nothing is known is taken to hold: small enough for most."""

OLLAMA_CONTEXT_WINDOW = 8_192
"""Ollama cuts a longer prompt without a word, so that its small default is the safe guess."""


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """A provider that works without an entry in `models.providers`."""

    name: str
    api: Api
    base_url: str
    key_variables: tuple[str, ...] = ()
    default_model: str = ""
    context_window: int | None = None
    accepts: frozenset[str] = frozenset({"text", "image"})


# The order is that in which a key in the environment picks its provider.
KNOWN_PROVIDERS: Mapping[str, KnownProvider] = {
    provider.name: provider
    for provider in (
        KnownProvider(
            "anthropic",
            "anthropic-messages",
            "https://api.anthropic.com",
            ("ANTHROPIC_API_KEY",),
            "claude-sonnet-5-5",
            200_000,
        ),
        KnownProvider(
            "openai",
            "openai-responses",
            "https://api.openai.com/v1",
            ("OPENAI_API_KEY",),
            "gpt-5-mini",
            400_000,
        ),
        KnownProvider(
            "google",
            "google-generative-ai",
            "https://generativelanguage.googleapis.com",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            "gemini-3.5-flash",
            1_000_000,
        ),
        KnownProvider(
            "openrouter",
            "openai-completions",
            "https://openrouter.ai/api/v1",
            ("OPENROUTER_API_KEY",),
            "anthropic/claude-sonnet-5",
            200_000,
        ),
        KnownProvider(
            "ollama",
            "openai-completions",
            "http://127.0.0.1:11434/v1",
            context_window=OLLAMA_CONTEXT_WINDOW,
            accepts=frozenset({"text"}),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be asked, and how. `api_key` is a reference or a value not yet resolved.

    `context_window` and `max_tokens` are None where neither configuration nor table knows them.
    """

    provider: str
    model: str
    api: Api
    base_url: str | None = None
    api_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    context_window: int | None = None
    max_tokens: int | None = None
    accepts: frozenset[str] = frozenset({"text"})
    timeout: float = 120.0
    max_retries: int = 3
    path: str | None = None
    key_hint: str = ""

    @property
    def ref(self) -> str:
        """The model as the configuration names it."""
        return f"{self.provider}/{self.model}"


@dataclass(frozen=True, slots=True)
class Choice:
    """Models in the order in which they are tried, and why these."""

    candidates: tuple[Candidate, ...]
    reason: str

    @property
    def primary(self) -> Candidate:
        """The one that is asked first."""
        return self.candidates[0]
