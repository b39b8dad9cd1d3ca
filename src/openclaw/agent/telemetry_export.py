"""Sends telemetry to a collector. Imported only if telemetry is switched on; needs the extra `otel`."""

from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from openclaw.config.schema import TelemetryConfig
from openclaw.version import __version__


def open_providers(
    settings: TelemetryConfig, headers: Mapping[str, str]
) -> tuple[TracerProvider, MeterProvider]:
    resource = Resource.create(
        {"service.name": settings.service_name, "service.version": __version__}
    )
    sent_headers = dict(headers) or None

    def address(what: str) -> str | None:
        return f"{settings.endpoint.rstrip('/')}/v1/{what}" if settings.endpoint else None

    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    to_traces = OTLPSpanExporter(endpoint=address("traces"), headers=sent_headers)
    traces.add_span_processor(BatchSpanProcessor(to_traces))
    to_metrics = OTLPMetricExporter(endpoint=address("metrics"), headers=sent_headers)
    reader = PeriodicExportingMetricReader(
        to_metrics, export_interval_millis=settings.metric_interval_ms
    )
    metrics = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    return traces, metrics
