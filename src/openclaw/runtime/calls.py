"""Who is told of every MCP tool call: the audit log, and telemetry where it is on."""

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from openclaw.core.content import Block, Media, text_of
from openclaw.runtime.host import Host
from openclaw.secrets.resolver import SecretResolver

if TYPE_CHECKING:
    from openclaw.agent.telemetry import Telemetry
    from openclaw.mcp_client.toolsource import CallRecord, OnCall


@asynccontextmanager
async def telemetry_of(host: Host, secrets: SecretResolver) -> "AsyncGenerator[Telemetry | None]":
    """Traces and metrics, where the configuration asks for them."""
    settings = host.config.telemetry
    if not settings.enabled:
        yield None
        return
    from openclaw.agent.telemetry import open_telemetry

    named = {name: str(value) for name, value in settings.headers.items()}
    headers = {name: one.reveal() for name, one in (await secrets.resolve_map(named)).items()}
    async with open_telemetry(settings, headers, host.clock) as telemetry:
        yield telemetry


@contextmanager
def audited(host: Host) -> Generator["OnCall"]:
    """Whatever is to be told of every MCP tool call, for as long as the context lasts."""
    from openclaw.agent.audit import AuditLog

    settings = host.config.audit
    if not settings.enabled:
        yield lambda record: None
        return
    log = AuditLog(
        host.paths.audit_log,
        host.redactor,
        host.clock,
        bodies=settings.bodies,
        max_bytes=settings.max_bytes,
        keep=settings.keep,
    )

    def write(record: "CallRecord") -> None:
        arguments = _dumped(record.arguments)
        result = text_of(record.blocks)
        log.record(
            agent=record.agent,
            session=record.session,
            server=record.server,
            tool=record.tool,
            duration_ms=record.duration_ms,
            outcome=record.outcome,
            argument_bytes=len(arguments),
            result_bytes=len(result.encode(errors="surrogatepass"))
            + sum(map(_size, record.blocks)),
            arguments=arguments.decode() if settings.bodies else None,
            result=result if settings.bodies else None,
        )

    try:
        yield write
    finally:
        log.close()


def measured(on_call: "OnCall", telemetry: "Telemetry | None") -> "OnCall":
    """Both are told, where there are both."""
    if telemetry is None:
        return on_call

    def told(record: "CallRecord") -> None:
        on_call(record)
        telemetry.on_call(record)

    return told


def _dumped(arguments: Any) -> bytes:
    import orjson

    try:
        return orjson.dumps(arguments, default=str)
    except TypeError:  # half a character, or a number beyond 64 bits
        return json.dumps(arguments, default=str).encode()


def _size(block: Block) -> int:
    return len(block.data) if isinstance(block, Media) and block.data is not None else 0
