"""What `--verbose` logs of the conversation with the client: all of it, media only as sizes."""

import json
import logging
from typing import Any, cast

from mcp.shared.message import SessionMessage

logger = logging.getLogger("openclaw.mcp_server.traffic")

_MEDIA_KEYS = ("data", "blob")
_LONGEST_TEXT = 2_000
_LONGEST_LINE = 20_000


def log_received(item: SessionMessage) -> None:
    """Log a message of the client's."""
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("received %s", _shown(item))


def log_sent(item: SessionMessage) -> None:
    """Log a message to the client."""
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("sent %s", _shown(item))


def _shown(item: SessionMessage) -> str:
    body = item.message.model_dump(by_alias=True, exclude_unset=True)
    return json.dumps(abridge(body), ensure_ascii=False)[:_LONGEST_LINE]


def abridge(value: Any, key: str = "") -> Any:
    """The value with media as sizes and long texts cut."""
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        return {name: abridge(inner, name) for name, inner in inside.items()}
    if isinstance(value, list):
        return [abridge(inner) for inner in cast("list[Any]", value)]
    if isinstance(value, str):
        if key in _MEDIA_KEYS and len(value) > 64:
            return f"<{len(value) * 3 // 4} bytes as base64>"
        if len(value) > _LONGEST_TEXT:
            return f"{value[:_LONGEST_TEXT]}… <{len(value)} characters>"
    return value
