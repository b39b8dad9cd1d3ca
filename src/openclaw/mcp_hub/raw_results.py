"""Results for another MCP client: as the server gave them, without known secrets and control tokens."""

from collections.abc import Mapping
from typing import Any, cast

import anyio.to_thread
import pybase64

from openclaw.content.frame import frame
from openclaw.content.sanitise import sanitise
from openclaw.core.content import Text
from openclaw.core.tools import json_object, json_objects
from openclaw.mcp_client.bridge.results import Rendering
from openclaw.mcp_client.bridge.tool_source import is_large
from openclaw.secrets.redactor import Redactor, redacted_tree

JsonObject = Mapping[str, Any]

_WITHHELD = "[Withheld: this content contains a secret.]"


class Cleaner:
    def __init__(self, redactor: Redactor, framed_as: Rendering | None = None) -> None:
        """`framed_as` says whose words they are if the hub frames text."""
        self._redactor, self._framed_as = redactor, framed_as

    async def clean(self, raw: JsonObject) -> JsonObject:
        if is_large(dict(raw)):
            return await anyio.to_thread.run_sync(self._clean, raw)
        return self._clean(raw)

    def text(self, text: str) -> str:
        return sanitise(self._redactor.redact(text, shapes=False))

    def _clean(self, raw: JsonObject) -> JsonObject:
        """The result of a tool, a prompt, or a resource that was read."""
        result: dict[str, Any] = {}
        for key, value in raw.items():
            if key in ("content", "contents"):
                result[key] = [self._block(one) for one in json_objects(value)]
            elif key == "messages":
                result[key] = [self._message(one) for one in json_objects(value)]
            else:
                result[key] = redacted_tree(value, self.text)
        return result

    def _message(self, message: dict[str, Any]) -> dict[str, Any]:
        content = message.get("content")
        cleaned: object = redacted_tree(content, self.text)
        if isinstance(content, dict):
            cleaned = self._block(cast("dict[str, Any]", content))
        elif isinstance(content, list):
            cleaned = [self._block(one) for one in json_objects(cast("object", content))]
        return {**message, "content": cleaned}

    def _block(self, block: dict[str, Any]) -> dict[str, Any]:
        """A content block, or the contents of a resource."""
        inside = json_object(block.get("resource"))
        if inside:
            return {**self._other_fields(block, "resource"), "resource": self._block(dict(inside))}
        for key in ("data", "blob"):
            if isinstance(data := block.get(key), str):
                if self._redactor.holds(_decoded(data)):
                    return self._withheld(block)
                return {**self._other_fields(block, key), key: data}
        cleaned = self._other_fields(block, "")
        if self._framed_as is not None and isinstance(cleaned.get("text"), str):
            cleaned["text"] = frame(
                cleaned["text"], sender=self._framed_as.server, mode=self._framed_as.mode
            )
        return cleaned

    def _other_fields(self, block: dict[str, Any], but: str) -> dict[str, Any]:
        return {key: redacted_tree(value, self.text) for key, value in block.items() if key != but}

    def _withheld(self, block: dict[str, Any]) -> dict[str, Any]:
        if "uri" in block:
            return {"uri": self.text(str(block["uri"])), "text": _WITHHELD}
        return {"type": "text", "text": _WITHHELD}


def _decoded(data: str) -> bytes:
    try:
        return pybase64.b64decode(data)
    except ValueError:
        return data.encode(errors="surrogatepass")


def text_blocks(raw: JsonObject) -> tuple[Text, ...]:
    """The text in a result, for the record of the call."""
    found = (one.get("text") for one in json_objects(raw.get("content")))
    return tuple(Text(text) for text in found if isinstance(text, str))
