"""What `openclaw.json` may say. Frozen, typed, and refusing what it does not know.

The descriptions are for people: editors show them, and the reference is made from them.
"""

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from openclaw.config.agent_schema import (
    BUILT_IN_PROVIDERS,
    AgentDefaults,
    AgentEntry,
    AgentsConfig,
    AgentToolsConfig,
    AlsoAs,
    Api,
    Count,
    ExecToolConfig,
    Flag,
    McpAuthConfig,
    McpConfig,
    McpServerConfig,
    Milliseconds,
    ModelChoice,
    ModelCost,
    ModelEntry,
    ModelsConfig,
    NonEmptyText,
    Port,
    PositiveInt,
    ProcessLimits,
    ProviderConfig,
    SamplingConfig,
    SandboxConfig,
    Scalar,
    Section,
    Share,
    SubagentsConfig,
    Text,
    Texts,
    ToolPolicyConfig,
    Transport,
    TurnLimits,
    wrong_shape,
)


class GcpSecretsConfig(Section):
    """Google Cloud Secret Manager."""

    project: Text | None = None
    """The project of secrets whose reference names none."""
    endpoint: Text | None = None
    """Another address of the API."""


class AwsSecretsConfig(Section):
    """AWS Secrets Manager."""

    region: Text | None = None
    """The region; left out: as the AWS environment says."""
    profile: Text | None = None
    """A profile of the AWS configuration."""
    endpoint_url: Text | None = None
    """Another address of the API."""


class VaultAppRole(Section):
    """A login to Vault by AppRole."""

    role_id: Text
    """The role's id."""
    secret_id: Text = Field(repr=False)
    """The role's secret id; best a `secret://env/…` or `secret://file/…` reference."""
    mount: NonEmptyText = "approle"
    """Where the AppRole method is mounted."""


class VaultSecretsConfig(Section):
    """HashiCorp Vault or OpenBao."""

    address: Text | None = None
    """The server's address; left out: `VAULT_ADDR`."""
    namespace: Text | None = None
    """The namespace; left out: `VAULT_NAMESPACE`."""
    token: Text | None = Field(default=None, repr=False)
    """The token; best a `secret://env/…` or `secret://file/…` reference. Left out: `VAULT_TOKEN`, then `~/.vault-token`."""
    app_role: VaultAppRole | None = None
    """Log in by AppRole instead of a token."""
    mount: NonEmptyText = "secret"
    """Where the key-value engine is mounted."""
    kv_version: Literal[1, 2] | None = None
    """The key-value engine's version; left out: asked of the server."""
    ca_file: Text | None = None
    """A file with the certificate authority to trust."""


class ExecSecretConfig(Section):
    """A command whose output is the secret."""

    command: NonEmptyText
    """The program; it is started without a shell."""
    args: Texts = ()
    """The program's arguments."""
    env: dict[NonEmptyText, Scalar] = Field(default_factory=dict, repr=False)
    """Environment variables for the program, besides PATH, HOME and the like."""
    timeout_ms: Milliseconds | None = None
    """Milliseconds it may take; left out: `secrets.timeoutMs`."""


class AzureSecretsConfig(Section):
    """Azure Key Vault."""

    vault: Text | None = None
    """The key vault's name or address, for references that name none."""
    endpoint: Text | None = None
    """Another address of the API."""


class KeyringSecretsConfig(Section):
    """The desktop's keyring."""

    service: NonEmptyText = "openclaw"
    """The service of entries whose reference names none."""


class OnePasswordSecretsConfig(Section):
    """1Password, through its `op` command."""

    account: Text | None = None
    """The account, where there are several."""
    vault: Text | None = None
    """The vault of items whose reference names none."""


class FileSecretsConfig(Section):
    """Secrets in files."""

    directory: Text | None = None
    """Where `secret://file/./…` starts; left out: the state directory. Any other path is absolute or begins with `~/`."""


class SecretsConfig(Section):
    """How `secret://` references are looked up."""

    timeout_ms: Milliseconds = 10_000
    """Milliseconds that looking up one reference may take."""
    gcp: GcpSecretsConfig = GcpSecretsConfig()
    """Google Cloud Secret Manager, for `secret://gcp/…`."""
    aws: AwsSecretsConfig = AwsSecretsConfig()
    """AWS Secrets Manager, for `secret://aws/…`."""
    vault: VaultSecretsConfig = VaultSecretsConfig()
    """HashiCorp Vault, for `secret://vault/…`."""
    azure: AzureSecretsConfig = AzureSecretsConfig()
    """Azure Key Vault, for `secret://azure/…`."""
    keyring: KeyringSecretsConfig = KeyringSecretsConfig()
    """The desktop's keyring, for `secret://keyring/…`."""
    op: OnePasswordSecretsConfig = OnePasswordSecretsConfig()
    """1Password, for `secret://op/…`."""
    file: FileSecretsConfig = FileSecretsConfig()
    """Files, for `secret://file/…`."""
    exec: dict[NonEmptyText, ExecSecretConfig] = Field(default_factory=dict)
    """Commands by name, for `secret://exec/NAME`."""


__all__ = [
    "BUILT_IN_PROVIDERS",
    "AgentDefaults",
    "AgentEntry",
    "AgentsConfig",
    "Api",
    "AuditConfig",
    "AwsSecretsConfig",
    "AzureSecretsConfig",
    "ClusterConfig",
    "Config",
    "CronConfig",
    "DataFlowConfig",
    "ExecSecretConfig",
    "ExecToolConfig",
    "FileSecretsConfig",
    "GatewayAuth",
    "GatewayConfig",
    "GatewayLimits",
    "GatewayReload",
    "GcpSecretsConfig",
    "HookConfig",
    "HooksConfig",
    "KeyringSecretsConfig",
    "LoggingConfig",
    "McpAuthConfig",
    "McpConfig",
    "McpServerConfig",
    "MediaConfig",
    "ModelChoice",
    "ModelCost",
    "ModelEntry",
    "ModelsConfig",
    "OnePasswordSecretsConfig",
    "OrderServerConfig",
    "ProcessLimits",
    "ProviderConfig",
    "SamplingConfig",
    "SandboxConfig",
    "SecretsConfig",
    "Section",
    "SessionsConfig",
    "SubagentsConfig",
    "TelemetryConfig",
    "ToolPolicyConfig",
    "ToolsConfig",
    "TranscriptionConfig",
    "Transport",
    "TurnLimits",
    "VaultAppRole",
    "VaultSecretsConfig",
    "WebFetchConfig",
    "WebSearchConfig",
    "WebToolsConfig",
]


class GatewayAuth(Section):
    """Who may speak to the gateway."""

    token: Text | None = Field(default=None, repr=False)
    """The bearer token; best a `secret://` reference. Without one only loopback is bound."""


def _reload_mode(value: Any) -> Any:
    return "hot" if value in ("hybrid", "restart") else value


class GatewayReload(Section):
    """What happens when the configuration file changes."""

    mode: Annotated[
        Literal["off", "hot"],
        BeforeValidator(_reload_mode),
        AlsoAs(({"enum": ["hybrid", "restart"]},)),
    ] = "hot"
    """`hot` applies a valid change without a restart (`hybrid` and `restart` mean the same); `off` waits for one."""
    debounce_ms: Milliseconds = 300
    """Milliseconds of quiet after a change before it is read."""


class GatewayLimits(Section):
    """Bounds on what clients of the gateway may ask."""

    max_request_bytes: PositiveInt = 64 * 1024 * 1024
    """Largest request body."""
    max_concurrent: PositiveInt = 256
    """Most requests that are served at once."""
    requests_per_minute: PositiveInt = 6_000
    """Most requests a minute from one sender; ten polls of tasks count as one."""
    client_timeout_ms: Milliseconds = 30_000
    """Milliseconds that a client may take to send its request."""
    question_timeout_ms: Milliseconds = 300_000
    """Milliseconds that a person may take to answer a question; then it is declined."""


class ClusterConfig(Section):
    """How a gateway shares work with the others of the same PostgreSQL store."""

    workers: Count = 16
    """Most turns that this gateway runs at once, wherever they came in; 0 only takes them in."""
    max_waiting: PositiveInt = 10_000
    """Turns that may wait in all gateways together; beyond, clients are asked to try again."""
    max_waiting_per_session: PositiveInt = 100
    """Turns that may wait in one session."""
    max_attempts: PositiveInt = 5
    """How often a turn whose gateway stopped is taken up again before it is given up."""


class GatewayConfig(Section):
    """The daemon that keeps the agent running."""

    port: Port = 18_789
    """The TCP port."""
    bind: NonEmptyText = "loopback"
    """Where to listen: `loopback`, `lan` (every interface) or an IP address."""
    auth: GatewayAuth = GatewayAuth()
    """Who may speak to the gateway."""
    tools: ToolPolicyConfig = ToolPolicyConfig()
    """Which tools may be used at all; the first of the policies."""
    reload: GatewayReload = GatewayReload()
    """What happens when the configuration file changes."""
    limits: GatewayLimits = GatewayLimits()
    """Bounds on what clients may ask."""
    cluster: ClusterConfig = ClusterConfig()
    """How work is shared between gateways."""
    allowed_hosts: Texts = ()
    """Host names, besides those of loopback, that requests may carry in `Host`."""
    allowed_origins: Texts = ()
    """Web origins, besides the gateway's own, whose pages may call it."""
    dashboard: Flag = True
    """Serve the page at `/`."""
    shutdown_grace_ms: Milliseconds = 10_000
    """Milliseconds that running turns get to finish when the gateway stops."""


class SessionsConfig(Section):
    """Where conversations are kept."""

    store: NonEmptyText = "file"
    """`file`, a path to a database file, or a `postgresql://` address."""
    lane_lease_ms: Milliseconds = 9_000
    """Milliseconds after which a session whose holder froze may be taken over; one that died is noticed at once."""
    compact_at: Share = 0.8
    """The share of the model's context at which old messages are summarised."""


class TranscriptionConfig(Section):
    """Speech to text for audio that is sent to the agent."""

    provider: Literal["auto", "off", "local", "openai", "deepgram"] = "auto"
    """`auto` takes what is there: local first, then a provider whose key is set."""
    model: Text | None = None
    """The provider's model; left out: its default. Local: a directory of Whisper's weights, or the
    name of weights in the Hugging Face cache. With `auto` it is Whisper's."""
    base_url: NonEmptyText | None = None
    """The address of the provider's API, where it is not the usual one. With `auto` it is OpenAI's."""
    api_key: Text | None = Field(default=None, repr=False)
    """The provider's key; best a `secret://` reference. With `auto` it is OpenAI's."""
    language: Text | None = None
    """The spoken language as a two-letter code; left out: detected."""
    timeout_ms: Milliseconds = 120_000
    """Milliseconds that transcribing one recording may take."""


class MediaConfig(Section):
    """Images, audio and documents."""

    transcription: TranscriptionConfig = TranscriptionConfig()
    """Speech to text."""


class OrderServerConfig(Section):
    """`openclaw mcp-server`, which takes orders from MCP clients."""

    audio: Literal["auto", "audio", "resource"] = "auto"
    """How audio is sent: `auto` goes by what the client understands."""
    tool_results: Literal["addressed", "all"] = "addressed"
    """Which tool results are part of the answer: those addressed to the person, or all."""
    timeout_ms: Milliseconds | None = None
    """Most milliseconds for one order; left out: the turn's own limit."""
    workspace: Literal["roots", "cwd", "agent"] = "roots"
    """Where an order works: in the client's first root, if it names one; with `cwd`, else in the directory that the client started us in; with `agent`, always in the agent's own workspace."""
    task_after_ms: Milliseconds = 2_000
    """Milliseconds after which an unanswered order becomes a task, for clients that support tasks."""


class LoggingConfig(Section):
    """What is written about the program's own doings."""

    level: Literal["silent", "fatal", "error", "warn", "info", "debug", "trace"] = "info"
    """The least level that is written."""
    json_: Flag = Field(default=False, alias="json")
    """Write JSON lines instead of text."""
    file: Text | None = None
    """A file to write to; left out: the gateway's own under the state directory."""
    max_file_bytes: PositiveInt = 10 * 1024 * 1024
    """Size at which the file is rotated."""
    keep: Count = 5
    """Rotated files to keep."""


class TelemetryConfig(Section):
    """OpenTelemetry traces and metrics of turns, model calls and MCP calls; needs the extra `otel`."""

    enabled: Flag = False
    """Send them. What is left out below, the standard `OTEL_…` variables say."""
    endpoint: NonEmptyText | None = None
    """The address of an OTLP/HTTP collector, for example `http://127.0.0.1:4318`."""
    headers: dict[NonEmptyText, Scalar] = Field(default_factory=dict, repr=False)
    """HTTP headers for the collector; values may be or contain `secret://` references."""
    service_name: NonEmptyText = "openclaw"
    """What this program is called there."""
    metric_interval_ms: Milliseconds = 60_000
    """Milliseconds between two reports of metrics."""


class AuditConfig(Section):
    """The record of every MCP tool call."""

    enabled: Flag = True
    """Keep the record."""
    bodies: Flag = False
    """Record arguments and results too, redacted."""
    max_bytes: PositiveInt = 10 * 1024 * 1024
    """Size at which the file is rotated."""
    keep: Count = 5
    """Rotated files to keep."""


class WebSearchConfig(Section):
    """The `web_search` tool."""

    enabled: Flag = True
    """Have it."""
    provider: Literal["native", "brave", "tavily", "searxng"] | None = None
    """`native` is the model provider's own search. Left out: that, if the model has one; else the engine whose key or address is given here or in `BRAVE_API_KEY`, `TAVILY_API_KEY` or `SEARXNG_BASE_URL`."""
    api_key: Text | None = Field(default=None, repr=False)
    """The engine's key; best a `secret://` reference."""
    base_url: NonEmptyText | None = None
    """The engine's address: SearXNG's, or another one of Brave's or Tavily's API."""
    max_results: Annotated[PositiveInt, Field(le=20)] = 5
    """Most results of one search."""
    timeout_seconds: PositiveInt = 30
    """Seconds that a search may take."""


class WebFetchConfig(Section):
    """The `web_fetch` tool."""

    enabled: Flag = True
    """Have it."""
    max_chars: PositiveInt = 48_000
    """Most characters of a page that the model sees at once."""
    timeout_seconds: PositiveInt = 30
    """Seconds that a page may take."""


class WebToolsConfig(Section):
    """Searching and reading the web."""

    search: WebSearchConfig = WebSearchConfig()
    """The `web_search` tool."""
    fetch: WebFetchConfig = WebFetchConfig()
    """The `web_fetch` tool."""


class ToolsConfig(AgentToolsConfig):
    """Tools of all agents."""

    web: WebToolsConfig = WebToolsConfig()
    """Searching and reading the web."""
    code: Literal["off", "auto", "on"] = "auto"
    """Let models call tools from short scripts (`run_code`): `auto` if not all tools can be shown."""
    plugins: Flag = True
    """Load tools that installed packages offer."""


_DESKTOP: Mapping[str, tuple[str, ...]] = {
    "linux": ("notify-send", "--", "OpenClaw: {id}", "{text}"),
    "darwin": (
        "osascript",
        "-e",
        "on run a\ndisplay notification (item 2 of a) with title (item 1 of a)\nend run",
        "OpenClaw: {id}",
        "{text}",
    ),
}


def _notify(value: Any) -> Any:
    if value == "desktop":
        return _DESKTOP.get(sys.platform, _DESKTOP["linux"])
    return value


class CronConfig(Section):
    """Schedules, which the gateway runs; see `openclaw cron`."""

    enabled: Flag = True
    """Run them."""
    missed: Literal["run", "skip"] = "run"
    """A run that was missed because no gateway ran: `run` the last one once, late, or `skip` it."""
    notify: Annotated[Texts, BeforeValidator(_notify), AlsoAs(({"const": "desktop"},))] = ()
    """Where to send each result: `"desktop"`, or a command with its arguments. The command gets JSON on its input: `id`, `session`, `outcome`, `text`; in its arguments, `{id}`, `{outcome}` and `{text}` stand for them."""
    webhook: NonEmptyText | None = None
    """An address that the same JSON is posted to."""
    webhook_token: Text | None = Field(default=None, repr=False)
    """The bearer token for it; best a `secret://` reference."""


def _hook_command(value: Texts) -> Texts:
    program = value[0] if value else ""
    if not program or ("/" in program and not program.startswith(("/", "~/"))):
        raise wrong_shape("a program, by its name or its absolute path, and its arguments")
    return value


class SkillEntry(Section):
    """One skill, by its name."""

    enabled: Flag = True
    """Whether agents have it."""


class SkillsLoad(Section):
    """Where skills are found."""

    extra_dirs: Texts = ()
    """Directories with skills, besides `skills/` in the workspace and in the state directory."""


class SkillsConfig(Section):
    """Skills of all agents; see `openclaw skills`."""

    load: SkillsLoad = SkillsLoad()
    """Where skills are found."""
    entries: dict[NonEmptyText, SkillEntry] = Field(default_factory=dict)
    """Single skills, by name."""


class HookConfig(Section):
    """A command that is run on an event, with JSON on its input."""

    on: Literal["before_tool", "after_tool", "session_start", "turn_end"]
    """The event. Before a tool, any exit code but 0 refuses the call, with what the command prints as the reason."""
    command: Annotated[Texts, AfterValidator(_hook_command)]
    """The program, by its name or its absolute path, and its arguments; it is started without a shell, in the workspace."""
    tools: Texts = ()
    """For tools: names or globs of those that it is about; empty means all."""
    timeout_ms: Milliseconds = 10_000
    """Milliseconds it may take; then it has failed."""
    inherit_env: Texts = ()
    """Environment variables to pass on, besides PATH, HOME and the like."""


class HooksConfig(Section):
    """Commands of your own on events."""

    commands: tuple[HookConfig, ...] = ()
    """The commands, in the order in which they run."""


FlowMode = Literal["ask", "refuse", "log", "off"]


class AllowedSource(Section):
    """A source whose values a tool may be called with."""

    tool: NonEmptyText
    """The tool, as `server/tool`."""
    source: NonEmptyText
    """The source, as the question named it."""


class DataFlowConfig(Section):
    """What happens to calls with values that came from untrusted content and not from you."""

    mode: FlowMode = "ask"
    """`ask` you (if nobody can be asked, refuse), `refuse`, `log` and let the call pass, or `off`."""
    modes: dict[NonEmptyText, FlowMode] = Field(default_factory=dict)
    """The mode for a server (`mail`) or one tool (`mail/send_email`; our own: `native/exec`)."""
    allow: tuple[AllowedSource, ...] = ()
    """What you answered with "always"."""


class Config(Section):
    """OpenClaw's configuration."""

    schema_: Text | None = Field(default=None, alias="$schema")
    """The address of this schema, for editors."""
    models: ModelsConfig = ModelsConfig()
    """Model providers beyond the built-in ones."""
    agents: AgentsConfig = AgentsConfig()
    """The agents."""
    mcp: McpConfig = McpConfig()
    """MCP servers of all agents; the same as `agents.defaults.mcp`."""
    tools: ToolsConfig = ToolsConfig()
    """Tools of all agents."""
    dataflow: DataFlowConfig = DataFlowConfig()
    """What happens to calls with values that came from untrusted content and not from you."""
    gateway: GatewayConfig = GatewayConfig()
    """The daemon that keeps the agent running."""
    sessions: SessionsConfig = SessionsConfig()
    """Where conversations are kept."""
    media: MediaConfig = MediaConfig()
    """Images, audio and documents."""
    mcp_server: OrderServerConfig = OrderServerConfig()
    """`openclaw mcp-server`, which takes orders from MCP clients."""
    logging: LoggingConfig = LoggingConfig()
    """What is written about the program's own doings."""
    cron: CronConfig = CronConfig()
    """Schedules, which the gateway runs."""
    skills: SkillsConfig = SkillsConfig()
    """Skills of all agents."""
    hooks: HooksConfig = HooksConfig()
    """Commands of your own on events."""
    telemetry: TelemetryConfig = TelemetryConfig()
    """OpenTelemetry traces and metrics."""
    audit: AuditConfig = AuditConfig()
    """The record of every MCP tool call."""
    secrets: SecretsConfig = SecretsConfig()
    """How `secret://` references are looked up."""
