"""An agent's MCP tools as a tool source, with results as the servers gave them.

Policy, redaction and framing are the tool path's job (`agent.toolpath.toolbox`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from openclaw.core.tools import (
    PENDING,
    CallContext,
    JsonObject,
    ToolResult,
    ToolSpec,
    failed,
    json_parts,
)
from openclaw.mcp.jsonrpc import JsonObject as RawResult
from openclaw.mcp_client.bridge import results
from openclaw.mcp_client.catalog.schema_check import enforce_output_schema
from openclaw.mcp_client.catalog.server_tools import PreparedTool
from openclaw.mcp_client.errors import CallFailed, InvalidResult, StillWorking, Unavailable

if TYPE_CHECKING:
    from openclaw.mcp_client.lifecycle.managed_server import ManagedServer

_LARGE = 1_000_000  # characters from which a result is rendered in a thread
_MANY = 5_000  # values from which it is, too


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A tool that can be called now, its server, and how its results are shown."""

    spec: ToolSpec
    tool: PreparedTool
    server: "ManagedServer"
    how: results.Rendering


ToolView = Mapping[str, CallableTool]


class McpToolSource:
    def __init__(
        self, view: Callable[[], ToolView], traceparent: Callable[[str, str], str | None]
    ) -> None:
        self._view, self._traceparent = view, traceparent

    def specs(self) -> Sequence[ToolSpec]:
        return tuple(tool.spec for tool in self._view().values())

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        bound = self._view().get(name)
        if bound is None:
            return failed(f"There is no tool {name}.")
        how = bound.how
        answer = read_resource if bound.tool.ours else self._answer
        try:
            raw = await answer(bound, arguments, context)
        except CallFailed as error:
            if context.earlier is not None and isinstance(error, StillWorking | Unavailable):
                return failed(error.message, details={PENDING: True})
            return results.render_failure(error, how)
        render = results.render_resource if bound.tool.ours else results.render_result
        if is_large(raw):
            return await anyio.to_thread.run_sync(render, raw, how)
        return render(raw, how)

    async def _answer(
        self, bound: CallableTool, arguments: JsonObject, context: CallContext
    ) -> RawResult:
        def progress(done: float, total: float | None, message: str | None) -> None:
            how_far = f"{done:g}" if total is None else f"{done:g}/{total:g}"
            context.progress(f"{how_far} {message or ''}".rstrip())

        trace = self._traceparent(context.session, context.call_id)
        with bound.server.asking.on_behalf(context.elicit):
            raw = await bound.server.connection.call_tool(
                bound.tool.name,
                arguments,
                on_progress=progress,
                on_task=context.on_task,
                earlier=context.earlier,
                meta={"traceparent": trace} if trace is not None else None,
            )
        schema = bound.tool.output_schema
        return raw if schema is None else await enforce_output_schema(schema, raw)


async def read_resource(
    bound: CallableTool, arguments: JsonObject, context: CallContext
) -> RawResult:
    uri, declared = arguments.get("uri"), bound.server.prepared.tools
    whole = next((part.whole for part in declared if part.whole and part.uri == uri), None)
    if whole is not None:  # a tool's description that was cut
        return {"contents": [{"uri": uri, "text": whole}]}
    if not isinstance(uri, str) or not uri:
        raise InvalidResult("'uri' is missing: give the URI of a resource")
    return await bound.server.skill_file(uri)


def is_large(raw: RawResult) -> bool:
    """Whether rendering takes long enough to hold up others; stops looking once it is sure."""
    characters = nodes = 0
    pending: list[Any] = [raw]
    while pending:
        value = pending.pop()
        nodes += 1
        if type(value) is str:
            characters += len(value)
        pending.extend(json_parts(value))
        if characters > _LARGE or nodes + len(pending) > _MANY:
            return True
    return False
