"""What a running server offers, in the shapes that agents and operators look at."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openclaw.content import sanitise_label
from openclaw.mcp_client.catalog import PreparedTool
from openclaw.mcp_client.prompts import PromptArgument, PromptInfo
from openclaw.mcp_client.snapshot import Listing, ServerSnapshot

if TYPE_CHECKING:
    from openclaw.config.schema import McpServerConfig
    from openclaw.mcp_client.unit import ServerUnit

_DESCRIPTION = 1000


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server for a person to look at. `agents` use it; `sessions` brought it."""

    snapshot: ServerSnapshot
    agents: tuple[str, ...]
    sessions: tuple[str, ...]
    tools: int
    resources: int
    prompts: int
    left_out: tuple[str, ...] = ()


def status_of(unit: "ServerUnit") -> ServerStatus:
    """How that server is now."""
    return ServerStatus(
        snapshot=unit.connection.snapshot,
        agents=tuple(sorted({agent for agent, _ in unit.users})),
        sessions=tuple(sorted({session for _, session in unit.users if session})),
        tools=len(unit.prepared.tools),
        resources=len(unit.listing.resources),
        prompts=len(unit.listing.prompts),
        left_out=(*unit.listing.dropped, *unit.prepared.warnings),
    )


def prompt_infos(server: str, listing: Listing) -> tuple[PromptInfo, ...]:
    """The prompts of that server; descriptions are the server's words, cleaned."""
    return tuple(
        PromptInfo(
            server=server,
            name=prompt.name,
            description=sanitise_label(prompt.description or "", _DESCRIPTION),
            arguments=tuple(
                PromptArgument(
                    name=argument.name,
                    description=sanitise_label(argument.description or "", _DESCRIPTION),
                    required=bool(argument.required),
                )
                for argument in prompt.arguments or ()
            ),
        )
        for prompt in listing.prompts
    )


def usable_tools(unit: "ServerUnit", config: "McpServerConfig") -> tuple[PreparedTool, ...]:
    """The server's tools, without those whose declaration is suspicious where that blocks."""
    if unit.gone:
        return ()
    if config.on_suspicious != "block":
        return unit.prepared.tools
    suspicious = {seen.tool for seen in unit.prepared.suspicions}
    return tuple(tool for tool in unit.prepared.tools if tool.name not in suspicious)
