"""Views of agents, sessions, servers and tools. Read-only, except for restart and delete."""

import secrets
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from starlette.requests import Request

from openclaw.agent.event_codec import settings_json
from openclaw.config.sensitive import client_server, server_credentials
from openclaw.core.clock import random_id
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.prompts import PartialArgument
from openclaw.gateway.api import openapi
from openclaw.gateway.api.openapi import Count, Json, operation
from openclaw.gateway.auth import grant_of
from openclaw.gateway.event_streams import EventStream, Put, sse_frame
from openclaw.gateway.gateway import Gateway
from openclaw.gateway.metrics import Family, Labels
from openclaw.gateway.owners import ACCOUNT, ALL, NOTHING, TASK, require_owner
from openclaw.sessions import task_records
from openclaw.sessions.records import SessionInfo, header_json
from openclaw.sessions.usage import KEPT_DAYS, UsageLedger, row_json, spent_json, total
from openclaw.sessions.waiting_questions import open_questions
from openclaw.version import __version__

if TYPE_CHECKING:
    from openclaw.mcp_client.lifecycle.managed_server import ServerStatus

_MOST = 500


@operation("GET /api/status", ALL)
async def status(gateway: Gateway, request: Request) -> Json:
    """The gateway and its servers."""
    page = await gateway.backend.store.list_sessions(limit=1)
    grant = grant_of(request.scope)
    cluster = gateway.backend.cluster
    return {
        "version": __version__,
        "url": gateway.url,
        "startedAt": gateway.started,
        "config": str(gateway.config_path),
        "reloadError": gateway.last_reload_error,
        "turns": len(gateway.turns.running),
        "questions": len(await open_questions(gateway.backend.store, gateway.clock.now_ms())),
        "lastSessionAt": page.sessions[0].updated_ms if page.sessions else None,
        "servers": await server_rows(gateway),
        "scopes": sorted(grant.scopes) if grant is not None else [],
        "gateways": await cluster.gateways() if cluster is not None else None,
    }


@operation("GET /api/agents", NOTHING, {"agents": list[Json]})
async def list_agents(gateway: Gateway) -> Json:
    """The agents."""
    backend = gateway.backend
    default = (await backend.agent.settings()).id
    rows: list[Json] = [
        {
            "id": agent.id,
            "name": agent.name,
            "default": agent.id == default,
            "model": agent.model.primary if agent.model else None,
            "servers": sorted(agent.servers),
            "settings": settings_json(await backend.agent.settings(agent.id)),
        }
        for agent in backend.agents().values()
    ]
    return {"agents": sorted(rows, key=lambda row: not row["default"])}


@operation("GET /api/sessions", ALL, {"sessions": list[Json], "cursor": str | None})
async def list_sessions(
    gateway: Gateway,
    agent: str | None = None,
    limit: Count = 50,
    cursor: str | None = None,
    search: str | None = None,
) -> Json:
    """Sessions, the most recently used first."""
    page = await gateway.backend.store.list_sessions(
        agent, limit=min(limit, _MOST), cursor=cursor, search=search
    )
    return {"sessions": [header_json(info) for info in page.sessions], "cursor": page.cursor}


@operation("GET /api/sessions/{key:path}", ALL, {"session": Json, "entries": list[Json]})
async def show_session(
    gateway: Gateway,
    key: str,
    agent: str | None = None,
    limit: Count = 100,
    after: Count | None = None,
) -> Json:
    """A session and its entries."""
    info = await found_session(gateway, key, agent)
    limit = min(limit, _MOST)
    first = after if after is not None else max(0, info.entries - limit)
    entries = await gateway.backend.store.entries(info.ref, after=first, limit=limit)
    return {"session": header_json(info), "entries": [entry.to_json() for entry in entries]}


@operation("POST /api/sessions/{key:path}/title", ALL)
async def rename_session(
    gateway: Gateway,
    key: str,
    agent: str | None = None,
    *,
    title: Annotated[str | None, Field(max_length=200)] = None,
) -> Json:
    """Set or remove a session's title."""
    info = await found_session(gateway, key, agent)
    await gateway.backend.store.set_title(info.ref, title)
    return {"title": title}


@operation("POST /api/sessions/{key:path}/fork", ALL, {"sessionKey": str, "agent": str})
async def fork_session(
    gateway: Gateway,
    key: str,
    agent: str | None = None,
    *,
    before: Annotated[int, Field(ge=1, description="an entry's number; its turn is left out")],
) -> Json:
    """Copy a session as it was before a turn."""
    from openclaw.sessions.copying import fork

    info = await found_session(gateway, key, agent)
    store, now = gateway.backend.store, gateway.clock.now_ms()
    made = await fork(store, info, f"page-{random_id()}", before, now)
    return {"sessionKey": made.key, "agent": made.agent}


@operation("DELETE /api/sessions/{key:path}", ALL)
async def delete_session(gateway: Gateway, key: str, agent: str | None = None) -> Json:
    """Remove a session for good."""
    info = await found_session(gateway, key, agent)
    await task_records.delete_session(gateway.backend.store, info, gateway.clock.now_ms())
    return {"deleted": {"id": info.id, "agent": info.agent, "key": info.key}}


@operation("GET /api/tasks", ALL, {"tasks": list[Json]})
async def list_tasks(gateway: Gateway, limit: Count = 50) -> Json:
    """Tasks, the most recently changed first."""
    store, now = gateway.backend.store, gateway.clock.now_ms()
    found = await task_records.current_tasks(store, now, min(limit, _MOST))
    return {"tasks": [task_records.task_json(one, whole=False) for one in found]}


@operation("GET /api/tasks/{id}", TASK, Json)
async def show_task(gateway: Gateway, target: task_records.Task) -> Json:
    """A task with its questions and its result or error."""
    return task_records.task_json(target)


@operation("POST /api/tasks/{id}/cancel", TASK, {"cancelled": bool}, needs="orders")
async def cancel_task(gateway: Gateway, target: task_records.Task) -> Json:
    """Stop a task, wherever it is running."""
    if target.open:
        await task_records.tell_task(gateway.backend.store, target, cancel=True)
    return {"cancelled": target.open}


async def found_session(gateway: Gateway, key: str, agent: str | None) -> SessionInfo:
    found = await gateway.backend.store.find_sessions(key, agent)
    if not found:
        raise NotFound(f"there is no session '{key}'")
    if len(found) > 1:
        names = ", ".join(info.agent for info in found)
        raise InvalidRequest(f"several agents have a session '{key}': {names}", field="agent")
    return found[0]


@operation(
    "GET /api/usage",
    ALL,
    {"today": str, "timezone": str, "rows": list[Json], "total": Json},
)
async def usage(
    gateway: Gateway, days: Count = 30, agent: str | None = None, session: str | None = None
) -> Json:
    """Model usage and cost by day, session and model, today first."""
    settings = await gateway.backend.agent.settings(agent)
    ledger = UsageLedger(gateway.backend.store, gateway.clock, settings.timezone)
    wanted = ledger.days(max(1, min(days, KEPT_DAYS)))
    rows = [
        row
        for row in await ledger.rows(wanted)
        if agent in (None, row.agent) and session in (None, row.session)
    ]
    return {
        "today": wanted[0],
        "timezone": settings.timezone,
        "rows": [row_json(row) for row in rows],
        "total": spent_json(total(rows)),
    }


@operation("GET /api/servers", NOTHING, {"servers": list[Json]})
async def list_servers(gateway: Gateway) -> Json:
    """MCP servers."""
    return {"servers": await server_rows(gateway)}


@operation("POST /api/servers/{name}/restart", NOTHING)
async def restart_server(gateway: Gateway, name: str) -> Json:
    """Reconnect to a server."""
    gateway.backend.servers.restart(name)
    return {"restarted": name}


@operation("GET /api/tools", NOTHING, {"agent": str, "tools": list[Json]})
async def list_tools(gateway: Gateway, agent: str | None = None) -> Json:
    """The tools of an agent."""
    id = (await gateway.backend.agent.settings(agent)).id
    specs = gateway.backend.tools(id)
    return {"agent": id, "tools": [{"label": spec.label, **spec.to_json()} for spec in specs]}


@operation("GET /api/prompts", NOTHING)
async def list_prompts(gateway: Gateway, agent: str | None = None) -> Json:
    """The prompts that a message with promptCalls may name."""
    id = (await gateway.backend.agent.settings(agent)).id
    return {"agent": id, "prompts": [asdict(one) for one in gateway.backend.servers.prompts(id)]}


async def server_rows(gateway: Gateway) -> list[Json]:
    await gateway.backend.servers.recheck_pins()  # 'mcp pins accept' is another process
    servers = gateway.backend.servers.status()
    now = gateway.clock.now_ms()
    return [server.row(now, gateway.redact) for server in servers]


def gauges(gateway: Gateway) -> list[Family]:
    found: list[Family] = [
        ("up", "1 while the gateway takes orders.", {(): gateway.opened is not None}),
        ("start_time_seconds", "When the gateway was started.", {(): gateway.started / 1000}),
        ("turns_running", "Turns that run now.", {(): len(gateway.turns.running)}),
        (
            "requests_limit",
            "Most requests at a time.",
            {(): gateway.settings.limits.max_concurrent},
        ),
    ]
    if gateway.answered is not None:
        waiting = {(): gateway.answered.waiting}
        found.append(("questions_waiting", "Questions that wait for an answer.", waiting))
    if gateway.opened is not None:
        servers = gateway.opened.servers.status()
        ready = {_server(one): one.snapshot.state.value == "ready" for one in servers}
        restarts = {_server(one): one.snapshot.restarts for one in servers}
        found += [
            ("mcp_server_up", "1 where the MCP server is ready.", ready),
            ("mcp_server_restarts", "Restarts since the server last ran well.", restarts),
        ]
    return found


def _server(one: "ServerStatus") -> Labels:
    return (("server", one.snapshot.name), ("agents", ",".join(one.agents)))


# ---- MCP servers that a front end adds for as long as its connection lasts
#
# Starting programs for a client goes beyond using the agent, so the configured token is not enough:
# it takes the token that only this account can read, on loopback.


@operation("POST /api/scopes", ACCOUNT, str, stream=True)
async def open_scope(gateway: Gateway, body: openapi.Scope) -> Any:
    """Start MCP servers for a front end until it closes the connection; only for this account."""
    backend = gateway.backend
    agent = (await backend.agent.settings(body.agent)).id
    given = body.servers.items()
    servers = {name: client_server(fields, f"servers.{name}") for name, fields in given}
    for config in servers.values():
        for value in server_credentials(config):
            backend.redactor.register(value)
    scope = secrets.token_hex(16)

    async def work(put: Put) -> None:
        gateway.scopes.add(scope)
        try:
            await backend.agent.add_servers(scope, agent, servers)
            put(sse_frame({"scope": scope}, "opened"))
            await backend.agent.refresh(agent, scope, wait=True)
            prompts = [asdict(one) for one in backend.agent.prompts(agent, scope)]
            put(sse_frame({"prompts": prompts}, "settled"))
            await gateway.all_events.closed.wait()
        finally:
            gateway.scopes.discard(scope)
            backend.agent.end_session(scope)

    return EventStream(work)


def check_scope(gateway: Gateway, scope: str | None) -> None:
    if scope is not None and scope not in gateway.scopes:
        raise NotFound("the connection that added these MCP servers is closed")


@operation("GET /api/models", NOTHING, {"agent": str, "models": list[str], "problem": str | None})
async def list_models(gateway: Gateway, agent: str | None = None, check: str | None = None) -> Json:
    """An agent's models in the order they are tried, and why the model `check` can't be used."""
    port = gateway.backend.agent
    id = (await port.settings(agent)).id
    problem = await port.model_problem(check) if check else None
    return {"agent": id, "models": list(await port.models(id)), "problem": problem}


@operation("POST /api/completions", NOTHING, {"values": list[str]}, needs="orders")
async def complete(gateway: Gateway, request: Request, body: openapi.BegunArgument) -> Json:
    """What a server suggests for an argument of a prompt or a resource template."""
    if body.scope is not None:
        require_owner(request, "servers that a client added")
    check_scope(gateway, body.scope)
    agent = gateway.backend.agent
    begun = PartialArgument(
        body.server, body.argument, body.value, body.prompt, body.template, body.given
    )
    settings = await agent.settings(body.agent)
    return {"values": list(await agent.complete(settings.id, begun, body.scope))}
