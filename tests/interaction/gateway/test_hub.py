"""The hub of a gateway: over HTTP, and for the clients of `openclaw mcp-hub`."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientRequestContext
from mcp.client.stdio import stdio_client
from tests.interaction.gateway.conftest import Open
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.hub_kit import EVERYTHING, said, tool_names
from tests.support.mcp_server_kit import fake_tool
from tests.support.plain_mcp_client import Json, PlainClient, http_client_of

from openclaw.core.clock import SystemClock
from openclaw.gateway.tokens import TokenFile
from openclaw.mcp import names
from openclaw.mcp.revisions import REVISIONS, Revision

SESSIONS, STATELESS = REVISIONS["2025-11-25"], REVISIONS["2026-07-28"]
ACCEPT = {names.ELICIT: {"action": "accept", "content": {"answer": "once"}}}
PROGRAM = Path(sys.executable).parent / "openclaw"


@pytest.fixture
def servers() -> Json:
    tools = [fake_tool("echo"), fake_tool("pid", pid=True), fake_tool("ask", elicit={})]
    return {"s": server_entry({"tools": tools, "discover": "answer"})}


def token(installation: Installation, *scopes: str) -> str:
    name = "-".join(scopes)
    return TokenFile(installation.state, SystemClock()).add(name, scopes).reveal()


def connected(
    http: httpx2.AsyncClient, revision: Revision, bearer: str, answers: Any = None
) -> AbstractAsyncContextManager[PlainClient]:
    return http_client_of(
        f"{str(http.base_url).rstrip('/')}/mcp/hub",
        revision,
        {"authorization": f"Bearer {bearer}"},
        capabilities=EVERYTHING,
        answers=answers or {},
    )


async def test_clients_over_http_share_the_servers(
    installation: Installation, opened: Open, servers: Json
) -> None:
    installation.configure("http://127.0.0.1:9", servers)
    async with opened() as http:
        own, tools = installation.token, token(installation, "tools")
        async with (
            connected(http, SESSIONS, own) as first,
            connected(http, STATELESS, tools) as second,
        ):
            listed = [await tool_names(one) for one in (first, second)]
            pids = {said(await one.call("mcp_s_pid")) for one in (first, second)}
            status = (await http.get("/api/servers")).json()["servers"]
    assert listed[0] == listed[1] == ["mcp_s_ask", "mcp_s_echo", "mcp_s_pid"]
    assert len(pids) == 1
    assert [one["clients"] for one in status] == [["plain 1"]]  # a request alone leaves no trace


async def test_a_token_needs_the_scope_tools(
    installation: Installation, opened: Open, servers: Json
) -> None:
    installation.configure("http://127.0.0.1:9", servers)
    async with opened() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        answers = [
            await http.post("/mcp/hub", json=body, headers={"authorization": f"Bearer {bearer}"})
            for bearer in (token(installation, "orders"), "wrong")
        ]
        metadata = await http.get("/.well-known/oauth-protected-resource/mcp/hub")
    assert [one.status_code for one in answers] == [403, 401]
    assert 'scope="tools"' in answers[0].headers["www-authenticate"]
    assert metadata.json()["scopes_supported"] == ["tools"]
    assert metadata.json()["resource"].endswith("/mcp/hub")


async def test_only_the_users_own_programs_may_approve_calls(
    installation: Installation, opened: Open, servers: Json
) -> None:
    installation.configure("http://127.0.0.1:9", servers, tools={"ask": ["mcp_s_echo"]})
    async with opened() as http:
        async with connected(http, SESSIONS, installation.token, ACCEPT) as owner:
            approved = await owner.call("mcp_s_echo", x=1)
        async with connected(http, SESSIONS, token(installation, "tools"), ACCEPT) as guest:
            waits = await guest.call("mcp_s_echo", x=1)
        open_questions = (await http.get("/api/questions")).json()["questions"]
    assert json.loads(said(approved)) == {"x": 1}
    assert waits["isError"]
    assert "openclaw questions answer" in said(waits)
    assert guest.asked == []
    assert [one["sessionKey"] for one in open_questions] == ["hub:tools:plain 1"]


# ---- openclaw mcp-hub


async def elicited(
    context: ClientRequestContext, params: types.ElicitRequestParams, name: str
) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": name})


@asynccontextmanager
async def stdio(
    installation: Installation, name: str = "Ada", mode: str = "legacy", *arguments: str
) -> AsyncGenerator[Client]:
    async def answer(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": name})

    parameters = StdioServerParameters(
        command=str(PROGRAM), args=["mcp-hub", *arguments], env=installation.environ()
    )
    async with Client(stdio_client(parameters), mode=mode, elicitation_callback=answer) as client:
        yield client


def text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_uses_the_servers_without_a_gateway(
    installation: Installation, servers: Json, mode: str
) -> None:
    installation.configure("http://127.0.0.1:9", servers)
    async with stdio(installation, "Ada", mode) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        asked = text(await client.call_tool("mcp_s_ask", {}))
    assert listed == ["mcp_s_ask", "mcp_s_echo", "mcp_s_pid"]
    assert "Ada" in asked


async def test_clients_of_a_gateway_share_its_servers_and_are_asked_themselves(
    installation: Installation, opened: Open, servers: Json
) -> None:
    installation.configure("http://127.0.0.1:9", servers)
    async with (
        opened() as http,
        stdio(installation, "Ada") as ada,
        stdio(installation, "Alan", "2026-07-28") as alan,
    ):
        pids = {text(await one.call_tool("mcp_s_pid", {})) for one in (ada, alan)}
        asked = [text(await one.call_tool("mcp_s_ask", {})) for one in (ada, alan)]
        (row,) = (await http.get("/api/servers")).json()["servers"]
    assert pids == {str(row["pid"])}
    assert "Ada" in asked[0]
    assert "Alan" in asked[1]
    assert [name.split()[0] for name in row["clients"]] == ["mcp"]


async def test_a_client_keeps_its_tools_if_the_gateway_goes_away(
    installation: Installation, servers: Json
) -> None:
    installation.configure("http://127.0.0.1:9", servers)
    async with installation.process() as gateway:
        await installation.running()
        async with stdio(installation) as client:
            before = text(await client.call_tool("mcp_s_pid", {}))
            gateway.kill()
            await gateway.wait()
            after = text(await client.call_tool("mcp_s_pid", {}))
    assert before != after


async def test_a_changed_configuration_holds_for_the_next_call(
    installation: Installation, servers: Json
) -> None:
    installation.configure("http://127.0.0.1:9", servers)
    async with stdio(installation) as client:
        assert not (await client.call_tool("mcp_s_echo", {})).is_error
        installation.configure("http://127.0.0.1:9", servers, tools={"deny": ["mcp_s_echo"]})
        denied = await client.call_tool("mcp_s_echo", {})
        listed = [tool.name for tool in (await client.list_tools()).tools]
    assert denied.is_error
    assert "not allowed" in text(denied)
    assert listed == ["mcp_s_ask", "mcp_s_pid"]
