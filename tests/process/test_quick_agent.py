"""A message through a gateway in the quick way: the same words, codes and safety as in the usual one."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.mcp_server_kit import fake_tool, until

from openclaw.cli.quick_agent import answer
from openclaw.gateway.lock import GatewayInfo, gateway_lock
from openclaw.gateway.tokens import owner_token
from openclaw.runtime.gateway_client import GatewayClient
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

pytestmark = [pytest.mark.anyio, pytest.mark.subprocess]

QUICK = (
    "import sys\nfrom openclaw.cli.quick_agent import answer\n"
    "code = answer('openclaw', sys.argv[1:])\nsys.exit('not quick' if code is None else code)"
)
KEY = f"sk-{'a1' * 12}"
ASKING = {"tools": [fake_tool("ask", elicit={"message": "Which?"}), fake_tool("look")]}
RULES = (
    Step(when="plain", role="user", text="Grüße\n\nand a second line"),
    Step(when="with its own end", role="user", text="It ends.\n"),
    Step(when="nothing", role="user", text=""),
    Step(when="credential", role="user", text=f"It is {KEY}, keep it"),
    Step(when="tool", role="user", calls=(("mcp_fake_look", {"where": "here"}),)),
    Step(when="ask", role="user", calls=(("mcp_fake_ask", {}),)),
    Step(when="write", role="user", calls=(("write", {"path": "a.txt", "content": "b"}),)),
    Step(when="halves", role="user", text="\U0001f980 and \u2713"),
    Step(when="fail", role="user", status=401, message="no such key"),
    Step(when="hang", role="user", hang=True),
    Step(role="tool", text="Done."),
)


@pytest.fixture
async def model() -> AsyncGenerator[ScriptedModel]:
    async with scripted_model(rules=RULES) as model:
        yield model


@pytest.fixture
async def installation(tmp_path: Path, model: ScriptedModel) -> AsyncGenerator[Installation]:
    """With a gateway."""
    installation = Installation(tmp_path)
    installation.configure(model.url, {"fake": server_entry(ASKING)})
    async with installation.here():
        yield installation


async def run(installation: Installation, *command: str) -> tuple[int, str, str]:
    narrow = {"PYTHONIOENCODING": "latin-1"} if "halves" in command else {}
    done = await anyio.run_process(
        [sys.executable, *command],
        env=installation.environ(**narrow),
        cwd=installation.state / "workspace",
        stdin=subprocess.DEVNULL,
        check=False,
    )
    encoding = "latin-1" if narrow else "utf-8"
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)


def without_chance(said: str) -> Any:
    """Without what is another each time: seconds, ids, counts."""
    if said.startswith("{"):
        facts = json.loads(said)
        return {k: v for k, v in facts.items() if k not in ("sessionId", "turnId", "sessionKey")}
    return [line.partition(" (")[0] if line[:1] in "✓✗" else line for line in said.split("\n")]


@pytest.mark.parametrize("options", [(), ("--json",), ("--no-questions",)])
async def test_it_says_and_returns_what_the_usual_way_does(
    installation: Installation, options: tuple[str, ...]
) -> None:
    usual = ("-m", "openclaw", "--config", str(installation.config_file), "agent")
    for rule in RULES:
        if rule.when is None or rule.hang:
            continue
        words = ("-m", rule.when) if rule.when == "plain" else (rule.when,)
        quick = await run(installation, "-c", QUICK, *options, *words)
        other = await run(installation, *usual, *options, *words)
        assert quick[0] == other[0], (rule.when, quick, other)
        assert list(map(without_chance, quick[1:])) == list(map(without_chance, other[1:]))
        assert KEY not in quick[1]


async def test_a_session_and_a_model_may_be_named(
    installation: Installation, model: ScriptedModel
) -> None:
    for _ in range(2):
        code, _, wrong = await run(installation, "-c", QUICK, "plain", "--session-key", "mine")
        assert (code, wrong) == (0, "")
    assert len(model.requests[-1].body["messages"]) > len(model.requests[0].body["messages"])
    assert (await run(installation, "-c", QUICK, "plain", "--model", "acme/other"))[0] == 0
    assert model.requests[-1].model == "other"


async def test_ctrl_c_stops_the_turn_in_the_gateway(
    installation: Installation, model: ScriptedModel
) -> None:
    command = [sys.executable, "-m", "openclaw", "agent", "hang"]
    async with await anyio.open_process(
        command, env=installation.environ(), cwd=installation.state, stdin=subprocess.DEVNULL
    ) as process:
        await until(lambda: bool(model.requests))
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        assert process.stderr is not None
        assert "Stopping…" in (await process.stderr.receive()).decode()
    client = GatewayClient((await installation.running()).url, installation.state)
    while (await client.request("GET", "/api/turns"))["turns"]:
        await anyio.lowlevel.checkpoint()


async def test_a_gateway_that_goes_away_meanwhile_is_told_and_nothing_is_done_twice(
    tmp_path: Path, model: ScriptedModel
) -> None:
    installation = Installation(tmp_path)
    installation.configure(model.url)
    async with installation.process() as gateway:
        await installation.running()
        command = [sys.executable, "-m", "openclaw", "agent", "hang"]
        async with await anyio.open_process(
            command, env=installation.environ(), cwd=installation.state, stdin=subprocess.DEVNULL
        ) as process:
            await until(lambda: bool(model.requests))
            gateway.kill()
            assert await process.wait() == 1
            assert process.stderr is not None
            assert "may or may not" in (await process.stderr.receive()).decode()
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [""],
        ["-"],
        ["two", "words"],
        ["hi", "-m", "hi"],
        ["hi", "--session-key"],
        ["hi", "--session-key", "k" * 513],
        ["hi", "--file", "x"],
        ["hi", "--json=1"],
        ["hi", "-v"],
        ["half \udcff"],
    ],
)
def test_what_it_takes_the_parser_to_know_is_left_to_the_command(arguments: list[str]) -> None:
    assert answer("openclaw", arguments) is None


@pytest.mark.parametrize("changed", ["configuration", "piped input", "no gateway"])
async def test_what_is_not_usual_is_left_to_the_command_and_nothing_is_sent(
    installation: Installation, model: ScriptedModel, changed: str
) -> None:
    environ, stdin = installation.environ(), subprocess.DEVNULL
    if changed == "configuration":
        environ["OPENCLAW_CONFIG_PATH"] = str(installation.state / "other.json")
    elif changed == "no gateway":
        environ["OPENCLAW_STATE_DIR"] = str(installation.state / "other")
    else:
        stdin = subprocess.PIPE
    done = await anyio.run_process(
        [sys.executable, "-c", QUICK, "plain"],
        env=environ,
        stdin=stdin,
        check=False,
    )
    assert done.stderr.decode().strip() == "not quick"
    assert not model.requests


async def test_a_configuration_that_the_gateway_has_not_read_is_read_first(
    tmp_path: Path, model: ScriptedModel
) -> None:
    installation = Installation(tmp_path)
    installation.configure(model.url, gateway={"reload": {"mode": "off"}})
    async with installation.here():
        installation.config_file.write_text(installation.config_file.read_text() + "\n")
        assert await run(installation, "-c", QUICK, "plain") == (1, "", "not quick\n")
        assert not model.requests


@pytest.mark.parametrize("state", ["gone", "stopping", "elsewhere"])
async def test_nobody_who_listens_where_the_gateway_was_gets_the_token(
    tmp_path: Path, state: str
) -> None:
    installation = Installation(tmp_path)
    installation.configure("http://127.0.0.1:9")
    owner_token(tmp_path)
    with (
        socket.create_server(("127.0.0.1", 0)) as impostor,
        gateway_lock(installation.paths.gateway_lock) as publish,
    ):
        impostor.setblocking(False)
        port = impostor.getsockname()[1]
        url = {
            "gone": f"http://127.0.0.1:{port}",
            "stopping": "",
            "elsewhere": "http://127.0.0.1:1",
        }
        config = str(installation.config_file)
        publish(GatewayInfo(os.getpid(), url[state], config=config))
        if state == "gone":
            publish(GatewayInfo(os.getpid(), config=config))
        assert await run(installation, "-c", QUICK, "plain") == (1, "", "not quick\n")
        with pytest.raises(BlockingIOError):
            impostor.accept()


@pytest.mark.parametrize("said", ['{"agents": [7]}', '{"agents": [{"id": "main"}]}', "[]", "soon"])
async def test_an_answer_that_another_version_gives_is_left_to_the_command(
    tmp_path: Path, said: str
) -> None:
    installation = Installation(tmp_path)
    installation.configure("http://127.0.0.1:9")
    owner_token(tmp_path)
    header = f"HTTP/1.1 200 OK\r\nContent-Length: {len(said)}\r\n\r\n"

    async def answer_once(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send((header + said).encode())

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        with gateway_lock(installation.paths.gateway_lock) as publish:
            config = str(installation.config_file)
            publish(GatewayInfo(os.getpid(), f"http://127.0.0.1:{port}", config=config))
            tasks.start_soon(listener.serve, answer_once)
            assert await run(installation, "-c", QUICK, "plain") == (1, "", "not quick\n")
            told = "openclaw: The running gateway is a different version\n"
            hint = "  Restart it with: openclaw gateway restart\n"
            assert await run(installation, "-m", "openclaw", "agent", "plain") == (
                1,
                "",
                told + hint,
            )
        tasks.cancel_scope.cancel()
