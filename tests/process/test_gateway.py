"""The gateway as a process: started, found, asked, killed, stopped."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import psutil
import pytest
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation

from openclaw.gateway.lock import running_gateway
from openclaw.sessions.open import open_store
from openclaw.sessions.records import EntryKind
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

pytestmark = pytest.mark.warm_start

BIN = Path(sys.executable).parent
OBJECT = {"type": "object"}


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return Installation(state)


async def command(installation: Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / "openclaw"), *arguments],
            env=installation.environ(),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    return await anyio.to_thread.run_sync(run)


def free_port() -> int:
    """Another gateway on this machine may have the usual one."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


async def asked(model: ScriptedModel, times: int = 1) -> None:
    with anyio.fail_after(60):
        while len(model.requests) < times:  # noqa: ASYNC110 (the model keeps no event of ours)
            await anyio.sleep(0.01)


@pytest.mark.requirement("US-3.1")
async def test_the_life_of_a_gateway_as_its_commands_tell_it(installation: Installation) -> None:
    fake = server_entry({"tools": [{"name": "echo", "inputSchema": OBJECT}]})
    async with scripted_model(default=Step(text="Hello.")) as model:
        installation.configure(model.url, {"fake": fake})
        nobody = await command(installation, "gateway", "status")
        nothing = await command(installation, "gateway", "stop")
        async with installation.process() as process:
            info = await installation.running()
            second = await command(installation, "gateway", "run")
            status = await command(installation, "gateway", "status", "--json")
            answer = await command(installation, "agent", "-m", "Hi", "--json")
            alone = await command(installation, "agent", "-m", "Hi", "--local")
            overview = await command(installation, "status", "--json")
            restarted = await command(installation, "mcp", "restart", "fake")
            unknown = await command(installation, "mcp", "restart", "nobody")
            reloaded = await command(installation, "gateway", "reload")
            stopped = await command(installation, "gateway", "stop")
            assert has_ended(process.pid)
            assert await process.wait() == 0
        table = await command(installation, "status", "--probe")
    assert (nobody.returncode, nobody.stdout) == (1, "No gateway is running.\n")
    assert nothing.returncode == 1
    assert second.returncode == 1
    assert f"already running on {installation.state} (pid {process.pid}" in second.stderr
    assert json.loads(status.stdout)["url"] == info.url
    assert json.loads(answer.stdout)["text"] == "Hello."
    assert alone.stdout == "Hello.\n"
    facts = json.loads(overview.stdout)
    assert facts["gateway"]["pid"] == process.pid
    assert facts["sessions"]["count"] == 2  # each message began a conversation
    assert [(row["name"], row["agents"]) for row in facts["servers"]] == [("fake", ["main"])]
    assert facts["models"][0]["models"][0]["ready"] is True
    assert restarted.stdout == "Restarting 'fake'.\n"
    assert "No MCP server 'nobody' is configured" in unknown.stderr
    assert "Nothing has changed." in reloaded.stdout
    assert stopped.stdout == f"Stopped the gateway (pid {process.pid}).\n"
    assert "ready" in table.stdout
    assert (installation.state / "logs" / "gateway.log").stat().st_mode & 0o777 == 0o600


async def test_a_saved_setting_holds_at_once_or_says_that_a_restart_is_needed(
    installation: Installation,
) -> None:
    async with scripted_model(default=Step(text="Hello.")) as model:
        installation.configure(model.url, {})
        async with installation.process():
            await installation.running()
            denied = await command(installation, "config", "set", "tools.deny", '["write"]')
            reloaded = await command(installation, "gateway", "reload")
            hosts = await command(
                installation, "config", "set", "gateway.allowedHosts", '["a.example"]'
            )
            await command(installation, "gateway", "stop")
    assert (denied.returncode, denied.stderr) == (0, "")
    assert reloaded.stdout == "Nothing has changed.\n"
    assert "Restart the gateway to apply gateway.allowedHosts." in hosts.stderr


async def test_a_configuration_that_has_become_wrong_is_warned_about(
    installation: Installation,
) -> None:
    async with scripted_model(default=Step(text="Hello.")) as model:
        installation.configure(model.url, {})
        async with installation.process():
            await installation.running()
            (installation.state / "openclaw.json").write_text('{"gatewey": {}}')
            answer = await command(installation, "agent", "-m", "Hi")
            restarted = await command(installation, "gateway", "restart")
            stopped = await command(installation, "gateway", "stop")
    assert (restarted.returncode, stopped.returncode) == (2, 0)
    assert (answer.returncode, answer.stdout) == (0, "Hello.\n")
    assert answer.stderr.count("Warning: 1 problem in ") == 1
    assert "the gateway still uses the configuration it read before" in answer.stderr


async def test_a_stop_lets_a_turn_finish_and_cancels_one_that_does_not(
    installation: Installation,
) -> None:
    rules = [Step(when="quick", text="Done.", delay=0.3), Step(when="never", hang=True)]
    async with scripted_model(rules=rules) as model:
        installation.configure(model.url, gateway={"shutdownGraceMs": 4000})
        answers: dict[str, Any] = {}
        async with installation.process() as process, anyio.create_task_group() as group:
            info = await installation.running()

            async def order(text: str) -> None:
                async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
                    body = {"text": text, "sessionKey": text, "stream": False}
                    answer = await client.post(
                        f"{info.url}/api/messages", json=body, headers=installation.headers
                    )
                    answers[text] = answer.json()

            for text in ("quick", "never"):
                group.start_soon(order, text)
            await asked(model, 2)
            process.terminate()
            with anyio.fail_after(60):
                assert await process.wait() == 0
    assert answers["quick"]["text"] == "Done."
    assert answers["never"]["error"]["type"] == "Cancelled"
    async with open_store("file", installation.paths) as store:
        [never] = await store.find_sessions("never")
        kinds = [entry.kind for entry in await store.entries(never.ref)]
    assert kinds[-1] is EntryKind.TURN_CANCELLED


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


LINGERING = """
import os, pathlib, signal, sys, time
from openclaw.gateway.lock import GatewayInfo, gateway_lock
class Stop(Exception): pass
def stop(*_): raise Stop
signal.signal(signal.SIGTERM, stop)
try:
    with gateway_lock(pathlib.Path(sys.argv[1])) as publish:
        publish(GatewayInfo(os.getpid(), "http://127.0.0.1:1"))
        print("running", flush=True)
        signal.pause()
except Stop:
    time.sleep(float(sys.argv[2]))
"""


async def test_a_stop_waits_until_the_process_is_gone(installation: Installation) -> None:
    """One that has let go of its lock still lives for a while."""
    installation.configure("http://127.0.0.1:9")
    program = [sys.executable, "-c", LINGERING, str(installation.paths.gateway_lock), "2"]
    async with await anyio.open_process(program, stderr=None) as lingering:
        assert lingering.stdout is not None
        assert b"running" in await lingering.stdout.receive()
        stopped = await command(installation, "gateway", "stop", "--json")
        assert has_ended(lingering.pid)
    facts = json.loads(stopped.stdout)
    assert facts["stopped"] == lingering.pid
    assert facts["seconds"] >= 2


async def test_a_stop_that_waits_for_turns_says_so(installation: Installation) -> None:
    async with scripted_model(default=Step(hang=True)) as model:
        installation.configure(model.url, gateway={"shutdownGraceMs": 3000})
        async with installation.process() as process, anyio.create_task_group() as group:
            info = await installation.running()
            told: list[tuple[str, str]] = []
            group.start_soon(keep_asking, installation, info.url, 0, 0, told)
            await asked(model)
            stopped = await command(installation, "gateway", "stop")
            assert await process.wait() == 0
            assert "Waiting up to 3 s for running turns to finish." in stopped.stderr
            assert stopped.stdout == f"Stopped the gateway (pid {process.pid}).\n"


async def test_the_log_is_rotated_as_configured(installation: Installation) -> None:
    servers = {f"fake{n}": server_entry({}) for n in range(8)}
    installation.configure("http://127.0.0.1:9", servers, logging={"maxFileBytes": 600, "keep": 2})
    async with installation.process() as process:
        await installation.running()
        process.terminate()
        assert await process.wait() == 0
    logs = sorted((installation.state / "logs").iterdir())
    assert [path.name for path in logs] == ["gateway.log", "gateway.log.1", "gateway.log.2"]
    assert all(path.stat().st_size <= 600 for path in logs)


@pytest.mark.requirement("US-3.3")
async def test_nothing_is_left_when_a_gateway_stops_or_is_killed(
    installation: Installation,
) -> None:
    fake = server_entry({"faults": {"grandchildren": 1}})
    installation.configure("http://127.0.0.1:9", {f"fake{n}": fake for n in range(3)})
    for ending in (signal.SIGTERM, signal.SIGKILL):
        async with installation.process() as process:
            await installation.running()
            children = await grown(process.pid, 6)
            process.send_signal(ending)
            await process.wait()
        _, alive = await anyio.to_thread.run_sync(lambda: psutil.wait_procs(children, timeout=60))  # noqa: B023 (awaited here)
        assert alive == []
        assert running_gateway(installation.paths.gateway_lock) is None


async def grown(pid: int, count: int) -> list[psutil.Process]:
    """The descendants, once there are so many."""
    with anyio.fail_after(60):
        while True:
            found = psutil.Process(pid).children(recursive=True)
            if len(found) >= count:
                return found
            await anyio.sleep(0.02)


async def test_killed_in_the_middle_of_turns_it_starts_again_and_has_lost_nothing(
    installation: Installation,
) -> None:
    """Fewer times than the benchmark, which does the same fifty times."""
    chance = random.Random(7)
    async with scripted_model(default=Step(text="Noted.", delay=0.02)) as model:
        installation.configure(model.url)
        acknowledged: list[tuple[str, str]] = []
        for kill in range(3):
            async with installation.process() as process:
                info = await installation.running()
                async with anyio.create_task_group() as group:
                    for session in range(4):
                        group.start_soon(
                            keep_asking, installation, info.url, kill, session, acknowledged
                        )
                    before = len(acknowledged)
                    with anyio.fail_after(60):
                        while len(acknowledged) < before + 3:  # noqa: ASYNC110 (clients of ours)
                            await anyio.sleep(0.01)
                    await anyio.sleep(chance.random() * 0.1)
                    process.kill()
                    await process.wait()
                    group.cancel_scope.cancel()
    async with open_store("file", installation.paths) as store:
        for session in range(4):
            [info_] = await store.find_sessions(f"s{session}")
            entries = await store.entries(info_.ref, limit=10_000)
            assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
            said = [e.text for e in entries if e.kind is EntryKind.USER_MESSAGE]
            mine = [text for key, text in acknowledged if key == f"s{session}"]
            assert [text for text in said if text in mine] == mine
            assert len(set(said)) == len(said)


async def test_every_call_that_was_made_is_in_the_audit_log_whenever_the_gateway_is_killed(
    installation: Installation, tmp_path: Path, soaking: bool
) -> None:
    chance, sent = random.Random(3), tmp_path / "sent"
    tool = {"name": "note", "inputSchema": OBJECT, "does": {"text": "noted"}}
    server = server_entry({"tools": [tool], "faults": {"requestsFile": str(sent)}})
    calls = (("mcp_fake_note", dict[str, Any]()),) * 4
    rules = (Step(when="message", role="user", calls=calls),)
    made, told = 0, list[tuple[str, str]]()
    async with scripted_model(rules=rules, default=Step(text="Noted.")) as model:
        installation.configure(model.url, {"fake": server})
        for kill in range(100 if soaking else 3):
            async with installation.process() as process:
                info = await installation.running()
                async with anyio.create_task_group() as group:
                    for session in range(4):
                        group.start_soon(keep_asking, installation, info.url, kill, session, told)
                    with anyio.fail_after(120):
                        while (count := requests_of(sent, "tools/call")) < made + 5:  # noqa: ASYNC110
                            await anyio.sleep(0.01)
                    made = count
                    await anyio.sleep(chance.random() * 0.1)
                    process.kill()
                    await process.wait()
                    group.cancel_scope.cancel()
    log = installation.paths.audit_log.read_text(encoding="utf-8").splitlines()
    begun = sum(json.loads(line)["outcome"] == "started" for line in log)
    assert begun >= requests_of(sent, "tools/call") >= made


def requests_of(file: Path, method: str) -> int:
    return file.read_text(encoding="utf-8").count(f'"{method}"') if file.exists() else 0


async def keep_asking(
    installation: Installation, url: str, kill: int, session: int, told: list[tuple[str, str]]
) -> None:
    async with httpx2.AsyncClient(
        trust_env=False, timeout=60, headers=installation.headers
    ) as client:
        for number in range(10_000):
            text = f"message {kill}.{session}.{number}"
            body = {"text": text, "sessionKey": f"s{session}", "stream": False}
            try:
                answer = await client.post(f"{url}/api/messages", json=body)
            except httpx2.HTTPError:
                return
            if answer.status_code == 200:
                told.append((f"s{session}", text))


async def test_the_service_manager_is_told(installation: Installation, tmp_path: Path) -> None:
    installation.configure("http://127.0.0.1:9")
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(30)
        variables = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "200000"}
        async with installation.process(**variables) as process:
            said: list[str] = []
            while sum(line == "WATCHDOG=1" for line in said) < 2:
                said.append((await anyio.to_thread.run_sync(listener.recv, 4096)).decode())
            process.terminate()
            while "STOPPING=1" not in said:
                said.append((await anyio.to_thread.run_sync(listener.recv, 4096)).decode())
    [ready] = [line for line in said if line.startswith("READY=1")]
    assert "STATUS=listening at http://127.0.0.1:" in ready


@pytest.mark.skipif(os.name != "posix", reason="signals")
async def test_a_second_signal_does_not_wait_for_turns(installation: Installation) -> None:
    async with scripted_model(default=Step(hang=True)) as model:
        installation.configure(model.url, gateway={"shutdownGraceMs": 60_000})
        async with installation.process() as process, anyio.create_task_group() as group:
            info = await installation.running()
            told: list[tuple[str, str]] = []
            group.start_soon(keep_asking, installation, info.url, 0, 0, told)
            await asked(model)
            process.terminate()
            async with httpx2.AsyncClient(trust_env=False) as client:
                with anyio.fail_after(60):
                    while (await client.get(f"{info.url}/ready")).status_code == 200:  # noqa: ASYNC110 (polls the gateway)
                        await anyio.sleep(0.01)
            process.terminate()
            with anyio.fail_after(60):
                assert await process.wait() == 0


async def test_a_gateway_is_started_in_the_background_restarted_and_stopped(
    installation: Installation,
) -> None:
    async with scripted_model(default=Step(text="Hello.")) as model:
        installation.configure(model.url, {}, gateway={"port": free_port()})
        started = await command(installation, "gateway", "start", "--json")
        first = json.loads(started.stdout)["pid"]
        try:
            again = await command(installation, "gateway", "start")
            restarted = await command(installation, "gateway", "restart", "--json")
            second = json.loads(restarted.stdout)["pid"]
            answer = await command(installation, "agent", "Hi")
        finally:
            stopped = await command(installation, "gateway", "stop")
    assert started.returncode == restarted.returncode == stopped.returncode == 0
    assert f"(pid {first})" in again.stdout
    assert second != first
    assert answer.stdout == "Hello.\n"
    assert has_ended(second)


async def test_a_gateway_that_cannot_start_says_why(installation: Installation) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        installation.configure("http://127.0.0.1:9", {}, gateway={"port": port})
        failed = await command(installation, "gateway", "start")
    assert failed.returncode == 1
    assert "did not start" in failed.stderr
    assert str(port) in failed.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
async def test_with_few_files_a_gateway_says_so_and_serves_as_many_as_it_can(
    installation: Installation,
) -> None:
    async with scripted_model(default=Step(text="Hello.")) as model:
        installation.configure(model.url)
        start = f"ulimit -n 64; exec {BIN / 'openclaw'} gateway run --port 0"
        async with await anyio.open_process(
            ["bash", "-c", start], env=installation.environ(), stdout=None, stderr=None
        ) as process:
            try:
                info = await installation.running()
                statuses: list[int] = []

                async def ask(number: int) -> None:
                    limits = httpx2.Limits(max_connections=1)
                    async with httpx2.AsyncClient(
                        base_url=info.url, timeout=60, trust_env=False, limits=limits
                    ) as http:
                        body = {"text": "Hi", "sessionKey": f"s{number}"}
                        answer = await http.post(
                            "/api/messages", json=body, headers=installation.headers
                        )
                        statuses.append(answer.status_code)

                async with anyio.create_task_group() as group:
                    for number in range(100):
                        group.start_soon(ask, number)
                assert len(statuses) == 100
                assert set(statuses) <= {200, 503}
                with anyio.fail_after(60):
                    while statuses[-1] != 200:
                        await ask(0)
            finally:
                process.terminate()
        log = installation.paths.gateway_log.read_text(encoding="utf-8")
    assert "may have only 64 files open" in log
