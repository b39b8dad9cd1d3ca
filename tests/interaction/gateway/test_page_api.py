"""What the page asks for beyond the rest of the interface."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.interaction.gateway.conftest import Open
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation, documented
from tests.support.mcp_server_kit import fake_tool

from openclaw.config.load import load_config
from openclaw.config.merge import effective_agents
from openclaw.mcp_client.catalog.pin_store import PinStore, pin_key
from openclaw.mcp_client.catalog.pins import Declaration
from openclaw.media.kinds import MAX_OUTBOUND_BYTES
from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.anyio


def say(text: str) -> Declaration:
    return Declaration(str(hash(text)), text)


async def test_what_waits_to_be_accepted_is_listed_and_accepted_one_by_one(
    installation: Installation, opened: Open
) -> None:
    # It never says what it has, so that what was observed before stands.
    servers = {"idle": {"command": "sleep", "args": ["600"], "lazy": True}}
    # Two agents share the server: it is listed once.
    installation.configure(
        "http://127.0.0.1:9", servers, agents={"list": [{"id": "a"}, {"id": "b"}]}
    )
    loaded = load_config(None, installation.environ())
    key = pin_key(effective_agents(loaded.config)["a"].servers["idle"])
    store = PinStore(installation.paths.pins)
    store.observe(key, "idle", "x", {"old": say("old"), "same": say("same"), "gone": say("gone")})
    store.observe("0" * 32, "elsewhere", "x", {"a": say("a")})
    store.observe(key, "idle", "x", {"old": say("OLD"), "same": say("same"), "new": say("new")})
    async with opened() as client:
        (row,) = (await client.get("/api/pins")).json()["pins"]
        assert row["server"] == "idle"
        shown = {(one["what"], one["key"]): one["diff"] for one in row["changes"]}
        assert set(shown) == {("changed", "old"), ("new", "new"), ("gone", "gone")}
        assert "-old" in shown["changed", "old"]
        assert "+OLD" in shown["changed", "old"]
        answer = await client.post("/api/servers/idle/pins", json={"names": ["old"]})
        assert answer.json() == {"accepted": ["old"]}
        assert set(store.load()[key].pending) == {"new"}
        answer = await client.post("/api/servers/idle/pins", json={})
        assert sorted(answer.json()["accepted"]) == ["gone", "new"]
        assert (await client.get("/api/pins")).json() == {"pins": []}


async def test_what_another_process_accepts_is_seen_at_once(
    installation: Installation, opened: Open
) -> None:
    servers = {"a": server_entry({"tools": [fake_tool("now")]})}
    installation.configure("http://127.0.0.1:9", servers)
    agent = next(iter(effective_agents(load_config(None, installation.environ()).config).values()))
    key = pin_key(agent.servers["a"])
    store = PinStore(installation.paths.pins)
    store.observe(key, "a", "x", {"before": say("before")})

    async with opened() as client:

        async def pin() -> str | None:
            (row,) = (await client.get("/api/servers")).json()["servers"]
            return row["pin"]

        with anyio.fail_after(60):
            while await pin() is None:  # noqa: ASYNC110 - the gateway tells it only when asked
                await anyio.sleep(0.02)
        assert await pin() == "new: now; gone: before"
        assert sorted(store.accept(key)) == ["before", "now"]
        assert await pin() == "pinned"


@pytest.mark.parametrize(
    ("server", "body", "status"),
    [("nobody", {}, 404), ("idle", {"names": "old"}, 400), ("idle", {"names": [1]}, 400)],
)
async def test_pins_of_nobody_and_names_that_are_none_are_refused(
    installation: Installation, opened: Open, server: str, body: dict[str, Any], status: int
) -> None:
    installation.configure("http://127.0.0.1:9", {"idle": server_entry({}, lazy=True)})
    async with opened() as client:
        answer = await client.post(f"/api/servers/{server}/pins", json=body)
        assert answer.status_code == status


async def test_a_file_of_the_workspace_is_handed_over_as_bytes_that_run_nothing(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9")
    file = installation.state / "workspace" / "page.html"
    file.write_text("<script>alert(1)</script>")
    async with opened() as client:
        answer = await client.get("/api/files", params={"path": str(file)})
    assert answer.text == "<script>alert(1)</script>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment"
    assert "sandbox" in answer.headers["content-security-policy"]


async def test_no_secret_is_handed_over_with_a_file(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9")
    text, image = (
        installation.state / "workspace" / "a.txt",
        installation.state / "workspace" / "b.png",
    )
    text.write_text("key acme-key-0123456789")
    image.write_bytes(b"\x89PNG\r\n\x1a\n\0acme-key-0123456789")
    async with opened() as client:
        answer = await client.get("/api/files", params={"path": str(text)})
        assert answer.text == "key [REDACTED]"
        answer = await client.get("/api/files", params={"path": str(image)})
        assert answer.status_code == 400
        assert "withheld: it contains a secret" in answer.text


async def test_no_other_file_is_handed_over(
    installation: Installation, opened: Open, tmp_path: Path
) -> None:
    installation.configure("http://127.0.0.1:9")
    workspace = installation.state / "workspace"
    (workspace / "link").symlink_to(installation.config_file)
    (workspace / "large").write_bytes(b"")
    os.truncate(workspace / "large", MAX_OUTBOUND_BYTES + 1)
    os.mkfifo(workspace / "pipe")
    async with opened() as client:
        for path, status in (
            ("", 400),
            ("page.html", 400),
            ("\0", 400),
            (f"{workspace}/\0", 400),
            (str(installation.config_file), 400),
            (f"{workspace}/../openclaw.json", 400),
            (f"{workspace}/link", 400),
            (f"{workspace}/large", 400),
            (f"{workspace}/pipe", 404),
            (f"{workspace}/missing", 404),
            (str(workspace), 404),
        ):
            answer = await client.get("/api/files", params={"path": path})
            assert answer.status_code == status, path
        answer = await client.get("/api/files", params={"path": "/x", "agent": "nobody"})
        assert answer.status_code == 404


async def test_costs_are_shown_by_day_session_and_model(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(text="Hi.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            for key in ("a", "b"):
                body = {"text": "go", "sessionKey": key, "stream": False}
                reply = (await client.post("/api/messages", json=body)).json()
            everything = (await client.get("/api/usage")).json()
            one = (await client.get("/api/usage?session=a&days=1")).json()
    assert reply["usage"]["unpriced"] == 1
    assert everything["total"]["requests"] == 2
    assert [row["session"] for row in one["rows"]] == ["a"]
    assert one["rows"][0]["day"] == one["today"]
    assert one["rows"][0].keys() == documented("Usage") > one["total"].keys()
    assert one["rows"][0]["model"] == "acme/scripted"


async def test_the_last_changes_are_undone_by_the_api(
    installation: Installation, opened: Open
) -> None:
    steps = [Step(calls=(("write", {"path": "a.txt", "content": "x"}),)), Step(text="Done.")]
    async with scripted_model(steps) as model:
        installation.configure(model.url)
        async with opened() as client:
            body = {"text": "go", "sessionKey": "k", "stream": False}
            await client.post("/api/messages", json=body)
            undone = (await client.post("/api/sessions/k/undo")).json()
            missing = await client.post("/api/sessions/nobody/undo")
    assert "a.txt" in undone["text"]
    assert undone["outcome"] == "ok"
    assert missing.status_code == 404
    assert len(model.requests) == 2
