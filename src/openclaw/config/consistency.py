"""Rules between settings, checked on the merged configuration."""

import ipaddress
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from openclaw.config.agent_schema import (
    BUILT_IN_PROVIDERS,
    MAX_NAME_LENGTH,
    AgentDefaults,
    AgentEntry,
    McpServerConfig,
    ModelChoice,
)
from openclaw.config.json5 import KeyPath, format_path, quoted
from openclaw.config.merge import agent_servers, default_servers, overlay
from openclaw.config.schema import Config

_AGENT_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_BARE_REFERENCE = re.compile(r"(?<!<)secret://", re.IGNORECASE)
_STORE_SCHEMES = ("postgresql", "postgres", "secret")


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """A problem, described for people. `meant` is the key that was probably meant."""

    path: KeyPath
    message: str
    of_key: bool = False
    missing: bool = False
    meant: str | None = None

    def under(self, path: KeyPath) -> "ConfigFinding":
        return replace(self, path=(*path, *self.path))


def suggest(name: str, known: Collection[str]) -> str | None:
    by_fold = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_fold, n=1, cutoff=0.6)
    return by_fold[close[0]] if close else None


def findings(config: Config, providers: Collection[str]) -> Iterator[ConfigFinding]:
    """Every violated rule. `providers` are the names under `models.providers`."""
    yield from _agents(config)
    yield from _servers(config)
    yield from _models(config, providers)
    yield from _providers(config)
    yield from _host(config)


def _agents(config: Config) -> Iterator[ConfigFinding]:
    yield from _time_zone(config.agents.defaults.user_timezone, ("agents", "defaults"))
    seen: dict[str, int] = {}
    marked: int | None = None
    for index, entry in enumerate(config.agents.list):
        path: KeyPath = ("agents", "list", index)
        yield from _time_zone(entry.user_timezone, path)
        first = seen.setdefault(entry.id.lower(), index)
        if first != index:
            other = format_path(("agents", "list", first))
            yield ConfigFinding(
                (*path, "id"), f"the id {quoted(entry.id)} is already used by {other}"
            )
        elif not _AGENT_ID.fullmatch(entry.id):
            message = f'must be letters, digits, "-" and "_" only, {MAX_NAME_LENGTH} at most'
            yield ConfigFinding((*path, "id"), message)
        if entry.default and marked is not None:
            other = format_path(("agents", "list", marked))
            message = f"only one agent can be the default, and {other} already is"
            yield ConfigFinding((*path, "default"), message)
        elif entry.default:
            marked = index


def _time_zone(name: str | None, path: KeyPath) -> Iterator[ConfigFinding]:
    if name is not None and name not in available_timezones():
        near = suggest(name, available_timezones())
        guess = f"; did you mean {quoted(near)}?" if near else ""
        yield ConfigFinding((*path, "userTimezone"), f"there is no time zone {quoted(name)}{guess}")


def _servers(config: Config) -> Iterator[ConfigFinding]:
    defaults = default_servers(config)
    for path, mcp in (
        (("mcp", "servers"), config.mcp),
        (("agents", "defaults", "mcp", "servers"), config.agents.defaults.mcp),
    ):
        for name in mcp.servers:
            # If named in both places, the merged server is checked once, at `agents.defaults`.
            if path[0] == "agents" or name not in config.agents.defaults.mcp.servers:
                yield from _server_at((*path, name), name, defaults[name])
    for index, entry in enumerate(config.agents.list):
        merged = agent_servers(config, entry)
        for name in entry.mcp.servers:
            inherited = set(_server(defaults[name])) if name in defaults else set[ConfigFinding]()
            path = ("agents", "list", index, "mcp", "servers", name)
            yield from _server_at(path, name, merged[name], inherited)


def two_ways(config: Config) -> list[str]:
    """A sentence for each server that has both a program and an address."""
    entries = config.agents.list or (AgentEntry(id="main"),)
    found = {
        name: server
        for entry in entries
        for name, server in agent_servers(config, entry).items()
        if server.enabled and server.command is not None and server.url is not None
    }
    return [
        f"MCP server '{name}' has both `command` and `url`; "
        f"`{'command' if server.kind == 'stdio' else 'url'}` is used"
        for name, server in sorted(found.items())
    ]


def _server_at(
    path: KeyPath, name: str, server: McpServerConfig, known: Collection[ConfigFinding] = ()
) -> Iterator[ConfigFinding]:
    if not name.strip() or len(name) > MAX_NAME_LENGTH or _CONTROL.search(name):
        message = (
            f"a server's name has 1 to {MAX_NAME_LENGTH} characters, and no control characters"
        )
        yield ConfigFinding(path, message, of_key=True)
    yield from (each.under(path) for each in _server(server) if each not in known)


def _server(server: McpServerConfig) -> Iterator[ConfigFinding]:
    if not server.enabled:
        return
    if server.kind == "stdio":
        if server.command is None:
            named = server.transport is not None
            or_url = ' if transport is "stdio"' if named else ', or "url" for a remote server'
            yield ConfigFinding(("command",), f"is required{or_url}")
        if server.auth is not None:
            yield ConfigFinding(("auth",), "is only for servers with a url")
    elif server.url is None:
        yield ConfigFinding(("url",), f'is required if transport is "{server.kind}"')
    else:
        yield from _address(("url",), server.url)
    for name in server.env:
        if "=" in name or _CONTROL.search(name):
            message = "is not a valid name for an environment variable"
            yield ConfigFinding(("env", name), message, of_key=True)
    yield from _headers(server.headers)


def _headers(headers: dict[str, str]) -> Iterator[ConfigFinding]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            message = "is not a valid name for an HTTP header"
            yield ConfigFinding(("headers", name), message, of_key=True)
        elif "\n" in value or "\r" in value:
            yield ConfigFinding(("headers", name), "must not contain a line break")


def _address(path: KeyPath, url: str) -> Iterator[ConfigFinding]:
    """Problems with a server's address, which is never repeated: it may contain a token."""
    if url.startswith("secret://"):
        return
    if not url.startswith(("http://", "https://")):
        yield ConfigFinding(path, 'must start with "http://" or "https://"')
        return
    try:
        parts = urlsplit(url)
        valid = parts.hostname and parts.port != 0 and not re.search(r"\s", url)
    except ValueError:
        valid = False
    if not valid:
        yield ConfigFinding(path, "does not name a valid host and port")


def _models(config: Config, providers: Collection[str]) -> Iterator[ConfigFinding]:
    known = [*BUILT_IN_PROVIDERS, *providers]
    defaults = config.agents.defaults
    yield from _choice(("agents", "defaults", "model"), defaults, defaults.model, known)
    for index, entry in enumerate(config.agents.list):
        merged = overlay(defaults, entry).model
        yield from _choice(("agents", "list", index, "model"), entry, merged, known)


def _choice(
    path: KeyPath, entry: AgentDefaults, merged: ModelChoice | None, known: list[str]
) -> Iterator[ConfigFinding]:
    own = entry.model
    if own is None or merged is None:
        return
    # Defaults may have only fallbacks, for agents that name their own model.
    if not merged.primary and isinstance(entry, AgentEntry):
        yield ConfigFinding((*path, "primary"), "is required if there are fallbacks")
    if own.primary or "primary" in own.model_fields_set:
        yield from _model_name((*path, "primary"), own.primary, known)
    for index, name in enumerate(own.fallbacks):
        yield from _model_name((*path, "fallbacks", index), name, known)


def _model_name(path: KeyPath, name: str, known: list[str]) -> Iterator[ConfigFinding]:
    provider, slash, model = name.partition("/")
    if not slash or not provider.strip() or not model.strip():
        yield ConfigFinding(path, 'must look like "provider/model"')
    elif provider not in known:
        close = suggest(provider, known)
        hint = f'; did you mean "{close}"?' if close else "; add it to models.providers"
        yield ConfigFinding(path, f"there is no provider {quoted(provider)}{hint}")


def _providers(config: Config) -> Iterator[ConfigFinding]:
    for name, provider in config.models.providers.items():
        path: KeyPath = ("models", "providers", name)
        if "/" in name or _CONTROL.search(name):
            yield ConfigFinding(path, 'a provider\'s name must not contain "/"', of_key=True)
        if provider.base_url is None and name not in BUILT_IN_PROVIDERS:
            yield ConfigFinding(
                (*path, "baseUrl"), "is required for a provider that is not built in"
            )
        elif provider.base_url is not None:
            yield from _address((*path, "baseUrl"), provider.base_url)
        yield from (each.under(path) for each in _headers(provider.headers))
        ids: set[str] = set()
        for index, model in enumerate(provider.models):
            if model.id in ids:
                yield ConfigFinding(
                    (*path, "models", index, "id"), f"{quoted(model.id)} is listed twice"
                )
            ids.add(model.id)


def _host(config: Config) -> Iterator[ConfigFinding]:
    if config.gateway.bind not in ("loopback", "lan") and not _is_address(config.gateway.bind):
        yield ConfigFinding(("gateway", "bind"), 'must be "loopback", "lan" or an IP address')
    store, at = config.sessions.store, ("sessions", "store")
    scheme, separator, _ = store.partition("://")
    if separator and scheme not in _STORE_SCHEMES:
        yield ConfigFinding(at, 'must be "file", a path or an address with "postgresql://"')
    elif scheme in _STORE_SCHEMES[:2] and _BARE_REFERENCE.search(store):
        example = "postgresql://USER:<secret://env/NAME>@HOST/DATABASE"
        message = f"a reference inside an address needs angle brackets around it: {example}"
        yield ConfigFinding(at, message)
    vault = config.secrets.vault.address
    if vault is not None:
        yield from _address(("secrets", "vault", "address"), vault)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
