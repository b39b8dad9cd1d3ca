"""What the configuration says about agents and the models they use."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from openclaw.config.fields import (
    AlsoAs,
    Count,
    Flag,
    Milliseconds,
    NonEmptyText,
    PositiveInt,
    Price,
    Scalar,
    Section,
    Temperature,
    Text,
    Texts,
    wrong_shape,
)
from openclaw.config.mcp_schema import McpConfig

Api = Literal[
    "openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai"
]

# Providers that need no entry in `models.providers`.
BUILT_IN_PROVIDERS = ("local", "anthropic", "openai", "google", "ollama", "openrouter")


class ModelCost(Section):
    """Prices in US dollars for a million tokens, for the usage report."""

    input: Price = 0
    """Input tokens."""
    output: Price = 0
    """Output tokens."""
    cache_read: Price = 0
    """Input tokens read from the provider's cache."""
    cache_write: Price = 0
    """Input tokens written to the provider's cache."""


class ModelEntry(Section):
    """One model of a provider."""

    id: NonEmptyText
    """The model's name as the provider knows it."""
    name: Text | None = None
    """A name for people."""
    api: Api | None = None
    """The protocol of this model, where it differs from the provider's."""
    context_window: PositiveInt | None = None
    """Tokens that fit into the model's context."""
    max_tokens: PositiveInt | None = None
    """Most tokens that the model may write in one answer."""
    input: tuple[Literal["text", "image", "audio"], ...] = ("text",)
    """What the model can read."""
    reasoning: Flag = False
    """Whether the model thinks before it answers."""
    cost: ModelCost | None = None
    """What the model costs."""
    path: Text | None = None
    """For the embedded model: a GGUF file of one's own."""


class ProviderConfig(Section):
    """Where models are served, and how to speak to them."""

    base_url: NonEmptyText | None = None
    """The address of the API, for example `http://127.0.0.1:11434/v1`."""
    api_key: Text | None = Field(default=None, repr=False)
    """The key; best a `secret://` reference."""
    api: Api | None = None
    """The protocol that the provider speaks."""
    headers: dict[NonEmptyText, Scalar] = Field(default_factory=dict, repr=False)
    """HTTP headers for every request; values may be or contain `secret://` references."""
    models: tuple[ModelEntry, ...] = ()
    """What we know about the provider's models."""
    timeout_ms: Milliseconds = 120_000
    """Milliseconds of silence after which a request is given up."""
    max_retries: Count = 3
    """Retries on rate limits, overload and failures of the provider."""


class ModelsConfig(Section):
    """Model providers beyond the built-in ones."""

    providers: dict[NonEmptyText, ProviderConfig] = Field(default_factory=dict)
    """Providers by name; a model is called `name/model`."""


class ModelChoice(Section):
    """The model to use, and those to try when it fails."""

    primary: Text = ""
    """The model, as `provider/model`. Empty in an agent's entry means the default's."""
    fallbacks: Texts = ()
    """Models to try in order when the first one fails."""


def _model(value: Any) -> Any:
    if isinstance(value, str):
        return {"primary": value}
    if value is None or isinstance(value, dict | ModelChoice):
        return value  # pyright: ignore[reportUnknownVariableType] - pydantic checks what is inside
    raise wrong_shape('a model such as "anthropic/claude-sonnet-4-5" or an object')


class ToolPolicyConfig(Section):
    """Which tools may be used. Deny wins; an empty allow means all."""

    allow: Texts = ()
    """Names or globs of allowed tools; empty means all."""
    deny: Texts = ()
    """Names or globs of forbidden tools."""
    ask: Texts = ()
    """Names or globs of tools whose every call a person must agree to; forbidden where none can be asked."""


class TurnLimits(Section):
    """Bounds on one turn."""

    max_steps: PositiveInt = 50
    """Most requests to the model."""
    max_tool_calls: PositiveInt = 100
    """Most tool calls."""
    max_tokens: PositiveInt = 1_000_000
    """Most tokens, in and out."""
    timeout_ms: Milliseconds = 600_000
    """Most time, in milliseconds."""


class AgentDefaults(Section):
    """What every agent has unless its own entry says otherwise."""

    model: Annotated[ModelChoice | None, BeforeValidator(_model), AlsoAs(({"type": "string"},))] = (
        None
    )
    """`"provider/model"`, or an object with fallbacks. Left out: chosen from what is at hand."""
    workspace: NonEmptyText | None = None
    """The directory that the agent works in; `~` is the home directory."""
    tools: ToolPolicyConfig = ToolPolicyConfig()
    """Which tools the agent may use."""
    mcp: McpConfig = McpConfig()
    """The agent's MCP servers."""
    context_files: Texts = ("AGENTS.md",)
    """Files of the workspace that are put before every conversation."""
    system_prompt: Text | None = None
    """What the agent is told first, in place of the built-in text."""
    limits: TurnLimits = TurnLimits()
    """Bounds on one turn."""
    tool_search_limit: PositiveInt = 40
    """With more tools than this, the rest are found through `tool_search`."""
    resource_context_chars: Count = 40_000
    """Most characters of MCP resources that are put before a conversation."""
    temperature: Temperature | None = None
    """The sampling temperature; left out: the provider's own."""


class AgentEntry(AgentDefaults):
    """One agent: its id, and what differs from the defaults."""

    id: NonEmptyText
    """The agent's name in commands, sessions and logs."""
    name: Text | None = None
    """A name for people."""
    default: Flag = False
    """Use this agent where none is named."""


class AgentsConfig(Section):
    """The agents."""

    defaults: AgentDefaults = AgentDefaults()
    """What every agent has unless its own entry says otherwise."""
    list: tuple[AgentEntry, ...] = ()
    """The agents; an empty list means one agent called `main`."""
