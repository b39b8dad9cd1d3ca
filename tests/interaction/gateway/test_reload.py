"""A changed configuration, while the gateway runs."""

import logging
from typing import Any

import anyio
import httpx2
import pytest
from tests.interaction.gateway.conftest import Open
from tests.interaction.gateway.test_native import asked
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import Step, scripted_model

OBJECT = {"type": "object"}
NOT_BY_ITSELF = {"reload": {"mode": "off"}}  # so that the request is what reloads


def fake(tool: str, **settings: Any) -> dict[str, Any]:
    return server_entry({"tools": [{"name": tool, "inputSchema": OBJECT}]}, **settings)


async def servers(client: httpx2.AsyncClient, *ready: str) -> dict[str, Any]:
    """The servers, once exactly these are there and ready."""
    wanted = [(name, "ready") for name in ready]
    with anyio.fail_after(60):
        while True:
            rows = (await client.get("/api/servers")).json()["servers"]
            if sorted((row["name"], row["state"]) for row in rows) == sorted(wanted):
                return {row["name"]: row for row in rows}
            await anyio.sleep(0.01)


@pytest.mark.requirement("D-7")
async def test_only_what_changed_is_restarted(installation: Installation, opened: Open) -> None:
    old = {"same": fake("a"), "changed": fake("b"), "removed": fake("c")}
    new = {"same": fake("a"), "changed": fake("b2"), "added": fake("d")}
    installation.configure("http://127.0.0.1:9", old, gateway=NOT_BY_ITSELF)
    async with opened() as client:
        before = await servers(client, *old)
        installation.configure("http://127.0.0.1:9", new, gateway=NOT_BY_ITSELF)
        report = (await client.post("/api/reload")).json()
        after = await servers(client, *new)
        again = (await client.post("/api/reload")).json()
    assert report == {"changed": True, "waiting": []}
    assert again == {"changed": False, "waiting": []}
    assert after["same"]["pid"] == before["same"]["pid"]
    assert after["changed"]["pid"] != before["changed"]["pid"]


async def test_a_changed_file_is_noticed(installation: Installation, opened: Open) -> None:
    installation.configure("http://127.0.0.1:9", {"one": fake("a")})
    async with opened() as client:
        await servers(client, "one")
        installation.configure("http://127.0.0.1:9", {"one": fake("a"), "two": fake("b")})
        await servers(client, "one", "two")


async def test_a_wrong_change_is_reported_and_the_old_configuration_stays(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(text="Here.")) as model:
        installation.configure(model.url, {"one": fake("a")})
        async with opened() as client:
            before = await servers(client, "one")
            installation.config_file.write_text('{"agents": {"defaults": {"modell": 3}}}')
            answer = await client.post("/api/reload")
            status = (await client.get("/api/status")).json()
            order = await client.post("/api/messages", json={"text": "x", "stream": False})
            after = await servers(client, "one")
    assert answer.status_code == 503
    [problem] = answer.json()["error"]["problems"]
    assert problem["path"] == "agents.defaults.modell"
    assert "modell" in status["reloadError"]
    assert order.json()["text"] == "Here."
    assert after["one"]["pid"] == before["one"]["pid"]


async def test_a_file_that_is_gone_is_reported_and_the_old_configuration_stays(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9", {"one": fake("a")})
    text = installation.config_file.read_text()
    async with opened() as client:
        before = await servers(client, "one")
        installation.config_file.unlink()
        answer = await client.post("/api/reload")
        status = (await client.get("/api/status")).json()
        after = await servers(client, "one")
        installation.config_file.write_text(text)
        again = await client.post("/api/reload")
        healed = (await client.get("/api/status")).json()
    assert answer.status_code == 503
    assert "no longer exists" in answer.text
    assert "no longer exists" in status["reloadError"]
    assert after["one"]["pid"] == before["one"]["pid"]
    assert again.json() == {"changed": False, "waiting": []}
    assert healed["reloadError"] is None


async def test_a_running_turn_finishes_on_what_it_began_with(
    installation: Installation, opened: Open
) -> None:
    steps = [
        Step(text="I look.", calls=(("mcp_old_echo", {"text": "1"}),)),
        Step(calls=(("mcp_old_echo", {"text": "2"}),), delay=0.5),
        Step(text="{last}"),
    ]
    slow = server_entry(
        {"tools": [{"name": "echo", "inputSchema": OBJECT, "does": {"sleep": 0.5, "text": "x"}}]}
    )
    async with (
        scripted_model(steps) as model,
        scripted_model(default=Step(text="From the new one.")) as other,
    ):
        installation.configure(model.url, {"old": slow})
        async with opened() as client:
            await servers(client, "old")
            replies: list[Any] = []

            async def order() -> None:
                answer = await client.post("/api/messages", json={"text": "go", "stream": False})
                replies.append(answer.json())

            async with anyio.create_task_group() as group:
                group.start_soon(order)
                await asked(model)
                installation.configure(other.url, {"new": fake("b")})
                await client.post("/api/reload")
                body = {"text": "go", "stream": False}
                later = (await client.post("/api/messages", json=body)).json()
                assert later["text"] == "From the new one."
            left = await servers(client, "new")
    assert len(model.requests) == 3
    assert "From: old" in replies[0]["text"]
    assert "unavailable" not in replies[0]["text"]
    assert list(left) == ["new"]


async def test_what_only_a_restart_can_change_is_named(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9", gateway=NOT_BY_ITSELF)
    async with opened() as client:
        installation.configure(
            "http://127.0.0.1:9",
            gateway={"bind": "127.0.0.1", **NOT_BY_ITSELF},
            sessions={"store": "other.db"},
        )
        report = (await client.post("/api/reload")).json()
        again = (await client.post("/api/reload")).json()
        installation.configure("http://127.0.0.1:9", gateway=NOT_BY_ITSELF)
        undone = (await client.post("/api/reload")).json()
    assert report == {"changed": True, "waiting": ["gateway.bind", "sessions.store"]}
    assert again == {"changed": False, "waiting": ["gateway.bind", "sessions.store"]}
    assert undone == {"changed": True, "waiting": []}


async def test_the_log_tells_of_turns_servers_and_reloads_and_not_what_was_said(
    installation: Installation, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "openclaw")
    rules = [
        Step(when="fail", role="user", status=401, message="bad key"),
        Step(when="twice", role="user", calls=(("mcp_one_a", {}), ("mcp_one_a", {}))),
    ]
    async with scripted_model(rules=rules, default=Step(text="a private answer")) as model:
        installation.configure(model.url, {"one": fake("a")})
        async with opened() as client:
            await servers(client, "one")
            for text in ("a private question, twice", "now fail"):
                message = {"text": text, "sessionKey": "mine", "origin": "page"}
                await client.post("/api/messages", json=message)
            installation.configure(model.url, {"one": fake("a"), "two": fake("b")})
            await client.post("/api/reload")
            await servers(client, "one", "two")
    told = caplog.text
    assert "started: agent main, session mine, from page, model acme/scripted" in told
    assert "of session mine finished after" in told
    assert "tools: mcp_one_a (2 times); tokens: " in told
    assert "of session mine failed after" in told
    assert "reason: " in told
    assert "MCP server 'two' " in told
    assert "the configuration was reloaded; changed: " in told
    assert "private" not in told
