"""An MCP server (stdio) with the tools of one AgentDojo suite: `python agentdojo_server.py SUITE`.

`_reset` and `_environment` are for the harness alone: they are not listed, and no decision sees them.
"""

import base64
import json
import pickle
import sys
import warnings

warnings.filterwarnings("ignore")

import anyio
import mcp_types as types
import yaml
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from pydantic import TypeAdapter

yaml.safe_load = lambda stream: yaml.load(stream, yaml.CSafeLoader)
_ANY = TypeAdapter(object)


class Suite:
    def __init__(self, name: str) -> None:
        self._suite = get_suites("v1.2.2")[name]
        self._runtime = FunctionsRuntime(self._suite.tools)
        self._environment = None
        self._loaded = None

    async def list_tools(self, context, params) -> types.ListToolsResult:
        tools = [
            types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.parameters.model_json_schema(),
            )
            for tool in self._suite.tools
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, context, params) -> types.CallToolResult:
        arguments = params.arguments or {}
        if params.name == "_reset":
            return self._reset(**arguments)
        if params.name == "_environment":
            return _text(base64.b64encode(pickle.dumps(self._environment)).decode())
        result, error = self._runtime.run_function(self._environment, params.name, arguments)
        if error:
            return types.CallToolResult(content=[types.TextContent(text=error)], is_error=True)
        plain = json.loads(_ANY.dump_json(result, fallback=str))
        structured = plain if isinstance(plain, dict) else {"result": plain}
        return types.CallToolResult(
            content=[types.TextContent(text=tool_result_to_str(result))],
            structured_content=structured,
        )

    def _reset(self, user_task: str, injections: dict[str, str]) -> types.CallToolResult:
        if self._loaded is None or self._loaded[0] != injections:
            self._loaded = injections, self._suite.load_and_inject_default_environment(injections)
        environment = self._loaded[1].model_copy(deep=True)
        self._environment = self._suite.user_tasks[user_task].init_environment(environment)
        return _text("ok")


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


async def main(name: str) -> None:
    suite = Suite(name)
    server = Server(name, on_list_tools=suite.list_tools, on_call_tool=suite.call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
