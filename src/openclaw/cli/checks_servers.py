"""What `openclaw doctor` looks at about MCP servers: pins, sandboxes, logins, and what they are told."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from openclaw.cli.checks import ERROR, OK, WARNING, Finding
from openclaw.cli.environment import Environment
from openclaw.config.load import LoadedConfig
from openclaw.config.merge import effective_agents
from openclaw.core.errors import OpenClawError

if TYPE_CHECKING:
    from openclaw.config.schema import McpServerConfig
    from openclaw.mcp_client.pins import Pinned

Servers = Mapping[str, "McpServerConfig"]


def examine_trust(env: Environment, loaded: LoadedConfig) -> Iterator[Finding]:
    """How far the servers are trusted, and whether they still deserve it."""
    servers: dict[str, McpServerConfig] = {}
    for agent in effective_agents(loaded.config).values():
        servers.update(agent.servers)
    if not servers:
        return
    yield from _pins(env, servers)
    yield from _sandboxes(env, servers)
    yield from _environments(servers)
    yield from _addresses(servers)
    yield from _logins(env, servers)


def _pins(env: Environment, servers: Servers) -> Iterator[Finding]:
    from openclaw.mcp_client.pin_store import PinStore, pin_key

    loose = sorted(name for name, config in servers.items() if config.pin == "off")
    if loose:
        yield Finding(
            "pins",
            WARNING,
            f"nobody is told when these change what they declare: {', '.join(loose)}",
            'set `pin` to "warn" or "strict"',
        )
    try:
        known = PinStore(env.paths.pins).load()
    except OpenClawError as error:
        yield Finding("pins", ERROR, error.message, error.hint)
        return
    found = {n: known[pin_key(c)] for n, c in servers.items() if pin_key(c) in known}
    changed = {name: pinned for name, pinned in found.items() if pinned.pending}
    for name, pinned in changed.items():
        yield Finding(
            "pins",
            WARNING,
            f"MCP server '{name}' no longer declares what was accepted: {_changes(pinned)}",
            f"look at it: {env.program} mcp pins show {name}",
        )
    unseen = sorted(n for n, c in servers.items() if n not in found and c.pin != "off")
    if unseen:
        yield Finding("pins", OK, f"pinned when they first start: {', '.join(unseen)}")
    if found and not changed:
        yield Finding("pins", OK, f"{_declare(len(found))} what was accepted")
    yield from _crossings(found)


def _changes(pinned: "Pinned") -> str:
    from openclaw.mcp_client.pins import shown_name

    return ", ".join(shown_name(name) for name in pinned.pending)


def _crossings(found: "Mapping[str, Pinned]") -> Iterator[Finding]:
    from openclaw.mcp_client.pins import INSTRUCTIONS, crossings, mentions

    words = {
        server: {
            name: mentions(declared.text)
            for name, declared in {**pinned.accepted, **pinned.pending}.items()
            if name != INSTRUCTIONS
        }
        for server, pinned in found.items()
    }
    for one in crossings(words)[:20]:
        yield Finding(
            "pins",
            WARNING,
            one.words(),
            "make sure that both are what you take them for; tools.deny can take one away",
        )


def _sandboxes(env: Environment, servers: Servers) -> Iterator[Finding]:
    from openclaw.mcp_client.sandbox import find_means

    local = {name: config for name, config in servers.items() if config.kind == "stdio"}
    if not local:
        return
    open_ones = sorted(name for name, config in local.items() if config.sandbox.mode == "off")
    if open_ones:
        yield Finding(
            "sandbox",
            WARNING,
            f"these run as you do, without a sandbox: {', '.join(open_ones)}",
            'set `sandbox` to "auto" or "strict", with what they may `read` and `write`',
        )
    confined = {name: c.sandbox.mode for name, c in local.items() if name not in open_ones}
    if not confined:
        return
    means = find_means(env.environ.get("PATH", ""))
    if means.best is not None:
        are = "server is" if len(confined) == 1 else "servers are"
        yield Finding("sandbox", OK, f"{len(confined)} {are} confined by {means.best}")
        return
    for name, mode in sorted(confined.items()):
        yield Finding(
            "sandbox",
            ERROR if mode == "strict" else WARNING,
            f"MCP server '{name}' cannot be confined: {means.missing}",
            "install bubblewrap",
        )


def _environments(servers: Servers) -> Iterator[Finding]:
    told = sorted(name for name, config in servers.items() if config.inherit_env is True)
    if told:
        yield Finding(
            "mcp",
            WARNING,
            f"these are given the whole environment, keys and all: {', '.join(told)}",
            "name the variables that they need in `inheritEnv`",
        )


def _addresses(servers: Servers) -> Iterator[Finding]:
    for name, config in sorted(servers.items()):
        parts = urlsplit(config.url or "")
        if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
            yield Finding(
                "mcp",
                WARNING,
                f"MCP server '{name}' is reached without encryption",
                "give an https address",
            )


def _logins(env: Environment, servers: Servers) -> Iterator[Finding]:
    from openclaw.mcp_client.token_store import is_logged_in

    for name, config in sorted(servers.items()):
        if config.auth is None or config.url is None:
            continue
        try:
            there = is_logged_in(config.auth.store, env.paths.tokens, config.url)
        except OpenClawError as error:
            yield Finding("login", ERROR, f"MCP server '{name}': {error.message}", error.hint)
            continue
        if there:
            yield Finding("login", OK, f"MCP server '{name}' is logged in to")
        else:
            yield Finding(
                "login",
                WARNING,
                f"MCP server '{name}' needs a login",
                f"run: {env.program} mcp login {name}",
            )


def _declare(number: int) -> str:
    return "1 server declares" if number == 1 else f"{number} servers declare"
