"""A suite's tools: in this process, or in an MCP server process behind the agent's own tool path."""

import base64
import json
import pickle
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime

from openclaw.agent.toolpath.toolbox import Toolbox
from openclaw.agent.transcript import UserItem
from openclaw.config.load import parse_config
from openclaw.config.merge import effective_agents
from openclaw.core.content import text_of
from openclaw.core.tools import Ask, CallContext
from openclaw.runtime.host import OpenServers, open_servers, tool_path_of
from openclaw.secrets.redactor import Redactor

_SERVER = str(Path(__file__).with_name("agentdojo_server.py"))


class InProcess:
    def __init__(self, suite) -> None:
        self._suite = suite
        self._runtime = FunctionsRuntime(suite.tools)
        self._environment = None

    def reset(self, user_task: str, injections: dict[str, str]):
        environment = self._suite.load_and_inject_default_environment(injections)
        self._environment = self._suite.user_tasks[user_task].init_environment(environment)
        return self._environment

    def run(self, call: FunctionCall) -> str:
        result, error = self._runtime.run_function(self._environment, call.function, call.args)
        return error or tool_result_to_str(result)


class Behind:
    """The suite's server, behind policy, data flow, approval, audit, framing and redaction."""

    def __init__(self, opened: OpenServers, agent) -> None:
        self._opened, self._agent = opened, agent
        self._session = 0

    async def reset(self, user_task: str, injections: dict[str, str]):
        await self._raw("_reset", {"user_task": user_task, "injections": injections})
        return await self.environment()

    async def environment(self):
        raw = await self._raw("_environment", {})
        return pickle.loads(base64.b64decode(raw["content"][0]["text"]))

    def conversation(self, prompt: str) -> "Conversation":
        self._session += 1
        tools = self._opened.manager.tools(self._agent.id)
        path = tool_path_of(
            self._opened.host, self._agent, [tools], session=f"session {self._session}"
        )
        path.recall([UserItem(prompt, seq=1)])
        return Conversation(path)

    async def _raw(self, name: str, arguments: dict[str, object]):
        (unit,) = self._opened.manager._units.values()
        return await unit.connection.call_tool(name, arguments)


class Conversation:
    def __init__(self, path: Toolbox) -> None:
        self._path = path
        self._names = {spec.origin.tool: spec.name for spec in path.specs()}
        self._calls = 0

    async def run(self, call: FunctionCall, ask: Ask | None) -> tuple[str, bool]:
        """What the model would be told, and whether the call was made."""
        self._calls += 1
        made = False

        async def begin() -> None:
            nonlocal made
            made = True

        context = CallContext("main", "s", f"c{self._calls}", ask=ask, begin=begin)
        result = await self._path.call(self._names[call.function], dict(call.args), context)
        return text_of(result.blocks), made


@asynccontextmanager
async def behind(suite, mode: str, home: Path) -> AsyncGenerator[Behind]:
    """The suite's server, started; `mode` is that of the data flow."""
    entry = {
        "command": sys.executable,
        "args": [_SERVER, suite.name],
        "inheritEnv": True,
        "timeout": 600_000,
    }
    config = {"mcp": {"servers": {suite.name: entry}}, "dataflow": {"mode": mode}}
    environ = {"OPENCLAW_STATE_DIR": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin"}
    loaded = parse_config(json.dumps(config), environ, source=home / "openclaw.json")
    agents = effective_agents(loaded.config)
    async with open_servers(loaded, environ, Redactor(), agents) as opened:
        (agent,) = agents.values()
        await opened.manager.wait_for_tools(agent.id, timeout=600, newcomer=600)
        yield Behind(opened, agent)
