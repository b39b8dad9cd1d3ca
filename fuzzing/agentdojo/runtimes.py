"""Runs a suite's tools in this process, or in an MCP server process of their own."""

import base64
import json
import pickle
import sys
from contextlib import ExitStack
from pathlib import Path

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import TypeAdapter

_ANY = TypeAdapter(object)
_SERVER = str(Path(__file__).with_name("agentdojo_server.py"))


class InProcess:
    def __init__(self, suite) -> None:
        self._suite = suite
        self._runtime = FunctionsRuntime(suite.tools)
        self.schemas = {tool.name: tool.parameters.model_json_schema() for tool in suite.tools}
        self._environment = None

    def reset(self, user_task: str, injections: dict[str, str]) -> None:
        environment = self._suite.load_and_inject_default_environment(injections)
        self._environment = self._suite.user_tasks[user_task].init_environment(environment)

    def run(self, call: FunctionCall) -> tuple[str, object]:
        result, error = self._runtime.run_function(self._environment, call.function, call.args)
        if error:
            return error, None
        return tool_result_to_str(result), json.loads(_ANY.dump_json(result, fallback=str))

    def environment(self):
        return self._environment.model_copy(deep=True)

    def close(self) -> None:
        self._environment = None


class OverMcp:
    """The same through the MCP SDK's client and a server process on stdio."""

    def __init__(self, suite) -> None:
        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal())
        parameters = StdioServerParameters(command=sys.executable, args=[_SERVER, suite.name])
        client = Client(stdio_client(parameters))
        self._client = self._stack.enter_context(self._portal.wrap_async_context_manager(client))
        listed = self._portal.call(self._client.list_tools)
        self.schemas = {tool.name: tool.input_schema for tool in listed.tools}

    def reset(self, user_task: str, injections: dict[str, str]) -> None:
        self._call("_reset", {"user_task": user_task, "injections": injections})

    def run(self, call: FunctionCall) -> tuple[str, object]:
        result = self._call(call.function, dict(call.args))
        return result.content[0].text if result.content else "", result.structured_content

    def environment(self):
        text = self._call("_environment", {}).content[0].text
        return pickle.loads(base64.b64decode(text))

    def close(self) -> None:
        self._stack.close()

    def _call(self, name: str, arguments: dict[str, object]):
        return self._portal.call(self._client.call_tool, name, arguments)
