"""The tools that the server offers, as MCP clients see them. Plain data: nothing is imported."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ORDER_OPENCLAW: "dict[str, Any]" = {
    "name": "order_openclaw",
    "description": "Send a message to OpenClaw and receive a response. The message will be processed as if typed by a user. Supports sending images, files (PDF, text, markdown, CSV, JSON), audio, video, and archives (ZIP, TAR.GZ) via base64 encoding.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "The message to send to OpenClaw"},
            "sessionKey": {
                "type": "string",
                "description": "Optional session key for conversation continuity",
            },
            "images": {
                "type": "array",
                "description": "Optional base64-encoded images (max 10, 15MB each)",
                "items": {
                    "type": "object",
                    "properties": {
                        "data": {"type": "string", "description": "Base64-encoded image data"},
                        "mimeType": {
                            "type": "string",
                            "description": "MIME type (e.g., 'image/png')",
                        },
                        "filename": {"type": "string", "description": "Optional filename"},
                    },
                    "required": ["data", "mimeType"],
                },
            },
            "files": {
                "type": "array",
                "description": "Optional base64-encoded files (max 5, 15MB each)",
                "items": {
                    "type": "object",
                    "properties": {
                        "data": {"type": "string", "description": "Base64-encoded file data"},
                        "mimeType": {
                            "type": "string",
                            "description": "MIME type (e.g., 'application/pdf')",
                        },
                        "filename": {"type": "string", "description": "Optional filename"},
                    },
                    "required": ["data", "mimeType"],
                },
            },
        },
        "required": ["message"],
    },
}

ORDER_CLAWDBOT: "dict[str, Any]" = {
    "name": "order_clawdbot",
    "description": "Send a message to Clawdbot and receive a response. The message will be processed as if typed by a user.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "The message to send to Clawdbot"},
            "sessionKey": {
                "type": "string",
                "description": "Optional session key for conversation continuity",
            },
        },
        "required": ["message"],
    },
}

TOOLS = {"openclaw": ORDER_OPENCLAW, "clawdbot": ORDER_CLAWDBOT}
