"""JSON-RPC messages on a client's pipe: written as lines, and logged."""

import json
import logging
import os
from collections.abc import Callable
from typing import Any, cast

import anyio
import orjson

from openclaw.mcp import json_text
from openclaw.stdio.pipes import HIGH_WATER, Piece, Writer

logger = logging.getLogger(__name__)

Json = dict[str, Any]

_DRAIN_SECONDS = 0.5  # for a client that stopped reading, at the end
_SET_APART = 1 << 16  # base64 of this length is not copied into the line
_MARK = f"\x00{os.urandom(16).hex()}"  # no string of a message can be this
_MARK_BYTES = orjson.dumps(_MARK)[1:-1]
_MEDIA_KEYS = ("data", "blob")
_LONGEST_TEXT = 2_000
_LONGEST_LOGGED = 20_000


class MessageWriter:
    def __init__(self, writer: Writer, on_broken: Callable[[], None] | None = None) -> None:
        self._writer = writer
        writer.on_broken = on_broken
        self._closed = False

    async def send(self, message: Json | list[Json]) -> None:
        """Write this; waits if the client is far behind. Raises anyio's closed-stream errors."""
        if self._closed:
            raise anyio.ClosedResourceError
        self._write(message)
        if self._writer.broken:
            raise anyio.BrokenResourceError
        if self._writer.unsent > HIGH_WATER:
            await self._writer.drained()

    def tell(self, fault: Json) -> None:
        """Write an error of ours, unless the client is too far behind."""
        if not self._closed and self._writer.unsent <= HIGH_WATER:
            self._write(fault)

    def _write(self, message: Json | list[Json]) -> None:
        log_traffic("sent", message)
        for piece in encode(message):
            self._writer.write(piece)

    async def aclose(self) -> None:
        """Raises what kept us from writing, unless the client had gone."""
        self._closed = True
        with anyio.move_on_after(_DRAIN_SECONDS, shield=True):
            await self._writer.drained(0)
        self._writer.close()
        failure = self._writer.failure
        if isinstance(failure, OSError) and not isinstance(failure, BrokenPipeError):
            raise failure


def encode(message: Json | list[Json]) -> list[Piece]:
    """The pieces of a line; large base64 is a separate piece, and not copied."""
    large: list[str] = []

    def set_apart(value: Any, key: str) -> Any:
        if key not in _MEDIA_KEYS or not isinstance(value, str) or len(value) < _SET_APART:
            return value
        if not value.isascii() or not value.isprintable() or '"' in value or "\\" in value:
            return value  # it has to be escaped
        large.append(value)
        return _MARK

    line = json_text.dumps(_mapped(message, set_apart))
    pieces: list[Piece] = []
    for words in large:
        before, line = line.split(_MARK_BYTES, 1)
        pieces += [before, words]
    return [*pieces, line + b"\n"]


def _mapped(value: Any, change: Callable[[Any, str], Any], key: str = "") -> Any:
    """The same JSON with its leaves changed; `change` also gets the key of each."""
    if isinstance(value, dict):
        inside = cast("Json", value)
        return {name: _mapped(inner, change, name) for name, inner in inside.items()}
    if isinstance(value, list):
        return [_mapped(inner, change) for inner in cast("list[Any]", value)]
    return change(value, key)


def logs_traffic() -> bool:
    return logger.isEnabledFor(logging.DEBUG)


def log_traffic(direction: str, message: Json | list[Json]) -> None:
    if logs_traffic():
        shown = json.dumps(_mapped(message, _abridged), ensure_ascii=False)[:_LONGEST_LOGGED]
        logger.debug("%s %s", direction, shown)


def _abridged(value: Any, key: str) -> Any:
    if not isinstance(value, str):
        return value
    if key in _MEDIA_KEYS and len(value) > 64:
        return f"<{len(value) * 3 // 4} bytes as base64>"
    if len(value) > _LONGEST_TEXT:
        return f"{value[:_LONGEST_TEXT]}… <{len(value)} characters>"
    return value
