"""An editor's agent that finds a gateway: everything is as without one."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from acp import text_block
from acp.schema import McpServerStdio
from tests.interaction.acp import conftest as acp_conftest
from tests.interaction.acp import test_prompts, test_sessions
from tests.support import gateway_kit
from tests.support.fake_server import server_entry
from tests.support.mcp_server_kit import fake_tool, until

from openclaw.gateway.lock import GatewayInfo, running_gateway
from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

Stdio = Callable[[str, dict[str, Any]], McpServerStdio]
ECHO = {"tools": [fake_tool("echo", text="the server's words")]}

# What these say of `openclaw acp` holds with a gateway behind it as well; left out are those that
# come to no turn.
_NO_TURN = (
    "test_the_agent_says_what_it_can_do",
    "test_a_prompt_that_cannot_be_taken_is_refused_with_the_reason",
    "test_what_cannot_be_waited_for_in_place_of_a_pipe_is_refused_in_words",
)
for _module in (test_prompts, test_sessions):
    for _name, _test in vars(_module).items():
        if _name.startswith("test_") and _name not in _NO_TURN:
            globals()[_name] = _test
connect = acp_conftest.connect
stdio = acp_conftest.stdio


@dataclass(frozen=True)
class Shared(acp_conftest.Installation):
    """The same installation, with a gateway from the moment when there is a configuration."""

    running: "list[subprocess.Popen[bytes]]" = field(
        default_factory=list["subprocess.Popen[bytes]"]
    )

    @property
    def gateway(self) -> gateway_kit.Installation:
        return gateway_kit.Installation(self.state)

    @property
    def client(self) -> httpx2.AsyncClient:
        """Speaks to the gateway as a program of this account."""
        headers = {"authorization": f"Bearer {self.gateway.token}"}
        return httpx2.AsyncClient(base_url=self.info.url, headers=headers)

    @property
    def info(self) -> GatewayInfo:
        info = running_gateway(self.gateway.paths.gateway_lock)
        assert info is not None
        return info

    def configure(self, model_url: str, **more: Any) -> None:
        super().configure(model_url, **more)
        self.stop()
        command = [str(acp_conftest.BIN / "openclaw"), "gateway", "run", "--port", "0"]
        self.running.append(subprocess.Popen(command, env=self.environ, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 60
        while not (found := running_gateway(self.gateway.paths.gateway_lock)) or not found.url:
            assert time.monotonic() < deadline
            assert self.running[0].poll() is None
            time.sleep(0.02)

    def stop(self) -> None:
        while self.running:
            process = self.running.pop()
            process.terminate()
            process.wait(60)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Shared]:
    for name in ("state", "project"):
        (tmp_path / name).mkdir(mode=0o700)
    shared = Shared(tmp_path / "state", tmp_path / "project")
    try:
        yield shared
    finally:
        shared.stop()


async def test_the_gateway_did_it_and_the_agents_own_servers_were_started_once(
    installation: Shared, connect: Any, stdio: Stdio, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    own = server_entry({"tools": [fake_tool("own")], "faults": {"pidFile": str(pids)}})
    call = Step(when="Go.", role="user", calls=(("mcp_own_own", {}), ("mcp_mine_echo", {})))
    rules = [call, Step(role="tool", text="Done.")]
    async with scripted_model(rules=rules) as model:
        installation.configure(model.url, mcp={"servers": {"own": own}})
        for _ in range(2):
            async with connect() as (agent, person):
                session = await agent.new_session(
                    cwd=str(installation.cwd), mcp_servers=[stdio("mine", ECHO)]
                )
                await agent.prompt(session_id=session.session_id, prompt=[text_block("Go.")])
                assert person.text() == "Done."
        async with installation.client as client:
            metrics = (await client.get("/metrics")).text
    assert 'openclaw_turns_total{outcome="ok"} 2' in metrics
    assert len(pids.read_text().split()) == 1


async def test_with_local_the_gateway_is_left_alone(installation: Shared, connect: Any) -> None:
    async with scripted_model([Step(text="Here.")]) as model:
        installation.configure(model.url)
        async with connect("--local") as (agent, person):
            session = await agent.new_session(cwd=str(installation.cwd))
            await agent.prompt(session_id=session.session_id, prompt=[text_block("Hi.")])
        async with installation.client as client:
            metrics = (await client.get("/metrics")).text
    assert person.text() == "Here."
    assert "openclaw_turns_total{" not in metrics


async def test_a_client_that_is_killed_leaves_nothing_behind(
    installation: Shared, stdio: Stdio, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    spec = {"tools": [fake_tool("wait", hang=True)], "faults": {"pidFile": str(pids)}}
    server = stdio("slow", spec).model_dump(mode="json", by_alias=True, exclude_none=True)
    async with scripted_model([Step(calls=(("mcp_slow_wait", {}),))]) as model:
        installation.configure(model.url)
        process, lines, _ = await test_sessions.waiting_in_a_turn(installation, server)
        (pid,) = map(int, pids.read_text().split())
        assert test_sessions.parent_of(pid) != process.pid
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        await until(lambda: not test_sessions.is_running(pid), 60)
        await process.aclose()
        async with installation.client as client:
            with anyio.fail_after(60):
                while (await client.get("/api/turns")).json()["turns"]:  # noqa: ASYNC110 - elsewhere
                    await anyio.sleep(0.05)
            servers = (await client.get("/api/servers")).json()["servers"]
    assert servers == []
    assert lines.messages


async def test_a_gateway_that_stops_or_starts_again_is_done_without_or_used_again(
    installation: Shared, connect: Any, stdio: Stdio
) -> None:
    call = Step(when="Go.", role="user", calls=(("mcp_mine_echo", {}),))
    rules = [call, Step(role="tool", text="Done.")]
    async with scripted_model(rules=rules) as model, connect() as (agent, person):
        installation.configure(model.url)
        key = (
            await agent.new_session(cwd=str(installation.cwd), mcp_servers=[stdio("mine", ECHO)])
        ).session_id
        for step in (lambda: None, lambda: installation.configure(model.url), installation.stop):
            await anyio.to_thread.run_sync(step)
            await agent.prompt(session_id=key, prompt=[text_block("Go.")])
        ended = [one for one in person.of("tool_call_update") if one.status == "completed"]
    assert len(ended) == 3
    assert person.text() == "Done.Done.Done."


async def test_a_gateway_that_starts_later_is_used_from_then_on(
    installation: Shared, connect: Any, stdio: Stdio
) -> None:
    call = Step(when="Go.", role="user", calls=(("mcp_mine_echo", {}),))
    rules = [call, Step(role="tool", text="Done.")]
    async with scripted_model(rules=rules) as model:
        acp_conftest.Installation.configure(installation, model.url)  # and no gateway yet
        async with connect() as (agent, person):
            key = (
                await agent.new_session(
                    cwd=str(installation.cwd), mcp_servers=[stdio("mine", ECHO)]
                )
            ).session_id
            await agent.prompt(session_id=key, prompt=[text_block("Go.")])
            await anyio.to_thread.run_sync(lambda: installation.configure(model.url))
            await agent.prompt(session_id=key, prompt=[text_block("Go.")])
            async with installation.client as client:
                metrics = (await client.get("/metrics")).text
    ended = [one for one in person.of("tool_call_update") if one.status == "completed"]
    assert len(ended) == 2
    assert person.text() == "Done.Done."
    assert 'openclaw_turns_total{outcome="ok"} 1' in metrics


@pytest.mark.parametrize("path", ["/api/scopes", "/api/messages"])
async def test_servers_and_directories_are_for_this_account_alone(
    installation: Shared, path: str
) -> None:
    marker = installation.cwd / "marker"
    servers = {"x": {"command": "touch", "args": [str(marker)]}}
    body: dict[str, Any] = {"servers": servers, "text": "Hi.", "workspace": "/"}
    async with scripted_model([]) as model:
        installation.configure(model.url, gateway={"auth": {"token": "a-token-for-clients-0123"}})
        async with httpx2.AsyncClient(base_url=installation.info.url) as client:
            refused = [
                await client.post(path, json=body, headers={"authorization": f"Bearer {token}"})
                for token in ("a-token-for-clients-0123", "wrong")
            ]
        installation.configure(model.url)
        async with httpx2.AsyncClient(base_url=installation.info.url) as client:
            refused.append(await client.post(path, json=body))
            refused.append(
                await client.post(path, json=body, headers={"authorization": "Bearer wrong"})
            )
    assert [one.status_code for one in refused] == [403, 401, 401, 401]
    assert not marker.exists()
    assert model.requests == []


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        ({"x": {"command": "x", "env": {"K": "secret://env/ACME_KEY"}}}, "secret references"),
        ({"x": {"commnad": "x"}}, "servers.x"),
        (["x"], "has to be an object"),
    ],
)
async def test_servers_that_cannot_be_taken_are_refused(
    installation: Shared, servers: Any, told: str
) -> None:
    async with scripted_model([]) as model:
        installation.configure(model.url)
        async with installation.client as client:
            answer = await client.post("/api/scopes", json={"servers": servers})
            gone = await client.post("/api/messages", json={"text": "Hi.", "scope": "gone"})
    assert answer.status_code == 400
    assert told in answer.text
    assert gone.status_code == 404


async def test_a_turn_that_is_stopped_at_the_gateway_is_cancelled_for_the_editor(
    installation: Shared, connect: Any
) -> None:
    async with scripted_model(default=Step(text="Slowly.", delay=60)) as model:
        installation.configure(model.url)
        async with connect() as (agent, _), installation.client as gateway:
            session = await agent.new_session(cwd=str(installation.cwd), mcp_servers=[])
            reasons: list[str] = []

            async def prompt() -> None:
                asked = [text_block("Go.")]
                answer = await agent.prompt(session_id=session.session_id, prompt=asked)
                reasons.append(answer.stop_reason)

            async with anyio.create_task_group() as group:
                group.start_soon(prompt)
                await until(lambda: bool(model.requests), 60)
                [turn] = (await gateway.get("/api/turns")).json()["turns"]
                await gateway.post(f"/api/turns/{turn['turn']}/cancel")
            assert reasons == ["cancelled"]
