"""Native tools, and the tool source that offers them."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol

import anyio.to_thread

from openclaw.core.content import Text
from openclaw.core.errors import OpenClawError, ToolFailure, describe
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSpec, Untrusted, failed

logger = logging.getLogger(__name__)


class NativeTool(Protocol):
    """A tool. `call` may raise `ToolFailure` with a message that tells the model what to do instead."""

    @property
    def spec(self) -> ToolSpec: ...

    async def call(self, arguments: JsonObject, context: CallContext) -> ToolResult: ...


@dataclass(frozen=True, slots=True)
class PluginContext:
    """The agent that a plugin's tools are for."""

    agent: str
    workspace: Path


Run = Callable[["Arguments", CallContext], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class FunctionTool:
    spec: ToolSpec
    run: Run

    async def call(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        return await self.run(Arguments(arguments), context)


def in_thread(run: Callable[["Arguments", CallContext], ToolResult]) -> Run:
    async def called(arguments: "Arguments", context: CallContext) -> ToolResult:
        return await anyio.to_thread.run_sync(run, arguments, context)

    return called


@dataclass(frozen=True, slots=True)
class Arguments:
    """A model's arguments, which may be anything: each method checks the type."""

    all: JsonObject

    def text(self, name: str, default: str | None = None) -> str:
        value = self.all.get(name, default)
        if not isinstance(value, str):
            raise ToolFailure(f"Give `{name}` as a string.")
        return value

    def whole(self, name: str, default: int, *, least: int, most: int) -> int:
        value: Any = self.all.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise ToolFailure(f"Give `{name}` as a whole number.")
        return int(min(max(value, least), most))

    def flag(self, name: str) -> bool:
        value = self.all.get(name, False)
        if not isinstance(value, bool):
            raise ToolFailure(f"Give `{name}` as true or false.")
        return value


class NativeTools:
    """Our own tools as a `ToolSource`; exceptions become results."""

    def __init__(self, tools: Iterable[NativeTool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._specs = tuple(tool.spec for tool in self._tools.values())

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        try:
            return await self._tools[name].call(arguments, context)
        except OpenClawError as error:
            return failed(describe(error))
        except OSError as error:
            return failed(f"OS error: {error.strerror or error}.")
        except Exception:
            logger.exception("tool %s failed", name)
            return failed(f"The tool '{name}' failed because of a bug in it; do without it.")


def said(text: str, *, addressed: bool = False) -> ToolResult:
    block = Text(text, addressed=addressed)
    return ToolResult(blocks=(block,), outputs=(block,))


def quoted(text: str, source: str, sender: str, *, note: str = "", **more: Any) -> ToolResult:
    """A result in somebody else's words, which the tool path frames; `note` comes after the frame."""
    block = Text(text)
    whose = Untrusted(source, sender, note=note)
    return ToolResult(blocks=(block,), outputs=(block,), untrusted=whose, **more)


WHOLE: JsonObject = {"type": "integer"}
FLAG: JsonObject = {"type": "boolean"}


def schema(required: Sequence[str], **properties: JsonObject | str) -> JsonObject:
    """A short schema, since every request contains it. A str is the description of a string."""
    known: JsonObject = {}
    for name, one in properties.items():
        text = {"type": "string", "description": one} if one else {"type": "string"}
        known[name] = text if isinstance(one, str) else one
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": known, **needed}


def spec(
    name: str,
    description: str,
    /,
    needs: str = "",
    *,
    label: str = "",
    changes: bool = False,
    destroys: bool = False,
    in_order: bool = False,
    **properties: JsonObject | str,
) -> ToolSpec:
    """A tool of ours; `needs` names the required properties."""
    return ToolSpec(
        name,
        description,
        schema(needs.split(), **properties),
        label or name.capitalize(),
        read_only=not (changes or destroys),
        destructive=destroys,
        in_order=in_order,
    )


@cache
def plugins(group: str) -> list[EntryPoint]:
    """Those that were installed when the process started."""
    return sorted(entry_points(group=group), key=lambda point: point.name)
