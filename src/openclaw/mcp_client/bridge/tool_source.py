"""An agent's MCP tools: policy, call, framing, record, in that order, for every call."""

import difflib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import anyio
import anyio.to_thread

from openclaw.core.clock import Clock
from openclaw.core.content import Block
from openclaw.core.errors import ServerUnavailable
from openclaw.core.events import Emit, SuspiciousContent
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSpec, failed
from openclaw.mcp_client.bridge.oversized_results import directory_for
from openclaw.mcp_client.bridge.results import (
    Rendered,
    Rendering,
    render_failure,
    render_resource,
    render_result,
    render_words,
)
from openclaw.mcp_client.catalog.schema_check import hold
from openclaw.mcp_client.catalog.tools import CatalogEntry
from openclaw.mcp_client.errors import CallFailed, InvalidResult, Unavailable
from openclaw.mcp_client.lifecycle.state import ServerState
from openclaw.mcp_client.session.jsonrpc import RawResult

if TYPE_CHECKING:
    from openclaw.config.schema import McpServerConfig
    from openclaw.mcp_client.lifecycle.managed_server import ManagedServer

logger = logging.getLogger(__name__)

_LARGE = 100_000  # characters from which a result is rendered in a thread
_MANY = 5_000  # values from which it is
_WITHHELD = "the result was withheld, since it looks like an attempt to give the agent orders"


class Verdict(Protocol):
    """Whether a tool may be used, and why."""

    @property
    def allowed(self) -> bool:
        """Whether it may."""
        ...

    @property
    def reason(self) -> str:
        """Which rule says so."""
        ...

    @property
    def asks(self) -> bool:
        """Whether it may once a person has agreed."""
        ...


@dataclass(frozen=True, slots=True)
class _Allowed:
    allowed: bool = True
    reason: str = "no policy"
    asks: bool = False


def allow_all(_: str) -> Verdict:
    """The policy where there is none."""
    return _Allowed()


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call, for the audit log. `outcome` is ok, error, denied, blocked or cancelled."""

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
    characters: int = 0
    blocks: tuple[Block, ...] = ()
    signals: tuple[str, ...] = ()
    reason: str | None = None


OnCall = Callable[[CallRecord], None]


@dataclass(frozen=True, slots=True)
class Bound:
    """A tool that can be called now: its entry, its server, and how the agent uses that server."""

    entry: CatalogEntry
    unit: "ManagedServer"
    config: "McpServerConfig"


@dataclass(frozen=True, slots=True)
class CallPath:
    """What every call needs beside its tool."""

    decide: Callable[[str], Verdict]
    redact: Callable[[str], str]
    holds_secret: Callable[[bytes | str], bool]
    results: Path | None
    clock: Clock
    emit: Emit
    on_call: OnCall


@dataclass(frozen=True, slots=True)
class ToolView:
    """Every tool there is by name, and those that the policy does not deny."""

    bound: Mapping[str, Bound]
    specs: tuple[ToolSpec, ...]


class McpToolSource:
    """The MCP tools of one agent, in one session where servers are scoped to it."""

    def __init__(self, view: Callable[[], ToolView], path: CallPath) -> None:
        self._view = view
        self._path = path

    def specs(self) -> Sequence[ToolSpec]:
        """The tools that there are now and that the policy allows, or allows where a person agrees."""
        return self._view().specs

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        """Call one. A failure is a result with `is_error`, never an exception."""
        bound = self._view().bound.get(name)
        if bound is None:
            return failed(self._unknown(name))
        call = _Call(bound, self._path, context, name, arguments)
        verdict = self._path.decide(name)
        if not verdict.allowed and not (verdict.asks and context.approved):
            call.refuse(verdict.reason)
            return failed(f"The tool {name} is not allowed: {verdict.reason}.")
        return await call.run()

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, [spec.name for spec in self.specs()], n=1)
        return f"There is no tool {name}." + (f" Did you mean {near[0]}?" if near else "")


class _Call:
    """One call on its way."""

    def __init__(
        self, bound: Bound, path: CallPath, context: CallContext, name: str, arguments: JsonObject
    ) -> None:
        self.bound = bound
        self.path = path
        self.context = context
        self.name = name
        self.arguments = arguments
        self.how = Rendering(
            server=bound.entry.server,
            tool=bound.entry.tool,
            redact=path.redact,
            holds_secret=path.holds_secret,
            directory=_kept_in(path.results, context),
            limit=bound.config.max_result_chars,
            mode=bound.config.framing,
            guarded=bound.config.on_suspicious == "block",
        )

    def refuse(self, reason: str) -> None:
        """Put on record that the policy denied it."""
        self._record(self.path.clock.now_ms(), "denied", 0.0, None, reason=reason)

    async def run(self) -> ToolResult:
        """Do it; only cancellation gets out, and even that is put on record."""
        started_at, started = self.path.clock.now_ms(), self.path.clock.monotonic()
        outcome, rendered = "cancelled", None
        try:
            rendered = await self._rendered()
            outcome = "error" if rendered.result.is_error else "ok"
            if rendered.detection.suspicious:
                self._warn(rendered)
                if self.how.guarded:
                    outcome = "blocked"
                    return self._withheld(rendered)
            return rendered.result
        finally:
            duration = (self.path.clock.monotonic() - started) * 1000
            self._record(started_at, outcome, duration, rendered)

    async def _rendered(self) -> Rendered:
        try:
            raw = await self._answer()
        except CallFailed as error:
            return render_failure(error, self.how)
        render = render_resource if self.bound.entry.ours else render_result
        if _is_large(raw):
            return await anyio.to_thread.run_sync(render, raw, self.how)
        return render(raw, self.how)

    async def _answer(self) -> RawResult:
        unit = self.bound.unit
        connection = unit.connection
        if unit.state in (ServerState.DISCONNECTED, ServerState.CONNECTING):
            await self._awake()
        if self.bound.entry.ours:
            uri = self.arguments.get("uri")
            if not isinstance(uri, str) or not uri:
                raise InvalidResult("'uri' is missing: give the URI of a resource")
            return await connection.read_resource(uri)
        with unit.asking.on_behalf(self.context.elicit):
            raw = await connection.call_tool(
                self.bound.entry.tool, self.arguments, on_progress=self._progress
            )
        return await hold(self.bound.entry.output_schema, raw)

    async def _awake(self) -> None:
        """A lazy server starts now; the call waits as long as connecting may take."""
        connection = self.bound.unit.connection
        connection.start()
        try:
            await connection.wait_ready(self.bound.config.timeout / 1000)
        except ServerUnavailable as error:
            raise Unavailable(error.reason, retry_in=error.retry_in) from error

    def _progress(self, done: float, total: float | None, message: str | None) -> None:
        how_far = f"{done:g}" if total is None else f"{done:g}/{total:g}"
        words = self.path.redact(message) if message else ""
        self.context.progress(f"{how_far} {words}".rstrip())

    def _warn(self, rendered: Rendered) -> None:
        entry = self.bound.entry
        logger.warning(
            "MCP server '%s' tool '%s': the result looks like an attempt to give the agent orders",
            entry.server,
            entry.tool,
            extra={
                "server": entry.server,
                "tool": entry.tool,
                "signals": rendered.detection.signals,
            },
        )
        seen = rendered.detection
        self.path.emit(SuspiciousContent(entry.server, entry.tool, seen.score, tuple(seen.signals)))

    def _withheld(self, rendered: Rendered) -> ToolResult:
        result = render_words(_WITHHELD, self.how).result
        details = {**result.details, "blocked": True, "signals": list(rendered.detection.signals)}
        return ToolResult(blocks=result.blocks, is_error=True, details=details)

    def _record(
        self,
        started_at: int,
        outcome: str,
        duration: float,
        rendered: Rendered | None,
        reason: str | None = None,
    ) -> None:
        entry = self.bound.entry
        logger.debug(
            "MCP call %s/%s: %s after %.1f ms", entry.server, entry.tool, outcome, duration
        )
        self.path.on_call(
            CallRecord(
                at_ms=started_at,
                agent=self.context.agent,
                session=self.context.session,
                call_id=self.context.call_id,
                server=entry.server,
                tool=entry.tool,
                name=self.name,
                arguments=self.arguments,
                outcome=outcome,
                duration_ms=duration,
                characters=rendered.characters if rendered else 0,
                blocks=rendered.result.outputs if rendered else (),
                signals=tuple(rendered.detection.signals) if rendered else (),
                reason=reason,
            )
        )


def _kept_in(results: Path | None, context: CallContext) -> Path | None:
    return results and directory_for(results, context.agent, context.session)


def _is_large(raw: RawResult) -> bool:
    """Whether rendering takes long enough to hold up others; stops looking once it is sure."""
    characters = nodes = 0
    pending: list[object] = [raw]
    while pending:
        value = pending.pop()
        nodes += 1
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, dict):
            pending.extend(cast(dict[str, object], value).values())
        elif isinstance(value, list):
            pending.extend(cast(list[object], value))
        if characters > _LARGE or nodes + len(pending) > _MANY:
            return True
    return False
