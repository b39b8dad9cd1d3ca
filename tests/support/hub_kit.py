"""The hub in the test's own process, before real MCP servers, with any number of clients."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from openclaw.agent.toolpath.search import ToolSearch
from openclaw.agent.toolpath.toolbox import ToolPathDeps, permitted
from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.paths import StatePaths
from openclaw.config.schema import HubConfig
from openclaw.core.clock import SystemClock
from openclaw.core.tools import ToolSource
from openclaw.mcp import names
from openclaw.mcp.revisions import Revision
from openclaw.mcp_client.lifecycle.manager import McpManager
from openclaw.mcp_client.session.elicitation import refuse_sampling
from openclaw.mcp_hub.service import HubBackend, HubService
from openclaw.mcp_server.stdio import Tell
from openclaw.policy.decide import Rules
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.open import open_store
from openclaw.sessions.store import SessionStore
from tests.support.mcp_server_kit import McpInstallation, open_gateway_runtime
from tests.support.plain_mcp_client import Json, PlainClient, stdio_client_of

ENVIRON = {"PATH": "/usr/bin:/bin"}
EVERYTHING: Json = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
QUESTION_MS = 3_600_000


@dataclass(frozen=True)
class Hub:
    service: HubService
    manager: McpManager
    redactor: Redactor
    installation: McpInstallation
    store: SessionStore
    settings: list[HubConfig] = field(default_factory=lambda: [HubConfig()])

    def client(
        self, revision: Revision, capabilities: Json | None = None, **options: Any
    ) -> AbstractAsyncContextManager[PlainClient]:
        """A client over pipes; `answers` says what it replies to the hub's requests."""

        async def prepare(tell: Tell) -> None:
            await self.service.watch(tell)

        declared = EVERYTHING if capabilities is None else capabilities
        return stdio_client_of(self.service, revision, prepare, capabilities=declared, **options)


@asynccontextmanager
async def open_hub(
    root: Path,
    servers: Mapping[str, McpServerConfig],
    policy: Sequence[Rules] = (),
    **deps: Any,
) -> AsyncGenerator[Hub]:
    deps = {"on_sampling": refuse_sampling, **deps}
    async with (
        open_gateway_runtime(root, servers, environ=ENVIRON, **deps) as installation,
        open_store("file", StatePaths(root).prepare()) as store,
        anyio.create_task_group() as tasks,
    ):
        clock, settings = SystemClock(), [HubConfig()]
        path = ToolPathDeps(installation.redactor, clock, installation.log)

        def allowed(source: ToolSource, agent: str) -> ToolSource:
            return permitted(source, list(policy), path)

        async def the_store() -> SessionStore:
            return store

        async def refresh() -> None:
            pass

        backend = HubBackend(
            manager=installation.manager,
            agent=lambda wanted: wanted or "main",
            settings=lambda: settings[0],
            rules=lambda: policy,
            permitted=allowed,
            store=the_store,
            question_ms=lambda: QUESTION_MS,
            redactor=installation.redactor,
            clock=clock,
            finder=ToolSearch(),
            refresh=refresh,
        )
        service = HubService(backend, tasks)
        yield Hub(
            service,
            installation.manager,
            installation.redactor,
            installation,
            store,
            settings,
        )
        tasks.cancel_scope.cancel()


def said(result: Json) -> str:
    return "".join(block.get("text", "") for block in result["content"])


async def tool_names(client: PlainClient) -> list[str]:
    return [tool["name"] for tool in (await client.request(names.TOOLS_LIST))["tools"]]
