"""Conversations in a directory of their own, and what else only the page asks for."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.fake_http import FakeHttp, Reply, Request
from tests.support.gateway_kit import Installation

from openclaw.sessions.records import directory_prefix
from openclaw.testing.scripted_model import Step, scripted_model

Open = Callable[[], AbstractAsyncContextManager[httpx2.AsyncClient]]
ADMIN = "a-token-for-everything-0123"


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return Installation(state)


@pytest.fixture
def opened(installation: Installation) -> Open:
    """A client with an admin's token, which is not this account's own."""

    @asynccontextmanager
    async def opened() -> AsyncGenerator[httpx2.AsyncClient]:
        async with installation.here() as info:
            headers = {"authorization": f"Bearer {ADMIN}"}
            async with httpx2.AsyncClient(base_url=info.url, headers=headers, timeout=60) as client:
                yield client

    return opened


def configure(
    installation: Installation, url: str, more_providers: Mapping[str, Any] | None = None
) -> None:
    installation.configure(url, gateway={"auth": {"token": ADMIN}})
    config = json.loads(installation.config_file.read_text())
    config["models"]["providers"] |= more_providers or {}
    installation.config_file.write_text(json.dumps(config))


async def test_a_conversation_works_in_the_directory_that_it_was_given(
    installation: Installation, opened: Open, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("old\n")
    write = Step(when="write", role="user", calls=(("write", {"path": "a.txt", "content": "x\n"}),))
    async with scripted_model(rules=[write], default=Step(text="Done.")) as model:
        configure(installation, model.url)
        async with opened() as client:
            folder = (await client.post("/api/folders", json={"path": str(project)})).json()
            key = f"{folder['keyPrefix']}1"
            body = {
                "text": "write it",
                "sessionKey": key,
                "stream": False,
                "workspace": folder["path"],
            }
            await client.post("/api/messages", json=body)
            changes = (await client.get(f"/api/sessions/{key}/changes")).json()["changes"]
            used = (await client.get("/api/folders")).json()["folders"]
            entries = (await client.get(f"/api/sessions/{key}")).json()["entries"]
            await client.post(f"/api/sessions/{key}/undo")
            undone = (project / "a.txt").read_text()
            await client.post(f"/api/sessions/{key}/undo?redo=true")
    assert folder == {"path": str(project), "keyPrefix": directory_prefix("chat", project)}
    assert used == [folder]
    assert changes == [
        {"path": "a.txt", "what": "changed", "diff": ["@@ -1 +1 @@", "- old", "+ x"]}
    ]
    (result,) = (one["data"] for one in entries if one["kind"] == "tool_result")
    assert result["diff"].splitlines()[:3] == ["@@ -1 +1 @@", "- old", "+ x"]
    assert undone == "old\n"
    assert (project / "a.txt").read_text() == "x\n"


@pytest.mark.parametrize(
    ("place", "status"),
    [
        *(("state", 403), ("state/inside", 403), (".", 403), ("missing", 400)),
        *(("x" * 300, 400), ("~nobody-has-this-name/x", 400)),
    ],
)
async def test_a_directory_with_our_state_is_for_no_conversation(
    installation: Installation, opened: Open, tmp_path: Path, place: str, status: int
) -> None:
    (tmp_path / "state" / "inside").mkdir()
    path = place if place.startswith("~") else str(tmp_path / place)
    async with scripted_model() as model:
        configure(installation, model.url)
        async with opened() as client:
            checked = await client.post("/api/folders", json={"path": path})
            body = {"text": "hi", "stream": False, "workspace": path}
            sent = await client.post("/api/messages", json=body)
    assert [checked.status_code, sent.status_code] == [status, status]
    assert model.requests == []


async def test_a_providers_key_is_checked_before_it_is_stored_and_never_returned(
    installation: Installation, opened: Open
) -> None:
    with FakeHttp(provider) as vendor:
        anthropic: dict[str, Any] = {"baseUrl": vendor.url, "models": []}
        configure(installation, vendor.url, more_providers={"anthropic": anthropic})
        async with opened() as client:
            known = (await client.get("/api/providers")).json()["providers"]
            url = "/api/providers/anthropic/key"
            wrong = await client.post(url, json={"key": "sk-wrong-0123456789"})
            before = (await client.get("/api/secrets")).text
            right = await client.post(url, json={"key": "sk-right-0123456789"})
            after = (await client.get("/api/secrets")).text
            unknown = await client.post("/api/providers/ollama/key", json={"key": "x"})
    assert {one["name"] for one in known} >= {"anthropic", "openai", "google", "openrouter"}
    assert wrong.status_code == 400
    assert "refused by the provider" in wrong.text
    assert "ANTHROPIC_API_KEY" not in before
    assert right.json()["reference"] == "secret://store/ANTHROPIC_API_KEY"
    assert "ANTHROPIC_API_KEY" in after
    assert "0123456789" not in wrong.text + right.text + after
    assert unknown.status_code == 404


def provider(request: Request) -> Reply:
    """A provider's server that knows one key."""
    key = next(value for name, value in request.headers.items() if name.lower() == "authorization")
    if "right" in key:
        return Reply(200, {"data": []})
    return Reply(401, {"error": {"message": f"{key} is not known"}})


async def test_memory_is_shown_and_forgotten_line_by_line_and_skills_are_listed(
    installation: Installation, opened: Open
) -> None:
    memory = installation.state / "memory" / "main"
    memory.mkdir(parents=True)
    (memory / "MEMORY.md").write_text("- 2026-01-01: likes tea\n- 2026-01-02: has a dog\n")
    skill = installation.state / "skills" / "tidy"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies up.\n---\n")
    async with scripted_model() as model:
        configure(installation, model.url)
        async with opened() as client:
            lines = (await client.get("/api/memory")).json()["lines"]
            gone = await client.post("/api/memory/forget", json=lines[0])
            again = await client.post("/api/memory/forget", json=lines[0])
            outside = {"file": "../../openclaw.json", "text": "{"}
            elsewhere = await client.post("/api/memory/forget", json=outside)
            left = (await client.get("/api/memory")).json()["lines"]
            skills = (await client.get("/api/skills")).json()["skills"]
    assert [one["text"] for one in lines] == ["- 2026-01-01: likes tea", "- 2026-01-02: has a dog"]
    assert [one.status_code for one in (gone, again, elsewhere)] == [200, 404, 404]
    assert left == [lines[1]]
    assert [one["name"] for one in skills] == ["tidy"]
