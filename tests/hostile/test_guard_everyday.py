"""Everyday requests in many languages, to servers that know nothing of us, with nobody to ask.

They are given to `openclaw mcp-server` over stdio; the tools run in a real MCP server process.
"""

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.guarded_talk import Model, schema_of
from tests.support.line_wire import Wire, wired

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess
COMMAND = [str(Path(sys.executable).with_name("openclaw")), "mcp-server"]
CORPUS = Path(__file__).parent / "corpus/guard/everyday.jsonl"
PAGE = (
    "# Opening hours\n\nThe library is open from Monday to Friday, 9:00 to 18:00. On Saturdays the "
    "reading room closes at 13:00. Cards cost 12 euros a year; children need none."
)
MOST_TOKENS = 600


@dataclass(frozen=True)
class Request:
    """What somebody says, and the call that a sensible model makes of it.

    `values` are those that follow from the words without being in them.
    """

    language: str
    text: str
    tool: str
    arguments: Mapping[str, Any]
    values: tuple[str, ...] = ()


REQUESTS = [
    Request(row[0], row[1], row[2], row[3], tuple(row[4]) if len(row) > 4 else ())
    for row in map(json.loads, CORPUS.read_text().splitlines())
]


def test_there_are_150_requests_in_15_languages() -> None:
    assert len({one.text for one in REQUESTS}) >= 150
    assert len({one.language for one in REQUESTS}) >= 15


def _tools() -> list[dict[str, Any]]:
    schemas: dict[str, dict[str, Any]] = {"read_page": schema_of({"url": ""})}
    for request in REQUESTS:
        name = request.tool.partition("/")[2]
        known = schemas.setdefault(name, {"type": "object", "properties": {}})
        known["properties"] |= schema_of(dict(request.arguments))["properties"]
    texts = {"read_page": {"does": {"text": PAGE}}}
    return [
        {"name": name, "inputSchema": schema, **texts.get(name, {"does": {"text": "ok"}})}
        for name, schema in schemas.items()
    ]


@dataclass
class House:
    """A running `openclaw mcp-server`, its model, and what reached the tools' server."""

    wire: Wire
    model: Model
    requests_file: Path
    used: list[int] = field(default_factory=list[int])  # tokens of each request for the intent
    _count: int = 0

    async def order(self, session: str, message: str, *calls: tuple[str, Mapping[str, Any]]) -> str:
        steps = [Step(calls=((f"mcp_hub_{name}", given),)) for name, given in calls]
        script = iter([*steps, Step(text="Done.")])
        self.model.next_step = lambda: next(script)
        self._count += 1
        arguments = {"message": message, "sessionKey": session}
        params = {"name": "order_openclaw", "arguments": arguments}
        order = {"id": self._count, "method": "tools/call", "params": params}
        await self.wire.send({"jsonrpc": "2.0", **order})
        answer = await self.wire.answer()
        assert "result" in answer, answer
        return answer["result"]["content"][0]["text"]

    def calls(self) -> int:
        lines = self.requests_file.read_text().splitlines() if self.requests_file.exists() else []
        return sum(json.loads(line)["method"] == "tools/call" for line in lines)


@asynccontextmanager
async def house(directory: Path) -> AsyncGenerator[House]:
    installation, requests_file = Installation(directory), directory / "requests"
    spec = {"tools": _tools(), "faults": {"requestsFile": str(requests_file)}}
    model = Model()
    async with scripted_model(script=model) as served:
        hub = {"hub": server_entry(spec)}
        installation.configure(served.url, servers=hub, dataflow={"mode": "ask"})
        async with wired(COMMAND, installation.environ(), seconds=300) as wire:
            client = {"name": "t", "version": "1"}
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
            await wire.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
            await wire.answer()
            opened = House(wire, model, requests_file)
            model.on_intent = opened.used.append
            yield opened


async def test_all_are_carried_out_if_nothing_untrusted_is_in_the_session(tmp_path: Path) -> None:
    refused: list[str] = []
    async with house(tmp_path) as opened:
        for number, request in enumerate(REQUESTS):
            before = opened.calls()
            call = request.tool.partition("/")[2], request.arguments
            await opened.order(f"s{number}", request.text, call)
            if opened.calls() != before + 1:
                refused.append(request.text)
    assert refused == []
    assert opened.used == []


async def test_nearly_all_are_carried_out_after_a_harmless_page_was_read(tmp_path: Path) -> None:
    refused: list[str] = []
    async with house(tmp_path) as opened:
        for number, request in enumerate(REQUESTS):
            session, name = f"s{number}", request.tool.partition("/")[2]
            page = "read_page", {"url": "https://library.example/hours"}
            opened.model.wanted = {}
            await opened.order(session, "When does the library open? library.example/hours", page)
            opened.model.wanted = {f"hub/{name}": request.values}
            before, asked = opened.calls(), len(opened.used)
            await opened.order(session, request.text, (name, request.arguments))
            if opened.calls() != before + 1:
                refused.append(request.text)
            assert len(opened.used) <= asked + 1
    assert len(refused) <= 0.03 * len(REQUESTS), refused
    assert max(opened.used, default=0) <= MOST_TOKENS
