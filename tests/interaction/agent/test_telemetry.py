"""Spans and measurements of turns, model calls and tool calls."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.support.agent_kit import FakeTools, agent_kit, scripted_config
from tests.support.fake_http import FakeHttp, Reply
from tests.support.fake_server import server_entry
from tests.support.mcp_server_kit import fake_tool

from openclaw.agent.telemetry import Telemetry
from openclaw.agent.toolpath.audit import CallRecord
from openclaw.core.clock import SystemClock
from openclaw.core.errors import ModelUnavailable
from openclaw.core.tools import CallContext, JsonObject, ToolResult, failed
from openclaw.testing.scripted_model import Step, scripted_model

SECRET = "the launch code is 0000"


@dataclass
class Watched:
    telemetry: Telemetry
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def points(self, name: str) -> list[dict[str, Any]]:
        data: Any = self.reader.get_metrics_data()
        return [
            {**point.attributes, "count": point.count, "sum": point.sum}
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def everything(self) -> str:
        spans = [span.to_json() for span in self.exporter.get_finished_spans()]
        data: Any = self.reader.get_metrics_data()
        return json.dumps(spans) + str(data.to_json() if data else "")


@pytest.fixture
def watched() -> Iterator[Watched]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    traces, metrics = TracerProvider(), MeterProvider([reader])
    traces.add_span_processor(SimpleSpanProcessor(exporter))
    yield Watched(Telemetry(traces, metrics, SystemClock()), exporter, reader)
    traces.shutdown()
    metrics.shutdown()


def record(telemetry: Telemetry, context: CallContext, outcome: str) -> None:
    """What the MCP side tells of a call, as it does before the call's result is handed on."""
    telemetry.on_call(
        CallRecord(
            at_ms=0,
            agent=context.agent,
            session=context.session,
            call_id=context.call_id,
            server="mail",
            tool="send",
            arguments={"text": SECRET},
            outcome=outcome,
            duration_ms=20.0,
        )
    )


async def test_a_turn_has_a_span_with_its_model_and_tool_calls_under_it(watched: Watched) -> None:
    tools = FakeTools()

    async def send(arguments: JsonObject, context: CallContext) -> ToolResult:
        record(watched.telemetry, context, "error")
        return failed(SECRET)

    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools.add("mcp_mail_send", send, schema=schema, server="mail")
    tools.add("clock", SECRET)
    nothing: dict[str, str] = {}
    calls = (("mcp_mail_send", {"text": SECRET}), ("clock", nothing))
    async with (
        scripted_model([Step(text=SECRET, calls=calls), Step(text=SECRET)]) as model,
        agent_kit(
            scripted_config(model.url), tools=tools, observe=watched.telemetry.observer
        ) as kit,
    ):
        await kit.say(SECRET, stream=False)
    spans = watched.spans
    assert set(spans) == {
        "invoke_agent main",
        "chat scripted",
        "tools/call send",
        "execute_tool clock",
    }
    turn = spans["invoke_agent main"]
    assert turn.attributes is not None
    assert turn.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert turn.attributes["gen_ai.conversation.id"] == "s"
    assert turn.status.status_code is StatusCode.UNSET
    for name, span in spans.items():
        if span is not turn:
            assert span.parent is not None, name
            assert span.parent == turn.get_span_context()
    chat = spans["chat scripted"]
    assert chat.kind is SpanKind.CLIENT
    assert dict(chat.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "acme",
        "gen_ai.request.model": "scripted",
        "gen_ai.response.model": "scripted",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.response.finish_reasons": ("stop",),
    }
    call = spans["tools/call send"]
    assert call.attributes is not None
    assert call.attributes["mcp.method.name"] == "tools/call"
    assert call.attributes["openclaw.mcp.server"] == "mail"
    assert call.attributes["error.type"] == "tool_error"
    assert call.status.status_code is StatusCode.ERROR
    assert SECRET not in watched.everything()


class TickingClock(SystemClock):
    """It is a millisecond later at each look."""

    def __init__(self) -> None:
        self._now = 1_000_000

    def now_ms(self) -> int:
        self._now += 1
        return self._now


async def test_a_span_is_as_long_as_the_call_that_it_reports_however_late_it_is_written() -> None:
    exporter, traces, metrics = InMemorySpanExporter(), TracerProvider(), MeterProvider([])
    traces.add_span_processor(SimpleSpanProcessor(exporter))
    Telemetry(traces, metrics, TickingClock()).finished("tools/call send", {}, 20.0)
    (span,) = exporter.get_finished_spans()
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time == 20_000_000
    traces.shutdown()
    metrics.shutdown()


async def test_tokens_and_durations_are_measured(watched: Watched) -> None:
    async with (
        scripted_model([Step(text="Hi."), Step(text="Ho.")]) as model,
        agent_kit(scripted_config(model.url), observe=watched.telemetry.observer) as kit,
    ):
        await kit.say("Hi?")
        await kit.say("Ho?")
    tokens = {point["gen_ai.token.type"]: point for point in watched.points(TOKENS)}
    assert (tokens["input"]["sum"], tokens["output"]["sum"]) == (20, 10)
    assert tokens["input"]["gen_ai.request.model"] == "scripted"
    durations = {p["gen_ai.operation.name"]: p["count"] for p in watched.points(OPERATIONS)}
    assert durations == {"chat": 2, "invoke_agent": 2}


TOKENS = "gen_ai.client.token.usage"
OPERATIONS = "gen_ai.client.operation.duration"


async def test_a_failure_is_told_by_its_kind_alone(watched: Watched) -> None:
    steps = [Step(status=401, message=SECRET)]
    async with (
        scripted_model(steps) as model,
        agent_kit(scripted_config(model.url), observe=watched.telemetry.observer) as kit,
    ):
        with pytest.raises(ModelUnavailable):
            await kit.say("Hi?")
    spans = watched.spans
    chat, turn = spans["chat scripted"], spans["invoke_agent main"]
    assert (chat.attributes or {})["error.type"] == "ModelUnavailable"
    assert (turn.attributes or {})["error.type"] == "error"
    assert {point.get("error.type") for point in watched.points(OPERATIONS)} == {
        "ModelUnavailable",
        "error",
    }
    assert SECRET not in watched.everything()


async def test_a_cancelled_turn_ends_its_span_and_those_of_calls_that_ran(
    watched: Watched,
) -> None:
    tools, began = FakeTools(), anyio.Event()

    async def wait(arguments: JsonObject, context: CallContext) -> ToolResult:
        began.set()
        await anyio.sleep_forever()
        raise AssertionError

    tools.add("wait", wait)
    async with (
        scripted_model([Step(calls=(("wait", {}),))]) as model,
        agent_kit(
            scripted_config(model.url), tools=tools, observe=watched.telemetry.observer
        ) as kit,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(kit.say, "Wait.")
        await began.wait()
        tasks.cancel_scope.cancel()
    assert (watched.spans["invoke_agent main"].attributes or {})["error.type"] == "cancelled"
    assert (watched.spans["execute_tool wait"].attributes or {})["error.type"] == "cancelled"
    assert watched.telemetry.running == {}


def test_an_mcp_call_outside_of_any_turn_has_a_span_of_its_own(watched: Watched) -> None:
    record(watched.telemetry, CallContext(agent="main", session="x", call_id="1"), "ok")
    span = watched.spans["tools/call send"]
    assert (span.kind, span.parent) == (SpanKind.CLIENT, None)
    assert span.start_time is not None
    assert (span.end_time or 0) - span.start_time == 20_000_000
    (point,) = watched.points("mcp.client.operation.duration")
    assert (point["count"], point["gen_ai.tool.name"]) == (1, "send")


# ---- as a process

RUN = """
import sys
from openclaw.cli.main import run
code = run("openclaw", ["agent", "-m", sys.argv[1], "--local"])
print("SDK" if "opentelemetry.sdk" in sys.modules else "no SDK", file=sys.stderr)
sys.exit(code)
"""


heard: list[str] = []
"""What the model was sent last, with what the server said of the call."""


async def one_turn(tmp_path: Path, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """The command, with a tool call of an MCP server in its turn."""
    server = server_entry({"tools": [fake_tool("echo", meta=True)]})
    async with scripted_model([Step(calls=(("mcp_fake_echo", {}),)), Step(text="Hi.")]) as model:
        provider = {"baseUrl": f"{model.url}/v1", "apiKey": "k", "api": "openai-completions"}
        config: dict[str, Any] = {
            "dataflow": {"mode": "off"},
            "models": {"providers": {"acme": {**provider, "models": [{"id": "scripted"}]}}},
            "agents": {"defaults": {"model": "acme/scripted"}},
            "mcp": {"servers": {"fake": server}},
            **more,
        }
        (tmp_path / "openclaw.json").write_text(json.dumps(config))
        kept = {
            k: v for k, v in os.environ.items() if k in ("PATH", "HOME") or k[:3] in ("COV", "OTE")
        }
        environ = {**kept, "OPENCLAW_STATE_DIR": str(tmp_path), "COLLECTOR": "collector-key-1234"}
        ran = await anyio.run_process([sys.executable, "-c", RUN, SECRET], env=environ, check=False)
    heard.append(json.dumps(model.requests[-1].body))
    return ran


@pytest.mark.subprocess
async def test_what_was_measured_reaches_the_collector_that_the_configuration_names(
    tmp_path: Path,
) -> None:
    with FakeHttp(lambda request: Reply(200, {})) as collector:
        headers = {"Authorization": "Bearer secret://env/COLLECTOR"}
        telemetry = {"enabled": True, "endpoint": collector.url, "headers": headers}
        ran = await one_turn(tmp_path, telemetry=telemetry)
    assert ran.returncode == 0, ran.stderr
    assert {request.path for request in collector.seen} == {"/v1/traces", "/v1/metrics"}
    assert {r.headers["authorization"] for r in collector.seen} == {"Bearer collector-key-1234"}
    sent = b"".join(request.body for request in collector.seen)
    assert b"tools/call echo" in _plain(collector)
    assert SECRET.encode() not in sent + _plain(collector)
    found = re.search(r"traceparent[^0-9a-z]+00-([0-9a-f]{32})-([0-9a-f]{16})-0[0-9]", heard[-1])
    assert found is not None, heard[-1]
    assert bytes.fromhex(found[1]) in _plain(collector)
    assert bytes.fromhex(found[2]) in _plain(collector)


def _plain(collector: FakeHttp) -> bytes:
    import gzip

    return b"".join(
        gzip.decompress(one.body) if one.headers.get("content-encoding") == "gzip" else one.body
        for one in collector.seen
    )


@pytest.mark.subprocess
async def test_where_it_is_off_the_library_is_not_even_loaded(tmp_path: Path) -> None:
    ran = await one_turn(tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert b"no SDK" in ran.stderr
    assert "traceparent" not in heard[-1]


@pytest.mark.subprocess
async def test_the_process_does_not_wait_for_a_collector_that_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
    with FakeHttp(lambda request: Reply(200, {})) as collector, anyio.fail_after(300):
        collector.silent = True
        ran = await one_turn(
            tmp_path, telemetry={"enabled": True, "endpoint": collector.url, "headers": {}}
        )
    assert (ran.returncode, ran.stdout.strip()) == (0, b"Hi.")
    assert b"The telemetry collector does not answer" in ran.stderr
