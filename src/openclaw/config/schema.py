"""The schema of `openclaw.json`: frozen, typed, and strict about unknown keys.

The descriptions are for people: editors show them, and the reference is made from them.
"""

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from openclaw.config.agent_schema import (
    AgentsConfig,
    AgentToolsConfig,
    AlsoAs,
    Applies,
    Count,
    Flag,
    McpConfig,
    Milliseconds,
    ModelsConfig,
    NonEmptyText,
    Port,
    PositiveInt,
    Scalar,
    Section,
    Share,
    Text,
    Texts,
    ToolPolicyConfig,
    wrong_shape,
)


class GcpSecretsConfig(Section):
    """Google Cloud Secret Manager, for `secret://gcp/…`."""

    project: Text | None = None
    """The project for references that don't name one."""
    endpoint: Text | None = None
    """Another address of the API."""


class AwsSecretsConfig(Section):
    """AWS Secrets Manager, for `secret://aws/…`."""

    region: Text | None = None
    """The region. If not set, it comes from the AWS environment."""
    profile: Text | None = None
    """A profile of the AWS configuration."""
    endpoint_url: Text | None = None
    """Another address of the API."""


class VaultAppRole(Section):
    """A login to Vault by AppRole."""

    role_id: Text
    """The role's id."""
    secret_id: Text = Field(repr=False)
    """The role's secret id, preferably a `secret://env/…` or `secret://file/…` reference."""
    mount: NonEmptyText = "approle"
    """Where the AppRole method is mounted."""


class VaultSecretsConfig(Section):
    """HashiCorp Vault or OpenBao, for `secret://vault/…`."""

    address: Text | None = None
    """The server's address. If not set, `VAULT_ADDR`."""
    namespace: Text | None = None
    """The namespace. If not set, `VAULT_NAMESPACE`."""
    token: Text | None = Field(default=None, repr=False)
    """The token, preferably a `secret://env/…` or `secret://file/…` reference. If not set, `VAULT_TOKEN`, then `~/.vault-token`."""
    app_role: VaultAppRole | None = None
    """Log in by AppRole instead of a token."""
    mount: NonEmptyText = "secret"
    """Where the key-value engine is mounted."""
    kv_version: Literal[1, 2] | None = None
    """The key-value engine's version. If not set, the server is asked."""
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
    """Maximum milliseconds for the command. If not set, `secrets.timeoutMs`."""


class AzureSecretsConfig(Section):
    """Azure Key Vault, for `secret://azure/…`."""

    vault: Text | None = None
    """The key vault's name or address, for references that don't name one."""
    endpoint: Text | None = None
    """Another address of the API."""


class KeyringSecretsConfig(Section):
    """The desktop's keyring, for `secret://keyring/…`."""

    service: NonEmptyText = "openclaw"
    """The service for references that don't name one."""


class OnePasswordSecretsConfig(Section):
    """1Password, through its `op` command, for `secret://op/…`."""

    account: Text | None = None
    """The account, if you have several."""
    vault: Text | None = None
    """The vault for references that don't name one."""


class FileSecretsConfig(Section):
    """Secrets in files, for `secret://file/…`."""

    directory: Text | None = None
    """The directory for `secret://file/./…`. If not set, the state directory. Other paths are absolute or start with `~/`."""


class SecretsConfig(Section):
    """How `secret://` references are looked up."""

    timeout_ms: Milliseconds = 10_000
    """Maximum milliseconds for looking up one reference."""
    gcp: GcpSecretsConfig = GcpSecretsConfig()
    aws: AwsSecretsConfig = AwsSecretsConfig()
    vault: VaultSecretsConfig = VaultSecretsConfig()
    azure: AzureSecretsConfig = AzureSecretsConfig()
    keyring: KeyringSecretsConfig = KeyringSecretsConfig()
    op: OnePasswordSecretsConfig = OnePasswordSecretsConfig()
    file: FileSecretsConfig = FileSecretsConfig()
    exec: dict[NonEmptyText, ExecSecretConfig] = Field(default_factory=dict)
    """Commands by name, for `secret://exec/NAME`."""


class GatewayAuth(Section):
    """Who may use the gateway."""

    applies = "restart"

    token: Text | None = Field(default=None, repr=False)
    """The bearer token, preferably a `secret://` reference. Without any token, the gateway listens only on loopback."""


class GatewayReload(Section):
    """What happens when the configuration file changes."""

    applies = "now"

    mode: Annotated[
        Literal["off", "hot"],
        BeforeValidator(lambda value: "hot" if value in ("hybrid", "restart") else value),
        AlsoAs({"enum": ["hybrid", "restart"]}),
    ] = "hot"
    """`hot` applies a valid change without a restart (`hybrid` and `restart` mean the same); `off` waits for a restart."""
    debounce_ms: Milliseconds = 300
    """Milliseconds to wait after the last change before reading the file."""


class GatewayLimits(Section):
    """Limits for the gateway's clients."""

    applies = "restart"

    max_request_bytes: PositiveInt = 64 * 1024 * 1024
    """Maximum size of a request body."""
    max_concurrent: PositiveInt = 256
    """Maximum number of concurrent requests; more are answered with 503 and `Retry-After`."""
    max_connections: PositiveInt = 2_048
    """Maximum number of open connections, fewer if the process may not open enough files; more are answered with 503 and `Retry-After`."""
    requests_per_minute: PositiveInt = 6_000
    """Maximum number of requests per minute from one client; ten task polls count as one."""
    client_timeout_ms: Milliseconds = 30_000
    """Maximum milliseconds for a client to send its request."""


class ClusterConfig(Section):
    """How a gateway shares work with others on the same PostgreSQL store."""

    applies = "restart"

    workers: Count = 16
    """Maximum number of turns that this gateway runs at once, wherever they arrived; with 0 it only accepts them."""
    max_waiting: PositiveInt = 10_000
    """Maximum number of queued turns across all gateways; beyond that, clients are asked to try again."""
    max_waiting_per_session: PositiveInt = 100
    """Maximum number of queued turns in one session."""
    max_attempts: PositiveInt = 5
    """How many times to try a turn whose gateway stopped before giving up."""


class GatewayConfig(Section):
    """The daemon that keeps the agent running."""

    applies = "restart"

    port: Port = 18_789
    """The TCP port."""
    bind: NonEmptyText = "loopback"
    """Where to listen: `loopback`, `lan` (every interface) or an IP address."""
    auth: GatewayAuth = GatewayAuth()
    tools: ToolPolicyConfig = ToolPolicyConfig()
    """Which tools may be used at all; checked before all other rules."""
    reload: GatewayReload = GatewayReload()
    limits: GatewayLimits = GatewayLimits()
    cluster: ClusterConfig = ClusterConfig()
    allowed_hosts: Texts = ()
    """Host names that requests may use in `Host`, besides loopback names."""
    allowed_origins: Texts = ()
    """Web origins, besides the gateway's own, whose pages may call it."""
    dashboard: Flag = True
    """Serve the page at `/`."""
    shutdown_grace_ms: Milliseconds = 10_000
    """How many milliseconds running turns get to finish when the gateway stops."""


class SessionsConfig(Section):
    """Where conversations are stored."""

    store: Annotated[NonEmptyText, Applies("restart")] = "file"
    """`file`, a path to a database file, or a `postgresql://` address."""
    lane_lease_ms: Annotated[Milliseconds, Applies("restart")] = 9_000
    """Milliseconds after which another process may take over a session from a frozen one; a dead process is noticed at once."""
    compact_at: Share = 0.8
    """The share of the model's context at which old messages are summarised."""


class TranscriptionConfig(Section):
    """Speech to text for audio sent to the agent."""

    provider: Literal["auto", "off", "local", "openai", "deepgram"] = "auto"
    """`auto` uses what is available: local first, then a provider whose key is set."""
    model: Text | None = None
    """The provider's model. If not set, its default. Local: a directory with Whisper weights, or the name of weights in the Hugging Face cache. With `auto`, this applies to Whisper."""
    base_url: NonEmptyText | None = None
    """The address of the provider's API, if it isn't the usual one. With `auto`, this applies to OpenAI."""
    api_key: Text | None = Field(default=None, repr=False)
    """The provider's key, preferably a `secret://` reference. With `auto`, this applies to OpenAI."""
    language: Text | None = None
    """The spoken language as a two-letter code. If not set, it is detected."""
    timeout_ms: Milliseconds = 120_000
    """Maximum milliseconds for transcribing one recording."""


class MediaConfig(Section):
    """Images, audio and documents."""

    transcription: TranscriptionConfig = TranscriptionConfig()


class OrderServerConfig(Section):
    """`openclaw mcp-server`, which accepts orders from MCP clients."""

    audio: Literal["auto", "audio", "resource"] = "auto"
    """How to send audio: `auto` depends on what the client understands."""
    tool_results: Literal["addressed", "all"] = "addressed"
    """Which tool results are part of the answer: those addressed to the user, or all."""
    timeout_ms: Milliseconds | None = None
    """Maximum milliseconds for one order. If not set, the turn's own limit."""
    workspace: Literal["roots", "cwd", "agent"] = "roots"
    """Where an order works: `roots` uses the client's first root, if it has one; `cwd` does too, and otherwise uses the directory in which the client started us; `agent` always uses the agent's own workspace."""
    task_after_ms: Milliseconds = 2_000
    """Milliseconds after which an unanswered order becomes a task, for clients that support tasks."""


class HubConfig(Section):
    """`openclaw mcp-hub`, through which other MCP clients use your servers."""

    applies = "now"

    tools: Literal["auto", "all", "search"] = "auto"
    """Which tools a client sees: all of them, or a search and those that it found. `auto` searches if there are more than 40."""
    frame: Flag = False
    """Mark the servers' text as untrusted, as for our own agent. Clients usually do that themselves."""


class LoggingConfig(Section):
    """The program's own log."""

    applies = "restart"

    level: Literal["silent", "fatal", "error", "warn", "info", "debug", "trace"] = "info"
    """The lowest level to log."""
    json_: Flag = Field(default=False, alias="json")
    """Write JSON lines instead of text."""
    file: Text | None = None
    """A file to write to. If not set, the gateway's log in the state directory."""
    max_file_bytes: PositiveInt = 10 * 1024 * 1024
    """Size at which the file is rotated."""
    keep: Count = 5
    """Rotated files to keep."""


class TelemetryConfig(Section):
    """OpenTelemetry traces and metrics of turns, model calls and MCP calls; needs the extra `otel`."""

    applies = "restart"

    enabled: Flag = False
    """Send traces and metrics. Settings left out below come from the standard `OTEL_…` variables."""
    endpoint: NonEmptyText | None = None
    """The address of an OTLP/HTTP collector, for example `http://127.0.0.1:4318`."""
    headers: dict[NonEmptyText, Scalar] = Field(default_factory=dict, repr=False)
    """HTTP headers for the collector; values may be or contain `secret://` references."""
    service_name: NonEmptyText = "openclaw"
    """This program's service name."""
    metric_interval_ms: Milliseconds = 60_000
    """Milliseconds between metric reports."""


class AuditConfig(Section):
    """The record of every MCP tool call."""

    applies = "restart"

    enabled: Flag = True
    """Record MCP tool calls."""
    bodies: Flag = False
    """Record arguments and results too, redacted."""
    max_bytes: PositiveInt = 10 * 1024 * 1024
    """Size at which the file is rotated."""
    keep: Count = 5
    """Rotated files to keep."""


class WebSearchConfig(Section):
    """The `web_search` tool."""

    enabled: Flag = True
    """Whether the agent has this tool."""
    provider: Literal["native", "brave", "tavily", "searxng"] | None = None
    """`native` is the model provider's own search. If not set: that, if the model has one; otherwise the engine whose key or address is set here or in `BRAVE_API_KEY`, `TAVILY_API_KEY` or `SEARXNG_BASE_URL`."""
    api_key: Text | None = Field(default=None, repr=False)
    """The engine's key, preferably a `secret://` reference."""
    base_url: NonEmptyText | None = None
    """The address of SearXNG, or another address for Brave's or Tavily's API."""
    max_results: Annotated[PositiveInt, Field(le=20)] = 5
    """Maximum number of results per search."""
    timeout_seconds: PositiveInt = 30
    """Maximum seconds for a search."""


class WebFetchConfig(Section):
    """The `web_fetch` tool."""

    enabled: Flag = True
    """Whether the agent has this tool."""
    max_chars: PositiveInt = 48_000
    """Maximum number of characters of a page that the model sees at once."""
    timeout_seconds: PositiveInt = 30
    """Maximum seconds for a page."""


class WebToolsConfig(Section):
    """Searching and reading the web."""

    search: WebSearchConfig = WebSearchConfig()
    fetch: WebFetchConfig = WebFetchConfig()


class ToolsConfig(AgentToolsConfig):
    """Tools of all agents."""

    web: WebToolsConfig = WebToolsConfig()
    code: Literal["off", "auto", "on"] = "auto"
    """Let models call tools from short scripts (`run_code`): `auto` does so if not all tools can be shown."""
    plugins: Flag = True
    """Load tools from installed packages."""


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


Notify = Annotated[Texts, BeforeValidator(_notify), AlsoAs({"const": "desktop"})]


class CronConfig(Section):
    """Schedules, which the gateway runs; see `openclaw cron`."""

    applies = "now"

    enabled: Flag = True
    """Run the schedules."""
    missed: Literal["run", "skip"] = "run"
    """If runs were missed because no gateway was running: `run` the last one late, or `skip` them."""
    notify: Notify = ()
    """Where to send each result: `"desktop"`, or a command with its arguments. The command gets JSON on its input: `id`, `session`, `outcome`, `text`; in its arguments, `{id}`, `{outcome}` and `{text}` stand for them."""
    webhook: NonEmptyText | None = None
    """An address to post the same JSON to."""
    webhook_token: Text | None = Field(default=None, repr=False)
    """The webhook's bearer token, preferably a `secret://` reference."""


class QuestionsConfig(Section):
    """Questions that wait because nobody could be asked; see `openclaw questions`."""

    expire_ms: Annotated[int, Field(gt=0, le=366 * 24 * 3_600_000)] = 7 * 24 * 3_600_000
    """Milliseconds until a question that nobody answers expires, and an allowed call that wasn't made."""
    notify: Notify = ()
    """How to tell you about a new question: `"desktop"`, or a command with its arguments. The command gets JSON on its input: `id`, `session`, `text`, `answer` (the command that answers it); in its arguments, `{id}`, `{text}` and so on stand for them."""
    webhook: NonEmptyText | None = None
    """An address to post the same JSON to."""
    webhook_token: Text | None = Field(default=None, repr=False)
    """The webhook's bearer token, preferably a `secret://` reference."""


def _hook_command(value: Texts) -> Texts:
    program = value[0] if value else ""
    if not program or ("/" in program and not program.startswith(("/", "~/"))):
        raise wrong_shape("a program, by its name or its absolute path, and its arguments")
    return value


class SkillEntry(Section):
    """One skill, by its name."""

    enabled: Flag = True
    """Whether agents may use the skill."""


class SkillsLoad(Section):
    """Where to find skills."""

    extra_dirs: Texts = ()
    """Directories with skills, besides `skills/` in the workspace and in the state directory."""


class SkillsConfig(Section):
    """Skills of all agents; see `openclaw skills`."""

    load: SkillsLoad = SkillsLoad()
    entries: dict[NonEmptyText, SkillEntry] = Field(default_factory=dict)
    """Single skills, by name."""


class HookConfig(Section):
    """A command to run on an event, with JSON on its stdin."""

    on: Literal["before_tool", "after_tool", "session_start", "turn_end", "question"]
    """The event; `question` is one that waits because nobody could be asked. With `before_tool`, any exit code but 0 refuses the call, and the command's output is the reason."""
    command: Annotated[Texts, AfterValidator(_hook_command)]
    """The program, as a name or absolute path, and its arguments. It runs in the workspace, without a shell."""
    tools: Texts = ()
    """For tool events: names or globs of tools; empty means all."""
    timeout_ms: Milliseconds = 10_000
    """Maximum milliseconds before the command counts as failed."""
    inherit_env: Texts = ()
    """Environment variables to pass on, besides PATH, HOME and the like."""


class HooksConfig(Section):
    """Your own commands, run on events."""

    commands: tuple[HookConfig, ...] = ()
    """The commands, in the order in which they run."""


FlowMode = Literal["ask", "refuse", "log", "off"]


class AllowedField(Section):
    """A field of a source whose values may be used for an argument of a tool."""

    tool: NonEmptyText
    """The tool, as `server/tool`."""
    source: NonEmptyText
    """The source, as the question named it."""
    source_field: Text = ""
    """The field there. Without it, the entry is from an earlier version and allows nothing."""
    parameter: Text = ""
    """The argument of the tool."""
    kind: Text = ""
    """The kind of value, as in `email`."""


class DataFlowConfig(Section):
    """What to do with calls whose values came from untrusted content and not from you."""

    mode: FlowMode = "ask"
    """`ask` you (or refuse, if nobody can be asked), `refuse`, `log` a warning and allow the call, or `off`."""
    modes: dict[NonEmptyText, FlowMode] = Field(default_factory=dict)
    """The mode for a server (`mail`) or one tool (`mail/send_email`; built-in: `native/exec`)."""
    allow: tuple[AllowedField, ...] = ()
    """What you answered with "always"."""
    model: Text | None = None
    """The model that reads from your words what you want, as `provider/model`; otherwise the session's."""


CONFIG_VERSION = 1


class Config(Section):
    """OpenClaw's configuration."""

    schema_: Text | None = Field(default=None, alias="$schema")
    """The address of this schema, for editors."""
    version: Annotated[int, Field(ge=1, le=CONFIG_VERSION)] = CONFIG_VERSION
    """The version of this file's format. It can be left out; an older program refuses a newer version."""
    models: ModelsConfig = ModelsConfig()
    agents: AgentsConfig = AgentsConfig()
    mcp: McpConfig = McpConfig()
    """MCP servers of all agents; the same as `agents.defaults.mcp`."""
    tools: ToolsConfig = ToolsConfig()
    dataflow: DataFlowConfig = DataFlowConfig()
    gateway: GatewayConfig = GatewayConfig()
    sessions: SessionsConfig = SessionsConfig()
    media: MediaConfig = MediaConfig()
    mcp_server: OrderServerConfig = OrderServerConfig()
    hub: HubConfig = HubConfig()
    logging: LoggingConfig = LoggingConfig()
    cron: CronConfig = CronConfig()
    questions: QuestionsConfig = QuestionsConfig()
    skills: SkillsConfig = SkillsConfig()
    hooks: HooksConfig = HooksConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    audit: AuditConfig = AuditConfig()
    secrets: SecretsConfig = SecretsConfig()
