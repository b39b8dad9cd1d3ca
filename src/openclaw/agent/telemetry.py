"""OpenTelemetry: traces and metrics of turns, model calls and tool calls.

They follow the semantic conventions for generative AI and for MCP, and contain only names, counts,
durations and kinds of failure: no messages, arguments or results. The library comes with the extra
`otel` and is imported only if telemetry is switched on.
"""

import logging
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from openclaw.core import events
from openclaw.core.clock import Clock
from openclaw.core.errors import MissingExtra
from openclaw.core.outcome import Outcome
from openclaw.version import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from openclaw.agent.toolpath.audit import CallRecord
    from openclaw.config.schema import TelemetryConfig

logger = logging.getLogger(__name__)

_SCOPE = "openclaw"
_CLOSING_SECONDS = 2.0  # for the last measurements to reach a collector

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4**power for power in range(14))


class Telemetry:
    def __init__(self, traces: "TracerProvider", metrics: "MeterProvider", clock: Clock) -> None:
        self.tracer = traces.get_tracer(_SCOPE, __version__)
        self.clock = clock
        meter = metrics.get_meter(_SCOPE, __version__)

        def histogram(
            name: str, description: str, bounds: Sequence[float] = _SECONDS
        ) -> "Histogram":
            unit = "s" if bounds is _SECONDS else "{token}"
            return meter.create_histogram(
                name, unit, description, explicit_bucket_boundaries_advisory=bounds
            )

        turns, requests = "Duration of turns and model calls.", "Duration of MCP requests."
        counted = "Input and output tokens of model calls."
        self.operations = histogram("gen_ai.client.operation.duration", turns)
        self.mcp = histogram("mcp.client.operation.duration", requests)
        self.tokens = histogram("gen_ai.client.token.usage", counted, _TOKENS)
        self.running: dict[tuple[str, str], Span] = {}

    def observer(self) -> events.Emit:
        return _TurnObserver(self).on

    def on_call(self, call: "CallRecord") -> None:
        """Count an MCP call; its tool call's span becomes an MCP span."""
        attributes = {
            "mcp.method.name": "tools/call",
            "gen_ai.tool.name": call.tool,
            "openclaw.mcp.server": call.server,
        }
        if call.outcome != "ok":
            attributes["error.type"] = "tool_error" if call.outcome == "error" else call.outcome
        self.mcp.record(call.duration_ms / 1000, attributes)
        span = self.running.get((call.session, call.call_id))
        if span is None:
            self.finished(f"tools/call {call.tool}", attributes, call.duration_ms)
            return
        span.update_name(f"tools/call {call.tool}")
        span.set_attributes(attributes)

    def traceparent(self, session: str, call_id: str) -> str | None:
        """The W3C trace context of a tool call, for the server that is called."""
        span = self.running.get((session, call_id))
        context = span.get_span_context() if span is not None else None
        if context is None or not context.is_valid:
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def finished(
        self,
        name: str,
        attributes: Mapping[str, Any],
        lasted_ms: float,
        parent: "Span | None" = None,
    ) -> None:
        """Record a request to another program that has just ended."""
        now = self._now()
        span = self._start(name, attributes, parent, now - int(lasted_ms * 1e6), "CLIENT")
        self._end(span, attributes.get("error.type"), now)

    def begin(
        self, name: str, attributes: Mapping[str, Any], parent: "Span | None" = None
    ) -> "Span":
        return self._start(name, attributes, parent, self._now(), "INTERNAL")

    def end(self, span: "Span", error: str | None) -> None:
        self._end(span, error, self._now())

    def _start(
        self,
        name: str,
        attributes: Mapping[str, Any],
        parent: "Span | None",
        when: int,
        kind: str,
    ) -> "Span":
        from opentelemetry.trace import SpanKind, set_span_in_context

        return self.tracer.start_span(
            name,
            context=None if parent is None else set_span_in_context(parent),
            kind=SpanKind[kind],
            attributes=attributes,
            start_time=when,
        )

    def _end(self, span: "Span", error: str | None, when: int) -> None:
        from opentelemetry.trace import Status, StatusCode

        if error is not None:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(when)

    def _now(self) -> int:
        return self.clock.now_ms() * 1_000_000


@dataclass(slots=True)
class _TurnObserver:
    telemetry: Telemetry
    turn: "Span | None" = None
    session: str = ""
    agent: str = ""
    started: float = 0.0

    def on(self, event: events.Event) -> None:
        match event:
            case events.TurnStarted():
                self._begin(event)
            case events.ModelCalled():
                self._model(event)
            case events.ToolStarted():
                about = {"gen_ai.tool.name": event.name, "gen_ai.tool.call.id": event.call_id}
                about |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function"}
                span = self.telemetry.begin(f"execute_tool {event.name}", about, self.turn)
                self.telemetry.running[self.session, event.call_id] = span
            case events.ToolFinished():
                span = self.telemetry.running.pop((self.session, event.call_id), None)
                if span is not None:
                    self.telemetry.end(span, "tool_error" if event.result.is_error else None)
            case events.TurnFinished():
                self._finish(None if event.outcome == Outcome.OK else event.outcome)
            case _:
                return

    def _begin(self, event: events.TurnStarted) -> None:
        self.session, self.agent = event.session, event.agent
        self.started = self.telemetry.clock.monotonic()
        about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": event.session}
        about |= {"gen_ai.agent.id": event.agent, "gen_ai.agent.name": event.agent}
        self.turn = self.telemetry.begin(f"invoke_agent {event.agent}", about)

    def _model(self, event: events.ModelCalled) -> None:
        telemetry = self.telemetry
        provider, _, model = event.model.partition("/")
        shared: dict[str, str] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }
        if event.response_model:
            shared["gen_ai.response.model"] = event.response_model
        if event.error is not None:
            shared["error.type"] = event.error
        telemetry.operations.record(event.duration_ms / 1000, shared)
        about: dict[str, Any] = dict(shared)
        if event.error is None:
            for kind, count in (("input", event.input_tokens), ("output", event.output_tokens)):
                telemetry.tokens.record(count, {**shared, "gen_ai.token.type": kind})
                about[f"gen_ai.usage.{kind}_tokens"] = count
        if event.finish_reason:
            about["gen_ai.response.finish_reasons"] = [event.finish_reason]
        telemetry.finished(f"chat {model}", about, event.duration_ms, self.turn)

    def _finish(self, error: str | None) -> None:
        telemetry = self.telemetry
        for key in [key for key in telemetry.running if key[0] == self.session]:
            telemetry.end(telemetry.running.pop(key), "cancelled")
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": self.agent}
        if error is not None:
            attributes["error.type"] = error
        telemetry.operations.record(telemetry.clock.monotonic() - self.started, attributes)
        if self.turn is not None:
            telemetry.end(self.turn, error)


@asynccontextmanager
async def open_telemetry(
    settings: "TelemetryConfig", headers: Mapping[str, str], clock: Clock
) -> AsyncGenerator[Telemetry]:
    """Telemetry that goes to a collector. `headers` are the configured ones with their secrets resolved.

    Whatever the settings leave out, the library takes from its own `OTEL_…` variables.
    """
    try:
        from openclaw.agent.telemetry_export import open_providers
    except ImportError as error:
        raise MissingExtra("telemetry", "otel") from error
    traces, metrics = open_providers(settings, headers)
    try:
        yield Telemetry(traces, metrics, clock)
    finally:

        def close() -> None:
            traces.shutdown()
            metrics.shutdown()

        # A daemon thread, so that the process's exit does not wait for it.
        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(closing.join, _CLOSING_SECONDS)
        if closing.is_alive():
            logger.warning("the telemetry collector does not answer; unsent data is lost")
