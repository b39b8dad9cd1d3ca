"""What there is: agents, sessions, servers, tools. Read-only, except for restart and delete."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from openclaw.agent.event_codec import settings_json
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.ids import random_id
from openclaw.gateway.api.schema import (
    Agent,
    Entry,
    ForkPoint,
    Json,
    Server,
    Session,
    SessionTitle,
    Spent,
    Task,
    TaskDetails,
    Tool,
    UsageRow,
    operation,
)
from openclaw.gateway.auth import grant_of
from openclaw.gateway.metrics import Labels
from openclaw.gateway.state import Gateway
from openclaw.sessions import tasks as records
from openclaw.sessions.model import SessionInfo, header_json
from openclaw.sessions.usage import KEPT_DAYS, UsageLedger, row_json, spent_json, total
from openclaw.version import __version__

if TYPE_CHECKING:
    from openclaw.core.clock import Clock
    from openclaw.mcp_client.lifecycle.managed_server import ServerStatus

_MOST = 500


@operation("status", "the gateway and its servers")
async def status(gateway: Gateway, request: Request) -> Json:
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
        "lastSessionAt": page.sessions[0].updated_ms if page.sessions else None,
        "servers": await server_rows(gateway),
        "scopes": sorted(grant.scopes) if grant is not None else [],
        "gateways": await cluster.gateways() if cluster is not None else None,
    }


@operation("listAgents", "the agents", {"agents": list[Agent]})
async def agents(gateway: Gateway, request: Request) -> Json:
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


@operation(
    "listSessions",
    "sessions, the most recently used first",
    {"sessions": list[Session], "cursor": str | None},
    query={"agent": str, "limit": int, "cursor": str, "search": str},
)
async def sessions(gateway: Gateway, request: Request) -> Json:
    query = request.query_params
    page = await gateway.backend.store.list_sessions(
        query.get("agent"),
        limit=_count(query.get("limit"), 50),
        cursor=query.get("cursor"),
        search=query.get("search"),
    )
    rows = [header_json(info) for info in page.sessions]
    return {"sessions": rows, "cursor": page.cursor}


@operation(
    "showSession",
    "a session and its entries",
    {"session": Session, "entries": list[Entry]},
    query={"agent": str, "limit": int, "after": int},
)
async def session(gateway: Gateway, request: Request) -> Json:
    info = await found_session(gateway, request)
    limit = _count(request.query_params.get("limit"), 100)
    after = request.query_params.get("after")
    first = _count(after, 0, most=1 << 53) if after else max(0, info.entries - limit)
    entries = await gateway.backend.store.entries(info.ref, after=first, limit=limit)
    return {
        "session": header_json(info),
        "entries": [entry.to_json() for entry in entries],
    }


@operation(
    "renameSession", "give a session a title, or none", body=SessionTitle, query={"agent": str}
)
async def rename_session(gateway: Gateway, request: Request, body: SessionTitle) -> Json:
    info = await found_session(gateway, request)
    await gateway.backend.store.set_title(info.ref, body.title)
    return {"title": body.title}


@operation(
    "forkSession",
    "copy a session as it was before a turn",
    {"sessionKey": str, "agent": str},
    body=ForkPoint,
    query={"agent": str},
)
async def fork_session(gateway: Gateway, request: Request, body: ForkPoint) -> Json:
    from openclaw.sessions.copying import fork

    info = await found_session(gateway, request)
    store, now = gateway.backend.store, gateway.clock.now_ms()
    made = await fork(store, info, f"page-{random_id()}", body.before, now)
    return {"sessionKey": made.key, "agent": made.agent}


@operation("deleteSession", "remove a session for good", query={"agent": str})
async def delete_session(gateway: Gateway, request: Request) -> Json:
    info = await found_session(gateway, request)
    await records.delete_session(gateway.backend.store, info, gateway.clock.now_ms())
    return {"deleted": {"id": info.id, "agent": info.agent, "key": info.key}}


@operation(
    "listTasks",
    "tasks, the most recently changed first",
    {"tasks": list[Task]},
    query={"limit": int},
)
async def tasks(gateway: Gateway, request: Request) -> Json:
    limit = _count(request.query_params.get("limit"), 50)
    found = await records.current_tasks(gateway.backend.store, gateway.clock.now_ms(), limit)
    rows = [records.task_json(one, whole=False) for one in found]
    return {"tasks": rows}


@operation("showTask", "a task with its questions and its result or error", TaskDetails)
async def task(gateway: Gateway, request: Request) -> Json:
    return records.task_json(await _task(gateway, request))


@operation("cancelTask", "stop a task, wherever it is running", {"cancelled": bool})
async def cancel_task(gateway: Gateway, request: Request) -> Json:
    found = await _task(gateway, request)
    if found.open:
        await records.tell_task(gateway.backend.store, found, cancel=True)
    return {"cancelled": found.open}


async def _task(gateway: Gateway, request: Request) -> records.Task:
    id = request.path_params["id"]
    now = gateway.clock.now_ms()
    found = await records.current_tasks(gateway.backend.store, now, 1, [id])
    if not found:
        raise NotFound(f"there is no task '{id}'")
    return found[0]


async def found_session(gateway: Gateway, request: Request) -> SessionInfo:
    key = request.path_params["key"]
    agent = request.query_params.get("agent")
    found = await gateway.backend.store.find_sessions(key, agent)
    if not found:
        raise NotFound(f"there is no session '{key}'")
    if len(found) > 1:
        names = ", ".join(info.agent for info in found)
        raise InvalidRequest(f"several agents have a session '{key}': {names}", field="agent")
    return found[0]


def _count(text: str | None, default: int, *, most: int = _MOST) -> int:
    if text is None:
        return default
    if not text.isdecimal() or not text.isascii():
        raise InvalidRequest(f"{text!r} is not a number")
    return min(int(text), most)


@operation(
    "usage",
    "model usage and cost by day, session and model, today first",
    {"today": str, "timezone": str, "rows": list[UsageRow], "total": Spent},
    query={"days": int, "agent": str, "session": str},
)
async def usage(gateway: Gateway, request: Request) -> Json:
    query = request.query_params
    settings = await gateway.backend.agent.settings(query.get("agent"))
    ledger = UsageLedger(gateway.backend.store, gateway.clock, settings.timezone)
    days = ledger.days(max(1, _count(query.get("days"), 30, most=KEPT_DAYS)))
    rows = [
        row
        for row in await ledger.rows(days)
        if query.get("agent") in (None, row.agent) and query.get("session") in (None, row.session)
    ]
    return {
        "today": days[0],
        "timezone": settings.timezone,
        "rows": [row_json(row) for row in rows],
        "total": spent_json(total(rows)),
    }


@operation("listServers", "MCP servers", {"servers": list[Server]})
async def servers(gateway: Gateway, request: Request) -> Json:
    return {"servers": await server_rows(gateway)}


@operation("restartServer", "reconnect to a server")
async def restart_server(gateway: Gateway, request: Request) -> Json:
    name = request.path_params["name"]
    gateway.backend.servers.restart(name)
    return {"restarted": name}


@operation(
    "listTools",
    "the MCP tools of an agent",
    {"agent": str, "tools": list[Tool]},
    query={"agent": str},
)
async def tools(gateway: Gateway, request: Request) -> Json:
    agent = await gateway.backend.agent.settings(request.query_params.get("agent"))
    specs = gateway.backend.tools(agent.id)
    rows = [{"label": spec.label, **spec.to_json()} for spec in specs if spec.origin.server]
    return {"agent": agent.id, "tools": rows}


@operation(
    "listPrompts", "the prompts that a message with promptCalls may name", query={"agent": str}
)
async def prompts(gateway: Gateway, request: Request) -> Json:
    agent = await gateway.backend.agent.settings(request.query_params.get("agent"))
    rows = [asdict(one) for one in gateway.backend.servers.prompts(agent.id)]
    return {"agent": agent.id, "prompts": rows}


async def server_rows(gateway: Gateway) -> list[Json]:
    await gateway.backend.servers.recheck_pins()  # 'mcp pins accept' is another process
    return [
        server_row(one, gateway.clock, gateway.redact) for one in gateway.backend.servers.status()
    ]


def server_row(one: "ServerStatus", clock: "Clock", redact: Any) -> Json:
    snapshot = one.snapshot
    ready = snapshot.state.value == "ready"
    return {
        **one.to_json(),
        "agents": list(one.agents),
        "sessions": list(one.sessions),
        "pid": snapshot.pid,
        "since": snapshot.since,
        "uptimeMs": clock.now_ms() - snapshot.since if ready else None,
        "restarts": snapshot.restarts,
        "lastError": redact(snapshot.last_error) if snapshot.last_error else None,
        "nextRetryIn": snapshot.next_retry_in,
    }


def gauges(gateway: Gateway) -> Iterable[tuple[str, str, Mapping[Labels, float]]]:
    up, running = gateway.opened is not None, len(gateway.turns.running)
    yield "openclaw_up", "1 while the gateway takes orders.", {(): float(up)}
    started = gateway.started / 1000
    yield "openclaw_start_time_seconds", "When the gateway was started.", {(): started}
    yield "openclaw_turns_running", "Turns that run now.", {(): float(running)}
    if gateway.opened is None:
        return
    servers = gateway.opened.servers.status()
    ready = {_server(one): float(one.snapshot.state.value == "ready") for one in servers}
    yield "openclaw_mcp_server_up", "1 where the MCP server is ready.", ready
    restarts = {_server(one): float(one.snapshot.restarts) for one in servers}
    told = "Restarts since the server last ran well."
    yield "openclaw_mcp_server_restarts", told, restarts


def _server(one: "ServerStatus") -> Labels:
    return (("server", one.snapshot.name), ("agents", ",".join(one.agents)))
