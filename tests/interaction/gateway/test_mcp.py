"""Orders of MCP clients at the gateway's `/mcp`."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from tests.interaction.gateway.conftest import Open
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.mcp_server_kit import fake_tool

from openclaw.core.clock import SystemClock
from openclaw.gateway.tokens import TokenFile
from openclaw.testing.scripted_model import Step, scripted_model

ORDER = "order_openclaw"
ECHO = Step(text="Heard: {last}")
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@asynccontextmanager
async def mcp_client(
    http: httpx2.AsyncClient, *, token: str | None = None, path: str = "/mcp", **options: Any
) -> AsyncGenerator[Client]:
    headers = {"authorization": f"Bearer {token}"} if token else dict(http.headers)
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as own:
        transport = streamable_http_client(
            f"{http.base_url}{path}".replace("//mcp", "/mcp"), http_client=own
        )
        async with Client(transport, **options) as client:
            yield client


def said(result: Any) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


def initialize(version: str = "2025-11-25") -> dict[str, Any]:
    params = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_order_over_http_is_answered_at_every_revision(
    installation: Installation, opened: Open, mode: str
) -> None:
    async with scripted_model(default=ECHO) as model:
        installation.configure(model.url)
        async with opened() as http, mcp_client(http, mode=mode) as client:
            answer = await client.call_tool(ORDER, {"message": "Hello."})
            names = [tool.name for tool in (await client.list_tools()).tools]
    assert (said(answer), answer.is_error, names) == ("Heard: Hello.", False, [ORDER])


async def test_an_order_over_http_may_carry_media_and_name_an_agent(
    installation: Installation, opened: Open
) -> None:
    page = {"mimeType": "text/plain", "data": base64.b64encode(b"the words in it").decode()}
    order = {"message": "Read it.", "files": [page], "sessionKey": "files"}
    async with scripted_model(default=ECHO) as model:
        installation.configure(model.url, agents={"list": [{"id": "main"}, {"id": "second"}]})
        async with opened() as http:
            async with mcp_client(http, path="/mcp?agent=second") as client:
                answer = await client.call_tool(ORDER, order)
            listed = (await http.get("/api/sessions")).json()["sessions"]
    assert "the words in it" in said(answer)
    assert [(one["agent"], one["key"]) for one in listed] == [("second", "files")]


async def test_a_client_of_an_older_revision_is_asked_for_consent(
    installation: Installation, opened: Open
) -> None:
    asked: list[str] = []

    async def agree(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"answer": "once"})

    server = server_entry({"tools": [fake_tool("act", text="done")]})
    rules = [
        Step(role="user", calls=(("mcp_fake_act", {"place": "Bern"}),)),
        Step(role="tool", text="It said {last}"),
    ]
    async with scripted_model(rules=rules) as model:
        installation.configure(model.url, {"fake": server}, tools={"ask": ["mcp_fake_act"]})
        async with opened() as http:
            async with mcp_client(http, mode="legacy", elicitation_callback=agree) as client:
                answer = await client.call_tool(ORDER, {"message": "Act."})
            token = TokenFile(installation.state, SystemClock()).add("laptop", ["orders"]).reveal()
            async with mcp_client(
                http, mode="legacy", elicitation_callback=agree, token=token
            ) as client:
                refused = await client.call_tool(ORDER, {"message": "Act."})
    assert "done" in said(answer)
    assert len(asked) == 1
    assert "Bern" in asked[0]
    assert "nobody is there to answer" in said(refused)  # a token for orders decides nothing


async def test_who_has_no_token_is_told_how_to_get_in(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=ECHO) as model:
        installation.configure(model.url)
        async with opened() as http:
            refused = await http.post("/mcp", json={}, headers={"authorization": ""})
            where = (
                refused.headers["www-authenticate"].split('resource_metadata="')[1].split('"')[0]
            )
            async with httpx2.AsyncClient(trust_env=False) as stranger:
                facts = (await stranger.get(where)).json()
                behind = await stranger.get(where, headers={"x-forwarded-proto": "https"})
                page = await stranger.post(
                    f"{http.base_url}/mcp", json={}, headers={"origin": "https://evil.example"}
                )
                rebound = await stranger.post(
                    f"{http.base_url}/mcp", json={}, headers={"host": "evil.example"}
                )
    assert refused.status_code == 401
    assert facts["resource"] == f"{str(http.base_url).rstrip('/')}/mcp"
    assert facts["scopes_supported"] == ["orders"]
    assert behind.json()["resource"].startswith("https://")
    assert (page.status_code, rebound.status_code) == (403, 421)


async def test_a_token_without_orders_may_not_give_any(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=ECHO) as model:
        installation.configure(model.url)
        token = TokenFile(installation.state, SystemClock()).add("watcher", ["read"]).reveal()
        async with opened() as http:
            refused = await http.post(
                "/mcp", json=initialize(), headers={"authorization": f"Bearer {token}"}
            )
    assert refused.status_code == 403
    assert 'error="insufficient_scope", scope="orders"' in refused.headers["www-authenticate"]


@pytest.mark.parametrize("method", ["PUT", "TRACE", "SOMETHING"])
async def test_a_method_that_mcp_does_not_have_is_refused_with_those_that_it_has(
    installation: Installation, opened: Open, method: str
) -> None:
    async with scripted_model(default=ECHO) as model:
        installation.configure(model.url)
        async with opened() as http:
            refused = await http.request(method, "/mcp", headers=HEADERS)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST, DELETE")


async def test_a_session_belongs_to_the_token_that_opened_it(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=ECHO) as model:
        installation.configure(model.url)
        other = TokenFile(installation.state, SystemClock()).add("other", ["orders"]).reveal()
        async with opened() as http:
            begun = await http.post("/mcp", json=initialize(), headers=HEADERS)
            session = {**HEADERS, "mcp-session-id": begun.headers["mcp-session-id"]}
            listing: dict[str, Any] = {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "tools/list",
                "params": {},
            }
            await http.post(
                "/mcp",
                json={"jsonrpc": "2.0", "method": "notifications/initialized"},
                headers=session,
            )
            own = await http.post("/mcp", json=listing, headers=session)
            stolen = await http.post(
                "/mcp", json=listing, headers={**session, "authorization": f"Bearer {other}"}
            )
    assert (own.status_code, stolen.status_code) == (200, 404)
    assert ORDER in own.text
