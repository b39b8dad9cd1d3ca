"""Show what is configured, what is running, and the state of each MCP server.

If a gateway is running, this shows its servers. Without one, --probe starts each server once to
check it.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_json
from openclaw.core.clock import SystemClock
from openclaw.core.errors import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_USAGE,
    InvalidConfig,
    OpenClawError,
    describe,
)
from openclaw.version import __version__

if TYPE_CHECKING:
    from openclaw.config.load import LoadedConfig
    from openclaw.gateway.lock import GatewayInfo

Json = dict[str, Any]

_TASKS = 100
_EVERY = 1.0  # seconds between two looks with --watch
_PROBE_MARGIN = 5.0  # seconds beyond the slowest server's own time to connect
NOT_RUNNING = "not running"


def register(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument("--probe", action="store_true", help="start each server once to check it")
    parser.add_argument(
        "--watch", action="store_true", help="update it live until you press Ctrl-C"
    )
    parser.add_argument("--local", action="store_true", help="ignore a running gateway's servers")


def run(args: argparse.Namespace, env: Environment) -> int:
    if args.watch:
        return _watch(args, env)
    facts = gather(env, probe=args.probe, local=args.local)
    if args.json:
        env.say_json(facts)
    else:
        from openclaw.cli.render.status import print_status

        print_status(env, facts)
    if not facts["config"]["valid"]:
        return EXIT_USAGE
    return EXIT_OK if healthy(facts) else EXIT_FAILED


def _watch(args: argparse.Namespace, env: Environment) -> int:
    """Live: a table that is drawn anew, or with --json a document a line for each change."""
    import json
    import time

    from openclaw.cli.render.status import live_status

    if not args.json:
        return live_status(env, lambda: gather(env, probe=False, local=args.local), _EVERY)
    before: Json | None = None
    while True:
        facts = gather(env, probe=False, local=args.local)
        if facts != before:
            env.say(json.dumps(facts, ensure_ascii=False))
            env.stdout.flush()
            before = facts
        time.sleep(_EVERY)


def healthy(facts: Mapping[str, Any]) -> bool:
    servers = all(
        row["state"] not in ("error", "failed", "needs_login") for row in facts["servers"]
    )
    return bool(facts["config"]["valid"]) and servers


def gather(env: Environment, *, probe: bool, local: bool = False) -> Json:
    from openclaw.gateway.lock import running_gateway

    path = env.config_file
    facts: Json = {
        "version": __version__,
        "config": {"path": str(path), "exists": path.exists(), "valid": True, "problems": []},
        "state": str(env.paths.root),
        "models": [],
        "gateway": {"running": False},
        "sessions": None,
        "servers": [],
        "gateways": None,
    }
    loaded: LoadedConfig | None = None
    try:
        loaded = env.load_config()
    except InvalidConfig as error:
        facts["config"] |= {"valid": False, "problems": [str(one) for one in error.problems]}
    info = None if local else running_gateway(env.paths.gateway_lock)
    if info is not None:
        facts["gateway"] = _gateway_facts(info)
    if loaded is not None:
        facts["models"] = _models(env)
    anyio.run(_look, env, facts, loaded, info, probe)
    return facts


def _gateway_facts(info: "GatewayInfo") -> Json:
    uptime = SystemClock().now_ms() - info.started if info.started else None
    return {
        "running": True,
        "pid": info.pid,
        "url": info.url or None,
        "startedAt": info.started or None,
        "uptimeMs": uptime,
        "version": info.version or None,
        "config": info.config or None,
    }


def _models(env: Environment) -> list[Json]:
    from openclaw.cli.commands.models import model_facts

    try:
        return model_facts(env)
    except OpenClawError as error:
        return [{"agent": None, "reason": describe(error), "models": []}]


async def _look(
    env: Environment,
    facts: Json,
    loaded: "LoadedConfig | None",
    info: "GatewayInfo | None",
    probe: bool,
) -> None:
    if loaded is not None:
        facts["sessions"] = await _sessions(env, loaded)
    if info is not None and info.url:
        try:
            facts["servers"] = await _from_gateway(env, facts, info)
        except OpenClawError as error:
            facts["gateway"]["error"] = describe(error)
        else:
            return
    if loaded is not None:
        facts["servers"] = await _probed(env, loaded) if probe else _configured(loaded)


async def _from_gateway(env: Environment, facts: Json, info: "GatewayInfo") -> list[Json]:
    from openclaw.runtime.gateway_client import GatewayClient

    status = await GatewayClient(info.url, env.paths.root).request("GET", "/api/status")
    facts["gateway"] |= {"turns": status["turns"], "reloadError": status["reloadError"]}
    facts["gateways"] = status.get("gateways")
    return status["servers"]


async def _sessions(env: Environment, loaded: "LoadedConfig") -> Json | None:
    from openclaw.cli.commands.sessions import opened
    from openclaw.sessions.tasks import current_tasks

    try:
        async with opened(loaded.config.sessions.store, env, loaded) as store:
            if store is None:
                return {"count": 0, "lastAt": None, "tasks": {}}
            count = await store.count_sessions()
            page = await store.list_sessions(limit=1)
            tasks = await current_tasks(store, SystemClock().now_ms(), _TASKS)
    except OpenClawError as error:
        return {"count": None, "lastAt": None, "error": describe(error)}
    last = page.sessions[0].updated_ms if page.sessions else None
    states = Counter(task.status for task in tasks if task.open)
    return {"count": count, "lastAt": last, "tasks": dict(states)}


def _row(name: str, agents: Sequence[str], transport: str, state: str) -> Json:
    unknown = (
        "tools resources prompts protocol serverName serverVersion pid since uptimeMs lastError"
    )
    row: Json = {"name": name, "agents": list(agents), "sessions": [], "transport": transport}
    row |= {"state": state, **dict.fromkeys(unknown.split()), "restarts": 0, "nextRetryIn": None}
    return row | {"leftOut": [], "pin": None, "crossings": [], "suspicions": []}


def _configured(loaded: "LoadedConfig") -> list[Json]:
    """What would run, where nothing does; agents that share an entry share a row."""
    from openclaw.config.merge import effective_agents

    found: dict[tuple[str, str], list[str]] = {}
    for agent in effective_agents(loaded.config).values():
        for name, server in agent.servers.items():
            transport = server.transport or ("stdio" if server.command else "http")
            found.setdefault((name, str(transport)), []).append(agent.id)
    return [_row(name, users, how, NOT_RUNNING) for (name, how), users in sorted(found.items())]


async def _probed(env: Environment, loaded: "LoadedConfig") -> list[Json]:
    """Start every server of every agent once, wait until it is clear how it is, and stop it."""
    from dataclasses import replace

    from openclaw.cli.logs import servers_logged
    from openclaw.config.merge import effective_agents
    from openclaw.gateway.api.views import server_row
    from openclaw.runtime.servers import open_servers

    once = {"lazy": False, "restart_on_crash": False}
    agents = {
        agent.id: replace(
            agent, servers={n: s.model_copy(update=once) for n, s in agent.servers.items()}
        )
        for agent in effective_agents(loaded.config).values()
    }
    servers = [server for agent in agents.values() for server in agent.servers.values()]
    seconds = max((one.timeout / 1000 for one in servers), default=0.0) + _PROBE_MARGIN
    with servers_logged(env):
        async with open_servers(loaded, env.environ, env.redactor, agents) as opened:
            manager = opened.manager
            async with anyio.create_task_group() as group:
                for agent in agents:
                    settle = partial(manager.settle, agent, timeout=seconds)
                    group.start_soon(settle, name=f"probe {agent}")
            return [server_row(one, SystemClock(), env.redactor.redact) for one in manager.status()]
