"""Our client and a server made with the official SDK, over every transport and in both eras."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.text import TextReceiveStream
from tests.support.connection_bench import Bench

from openclaw.mcp_client.errors import RemoteError
from openclaw.mcp_client.lifecycle.connection import ServerConnection
from openclaw.mcp_client.session.era_memory import Era, EraMemory, identity

pytestmark = pytest.mark.subprocess

PEER = ["-m", "tests.support.sdk_server"]
CASES = [(transport, era) for transport in ("stdio", "http") for era in Era] + [("sse", Era.LEGACY)]


@asynccontextmanager
async def entry(transport: str) -> AsyncGenerator[dict[str, Any]]:
    if transport == "stdio":
        yield {"command": sys.executable, "args": [*PEER, "stdio"], "inheritEnv": True}
        return
    async with await anyio.open_process([sys.executable, *PEER, transport], stderr=None) as peer:
        try:
            assert peer.stdout is not None
            port = (await TextReceiveStream(peer.stdout).receive()).strip()
            path = "mcp" if transport == "http" else "sse"
            yield {"url": f"http://127.0.0.1:{port}/{path}", "transport": transport}
        finally:
            peer.terminate()


@asynccontextmanager
async def connected(
    bench: Bench, transport: str, era: Era, **deps: Any
) -> AsyncGenerator[ServerConnection]:
    async with entry(transport) as fields:
        connection = bench.to({**fields, "sampling": True}, deps=deps)
        EraMemory(bench.directory, identity(connection.config)).remember(era)
        async with bench.run(connection) as server:
            yield server


def text(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"])


@pytest.mark.parametrize(("transport", "era"), CASES)
async def test_the_sdks_server_is_used_whole(
    bench: Bench, transport: str, era: Era, tmp_path: Path
) -> None:
    async def user(server: str, params: Any) -> dict[str, Any]:
        assert params["message"] == "Your name?"
        return {"action": "accept", "content": {"name": "Ann"}}

    async def model(server: str, params: Any) -> dict[str, Any]:
        content = {"type": "text", "text": "hello"}
        return {"role": "assistant", "model": "m", "content": content}

    hosts = {"on_elicitation": user, "on_sampling": model, "roots": [tmp_path]}
    async with connected(bench, transport, era, **hosts) as server:
        revision = "2026-07-28" if era is Era.MODERN else "2025-11-25"
        assert server.snapshot.protocol == revision
        assert (server.snapshot.server_name, server.snapshot.server_version) == ("peer", "7")
        assert server.listing.instructions == "Be kind."
        assert {tool.name for tool in server.listing.tools} >= {"echo", "add", "ask"}
        assert text(await server.call_tool("echo", {"text": "h\u00e9llo \U0001f600"})) == (
            "h\u00e9llo \U0001f600"
        )
        assert (await server.call_tool("add", {"a": 2, "b": 3}))["structuredContent"] == {
            "result": 5
        }
        failed = await server.call_tool("fail", {})
        assert failed["isError"] is True
        assert text(failed) == "Error executing tool fail"
        heard: list[float] = []

        def hear(done: float, total: float | None, message: str | None) -> None:
            heard.append(done)

        await server.call_tool("work", {}, on_progress=hear)
        assert heard
        assert text({"content": (await server.read_resource("note://one"))["contents"]}) == "a note"
        greeting = await server.get_prompt("greet", {"who": "Ann"})
        assert greeting["messages"][0]["content"]["text"] == "Hello Ann"
        with pytest.raises(RemoteError):
            await server.read_resource("note://none")
        if era is Era.LEGACY:  # later, servers ask in their results
            assert text(await server.call_tool("roots", {})) == tmp_path.as_uri()
            assert text(await server.call_tool("ask", {})) == "Ann"
            assert text(await server.call_tool("sample", {})) == "hello"
