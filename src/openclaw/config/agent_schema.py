"""What the configuration says about agents and the models they use."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    Strict,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

MAX_NAME_LENGTH = 64
MAX_INTEGER = 2**53 - 1  # what every JSON reader keeps exactly

# A string that says "true" is a mistake to point out, not a value to guess at.
Text = Annotated[str, Strict()]
NonEmptyText = Annotated[str, Strict(), Field(min_length=1)]
Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=0, le=MAX_INTEGER)]
PositiveInt = Annotated[int, Strict(), Field(gt=0, le=MAX_INTEGER)]
Price = Annotated[float, Strict(), Field(ge=0)]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
Temperature = Annotated[float, Strict(), Field(ge=0, le=2)]
Milliseconds = Annotated[int, Strict(), Field(gt=0, le=86_400_000)]
Port = Annotated[int, Strict(), Field(ge=1, le=65_535)]
Texts = tuple[Text, ...]


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


# Environment variables and headers are sent as text, so a number in the file is taken as text.
Scalar = Annotated[
    str,
    BeforeValidator(_as_text),
    Strict(),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]


@dataclass(frozen=True, slots=True)
class AlsoAs:
    """Adds a field's short form to the JSON Schema."""

    form: dict[str, Any]

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        own = handler(core_schema)
        return {"anyOf": [self.form, *own.get("anyOf", [own])]}


def short_forms(expected: str, forms: Mapping[Any, Any], *shapes: type | None) -> BeforeValidator:
    """Replaces a short form with what it means; values of these shapes pass as they are."""

    def validate(value: Any) -> Any:
        if isinstance(value, tuple(NoneType if one is None else one for one in shapes)):
            return value
        for form, meaning in forms.items():
            if type(value) is type(form) and value == form:  # 1 is not true
                return meaning
        raise wrong_shape(expected)

    return BeforeValidator(validate)


def wrong_shape(expected: str) -> PydanticCustomError:
    return PydanticCustomError("wrong_shape", "must be {expected}", {"expected": expected})


WhenApplied = Literal["now", "next turn", "restart"]


@dataclass(frozen=True, slots=True)
class Applies:
    """Says of one field when a change of it applies, if not when its section says."""

    when: WhenApplied


class Section(BaseModel):
    """A part of the configuration: frozen, and strict about unknown keys.

    `applies` says when a running gateway, `chat` or `mcp-server` applies a change of its fields.

    The text below a field describes it. `show.describe` reads it only for a schema: pydantic would
    read it at import, and every command would take half as long again.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
    )
    applies: ClassVar[WhenApplied] = "next turn"

    @classmethod
    def field_applies(cls, name: str) -> WhenApplied:
        for mark in cls.model_fields[name].metadata:
            if isinstance(mark, Applies):
                return mark.when
        return cls.applies


DEFAULT_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
DEFAULT_MAX_RESULT_CHARS = 200_000

Transport = Literal["stdio", "sse", "http"]
SandboxMode = Literal["off", "auto", "strict"]
PinMode = Literal["off", "warn", "strict"]
EffectName = Literal["read", "open", "change", "send", "destroy"]


class SamplingConfig(Section):
    """Whether a server may request completions from our model, and how many tokens."""

    applies = "now"

    enabled: Flag = True
    """Answer the server's sampling requests."""
    max_tokens: PositiveInt = 4096
    """Maximum number of tokens per request."""
    token_budget: PositiveInt = 100_000
    """Maximum number of tokens, in and out, that the server may use in one run of the program."""


_NETWORKS = {True: True, False: False, "internet": "internet"}


class SandboxConfig(Section):
    """What a sandboxed program may access on this machine."""

    applies = "now"

    mode: SandboxMode = "auto"
    """`off`; `auto` (whatever sandbox this machine supports, with a warning if there is none; with access to the workspace and to absolute paths in `args` and `env`); or `strict` (only what is listed here; if that cannot be enforced, the program isn't started)."""
    read: Texts = ()
    """Directories and files that the program may read, besides the system's own."""
    write: Texts = ()
    """Directories and files that the program may write."""
    network: Annotated[
        Flag | Literal["internet"],
        short_forms('true, false or "internet"', _NETWORKS),
        AlsoAs({"const": "internet"}),
    ] = True
    """Network access: `true` for everything, including services on this machine; `"internet"` for public addresses only, through our proxy (the program must support proxies); `false` for none."""
    workspace: Flag | None = None
    """Whether the program may write to the agent's workspace and its own working directory. If not set: yes with `auto`, no with `strict`."""


class ProcessLimits(Section):
    """Limits on a stdio server's process, with or without a sandbox."""

    applies = "now"

    memory_mb: PositiveInt | None = None
    """Maximum address space, in MiB."""
    processes: PositiveInt | None = None
    """Maximum number of processes and threads."""
    open_files: PositiveInt | None = None
    """Maximum number of open files."""
    cpu_seconds: PositiveInt | None = None
    """Maximum CPU time, in seconds."""


class IdentityProviderConfig(Section):
    """The organisation's identity provider, for `grant: "enterprise"`."""

    issuer: Text | None = None
    """Its issuer; only needed without `tokenEndpoint`."""
    token_endpoint: Text | None = None
    """Where it exchanges tokens."""
    client_id: NonEmptyText
    """The client id that the identity provider knows OpenClaw by."""
    client_secret: Text | None = Field(default=None, repr=False)
    """That client's secret, preferably a `secret://` reference."""
    id_token: NonEmptyText = Field(repr=False)
    """The user's ID token, preferably a `secret://` reference; read whenever a token is needed."""


class McpAuthConfig(Section):
    """How to log in to a remote server."""

    applies = "now"

    type: Literal["oauth"] = "oauth"
    """The kind of login; `oauth` is the only one. A fixed token goes into `headers`."""
    grant: Literal["login", "clientCredentials", "workload", "enterprise"] = "login"
    """Who logs in: `login` (a user, once, in a browser), `clientCredentials` (OpenClaw itself, with `clientSecret` or `privateKey`), `workload` (OpenClaw, with the `assertion` of the platform it runs on), or `enterprise` (a user, through `identityProvider`)."""
    client_id: Text | None = None
    """The client id, if the server doesn't register clients by itself."""
    client_secret: Text | None = Field(default=None, repr=False)
    """The client's secret, preferably a `secret://` reference."""
    private_key: Text | None = Field(default=None, repr=False)
    """The client's private key as PEM, preferably a `secret://` reference, for servers that take signatures instead of a secret (`private_key_jwt`)."""
    client_metadata_url: Text | None = None
    """The https address of a client ID metadata document that describes OpenClaw; it is the client id for servers that support such documents."""
    assertion: Text | None = Field(default=None, repr=False)
    """The workload's JWT, preferably a `secret://` reference; read whenever a token is needed."""
    identity_provider: IdentityProviderConfig | None = None
    """The organisation's identity provider."""
    dpop: Literal["auto", "required", "off"] = "auto"
    """Whether tokens are bound to a key (DPoP), so that a stolen one is useless: if the server offers it, always, or never."""
    scopes: Texts = ()
    """The scopes to request. If empty, those that the server names."""
    callback_port: Annotated[PositiveInt, Field(le=65_535)] | None = None
    """A fixed loopback port for the login's callback, if the server insists on one."""
    store: Literal["file", "keyring"] = "file"
    """Where to store the login: in a private file in the state directory, or in the system keyring."""


_SANDBOXES = {mode: {"mode": mode} for mode in ("off", "auto", "strict")}
Sandbox = Annotated[
    SandboxConfig,
    short_forms('"off", "auto", "strict" or an object', _SANDBOXES, dict, SandboxConfig),
    AlsoAs({"enum": [*_SANDBOXES]}),
]
_SAMPLING = {answer: {"enabled": answer} for answer in (True, False)}
_PINS = {"off": "off", "warn": "warn", "strict": "strict", True: "warn", False: "off"}


def _inherit_env(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):  # pyright: ignore[reportUnknownVariableType]
        return tuple(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    raise wrong_shape("true, false or a list of variable names")


class McpServerConfig(Section):
    """One MCP server. An agent's entry needs only what differs from the default entry."""

    applies = "now"

    enabled: Flag = True
    """Whether the server is used; `false` in an agent's entry removes a default server."""
    transport: Annotated[
        Transport | None,
        BeforeValidator(lambda value: "http" if value == "streamable-http" else value),
        AlsoAs({"const": "streamable-http"}),
    ] = None
    """How to connect. If not set: stdio for a `command`; http for a `url`, falling back to SSE."""
    command: NonEmptyText | None = None
    """The program to start, for stdio."""
    args: Texts = ()
    """The program's arguments; may contain `secret://` references, though other users of the machine can see arguments."""
    env: dict[NonEmptyText, Scalar] = Field(default_factory=dict, repr=False)
    """Environment variables for the program; values may be or contain `secret://` references."""
    cwd: NonEmptyText | None = None
    """The program's working directory. If not set, a directory of its own in the state directory."""
    url: NonEmptyText | None = None
    """The server's address, for http and sse; may contain `secret://` references."""
    headers: dict[NonEmptyText, Scalar] = Field(default_factory=dict, repr=False)
    """HTTP headers; values may be or contain `secret://` references."""
    auth: Annotated[
        McpAuthConfig | None,
        short_forms('"oauth" or an object', {"oauth": {}}, dict, McpAuthConfig, None),
        AlsoAs({"const": "oauth"}),
    ] = None
    """Log in to a remote server: `"oauth"`, or an object with the details."""
    timeout: Milliseconds = 30_000
    """Maximum milliseconds for connecting."""
    tool_timeout: Milliseconds = 60_000
    """Maximum milliseconds for a tool call; progress from the server extends it."""
    restart_on_crash: Flag = True
    """Restart the server if it dies."""
    max_restarts: Count = 5
    """How often in a row to restart the server before giving up until a reload."""
    tool_prefix: NonEmptyText | None = None
    """Use this instead of the server's name in its tools' names."""
    lazy: Flag = False
    """Start the server when it is first used."""
    resources: Flag = True
    """Offer the server's resources to the agent."""
    resource_filter: Texts = ()
    """Only resources whose URI contains one of these; empty means all."""
    resource_refresh_ms: Milliseconds = 300_000
    """Milliseconds between two refreshes of the resources."""
    prompts: Flag = True
    """Offer the server's prompts."""
    roots: Texts | None = None
    """Directories that the server may work in; relative paths are relative to the workspace. If not set: the workspace, and every directory in `args` whose path starts with `/` or `~/`."""
    per_client: Flag = False
    """Start a process of its own for each client of `openclaw mcp-hub`, for a server that keeps apart logins or other state by connection."""
    inherit_env: Annotated[bool | Texts, BeforeValidator(_inherit_env)] = False
    """Pass our own environment to the program: `true` for all of it, or a list of names."""
    sandbox: Sandbox = SandboxConfig(mode="off")
    """Confine a stdio server: `"off"`, `"auto"`, `"strict"`, or an object with the details."""
    limits: ProcessLimits = ProcessLimits()
    pin: Annotated[
        PinMode,
        short_forms('"off", "warn", "strict", true or false', _PINS),
        AlsoAs({"type": "boolean"}),
    ] = "warn"
    """If a tool's definition changes: `off` does nothing, `warn` reports it, `strict` withholds the tool until you accept it."""
    sampling: Annotated[
        SamplingConfig,
        short_forms("true, false or an object", _SAMPLING, dict, SamplingConfig),
        AlsoAs({"type": "boolean"}),
    ] = SamplingConfig(enabled=False)
    """Let the server request completions from our model: `true`, or an object with a budget."""
    framing: Literal["frame", "datamark"] = "frame"
    """How to mark the server's text as untrusted."""
    on_suspicious: Literal["log", "block"] = "log"
    """What to do with a result that looks like an attack on the agent."""
    trust: Literal["none", "full"] = "none"
    """`full` treats what the server returns as if you had said it. Use it only for servers that nobody else can write to."""
    effects: dict[NonEmptyText, EffectName] = Field(default_factory=dict)
    """What the server's tools do, by the server's own tool names, if their names and schemas don't make it clear: `read`, `open` an address, `change`, `send` or `destroy`."""
    max_message_bytes: PositiveInt = DEFAULT_MAX_MESSAGE_BYTES
    """Maximum size of one message from the server, in bytes."""
    max_result_chars: PositiveInt = DEFAULT_MAX_RESULT_CHARS
    """Maximum number of characters of a result that the model sees; the rest is kept in a file."""

    @property
    def kind(self) -> Transport:
        """The transport, as given or as inferred from `command` and `url`."""
        if self.transport is not None:
            return self.transport
        return "http" if self.url is not None and self.command is None else "stdio"

    @property
    def may_fall_back_to_sse(self) -> bool:
        return self.transport is None and self.kind == "http"


class McpConfig(Section):
    """MCP settings of one agent or all agents."""

    applies = "now"

    servers: dict[Text, McpServerConfig] = Field(default_factory=dict)
    """The MCP servers, by name. The name becomes part of the tools' names."""


Api = Literal[
    "openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai"
]

# Providers that need no entry in `models.providers`.
BUILT_IN_PROVIDERS = ("local", "anthropic", "openai", "google", "ollama", "openrouter")


class ModelCost(Section):
    """Prices in US dollars per million tokens, used for `limits.maxCost`."""

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
    """A display name."""
    api: Api | None = None
    """This model's protocol, if it differs from the provider's."""
    context_window: PositiveInt | None = None
    """Size of the model's context, in tokens."""
    max_tokens: PositiveInt | None = None
    """Maximum number of tokens in one answer."""
    input: tuple[Literal["text", "image", "audio"], ...] = ("text",)
    """What the model can read."""
    reasoning: Flag = False
    """Whether the model thinks before it answers. Such models reject `temperature`, so it isn't sent."""
    cost: ModelCost | None = None
    """What the model costs, if the built-in price list doesn't know it or you pay a different price."""
    path: Text | None = None
    """For the embedded model: your own GGUF file."""


class ProviderConfig(Section):
    """A service that runs models, and how to talk to it."""

    base_url: NonEmptyText | None = None
    """The address of the API, for example `http://127.0.0.1:11434/v1`."""
    api_key: Text | None = Field(default=None, repr=False)
    """The key, preferably a `secret://` reference."""
    api: Api | None = None
    """The protocol that the provider speaks."""
    headers: dict[NonEmptyText, Scalar] = Field(default_factory=dict, repr=False)
    """HTTP headers for every request; values may be or contain `secret://` references."""
    models: tuple[ModelEntry, ...] = ()
    """The provider's models."""
    timeout_ms: Milliseconds = 300_000
    """Milliseconds of silence after which a request fails; answers are streamed, so a long answer doesn't count as silence."""
    max_retries: Count = 3
    """Retries after rate limits, overload and provider errors."""


class ModelsConfig(Section):
    """Model providers beyond the built-in ones."""

    providers: dict[NonEmptyText, ProviderConfig] = Field(default_factory=dict)
    """Providers by name; a model is called `name/model`."""


class ModelChoice(Section):
    """The model to use, and fallbacks to try if it fails."""

    primary: Text = ""
    """The model, as `provider/model`. If empty in an agent's entry, the default agent settings' model is used."""
    fallbacks: Texts = ()
    """Models to try in order if the first one fails."""


def _model(value: Any) -> Any:
    if isinstance(value, str):
        return {"primary": value}
    if value is None or isinstance(value, dict | ModelChoice):
        return value  # pyright: ignore[reportUnknownVariableType] - pydantic checks what is inside
    raise wrong_shape('a model such as "anthropic/claude-sonnet-5-5" or an object')


class ToolPolicyConfig(Section):
    """Which tools may be used. Deny wins; an empty allow means all."""

    allow: Texts = ()
    """Names or globs of allowed tools; empty means all."""
    deny: Texts = ()
    """Names or globs of forbidden tools."""
    ask: Texts = ()
    """Names or globs of tools that ask you before every call. If nobody can be asked, they are forbidden."""
    approved: Texts = ()
    """Calls that you have approved for good: names or globs of tools, exactly one command (`exec(make test)`), or commands of a reviewed form (`exec(git status *)`)."""


_EXEC_MODES: dict[str, dict[str, str]] = {
    "off": {"security": "deny"},
    "ask": {"security": "allowlist", "ask": "on-miss"},
    "allow": {"security": "full", "ask": "off"},
}


def _exec(value: Any) -> Any:
    if isinstance(value, str) and value in _EXEC_MODES:
        return _EXEC_MODES[value]
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        seconds = given.get("timeoutSec")
        if "timeoutMs" in given or not isinstance(seconds, int):
            return given
        rest = {name: one for name, one in given.items() if name != "timeoutSec"}
        return {**rest, "timeoutMs": seconds * 1000}
    if isinstance(value, ExecToolConfig):
        return value
    raise wrong_shape('"off", "ask", "allow" or an object')


class ExecToolConfig(Section):
    """The shell: `exec`, and `jobs` for commands in the background."""

    security: Literal["deny", "allowlist", "full"] | None = None
    """`deny` is off; `allowlist` asks before a command that no rule in `approved` covers; `full` runs every command. If not set, the same as `allowlist`, unless an `allow` list contains `exec`."""
    ask: Literal["off", "on-miss", "always"] | None = None
    """With `security: "full"`: `off` never asks, anything else does."""
    timeout_ms: Milliseconds = 120_000
    """Maximum milliseconds per command, unless the model sets another limit. `timeoutSec` is accepted too."""
    max_output_chars: PositiveInt = 48_000
    """Maximum bytes of output that the model sees, half from the start and half from the end."""
    inherit_env: Texts = ()
    """Environment variables to pass on, besides PATH, HOME and the like."""
    sandbox: Sandbox = SandboxConfig()
    """What commands may access, as for MCP servers. They may write to the workspace."""

    @property
    def mode(self) -> Literal["off", "ask", "allow"] | None:
        """The setting in one word; None if it is not set."""
        if self.security is None and self.ask is None:
            return None
        if self.security == "deny":
            return "off"
        return "allow" if self.security == "full" and self.ask in (None, "off") else "ask"


class AgentToolsConfig(ToolPolicyConfig):
    """Which tools an agent may use, and its shell."""

    exec: Annotated[
        ExecToolConfig, BeforeValidator(_exec), AlsoAs({"enum": ["off", "ask", "allow"]})
    ] = ExecToolConfig()
    """The shell: `"off"`, `"ask"` (before each command; the default) or `"allow"`, or an object."""


class TurnLimits(Section):
    """Limits on one turn."""

    max_steps: PositiveInt = 500
    """Maximum number of model requests."""
    max_tool_calls: PositiveInt = 1_000
    """Maximum number of tool calls."""
    max_tokens: PositiveInt = 20_000_000
    """Maximum number of tokens, in and out, not counting input that the provider had cached."""
    max_answer_bytes: PositiveInt = 4_000_000
    """Maximum size of one answer of the model, with its thinking and its tools' arguments; the rest is cut off."""
    max_cost: Price = 25
    """Maximum cost in US dollars, for models whose price is known; 0 means no limit."""
    max_cost_per_day: Price = 0
    """Maximum cost of all the agent's turns in one day, in US dollars; 0 means no limit."""
    timeout_ms: Milliseconds = 3_600_000
    """Maximum time in milliseconds, not counting time spent waiting for you."""


Effort = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max", "adaptive"]


class SubagentsConfig(Section):
    """Tasks that an agent delegates with `delegate`."""

    allow_agents: Texts = ()
    """Agents that may be given tasks, besides copies of the agent itself; `*` means all."""
    model: NonEmptyText | None = None
    """The model for tasks, as `provider/model`. If not set, the model of the agent that gets the task."""
    thinking: Effort | None = None
    """How long models think about tasks. If not set, the same as for other turns."""
    max_concurrent: PositiveInt = 4
    """Maximum number of tasks that run at once."""


class AgentDefaults(Section):
    """Settings for every agent, unless its own entry overrides them."""

    model: Annotated[ModelChoice | None, BeforeValidator(_model), AlsoAs({"type": "string"})] = None
    """`"provider/model"`, or an object with fallbacks. If not set, the first available model is used."""
    workspace: NonEmptyText | None = None
    """The agent's default working directory; `~` is your home directory. `openclaw agent` and `chat` work in the current directory instead."""
    tools: AgentToolsConfig = AgentToolsConfig()
    mcp: McpConfig = McpConfig()
    """The agent's MCP servers."""
    context_files: Texts = ("AGENTS.md", "CLAUDE.md", "SOUL.md")
    """Files in the workspace that are part of every prompt; identical files are included once."""
    system_prompt: Text | None = None
    """A system prompt that replaces the built-in one."""
    limits: TurnLimits = TurnLimits()
    skills: Texts | None = None
    """The skills that the agent may use, by name. If not set, all."""
    subagents: SubagentsConfig = SubagentsConfig()
    tool_context_percent: Annotated[float, Strict(), Field(ge=1, le=5)] = 3.0
    """Percentage of the model's context for tool definitions; `tool_search` finds the other tools."""
    tool_search_limit: PositiveInt | None = None
    """Maximum number of tools to show before a search. If not set, only `toolContextPercent` limits them."""
    resource_context_chars: Count = 40_000
    """Maximum number of characters of MCP resources in the prompt."""
    temperature: Temperature | None = None
    """The sampling temperature. If not set, the provider's default."""
    thinking_default: Effort | None = None
    """How long the model thinks, if that is adjustable. If not set, the model's default."""
    user_timezone: NonEmptyText | None = None
    """Your time zone, such as `Europe/Berlin`. If not set, this machine's."""
    readable_sessions: Texts = ()
    """Keys or globs of this agent's other sessions that `sessions_list` and `session_history` may read; a session can always read itself."""


class AgentEntry(AgentDefaults):
    """One agent: its id, and what differs from the defaults."""

    id: NonEmptyText
    """The agent's name in commands, sessions and logs."""
    name: Text | None = None
    """A display name."""
    default: Flag = False
    """Use this agent unless another one is named."""


class AgentsConfig(Section):
    """The agents."""

    defaults: AgentDefaults = AgentDefaults()
    list: tuple[AgentEntry, ...] = ()
    """The agents; an empty list means one agent called `main`."""
