"""The MCP servers that a client hands over with a session, as servers of ours."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer
from pydantic import ValidationError

from openclaw.config.plaintext import server_credentials
from openclaw.config.schema import McpServerConfig
from openclaw.secrets.refs import has_reference

logger = logging.getLogger(__name__)

ClientServer = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio


@dataclass(frozen=True, slots=True)
class SessionServers:
    """What a client wants: servers by name, and values in them that nobody should see in a log."""

    servers: Mapping[str, McpServerConfig]
    credentials: tuple[str, ...]


def session_servers(given: Iterable[ClientServer], cwd: Path) -> SessionServers:
    """The servers that can be used. One that cannot costs itself, never the session."""
    servers: dict[str, McpServerConfig] = {}
    credentials: list[str] = []
    for server in given:
        config = _config(server, cwd)
        if config is None:
            continue
        servers[_free_name(server.name, servers)] = config
        credentials += server_credentials(config)
    return SessionServers(servers, tuple(credentials))


def _config(server: ClientServer, cwd: Path) -> McpServerConfig | None:
    fields = _fields(server, cwd)
    if fields is None:
        logger.warning("MCP server '%s' is left out: its transport is not known", server.name)
        return None
    if any(has_reference(text) for text in _texts(fields)):
        # A project's file must not be able to have our secrets sent to a server of its choice.
        logger.warning(
            "MCP server '%s' is left out: a client may not use secret references", server.name
        )
        return None
    try:
        return McpServerConfig.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        logger.warning("MCP server '%s' is left out: %s", server.name, problem["msg"])
        return None


def _fields(server: ClientServer, cwd: Path) -> dict[str, Any] | None:
    if isinstance(server, McpServerStdio):
        return {
            "transport": "stdio",
            "command": server.command,
            "args": tuple(server.args),
            "env": {one.name: one.value for one in server.env},
            "cwd": str(cwd),
        }
    if isinstance(server, HttpMcpServer | SseMcpServer):
        return {
            "transport": server.type,
            "url": server.url,
            "headers": {one.name: one.value for one in server.headers},
        }
    return None


def _texts(fields: Mapping[str, Any]) -> Iterable[str]:
    for value in fields.values():
        if isinstance(value, str):
            yield value
        else:
            # Only tuples of arguments and mappings of headers or variables are left.
            yield from value.values() if isinstance(value, dict) else value


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    wanted = name.strip() or "server"
    return next(
        free
        for free in (wanted, *(f"{wanted}-{number}" for number in range(2, len(taken) + 3)))
        if free not in taken
    )
