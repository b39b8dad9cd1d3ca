"""Records the SDK server's own answers, from which `recorded_handshake.py` is made."""

from importlib.metadata import version
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.shared.message import SessionMessage
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)

from openclaw.agent.port import Agent
from openclaw.core.clock import SystemClock
from openclaw.mcp_server.handshake import VERSION_KEY
from openclaw.mcp_server.order_tasks import OrderTasks
from openclaw.mcp_server.orders import TOOLS, OrderHandler
from openclaw.mcp_server.server import make_server
from openclaw.version import __version__

_CLIENT = {"name": "recorder", "version": "0"}
_HEADER = '''"""The SDK's own answers to the handshake. Made by scripts/record-answers; do not edit."""

'''


async def _ask(server: Server[Any], requests: dict[str, dict[str, Any]]) -> dict[str, bytes]:
    to_server, server_in = anyio.create_memory_object_stream[SessionMessage | Exception](8)
    server_out, from_server = anyio.create_memory_object_stream[SessionMessage](8)
    answers: dict[str, bytes] = {}
    async with anyio.create_task_group() as tasks, from_server:
        tasks.start_soon(server.run, server_in, server_out, server.create_initialization_options())
        async with to_server:
            for method, params in requests.items():
                request = types.JSONRPCRequest(jsonrpc="2.0", id=0, method=method, params=params)
                await to_server.send(SessionMessage(request))
                answer = (await from_server.receive()).message
                raw = answer.model_dump_json(by_alias=True, exclude_unset=True)
                answers[method] = _result_of(raw)
    return answers


def _result_of(raw: str) -> bytes:
    prefix = '{"jsonrpc":"2.0","id":0,"result":'
    if not raw.startswith(prefix):
        raise ValueError(f"not an answer: {raw}")
    return raw[len(prefix) : -1].replace(f'"{__version__}"', '"@VERSION@"').encode()


async def record(program: str) -> dict[str, bytes]:
    """What the SDK answers for this program, by revision and method."""
    results: dict[str, bytes] = {}
    for revision in HANDSHAKE_PROTOCOL_VERSIONS:
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": _CLIENT}
        answers = await _ask(bare_server(program), {"initialize": hello, "tools/list": {}})
        results |= {f"{revision} {method}": body for method, body in answers.items()}
    for revision in MODERN_PROTOCOL_VERSIONS:
        prefix = VERSION_KEY.rpartition("/")[0]
        meta = {
            VERSION_KEY: revision,
            f"{prefix}/clientCapabilities": {},
            f"{prefix}/clientInfo": _CLIENT,
        }
        params = {"_meta": meta}
        answers = await _ask(
            bare_server(program), {"server/discover": params, "tools/list": params}
        )
        results |= {f"{revision} {method}": body for method, body in answers.items()}
    return results


def bare_server(program: str) -> Server[Any]:
    """The server with no agent behind it: enough for everything but a well-formed order."""
    handler = OrderHandler(program, cast("Agent", None), SystemClock(), None)
    return make_server(handler, OrderTasks(handler) if program == "openclaw" else None)


async def source() -> str:
    """The text of `recorded_handshake.py`."""
    lines = [_HEADER, f"# mcp {version('mcp')}\n"]
    lines.append(f"LATEST = {LATEST_HANDSHAKE_VERSION!r}\n")
    lines.append("RESULTS = {\n")
    for program in TOOLS:
        lines.append(f"    {program!r}: {{\n")
        for key, body in (await record(program)).items():
            lines.append(f"        {key!r}: {body!r},\n")
        lines.append("    },\n")
    lines.append("}\n")
    return "".join(lines)
