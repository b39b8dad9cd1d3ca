"""The gateway's own interface, over a real socket."""

import base64
import json
from typing import Any

import anyio
import httpx2
import pytest
from tests.interaction.gateway.conftest import Open
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation, documented

from openclaw.cli.environment import Environment
from openclaw.core.prompts import PartialArgument
from openclaw.gateway.http_server import build_app
from openclaw.runtime.access import open_agent
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

ECHO = server_entry({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})


def events_of(text: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if line.strip(": "))
        if "data" in lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


async def test_a_message_is_answered_with_its_events_and_at_last_the_reply(
    installation: Installation, opened: Open
) -> None:
    steps = [Step(calls=(("mcp_fake_echo", {"text": "x"}),)), Step(text="Done.")]
    async with scripted_model(steps) as model:
        installation.configure(model.url, {"fake": ECHO})
        async with opened() as client:
            answer = await client.post("/api/messages", json={"text": "go", "sessionKey": "k"})
            shown = (await client.get("/api/sessions/k")).json()
            listed = (await client.get("/api/sessions")).json()
    events = events_of(answer.text)
    names = [name for name, _ in events]
    assert names[0] == "accepted"
    assert names[-1] == "reply"
    assert [n for n in names if n in ("turn_started", "tool_started", "tool_finished")] == [
        "turn_started",
        "tool_started",
        "tool_finished",
    ]
    assert events[-1][1]["text"] == "Done."
    assert events[-1][1]["turnId"] == events[0][1]["turn"]
    assert shown["entries"][-1]["kind"] == "turn_finished"
    assert [row["key"] for row in listed["sessions"]] == ["k"]
    assert shown["session"].keys() == listed["sessions"][0].keys() == documented("Session")
    assert set[str]().union(*shown["entries"]) == documented("Entry")


async def test_a_whole_answer_can_be_asked_for_and_is_given_once_for_a_key(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model([Step(text="One.")]) as model:
        installation.configure(model.url)
        async with opened() as client:
            body = {"text": "go", "sessionKey": "k", "stream": False, "idempotencyKey": "order-7"}
            first = (await client.post("/api/messages", json=body)).json()
            second = (await client.post("/api/messages", json=body)).json()
    assert (first["outcome"], second["outcome"]) == ("ok", "duplicate")
    assert first["text"] == second["text"] == "One."
    assert len(model.requests) == 1


@pytest.mark.parametrize("way", ["turn", "session"])
async def test_a_turn_can_be_stopped_from_outside(
    installation: Installation, opened: Open, way: str
) -> None:
    async with scripted_model(default=Step(hang=True)) as model:
        installation.configure(model.url)
        async with opened() as client:
            answers: list[httpx2.Response] = []

            async def order() -> None:
                body = {"text": "go", "sessionKey": "a/b", "stream": False}
                answers.append(await client.post("/api/messages", json=body))

            async with anyio.create_task_group() as group:
                group.start_soon(order)
                await asked(model)
                [turn] = (await client.get("/api/turns")).json()["turns"]
                assert turn.keys() == documented("Turn")
                where = f"turns/{turn['turn']}" if way == "turn" else "sessions/a%2Fb"
                stopped = await client.post(f"/api/{where}/cancel")
                assert stopped.json() == {"cancelled": 1}
            entries = (await client.get("/api/sessions/a%2Fb")).json()["entries"]
    assert answers[0].status_code == 499
    assert answers[0].json()["error"]["type"] == "Cancelled"
    assert entries[-1]["kind"] == "turn_cancelled"


async def test_a_session_is_deleted_for_good(installation: Installation, opened: Open) -> None:
    async with scripted_model(default=Step(text="Hm.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            await client.post("/api/messages", json={"text": "go", "sessionKey": "k"})
            gone = await client.delete("/api/sessions/k")
            again = await client.delete("/api/sessions/k")
    assert gone.json()["deleted"]["key"] == "k"
    assert again.status_code == 404


async def test_servers_are_shown_with_their_tools_and_restarted(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9", {"fake": ECHO})
    async with opened() as client:
        before = await ready_server(client)
        tools = (await client.get("/api/tools")).json()["tools"]
        told = await client.post("/api/servers/fake/restart")
        with anyio.fail_after(60):
            while (await ready_server(client))["pid"] == before["pid"]:  # noqa: ASYNC110 (polls the gateway)
                await anyio.sleep(0.01)
        unknown = await client.post("/api/servers/nobody/restart")
        status = (await client.get("/api/status")).json()
        agents = (await client.get("/api/agents")).json()["agents"]
        metrics = (await client.get("/metrics")).text
    assert before["tools"] == 1
    assert before["protocol"]
    assert {"read", "write"} <= {tool["name"] for tool in tools if tool["server"] is None}
    (echo,) = [tool for tool in tools if tool["server"] is not None]
    assert (echo["name"], echo["inputSchema"]["type"]) == ("mcp_fake_echo", "object")
    assert (echo.keys(), before.keys()) == (documented("Tool"), documented("Server"))
    assert agents[0].keys() == documented("Agent")
    assert told.json() == {"restarted": "fake"}
    assert unknown.status_code == 404
    assert status["servers"][0]["name"] == "fake"
    assert 'openclaw_mcp_server_up{server="fake",agents="main"} 1' in metrics
    assert "openclaw_http_requests_total" in metrics


async def test_what_happens_is_told_to_those_who_listen(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9", {"fake": ECHO})
    seen: list[tuple[str, Any]] = []
    async with opened() as client:
        await ready_server(client)
        async with client.stream("GET", "/api/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            text = ""
            async for piece in answer.aiter_text():
                if not text:
                    await client.post("/api/servers/fake/restart")
                text += piece
                seen = events_of(text)
                if ("ready", None) in [(d.get("state"), d.get("detail")) for _, d in seen]:
                    break
    assert seen[0][0] == "hello"
    assert {name for name, _ in seen[1:]} == {"server_changed"}


async def test_every_route_is_in_the_document_and_every_entry_is_a_route(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        document = (await client.get("/api/openapi.json")).json()
    described = {
        (path, method.upper())
        for path, operations in document["paths"].items()
        for method in operations
    }
    from openclaw.config.schema import GatewayConfig
    from openclaw.core.clock import SystemClock
    from openclaw.gateway.gateway import Gateway
    from openclaw.gateway.tokens import Tokens
    from openclaw.secrets.refs import Secret

    clock = SystemClock()
    tokens = Tokens(Secret("x" * 43), clock)
    gateway = Gateway(
        GatewayConfig(), installation.paths, clock, str, installation.config_file, 0, tokens
    )
    routes: Any = build_app(gateway).routes
    served = {
        (route.path.replace(":path", ""), method)
        for route in routes
        if route.path.startswith("/api/") and route.path != "/api/openapi.json"
        for method in route.methods
        if method != "HEAD"
    }
    assert described == served


async def test_a_path_outside_of_the_orders_directories_is_not_read(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9")
    secret = installation.state / "sessions.db"
    async with opened() as client:
        for path in (str(secret), f"{installation.state}/tmp/../sessions.db", "/etc/passwd", "\0"):
            body = {"text": "x", "media": [{"mimeType": "text/plain", "path": path}]}
            answer = await client.post("/api/messages", json={**body, "stream": False})
            assert answer.status_code == 400, path


async def test_a_broken_image_is_refused_in_the_form_of_either_interface(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9")
    broken = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").decode()
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{broken}"}}
    native = {"text": "x", "stream": False, "media": [{"mimeType": "image/png", "data": broken}]}
    openai = {"model": "openclaw/main", "messages": [{"role": "user", "content": [url]}]}
    async with opened() as client:
        ours = await client.post("/api/messages", json=native)
        theirs = await client.post("/v1/chat/completions", json=openai)
    reason = "cannot be shown to a model: its header is cut off"
    assert ours.status_code == theirs.status_code == 400
    assert ours.json()["error"]["message"] == f"media[0]: {reason}"
    assert theirs.json()["error"]["type"] == "invalid_request_error"
    assert theirs.json()["error"]["message"].endswith(reason)


async def asked(model: ScriptedModel) -> None:
    with anyio.fail_after(60):
        while not model.requests:  # noqa: ASYNC110 (the model keeps no event of ours)
            await anyio.sleep(0.01)


async def ready_server(client: httpx2.AsyncClient) -> dict[str, Any]:
    with anyio.fail_after(60):
        while True:
            [row] = (await client.get("/api/servers")).json()["servers"]
            if row["state"] == "ready" and row["tools"]:
                return row
            await anyio.sleep(0.01)


async def test_a_server_that_never_answers_holds_up_no_order(
    installation: Installation, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw.runtime.runtime._NEW_SERVER_SECONDS", 0.1)
    hung = server_entry(
        {"faults": {"hang": ["initialize", "server/discover"]}}, timeout=600_000, toolTimeout=1000
    )
    async with scripted_model(default=Step(text="done")) as model:
        installation.configure(model.url, {"hung": hung})
        async with opened() as client:
            body = {"text": "go", "stream": False}
            answer = (await client.post("/api/messages", json=body)).json()
    assert answer["text"] == "done"
    assert "'hung' is not available (it is still connecting)" in str(model.requests[0].body)


async def test_a_server_suggests_values_over_the_api_and_through_the_gateway(
    installation: Installation, opened: Open
) -> None:
    prompt = {"name": "greet", "arguments": [{"name": "who"}]}
    server = server_entry({"prompts": [prompt], "completes": {"who": ["Ada", "Bob"]}})
    installation.configure("http://127.0.0.1:9", {"fake": server})
    async with opened() as client:
        body = {"server": "fake", "prompt": "greet", "argument": "who", "value": "A"}
        values: Any = {"values": []}
        with anyio.fail_after(60):
            while not values["values"]:  # until the server has started
                values = (await client.post("/api/completions", json=body)).json()
        async with open_agent(Environment(environ=installation.environ())) as agent:
            main = (await agent.settings()).id
            through = await agent.complete(main, PartialArgument("fake", "who", "B", "greet"))
        unknown = await client.post("/api/completions", json={**body, "server": "none"})
    assert values == {"values": ["Ada"]}
    assert list(through) == ["Bob"]
    assert unknown.status_code == 404
