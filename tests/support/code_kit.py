"""Tools for scripts under test, and a record of every call that reached them."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from openclaw.agent.toolpath.run_code import Script, ScriptRunner
from openclaw.core.content import Text
from openclaw.core.tools import JsonObject, Origin, ToolResult, ToolSpec, failed

Answer = Callable[[JsonObject], Awaitable[ToolResult]]


def spec(name: str, *required: str, server: str | None = None, **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(name, f"Does {name}.", schema, name, Origin(server, name if server else None))


def says(value: object, **details: Any) -> ToolResult:
    text = value if isinstance(value, str) else json.dumps(value)
    return ToolResult((Text(text),), details=details)


async def echo(arguments: JsonObject) -> ToolResult:
    return says(dict(arguments))


async def deny(arguments: JsonObject) -> ToolResult:
    return failed("Not allowed by the policy.")


async def big(arguments: JsonObject) -> ToolResult:
    return says([{"n": number, "text": "x" * 40} for number in range(2_000)])


class Tools:
    """The tool path of a test. `made` lists the calls in the order in which they arrived."""

    def __init__(self, **answers: Answer) -> None:
        self.answers: Mapping[str, Answer] = answers or {"echo": echo, "deny": deny, "big": big}
        self.specs = [spec(name, text={"type": "string"}) for name in self.answers]
        self.made: list[tuple[str, JsonObject]] = []

    async def call(self, name: str, arguments: JsonObject) -> ToolResult:
        self.made.append((name, arguments))
        return await self.answers[name](arguments)

    async def run(self, source: str, runner: ScriptRunner | None = None) -> Script:
        return await (runner or ScriptRunner()).run(source, self.specs, self.call)
