"""Clients of a gateway's hub go on when servers, another client's hub, or the gateway is killed."""

import json
import random
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import mcp_types as types
import psutil
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import ClientRequestContext
from mcp.client.stdio import stdio_client
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.mcp_server_kit import fake_tool

PROGRAM = Path(sys.executable).parent / "openclaw"
MODES = ("legacy", "legacy", "legacy", "2026-07-28", "2026-07-28")
SEED = 20261119
PATIENCE = 300


@dataclass
class Player:
    """One client with a hub process of its own, and what it has seen."""

    installation: Installation
    name: str
    mode: str
    calls: int
    answered: set[str] = field(default_factory=set[str])
    wrong: list[str] = field(default_factory=list[str])
    lost: int = 0

    async def answer(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": self.name})

    async def play(self) -> None:
        parameters = StdioServerParameters(
            command=str(PROGRAM), args=["mcp-hub"], env=self.installation.environ()
        )
        chance = random.Random(f"{SEED}{self.name}")
        async with Client(
            stdio_client(parameters), mode=self.mode, elicitation_callback=self.answer
        ) as client:
            await client.list_tools()
            for number in range(self.calls):
                await self.call(client, f"{self.name}/{number}", chance)

    async def call(self, client: Client, mark: str, chance: random.Random) -> None:
        tool = chance.choice(("act", "act", "slow", "ask"))
        try:
            result = await client.call_tool(f"mcp_s_{tool}", {"mark": mark})
        except MCPError:
            self.lost += 1
            return
        text = "".join(getattr(block, "text", "") for block in result.content)
        if result.is_error:
            self.lost += 1
        elif tool == "ask":
            self.wrong += [text] if '"action": "accept"' in text and self.name not in text else []
        else:
            self.answered.add(mark)
            self.wrong += [text] if json.loads(text) != {"mark": mark} else []


async def test_whoever_is_killed_the_others_get_their_own_answers_and_no_call_is_made_twice(
    installation: Installation, tmp_path: Path, soaking: bool
) -> None:
    done = tmp_path / "done"
    done.touch()
    tools = [
        fake_tool("act", record=str(done)),
        fake_tool("slow", sleep=0.02, record=str(done)),
        fake_tool("ask", elicit={}),
        fake_tool("pid", pid=True),
    ]
    installation.configure(
        "http://127.0.0.1:9",
        {"s": {**server_entry({"tools": tools, "discover": "answer"}), "maxRestarts": 1000}},
    )
    calls = 200 if soaking else 40
    players = [Player(installation, f"player-{at}", mode, calls) for at, mode in enumerate(MODES)]

    async def made(fraction: float) -> None:
        """Wait until about this part of all calls was made."""
        while len(done.read_text().splitlines()) < fraction * calls * len(players) / 2:  # noqa: ASYNC110 - other processes
            await anyio.sleep(0.05)

    async with installation.process() as gateway:
        await installation.running()
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                victim = anyio.CancelScope()

                async def play_until_killed() -> None:
                    with victim:
                        await players[0].play()

                before = set(psutil.Process().children())
                group.start_soon(play_until_killed)
                await made(0.01)
                (hub,) = set(psutil.Process().children()) - before
                for player in players[1:]:
                    group.start_soon(player.play)
                await made(0.2)
                (server,) = (
                    child
                    for child in psutil.Process(gateway.pid).children(recursive=True)
                    if "fake_server" in " ".join(child.cmdline())
                )
                server.kill()
                await made(0.4)
                hub.kill()
                await made(0.6)
                victim.cancel()  # what is left of it has nobody to talk to
                gateway.send_signal(signal.SIGKILL)
                await gateway.wait()
    marks = [json.loads(line)["mark"] for line in done.read_text().splitlines()]
    assert [text for player in players for text in player.wrong] == []
    assert len(marks) == len(set(marks)), "a call was made twice"
    assert set[str]().union(*(player.answered for player in players)) <= set(marks)
    for player in players[1:]:
        assert player.answered
        assert player.lost < calls / 4  # those that were open when something was killed
