"""Which native tools an agent has."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from openclaw.agent.tools.base import NativeTool, NativeTools
from openclaw.agent.tools.fetcher import GuardedFetcher
from openclaw.agent.tools.kept import KeptResults
from openclaw.agent.tools.listing import listing_tools
from openclaw.agent.tools.planning import planning_tool
from openclaw.agent.tools.plugins import PluginContext, plugin_tools
from openclaw.agent.tools.reading import reading_tools
from openclaw.agent.tools.sessions import session_tools
from openclaw.agent.tools.shell import allowed_by_name, shell_tool
from openclaw.agent.tools.web import Fetcher, web_tool
from openclaw.agent.tools.workspace import Workspace
from openclaw.agent.tools.writing import writing_tools
from openclaw.sessions.store import SessionStore


def native_tools(
    agent: str,
    workspace: Path,
    *,
    environ: Mapping[str, str],
    allow_rules: Iterable[str] = (),
    store: SessionStore | None = None,
    fetcher: Fetcher | None = None,
    plugins: bool = True,
    results: Path | None = None,
) -> NativeTools:
    """The tools of an agent that works in `workspace`.

    `allow_rules` are the allow globs of all layers: `exec` is there only where one names it. Tools
    that look into the store are there where one is given. Policy still decides on each. `results` is
    where results are kept that were cut, which the tools read as well.
    """
    place = Workspace(workspace.absolute())
    kept = KeptResults(results)
    tools: list[NativeTool] = [
        *reading_tools(place, kept),
        *writing_tools(place),
        *listing_tools(place, kept),
    ]
    if allowed_by_name(allow_rules):
        tools.append(shell_tool(place.root, environ))
    tools.append(web_tool(fetcher or GuardedFetcher()))
    tools.append(planning_tool())
    if store is not None:
        tools += session_tools(store)
    if plugins:
        # `exec` stays ours also where it is off: a plugin must not take its name.
        taken = {tool.spec.name for tool in tools} | {"exec", "tool_search"}
        tools += plugin_tools(PluginContext(agent, place.root), taken)
    return NativeTools(tools)
