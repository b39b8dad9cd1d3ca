"""The small change of JSON-RPC: lines, progress, and errors in our terms and the SDK's."""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

import orjson

from openclaw.mcp_client.failures import CallFailed, InvalidResult, RemoteError, TimedOut

logger = logging.getLogger(__name__)

OnProgress = Callable[[float, float | None, str | None], None]

INTERNAL, CLOSED, TIMEOUT, BUSY = -32603, -32000, -32001, -32000


def report_progress(on_progress: OnProgress, params: Mapping[str, Any], server: str) -> None:
    """Hand progress on, where it is well formed; whoever takes it cannot hurt the connection."""
    progress, total, message = (params.get(key) for key in ("progress", "total", "message"))
    if not isinstance(progress, int | float):
        return
    try:
        on_progress(
            float(progress),
            float(total) if isinstance(total, int | float) else None,
            message if isinstance(message, str) else None,
        )
    except Exception:
        logger.exception("MCP server '%s': progress could not be handed on", server)


def with_progress_token(params: Mapping[str, Any] | None, key: int | str) -> dict[str, Any]:
    """The parameters of a request that wants to hear of progress under this key."""
    out = dict(params or {})
    out["_meta"] = {**(out.get("_meta") or {}), "progressToken": key}
    return out


def encode(message: Mapping[str, Any]) -> bytes:
    """The message as one line."""
    try:
        return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # integers past 64 bits, lone surrogates
        return json.dumps(message).encode() + b"\n"


def failure(error: Any) -> CallFailed:
    """The failure that this error object of an answer stands for."""
    if type(error) is not dict:
        return InvalidResult("the server's answer has neither a result nor an error")
    fields = cast("dict[str, Any]", error)
    code, message = fields.get("code"), fields.get("message")
    return RemoteError(
        code if type(code) is int else INTERNAL,
        message if type(message) is str else "the server gave no reason",
        fields.get("data"),
    )


def as_mcp_error(problem: CallFailed) -> Exception:
    """The same failure in the SDK's terms."""
    from mcp.shared.exceptions import MCPError

    match problem:
        case RemoteError():
            return MCPError(code=problem.code, message=problem.message, data=problem.data)
        case TimedOut():
            return MCPError(code=TIMEOUT, message=problem.message)
        case _:
            return MCPError(code=CLOSED, message=problem.message)
