"""MCP servers that a front end brings along, for as long as its connection lasts.

Starting a program on a client's word is more than using the agent, so that neither an open gateway
nor its configured token is enough: it takes the token that only this account can read, on loopback.
"""

import secrets
from dataclasses import asdict
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.requests import Request

from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.sensitive import server_credentials
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.gateway.api.schema import BegunArgument, Json, Scope, operation
from openclaw.gateway.auth import Refused, is_owner
from openclaw.gateway.feeds import EventStream, Put, frame
from openclaw.gateway.state import Gateway
from openclaw.mcp_client.bridge import prompts
from openclaw.secrets.refs import has_reference

_ID_BYTES = 16


def require_owner(request: Request, what: str) -> None:
    """Raise unless the request comes from a program of this account on this machine."""
    if not is_owner(request.scope):
        raise Refused(403, f"{what} is only for programs of this account on this machine")


@operation(
    "openScope",
    "start MCP servers for one front end, until it closes the connection; only for this account",
    str,
    body=Scope,
    stream=True,
)
async def open_scope(gateway: Gateway, request: Request, body: Scope) -> Any:
    require_owner(request, "starting MCP servers")
    backend = gateway.backend
    agent = (await backend.agent.settings(body.agent)).id
    servers = _servers(body.servers)
    for config in servers.values():
        for value in server_credentials(config):
            backend.redactor.register(value)
    scope = secrets.token_hex(_ID_BYTES)

    async def work(put: Put) -> None:
        gateway.scopes.add(scope)
        try:
            await backend.agent.add_servers(scope, agent, servers)
            put(frame({"scope": scope}, "opened"))
            await backend.agent.refresh(agent, scope, wait=True)
            prompts = [asdict(one) for one in backend.agent.prompts(agent, scope)]
            put(frame({"prompts": prompts}, "settled"))
            with gateway.hub.listen() as listener:
                while not gateway.stopping:
                    await listener.take()
        finally:
            gateway.scopes.discard(scope)
            backend.agent.end_session(scope)

    return EventStream(work)


def check_scope(gateway: Gateway, scope: str | None) -> None:
    if scope is not None and scope not in gateway.scopes:
        raise NotFound("the connection that added these MCP servers is closed")


@operation(
    "listModels",
    "an agent's models, in the order in which they are tried; and, of the model `check`, why "
    "there is no such one",
    {"agent": str, "models": list[str], "problem": str | None},
    query={"agent": str, "check": str},
)
async def models(gateway: Gateway, request: Request) -> Json:
    agent = gateway.backend.agent
    settings = await agent.settings(request.query_params.get("agent"))
    names = await agent.models(settings.id)
    asked = request.query_params.get("check")
    problem = await agent.model_problem(asked) if asked else None
    return {"agent": settings.id, "models": list(names), "problem": problem}


@operation(
    "complete",
    "what a server suggests for an argument of a prompt or a resource template",
    {"values": list[str]},
    body=BegunArgument,
)
async def complete(gateway: Gateway, request: Request, asked: BegunArgument) -> Json:
    if asked.scope is not None:
        require_owner(request, "servers that a client added")
    check_scope(gateway, asked.scope)
    agent = gateway.backend.agent
    begun = prompts.BegunArgument(
        asked.server, asked.argument, asked.value, asked.prompt, asked.template, asked.given
    )
    settings = await agent.settings(asked.agent)
    return {"values": list(await agent.complete(settings.id, begun, asked.scope))}


def _servers(entries: Json) -> dict[str, McpServerConfig]:
    if has_reference(orjson.dumps(entries).decode()):
        raise InvalidRequest("a client may not use secret references", field="servers")
    servers: dict[str, McpServerConfig] = {}
    for name, fields in entries.items():
        try:
            servers[name] = McpServerConfig.model_validate(fields)
        except ValidationError as error:
            problem = error.errors(include_input=False)[0]["msg"]
            raise InvalidRequest(problem, field=f"servers.{name}") from None
    return servers
