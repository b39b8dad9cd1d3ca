"""Whoever watches is told of every call, and each call of an MCP tool is put on record."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from openclaw.agent.redaction import Redact, clean_json
from openclaw.agent.toolpath.sources import Wrapper
from openclaw.core.clock import Clock
from openclaw.core.content import Block
from openclaw.core.events import ToolFinished, ToolStarted
from openclaw.core.tools import CallContext, JsonObject, ToolResult

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call of an MCP tool. `outcome` is ok, error, denied, blocked or cancelled."""

    at_ms: int
    agent: str
    session: str
    call_id: str
    server: str
    tool: str
    name: str
    arguments: JsonObject
    outcome: str
    duration_ms: float
    blocks: tuple[Block, ...] = ()
    signals: tuple[str, ...] = ()
    reason: str | None = None


OnCall = Callable[[CallRecord], None]
Refused = Callable[[JsonObject, CallContext, str], None]
"""Takes note of a call that was not made, and why."""


@dataclass(frozen=True, slots=True)
class Audit(Wrapper):
    """Tells of a call when it begins and when it has ended, and puts it on record."""

    on_call: OnCall | None
    clock: Clock
    redact: Redact

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        await context.begin()
        label = context.spec.label if context.spec is not None else name
        shown = clean_json(arguments, self.redact)
        context.emit(ToolStarted(context.call_id, name, label, shown, context.within))
        started = self.clock.monotonic()
        try:
            result = await self.source.call(name, arguments, context)
        except BaseException:
            self._record(arguments, context, self._since(started), None)
            raise
        elapsed = self._since(started)
        self._record(arguments, context, elapsed, result)
        context.emit(ToolFinished(context.call_id, name, result, elapsed))
        return result

    def _since(self, started: float) -> float:
        return (self.clock.monotonic() - started) * 1000

    def refused(self, arguments: JsonObject, context: CallContext, reason: str) -> None:
        """Put on record that a call was not made."""
        self._record(arguments, context, 0.0, None, reason)

    def _record(
        self,
        arguments: JsonObject,
        context: CallContext,
        elapsed: float,
        result: ToolResult | None,
        reason: str | None = None,
    ) -> None:
        spec = context.spec
        if spec is None or spec.origin.server is None:  # the record is of MCP tools
            return
        server, tool = spec.origin.server, spec.origin.tool or spec.name
        outcome = "denied" if reason is not None else _outcome(result)
        logger.debug("MCP call %s/%s: %s after %.1f ms", server, tool, outcome, elapsed)
        if self.on_call is None:
            return
        self.on_call(
            CallRecord(
                at_ms=self.clock.now_ms() - round(elapsed),
                agent=context.agent,
                session=context.session,
                call_id=context.call_id,
                server=server,
                tool=tool,
                name=spec.name,
                arguments=arguments,
                outcome=outcome,
                duration_ms=elapsed,
                blocks=result.outputs if result else (),
                signals=tuple(result.details.get("signals", ())) if result else (),
                reason=reason,
            )
        )


def _outcome(result: ToolResult | None) -> str:
    if result is None:
        return "cancelled"
    if result.details.get("blocked"):
        return "blocked"
    return "error" if result.is_error else "ok"
