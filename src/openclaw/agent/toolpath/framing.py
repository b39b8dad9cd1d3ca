"""Words that are not ours reach the model in a frame: cut to what it can take, scanned, and marked."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.to_thread

from openclaw.agent.toolpath.redaction import is_large
from openclaw.agent.toolpath.sources import Wrapper
from openclaw.content.detection.detect import Detection, detect
from openclaw.content.frame import MCP_SERVER, frame_result
from openclaw.core.content import Block, Text
from openclaw.core.events import SuspiciousContent
from openclaw.core.tools import CallContext, JsonObject, ToolResult, Untrusted
from openclaw.mcp_client.bridge.oversized_results import Kept, keep

logger = logging.getLogger(__name__)

_WITHHELD = "[This was withheld: it looks like an attempt to give you orders.]"


@dataclass(frozen=True, slots=True)
class Framing(Wrapper):
    """Frames what a tool says of its result that it is untrusted; the whole is kept in `results`.

    A script gets the words as they are: what it prints is framed in its turn.
    """

    results: Path | None

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        result = await self.source.call(name, arguments, context)
        whose = result.untrusted
        if whose is None:
            return result
        if is_large(result):
            framed, seen = await anyio.to_thread.run_sync(self._framed, result, whose, context)
        else:
            framed, seen = self._framed(result, whose, context)
        if seen is not None and seen.suspicious:
            _warn(whose, seen, context)
        return framed

    def _framed(
        self, result: ToolResult, whose: Untrusted, context: CallContext
    ) -> tuple[ToolResult, Detection | None]:
        for_model = not context.within
        if for_model:
            result = _cut(result, whose, self.results, context)
        if whose.source != MCP_SERVER:
            return (frame_result(result) if for_model else result), None
        seen = detect("\n".join(b.text for b in result.blocks if isinstance(b, Text)))
        if seen.suspicious:
            result = replace(result, details={**result.details, "signals": list(seen.signals)})
            if whose.guarded:
                details = {**result.details, "blocked": True}
                return ToolResult((Text(_WITHHELD),), is_error=True, details=details), seen
        return (frame_result(result) if for_model else result), seen


def _cut(
    result: ToolResult, whose: Untrusted, results: Path | None, context: CallContext
) -> ToolResult:
    limit = whose.limit
    words = "\n".join(block.text for block in result.blocks if isinstance(block, Text))
    if limit is None or len(words) <= limit:
        return result
    kept = Kept(whose.sender, whose.mode, whose.guarded)
    path = keep(words, kept, results, context.agent, context.session)
    whole = f" The whole is in the file {path}; `read` opens it." if path is not None else ""
    note = f"(The result was cut: {limit} of {len(words)} characters are shown.{whole})"
    details = {**result.details, "truncated": True, "characters": len(words)}
    return replace(
        result,
        blocks=(Text(words[:limit]), *(b for b in result.blocks if not isinstance(b, Text))),
        outputs=tuple(_shortened(block, limit) for block in result.outputs),
        details=details | ({"path": str(path)} if path is not None else {}),
        structured=None,
        untrusted=replace(whose, note=note),
    )


def _shortened(block: Block, limit: int) -> Block:
    return replace(block, text=block.text[:limit]) if isinstance(block, Text) else block


def _warn(whose: Untrusted, seen: Detection, context: CallContext) -> None:
    tool = context.spec.origin.tool if context.spec is not None else None
    what = f"tool '{tool}': the result" if tool else "a kept result"
    logger.warning(
        "MCP server '%s' %s looks like an attempt to give the agent orders",
        whose.sender,
        what,
        extra={"server": whose.sender, "tool": tool, "signals": seen.signals},
    )
    context.emit(SuspiciousContent(whose.sender, tool, seen.score, tuple(seen.signals)))
