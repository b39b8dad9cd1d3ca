"""What the configuration says about MCP servers."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from openclaw.config.fields import (
    AlsoAs,
    Count,
    Flag,
    Milliseconds,
    NonEmptyText,
    PositiveInt,
    Scalar,
    Section,
    Text,
    Texts,
    wrong_shape,
)

DEFAULT_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
DEFAULT_MAX_RESULT_CHARS = 200_000

Transport = Literal["stdio", "sse", "http"]
SandboxMode = Literal["off", "auto", "strict"]
PinMode = Literal["off", "warn", "strict"]


class SamplingConfig(Section):
    """Whether a server may ask our model for a completion, and how much of it."""

    enabled: Flag = True
    """Answer the server's sampling requests."""
    max_tokens: PositiveInt = 4096
    """Most tokens that one request may ask for."""
    token_budget: PositiveInt = 100_000
    """Most tokens, in and out, that the server may use in one run of the program."""


class SandboxConfig(Section):
    """What a stdio server may reach on this machine."""

    mode: SandboxMode = "auto"
    """`off`, `auto` (as good as this machine allows, with a warning) or `strict` (refuse to start without one)."""
    read: Texts = ()
    """Directories and files that the server may read, beyond the system's own."""
    write: Texts = ()
    """Directories and files that the server may write."""
    network: Flag = True
    """Whether the server may use the network."""


class ProcessLimits(Section):
    """Bounds on a stdio server's process, with or without a sandbox."""

    memory_mb: PositiveInt | None = None
    """Most address space, in MiB."""
    processes: PositiveInt | None = None
    """Most processes and threads."""
    open_files: PositiveInt | None = None
    """Most open files."""
    cpu_seconds: PositiveInt | None = None
    """Most CPU time, in seconds."""


class McpAuthConfig(Section):
    """How we log in to a remote server."""

    type: Literal["oauth"] = "oauth"
    """The kind of login; `oauth` is the only one. A fixed token goes into `headers`."""
    client_id: Text | None = None
    """The client id, where the server does not register clients by itself."""
    client_secret: Text | None = Field(default=None, repr=False)
    """The client's secret; best a `secret://` reference."""
    scopes: Texts = ()
    """The scopes to ask for; none means those that the server names."""
    callback_port: Annotated[PositiveInt, Field(le=65_535)] | None = None
    """A fixed port on loopback for the login's callback, where the server insists on one."""
    store: Literal["file", "keyring"] = "file"
    """Where the login is kept: in a private file of the state directory, or in the system's keyring."""


def _transport(value: Any) -> Any:
    return "http" if value == "streamable-http" else value


def _sampling(value: Any) -> Any:
    if isinstance(value, bool):
        return {"enabled": value}
    if isinstance(value, dict | SamplingConfig):
        return value  # pyright: ignore[reportUnknownVariableType] - pydantic checks what is inside
    raise wrong_shape("true, false or an object")


def _sandbox(value: Any) -> Any:
    if isinstance(value, str):
        if value not in ("off", "auto", "strict"):
            raise wrong_shape('"off", "auto", "strict" or an object')
        return {"mode": value}
    if isinstance(value, dict | SandboxConfig):
        return value  # pyright: ignore[reportUnknownVariableType] - pydantic checks what is inside
    raise wrong_shape('"off", "auto", "strict" or an object')


def _pin(value: Any) -> Any:
    if isinstance(value, bool):
        return "warn" if value else "off"
    if value in ("off", "warn", "strict"):
        return value
    raise wrong_shape('"off", "warn", "strict", true or false')


def _auth(value: Any) -> Any:
    if value == "oauth":
        return {}
    if value is None or isinstance(value, dict | McpAuthConfig):
        return value  # pyright: ignore[reportUnknownVariableType] - pydantic checks what is inside
    raise wrong_shape('"oauth" or an object')


def _inherit_env(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):  # pyright: ignore[reportUnknownVariableType]
        return tuple(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    raise wrong_shape("true, false or a list of variable names")


class McpServerConfig(Section):
    """One MCP server. An agent's entry may give only what differs from the default's."""

    enabled: Flag = True
    """Whether the server is used; `false` in an agent's entry removes a default server."""
    transport: Annotated[
        Transport | None,
        BeforeValidator(_transport),
        AlsoAs(({"const": "streamable-http"},)),
    ] = None
    """How to reach it. Left out: stdio where there is `command`; http where there is `url`, falling back to SSE."""
    command: NonEmptyText | None = None
    """The program to start, for stdio."""
    args: Texts = ()
    """The program's arguments; may contain `secret://` references, though other users of the machine can see arguments."""
    env: dict[NonEmptyText, Scalar] = Field(default_factory=dict, repr=False)
    """Environment variables for the program; values may be or contain `secret://` references."""
    cwd: NonEmptyText | None = None
    """The program's working directory."""
    url: NonEmptyText | None = None
    """The server's address, for http and sse; may contain `secret://` references."""
    headers: dict[NonEmptyText, Scalar] = Field(default_factory=dict, repr=False)
    """HTTP headers; values may be or contain `secret://` references."""
    auth: Annotated[
        McpAuthConfig | None,
        BeforeValidator(_auth),
        AlsoAs(({"const": "oauth"},)),
    ] = None
    """Log in to a remote server: `"oauth"`, or an object with the details."""
    timeout: Milliseconds = 30_000
    """Milliseconds that connecting may take."""
    tool_timeout: Milliseconds = 60_000
    """Milliseconds that a tool call may take; progress from the server extends it."""
    restart_on_crash: Flag = True
    """Start the server again when it dies."""
    max_restarts: Count = 5
    """Restarts in a row before the server is given up until reload."""
    tool_prefix: NonEmptyText | None = None
    """What stands for the server's name in its tools' names."""
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
    """Directories that the server is told it may work in; a relative one starts at the workspace. Left out: the workspace, and every directory that `args` names by an absolute path or one that begins with `~/`."""
    inherit_env: Annotated[bool | Texts, BeforeValidator(_inherit_env)] = False
    """Pass our own environment to the program: `true` for all of it, or a list of names."""
    sandbox: Annotated[
        SandboxConfig,
        BeforeValidator(_sandbox),
        AlsoAs(({"enum": ["off", "auto", "strict"]},)),
    ] = SandboxConfig(mode="off")
    """Confine a stdio server: `"off"`, `"auto"`, `"strict"`, or an object with the details."""
    limits: ProcessLimits = ProcessLimits()
    """Bounds on the server's process."""
    pin: Annotated[PinMode, BeforeValidator(_pin), AlsoAs(({"type": "boolean"},))] = "warn"
    """When a tool's definition changes: `off` nothing, `warn` say so, `strict` withhold it until it is accepted."""
    sampling: Annotated[
        SamplingConfig, BeforeValidator(_sampling), AlsoAs(({"type": "boolean"},))
    ] = SamplingConfig(enabled=False)
    """Let the server ask our model for completions: `true`, or an object with a budget."""
    framing: Literal["frame", "datamark"] = "frame"
    """How the server's words are marked as untrusted."""
    on_suspicious: Literal["log", "block"] = "log"
    """What to do with a result that looks like an attack on the agent."""
    max_message_bytes: PositiveInt = DEFAULT_MAX_MESSAGE_BYTES
    """Longest single message that is accepted from the server, in bytes."""
    max_result_chars: PositiveInt = DEFAULT_MAX_RESULT_CHARS
    """Longest result that the model sees; the rest is kept in a file."""

    @property
    def kind(self) -> Transport:
        """The transport, as given or as inferred from `command` and `url`."""
        if self.transport is not None:
            return self.transport
        return "http" if self.url is not None and self.command is None else "stdio"

    @property
    def may_fall_back_to_sse(self) -> bool:
        """Whether an http connection that is refused may be tried again as SSE."""
        return self.transport is None and self.kind == "http"


class McpConfig(Section):
    """MCP settings of an agent, or of all of them."""

    servers: dict[Text, McpServerConfig] = Field(default_factory=dict)
    """The MCP servers, by name. The name stands in the names of the tools."""
