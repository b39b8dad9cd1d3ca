"""A manager with real MCP servers behind it, and everything that it told anyone."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from openclaw.agent.redaction import clean_result
from openclaw.agent.toolpath.audit import CallRecord
from openclaw.agent.toolpath.toolbox import Toolbox, ToolPathDeps, tool_path
from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.schema import Config
from openclaw.core.clock import SystemClock
from openclaw.core.content import text_of
from openclaw.core.events import Event
from openclaw.core.file_names import OwnDirectory
from openclaw.core.tools import CallContext, ToolResult, ToolSource
from openclaw.mcp_client.catalog.pin_store import PinStore
from openclaw.mcp_client.lifecycle.manager import AgentServers, ManagerDeps, McpManager
from openclaw.mcp_client.session.connect import ConnectionDeps
from openclaw.mcp_client.transport.orphan_reaper import OrphanReaper
from openclaw.policy.decide import Policy, Rules
from openclaw.runtime.open_secrets import open_secrets
from openclaw.secrets.redactor import Redactor
from tests.support.call_records import CallRecords
from tests.support.fake_server import server_entry


async def until(holds: Callable[[], bool], seconds: float = 90) -> None:
    """Wait until that holds, for what has no event of its own; fails after so many seconds."""
    with anyio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - what is watched may be in another process
            await anyio.sleep(0.01)


def fake_tool(name: str, **does: Any) -> dict[str, Any]:
    """A tool of a fake server, and what it does."""
    return {"name": name, "inputSchema": {"type": "object"}, "does": does}


def fake_config(spec: Mapping[str, Any] | None = None, **settings: Any) -> McpServerConfig:
    """The configuration of a fake server; without a description it has one tool, `echo`."""
    described = {"tools": [fake_tool("echo")]} if spec is None else spec
    return McpServerConfig.model_validate(server_entry(described, **settings))


@dataclass(frozen=True)
class McpInstallation:
    """What a test sees of a running manager; starting it took `start_seconds` of CPU time."""

    manager: McpManager
    events: list[Event]
    log: CallRecords
    redactor: Redactor
    results: Path
    start_seconds: float
    policy: Policy

    @property
    def records(self) -> list[CallRecord]:
        """The calls that have ended."""
        return self.log.ended

    async def call(
        self, name: str, agent: str = "main", session: str = "s", **arguments: Any
    ) -> ToolResult:
        """The result of calling that tool."""
        context = CallContext(agent, session, "c1", emit=self.events.append)
        return await self.tools(agent, session).call(name, arguments, context)

    async def said(
        self, name: str, agent: str = "main", session: str = "s", **arguments: Any
    ) -> str:
        """What the model reads of that result."""
        return text_of((await self.call(name, agent, session, **arguments)).blocks)

    def names(self, agent: str = "main", session: str | None = None) -> list[str]:
        """The tools that the agent sees."""
        return [spec.name for spec in self.tools(agent, session).specs()]

    def tools(
        self, agent: str = "main", session: str | None = None, *, own: ToolSource | None = None
    ) -> Toolbox:
        """The agent's MCP tools, after its `own`, at the end of the whole tool path."""
        deps = ToolPathDeps(self.redactor, SystemClock(), self.log, OwnDirectory(self.results))
        sources = [self.manager.tools(agent, session)]
        return tool_path([own, *sources] if own else sources, self.policy, deps)


@asynccontextmanager
async def open_gateway_runtime(
    root: Path,
    servers: Mapping[str, McpServerConfig] | None = None,
    *,
    environ: Mapping[str, str],
    agents: Mapping[str, AgentServers] | None = None,
    settle: bool = True,
    policy: Sequence[Rules] = (),
    traceparent: str | None = None,
    pins: PinStore | None = None,
    **deps: Any,
) -> AsyncGenerator[McpInstallation]:
    """A started manager for the agent `main` with these servers, or for these agents.

    `deps` replace parts of what its connections get. State is kept under `root`.
    """
    events: list[Event] = []
    log = CallRecords()
    redactor = Redactor()
    reaper = OrphanReaper()
    connection = ConnectionDeps(
        resolve_secrets=open_secrets(Config(), environ, redactor).resolve_map,
        environ=environ,
        reaper=reaper,
        redactor=redactor,
        cache=root / "cache",
        emit=events.append,
    )
    results = root / "results"
    known = agents or {"main": AgentServers(servers or {})}
    made = ManagerDeps(
        replace(connection, **deps),
        pins=pins,
        clean=partial(clean_result, redactor=redactor),
        traceparent=lambda session, call_id: traceparent,
    )
    layers = policy
    try:
        async with McpManager(known, made) as manager:
            began = time.thread_time()
            manager.start()
            start_seconds = time.thread_time() - began
            if settle:
                for agent in known:
                    await manager.wait_for_tools(agent)
            yield McpInstallation(manager, events, log, redactor, results, start_seconds, layers)
    finally:
        await reaper.aclose()
