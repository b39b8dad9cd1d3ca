"""Which native tools an agent has."""

import logging
import re
from collections.abc import Collection, Iterable, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, cast

from openclaw.agent.tools.base import NativeTool, NativeTools, PluginContext, plugins
from openclaw.agent.tools.checkpoints import Checkpoints
from openclaw.agent.tools.exec import Shells, shell_tools
from openclaw.agent.tools.files import FileTools
from openclaw.agent.tools.memory import session_tools
from openclaw.agent.tools.planning import planning_tool
from openclaw.agent.tools.web import fetch_page, web_tool
from openclaw.agent.tools.workspace import Workspace
from openclaw.config.agent_schema import ExecToolConfig
from openclaw.config.schema import WebFetchConfig
from openclaw.core.events import WEB_SEARCH
from openclaw.core.file_names import OwnDirectory
from openclaw.core.tools import ToolSpec
from openclaw.sessions.store import SessionStore

logger = logging.getLogger(__name__)

# An entry point names a function that takes a `PluginContext` and returns `NativeTool`s.
GROUP = "openclaw.tools"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def plugin_tools(context: PluginContext, taken: Collection[str]) -> list[NativeTool]:
    """The tools of every plugin that works; `taken` names are refused."""
    tools: list[NativeTool] = []
    names = {name.casefold() for name in taken}
    for point in plugins(GROUP):
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
        why = f"{type(error).__name__}: {error}"
        logger.warning("plugin '%s' (%s) could not be loaded: %s", point.name, point.value, why)
        return ()


def _refusal(tool: NativeTool, taken: Collection[str]) -> str | None:
    spec: Any = getattr(cast(Any, tool), "spec", None)
    if not isinstance(spec, ToolSpec) or not callable(getattr(tool, "call", None)):
        return "it has no spec of the type ToolSpec and no call"
    if not _NAME.fullmatch(spec.name):
        return f"its name {spec.name!r} must be at most 64 letters, digits, _ and -"
    if spec.name.casefold().startswith("mcp_"):
        return "names that start with mcp_ are for MCP servers"
    if spec.name.casefold() in taken:
        return f"there is already a tool '{spec.name}'"
    return None


def native_tools(
    agent: str,
    workspace: Path,
    *,
    shells: Shells | None = None,
    shell: ExecToolConfig | None = None,
    store: SessionStore | None = None,
    fetch: WebFetchConfig | None = None,
    plugins: bool = True,
    results: OwnDirectory | None = None,
    checkpoints: Checkpoints | None = None,
    more: Sequence[NativeTool] = (),
    readable_sessions: Sequence[str] = (),
    private: Sequence[Path] = (),
) -> NativeTools:
    """The tools of an agent that works in `workspace`; policy still decides on each.

    `results` is where the full text of cut results is stored. No file tool touches `private` paths.
    """
    place = Workspace(workspace.absolute(), private)
    tools: list[NativeTool] = [*FileTools(place, results, checkpoints).tools()]
    if shells is not None:
        tools += shell_tools(shells, place.root, shell or ExecToolConfig())
    fetch = fetch or WebFetchConfig()
    if fetch.enabled:
        tools.append(web_tool(fetch_page, fetch))
    tools.append(planning_tool())
    if store is not None:
        tools += session_tools(store, readable_sessions)
    tools += more
    if plugins:
        # Even if `exec` is off, a plugin must not take its name.
        taken = {tool.spec.name for tool in tools} | {"exec", "jobs", "tool_search", WEB_SEARCH}
        tools += plugin_tools(PluginContext(agent, place.root), taken)
    return NativeTools(tools)
