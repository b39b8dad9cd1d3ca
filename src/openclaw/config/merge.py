"""What the configuration means for each agent: its own entry over the defaults, key by key."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar, cast

from openclaw.config.agent_schema import (
    AgentDefaults,
    AgentEntry,
    ExecToolConfig,
    McpServerConfig,
    ModelChoice,
    Section,
    SubagentsConfig,
    ToolPolicyConfig,
    TurnLimits,
)
from openclaw.config.schema import Config

DEFAULT_AGENT = "main"
_SHELL = ("exec", "jobs")

S = TypeVar("S", bound=Section)


@dataclass(frozen=True, slots=True)
class EffectiveAgent:
    """An agent as it runs. `tools` are the policies in the order in which they apply."""

    id: str
    name: str
    model: ModelChoice | None
    workspace: str | None
    servers: Mapping[str, McpServerConfig]
    tools: tuple[ToolPolicyConfig, ...]
    limits: TurnLimits
    context_files: tuple[str, ...]
    system_prompt: str | None
    tool_context_percent: float
    tool_search_limit: int | None
    code: Literal["off", "auto", "on"]
    resource_context_chars: int
    temperature: float | None
    readable_sessions: tuple[str, ...] = ()
    user_timezone: str | None = None
    thinking: str | None = None
    skills: tuple[str, ...] | None = None
    subagents: SubagentsConfig = field(default_factory=SubagentsConfig)
    exec: ExecToolConfig = field(default_factory=ExecToolConfig)


def overlay(base: S, own: Section) -> S:
    update: dict[str, Any] = {}
    for name in own.model_fields_set & type(base).model_fields.keys():
        update[name] = _overlaid(name, getattr(base, name), getattr(own, name))
    return base.model_copy(update=update)


def _overlaid(name: str, base: Any, own: Any) -> Any:
    if isinstance(base, McpServerConfig) and isinstance(own, McpServerConfig):
        return merge_server(base, own)
    if isinstance(base, Section) and isinstance(own, Section):
        return overlay(base, own)
    if isinstance(base, dict) and isinstance(own, dict):
        known = cast("dict[str, Any]", base)
        given = cast("dict[str, Any]", own)
        if name == "headers":
            known = _without_case(known, given)
        both = {key: _overlaid(key, known[key], given[key]) for key in given if key in known}
        return {**known, **given, **both}
    return own


def _without_case(known: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    names = {name.lower() for name in given}
    return {
        name: value for name, value in known.items() if name in given or name.lower() not in names
    }


def merge_server(base: McpServerConfig, own: McpServerConfig) -> McpServerConfig:
    """A server's entry over the default one; a `url` replaces an inherited `command`, or vice versa."""
    given = own.model_fields_set
    if "url" in given and "command" not in given and own.url is not None:
        base = base.model_copy(update={"command": None, "args": (), "transport": None})
    elif "command" in given and "url" not in given and own.command is not None:
        base = base.model_copy(update={"url": None, "headers": {}, "transport": None, "auth": None})
    return overlay(base, own)


def default_servers(config: Config) -> dict[str, McpServerConfig]:
    """The servers of every agent: `agents.defaults.mcp` over the top-level `mcp`."""
    return overlay(config.mcp, config.agents.defaults.mcp).servers


def agent_servers(config: Config, entry: AgentDefaults) -> dict[str, McpServerConfig]:
    return _overlaid("servers", default_servers(config), entry.mcp.servers)


def effective_agents(config: Config) -> dict[str, EffectiveAgent]:
    """Every agent by its id; with none listed, there is one called `main`."""
    entries = config.agents.list or (AgentEntry(id=DEFAULT_AGENT),)
    return {entry.id: _effective(config, entry) for entry in entries}


def default_agent_id(config: Config) -> str:
    """The agent to use if none is named: the one marked as default, else `main`, else the first."""
    entries = config.agents.list
    marked = next((entry.id for entry in entries if entry.default), None)
    if marked is not None:
        return marked
    ids = [entry.id for entry in entries]
    return DEFAULT_AGENT if not ids or DEFAULT_AGENT in ids else ids[0]


def _tool_layers(config: Config, entry: AgentEntry) -> tuple[ToolPolicyConfig, ...]:
    """The policies in order, with the shell's setting applied.

    `exec` in an `allow` list is a switch too. It is taken out of the list, so that a list with nothing
    else in it forbids nothing. An agent's own list still narrows what others switched on.
    """
    defaults = config.agents.defaults.tools
    switches = (None, config.tools.exec.mode, defaults.exec.mode, entry.tools.exec.mode)
    policies = (config.gateway.tools, config.tools, defaults, entry.tools)
    named = [_names_exec(rules.allow) or _names_exec(rules.ask) for rules in policies]
    reaches = max((at for at in range(4) if switches[at] or named[at]), default=-1)
    mode = next(filter(None, reversed(switches)), None)
    if mode is None:
        ask_first = any(_names_exec(rules.ask) for rules in policies)
        mode = "ask" if ask_first or not any(named) else "allow"
    layers: list[ToolPolicyConfig] = []
    for at, rules in enumerate(policies):
        allow = tuple(rule for rule in rules.allow if not _names_exec((rule,)))
        allow += _SHELL if allow and at <= reaches else ()
        deny = (*rules.deny, *(_SHELL if _names_exec(rules.deny) else ()))
        layers.append(rules.model_copy(update={"allow": allow, "deny": deny}))
    top = layers[1]
    asks = ("cron", "exec") if mode == "ask" else ("cron",)
    deny = (*top.deny, *_SHELL) if mode == "off" else top.deny
    layers[1] = top.model_copy(update={"ask": (*top.ask, *asks), "deny": deny})
    return tuple(layers)


def _names_exec(rules: tuple[str, ...]) -> bool:
    return any(rule.strip().casefold() == "exec" for rule in rules)


def _effective(config: Config, entry: AgentEntry) -> EffectiveAgent:
    defaults = config.agents.defaults
    merged = overlay(defaults, entry)
    servers = agent_servers(config, entry)
    own: dict[str, Any] = {
        "id": entry.id,
        "name": entry.name or entry.id,
        "model": merged.model if merged.model and merged.model.primary else None,
        "servers": {name: server for name, server in servers.items() if server.enabled},
        "tools": _tool_layers(config, entry),
        "code": config.tools.code,
        "thinking": merged.thinking_default,
        "exec": overlay(overlay(config.tools.exec, defaults.tools.exec), entry.tools.exec),
    }
    as_merged = {one.name for one in fields(EffectiveAgent)} - own.keys()
    return EffectiveAgent(**own, **{name: getattr(merged, name) for name in as_merged})
