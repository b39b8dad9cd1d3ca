"""Tools that other distributions bring, by the entry point group `openclaw.tools`.

An entry point names a function that takes a `PluginContext` and returns tools, each with a `spec`
and an async `call` as `NativeTool` says:

    [project.entry-points."openclaw.tools"]
    weather = "my_package:tools"

A plugin that cannot be loaded, or a tool that is not one, costs a warning and nothing else. Plugins
run with the program's own rights: install only what you trust as much as the program.
"""

import logging
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, cast

from openclaw.agent.tools.base import NativeTool
from openclaw.core.tools import ToolSpec

logger = logging.getLogger(__name__)

GROUP = "openclaw.tools"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_MCP_PREFIX = "mcp_"


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What a plugin is told when its tools are asked for."""

    agent: str
    workspace: Path


def plugin_tools(context: PluginContext, taken: Collection[str]) -> list[NativeTool]:
    """The tools of every plugin that works; `taken` names are refused."""
    tools: list[NativeTool] = []
    names = {name.casefold() for name in taken}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        for tool in _load(point, context):
            reason = _refusal(tool, names)
            if reason is not None:
                logger.warning("a tool of plugin '%s' is left out: %s", point.name, reason)
                continue
            names.add(tool.spec.name.casefold())
            tools.append(tool)
    return tools


def _load(point: EntryPoint, context: PluginContext) -> Sequence[NativeTool]:
    try:
        made: Iterable[NativeTool] = point.load()(context)
        return list(made)
    except Exception as error:  # noqa: BLE001 - a broken plugin must not cost the others
        logger.warning(
            "plugin '%s' (%s) could not be loaded: %s: %s",
            point.name,
            point.value,
            type(error).__name__,
            error,
        )
        return ()


def _refusal(tool: NativeTool, taken: Collection[str]) -> str | None:
    """Why this is no tool that can be offered; None where it can."""
    spec: Any = getattr(cast(Any, tool), "spec", None)
    if not isinstance(spec, ToolSpec) or not callable(getattr(tool, "call", None)):
        return "it has no spec of the type ToolSpec and no call"
    if not _NAME.fullmatch(spec.name):
        return f"its name {spec.name!r} is not made of at most 64 letters, digits, _ and -"
    if spec.name.casefold().startswith(_MCP_PREFIX):
        return f"names that begin with {_MCP_PREFIX} belong to MCP servers"
    if spec.name.casefold() in taken:
        return f"there is already a tool '{spec.name}'"
    return None
