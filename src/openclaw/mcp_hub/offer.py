"""What the hub offers, and its own tools. Imported before the handshake."""

from typing import Any

from openclaw.mcp.server_events import Offer
from openclaw.version import __version__

SEARCH_TOOLS, DESCRIBE_TOOL, CALL_TOOL = "search_tools", "describe_tool", "call_tool"

_INSTRUCTIONS = (
    "Tools, resources and prompts of the MCP servers that the user configured in OpenClaw. If "
    f"{SEARCH_TOOLS} is listed, there are more tools than the list shows: search before you "
    "conclude that something cannot be done."
)

OFFER = Offer(
    "openclaw-hub",
    __version__,
    {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True},
        "prompts": {"listChanged": True},
        "completions": {},
    },
    _INSTRUCTIONS,
)


def _tool(
    name: str, description: str, required: str, properties: dict[str, Any], **more: Any
) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [required]}
    return {"name": name, "description": description, "inputSchema": schema, **more}


_NAME = {"type": "string", "description": "The tool's name, as the search gave it."}
_READS = {"readOnlyHint": True}

SEARCHING: tuple[dict[str, Any], ...] = (
    _tool(
        SEARCH_TOOLS,
        "Find tools of the user's MCP servers by what they do. The tools that are found are "
        f"listed from then on; {CALL_TOOL} calls them even if your list does not change.",
        "query",
        {
            "query": {"type": "string", "description": "What the tool should do, in a few words."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 5},
        },
        annotations=_READS,
    ),
    _tool(
        DESCRIBE_TOOL,
        "A tool's whole declaration: its description and the schema of its arguments.",
        "name",
        {"name": _NAME},
        annotations=_READS,
    ),
    _tool(
        CALL_TOOL,
        f"Call a tool that {SEARCH_TOOLS} found. The result is the tool's own.",
        "name",
        {
            "name": _NAME,
            "arguments": {"type": "object", "description": "The tool's arguments."},
        },
    ),
)
