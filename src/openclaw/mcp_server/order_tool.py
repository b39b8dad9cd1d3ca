"""The one tool, what the server offers with it, and who its client is. Imported before the handshake."""

from collections.abc import Callable
from typing import Any, NamedTuple

from openclaw.mcp.names import TASKS_EXTENSION, TOOLS_LIST
from openclaw.mcp.server_events import Offer
from openclaw.version import __version__


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _order_tool(program: str, description: str, **attachments: Any) -> dict[str, Any]:
    properties = {
        "message": _text(f"The message to send to {program}"),
        "sessionKey": _text("Optional session key for conversation continuity"),
        **attachments,
    }
    return {
        "name": f"order_{program.lower()}",
        "description": f"Send a message to {program} and receive a response. {description}",
        "inputSchema": {"type": "object", "properties": properties, "required": ["message"]},
    }


def _attachments(kind: str, most: int, example: str) -> dict[str, Any]:
    properties = {
        "data": _text(f"Base64-encoded {kind} data"),
        "mimeType": _text(f"MIME type (e.g., '{example}')"),
        "filename": _text("Optional filename"),
    }
    items = {"type": "object", "properties": properties, "required": ["data", "mimeType"]}
    description = f"Optional base64-encoded {kind}s (max {most}, 15MB each)"
    return {"type": "array", "description": description, "items": items}


_AS_TYPED = "The message will be processed as if typed by a user."
ORDER_OPENCLAW = _order_tool(
    "OpenClaw",
    f"{_AS_TYPED} Supports sending images, files (PDF, text, markdown, CSV, JSON), audio, video, "
    "and archives (ZIP, TAR.GZ) via base64 encoding.",
    images=_attachments("image", 10, "image/png"),
    files=_attachments("file", 5, "application/pdf"),
)
ORDER_CLAWDBOT = _order_tool("Clawdbot", _AS_TYPED)

TOOLS = {"openclaw": ORDER_OPENCLAW, "clawdbot": ORDER_CLAWDBOT}


def offer_of(program: str) -> Offer:
    """What the server of `openclaw` or `clawdbot` offers."""
    capabilities: dict[str, Any] = {"tools": {"listChanged": False}}
    if program == "openclaw":
        capabilities["extensions"] = {TASKS_EXTENSION: {}}
    return Offer(program, __version__, capabilities)


def known_answers(program: str) -> dict[str, dict[str, Any]]:
    """The results that need no agent, by method."""
    return {TOOLS_LIST: {"tools": [TOOLS[program]]}}


class Principal(NamedTuple):
    name: str
    may_be_asked: bool = True  # whether they may be shown questions
    session: Callable[[str], str] = str  # which of their sessions a key means


OWNER = Principal("owner")


class Source(NamedTuple):
    """Where a request comes from: who sent it, and for which agent.

    `client` is the program that a program of ours passes requests on for.
    """

    principal: Principal = OWNER
    agent_id: str | None = None
    local: bool = True
    client: str | None = None

    @property
    def owner(self) -> str:
        return self.principal.name


HERE = Source()
