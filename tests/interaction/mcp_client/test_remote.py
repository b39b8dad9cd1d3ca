"""Servers behind an address: headers, lost connections, both kinds of transport."""

import os
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.support.fake_http_server import FakeHttpServer
from tests.support.mcp_server_kit import McpInstallation, fake_tool, open_gateway_runtime, until

from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.content import text_of
from openclaw.mcp_client.lifecycle.server_state import ServerState

ENVIRON = {"PATH": os.environ["PATH"], "TOKEN": "open-sesame-1234"}
SPEC: dict[str, Any] = {
    "tools": [
        fake_tool("echo"),
        fake_tool("drop", crash=1),
        fake_tool("work", progress={"times": 2, "every": 0.1}, text="done"),
    ]
}


def remote(url: str, **settings: Any) -> McpServerConfig:
    return McpServerConfig.model_validate({"url": url, "timeout": 60_000, **settings})


def state(installation: McpInstallation) -> ServerState:
    return installation.manager.status()[0].snapshot.state


@pytest.mark.requirement("FR-1.7")
@pytest.mark.parametrize("discover", ["answer", "refuse"])
async def test_a_tool_is_called_over_streamable_http(tmp_path: Path, discover: str) -> None:
    async with FakeHttpServer({**SPEC, "discover": discover}).running() as server:
        config = remote(server.url, transport="http")
        async with open_gateway_runtime(tmp_path, {"s": config}, environ=ENVIRON) as installation:
            assert installation.names() == ["mcp_s_drop", "mcp_s_echo", "mcp_s_work"]
            assert '{"x": 1}' in await installation.said("mcp_s_echo", x=1)
            assert "done" in await installation.said("mcp_s_work")


@pytest.mark.requirement("FR-1.7")
async def test_a_tool_is_called_over_sse(tmp_path: Path) -> None:
    async with FakeHttpServer(SPEC).running() as server:
        config = remote(server.sse_url, transport="sse")
        async with open_gateway_runtime(tmp_path, {"s": config}, environ=ENVIRON) as installation:
            assert '{"x": 1}' in await installation.said("mcp_s_echo", x=1)


@pytest.mark.requirement("FR-5.6")
async def test_headers_carry_resolved_secrets_that_never_come_back(tmp_path: Path) -> None:
    headers = {"Authorization": "Bearer open-sesame-1234"}
    async with FakeHttpServer(SPEC, headers=headers).running() as server:
        config = remote(server.url, headers={"Authorization": "Bearer secret://env/TOKEN"})
        async with open_gateway_runtime(tmp_path, {"s": config}, environ=ENVIRON) as installation:
            said = await installation.said("mcp_s_echo", x="open-sesame-1234")
            assert "open-sesame-1234" not in said
        sent = {request.headers.get("authorization") for request in server.requests}
        assert sent == {"Bearer open-sesame-1234"}


async def test_an_address_carries_resolved_secrets(tmp_path: Path) -> None:
    async with FakeHttpServer(SPEC).running() as server:
        config = remote(f"{server.url}?key=<secret://env/TOKEN>")
        async with open_gateway_runtime(tmp_path, {"s": config}, environ=ENVIRON) as installation:
            assert '{"x": 1}' in await installation.said("mcp_s_echo", x=1)
        asked = {request.path.partition("?")[2] for request in server.requests}
        assert asked == {"key=open-sesame-1234"}


async def test_a_wrong_header_is_a_state_and_not_an_endless_retry(tmp_path: Path) -> None:
    async with FakeHttpServer(SPEC, headers={"X-Key": "right"}).running() as server:
        config = remote(server.url, transport="http", headers={"X-Key": "wrong"})
        async with open_gateway_runtime(tmp_path, {"s": config}, environ=ENVIRON) as installation:
            assert installation.names() == []
            await until(lambda: state(installation) is not ServerState.CONNECTING)
            assert state(installation) is ServerState.NEEDS_LOGIN


async def test_a_call_whose_connection_is_cut_is_told(tmp_path: Path) -> None:
    async with FakeHttpServer(SPEC).running() as server:
        config = remote(server.url, transport="http", toolTimeout=4000)
        async with open_gateway_runtime(tmp_path, {"s": config}, environ=ENVIRON) as installation:
            result = await installation.call("mcp_s_drop")
            assert result.is_error
            assert "MCP tool error (s/drop)" in text_of(result.blocks)


@pytest.mark.requirement("E-8")
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_lost_connection_comes_back(tmp_path: Path, transport: str) -> None:
    async with FakeHttpServer(SPEC).running() as server:
        url = server.url if transport == "http" else server.sse_url
        async with open_gateway_runtime(
            tmp_path, {"s": remote(url, transport=transport)}, environ=ENVIRON
        ) as installation:
            server.drop_connections()
            with anyio.fail_after(60):
                while (await installation.call("mcp_s_echo")).is_error:
                    await anyio.lowlevel.checkpoint()
            assert state(installation) is ServerState.READY


@pytest.mark.requirement("FR-1.6")
async def test_without_a_transport_sse_is_tried_where_http_is_refused(tmp_path: Path) -> None:
    async with (
        FakeHttpServer(SPEC, only_sse=True).running() as server,
        open_gateway_runtime(
            tmp_path, {"s": remote(server.sse_url)}, environ=ENVIRON
        ) as installation,
    ):
        assert "mcp_s_echo" in installation.names()
        assert installation.manager.status()[0].snapshot.transport == "sse"


async def test_a_server_that_is_away_is_tried_again(tmp_path: Path) -> None:
    async with FakeHttpServer(SPEC).running() as server:
        server.available = False
        config = remote(server.url, transport="http")
        async with open_gateway_runtime(tmp_path, {"s": config}, environ=ENVIRON) as installation:
            assert installation.names() == []
            server.available = True
            await until(lambda: "mcp_s_echo" in installation.names())


async def test_the_trace_of_a_call_goes_along_over_http(tmp_path: Path) -> None:
    """Over pipes, the test of telemetry sees it."""
    spec = {"tools": [fake_tool("meta", meta=True)], "discover": "answer"}
    async with FakeHttpServer(spec).running() as server:
        config = remote(server.url, transport="http")
        async with open_gateway_runtime(
            tmp_path,
            {"s": config},
            environ=ENVIRON,
            traceparent="00-ab-cd-01",
        ) as installation:
            assert '"traceparent": "00-ab-cd-01"' in await installation.said("mcp_s_meta")


@pytest.mark.parametrize("scope", ["private", "public"])
async def test_what_is_listed_for_one_login_alone_is_not_kept_for_the_next(
    tmp_path: Path, scope: str
) -> None:
    spec = {**SPEC, "discover": "answer", "cacheScope": scope}
    async with FakeHttpServer(spec).running() as server:
        config = remote(server.url, transport="http", lazy=True)
        async with open_gateway_runtime(tmp_path, {"s": config}, environ=ENVIRON) as installation:
            assert '{"x": 1}' in await installation.said("mcp_s_echo", x=1)
            catalog = tmp_path / "cache" / "catalog"
            if scope == "public":
                await until(lambda: any(catalog.glob("*.json")))
        assert any(catalog.glob("*.json")) is (scope == "public")
