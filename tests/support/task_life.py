"""Orders as tasks while the gateway, the stdio server and the client are killed at random.

An order marks its number in a file, once. Clients talk to `openclaw mcp-server` processes, which hand
orders to the gateway. A client that dies before it has its handle does not give the order again; one
that dies afterwards comes back and asks how the task is.
"""

import random
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import orjson

from openclaw.core.clock import SystemClock
from openclaw.sessions.open import open_store
from openclaw.sessions.task_records import current_tasks
from openclaw.testing.scripted_model import Step, scripted_model
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.task_client import RpcError, StdioTaskClient, stdio_task_client

RULES = (
    Step(role="user", calls=(("mcp_world_mark", '{"tag": "{last}"}'),), delay=0.05),
    Step(role="tool", text="Done.", delay=0.05),
)
_BIN = Path(sys.executable).parent
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.IncompleteRead, TimeoutError)
_ENDED = ("completed", "failed", "cancelled")


def configure(
    installation: Installation, model_url: str, world: Path, tool_seconds: float = 0.3
) -> None:
    does = {"sleep": tool_seconds, "record": str(world), "text": "marked"}
    tool = {"name": "mark", "inputSchema": {"type": "object"}, "does": does}
    installation.configure(
        model_url,
        {"world": server_entry({"tools": [tool]}, maxRestarts=1000)},
        mcpServer={"taskAfterMs": 100},
        gateway={"limits": {"requestsPerMinute": 1_000_000}},
    )


@dataclass(slots=True)
class TaskLife:
    """So many orders, by so many clients at a time, and what became of them."""

    installation: Installation
    world: Path
    orders: int
    chance: random.Random
    handles: dict[int, str] = field(default_factory=dict[int, str])
    ended: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    unheard: set[int] = field(default_factory=set[int])
    """Orders whose client died before it had a handle or an answer."""
    kills: Counter[str] = field(default_factory=Counter[str])
    _waiting: list[int] = field(default_factory=list[int])
    _gateway: anyio.abc.Process | None = None
    _clients: dict[int, tuple[StdioTaskClient, anyio.CancelScope]] = field(
        default_factory=dict[int, tuple[StdioTaskClient, anyio.CancelScope]]
    )

    async def live(self, clients: int = 6, every: float = 1.0) -> None:
        """Give all orders, and see each to its end; meanwhile kill something every so often."""
        self._waiting = list(range(self.orders))
        async with AsyncExitStack() as stack, anyio.create_task_group() as trouble:
            self._gateway = await stack.enter_async_context(self.installation.process())
            await self.installation.running()
            trouble.start_soon(self._kill, every, stack)
            async with anyio.create_task_group() as group:
                for number in range(clients):
                    group.start_soon(self._client, number)
            trouble.cancel_scope.cancel()

    async def _client(self, number: int) -> None:
        """One client after the other, each killed some time, until nothing is left to do."""
        while self._waiting or self._open():
            with anyio.CancelScope() as scope, suppress(*_GONE):
                async with stdio_task_client(
                    [str(_BIN / "openclaw"), "mcp-server"], self.installation.environ()
                ) as client:
                    self._clients[number] = client, scope
                    await self._work(client)
            self._clients.pop(number, None)

    def _open(self) -> list[int]:
        return [number for number in self.handles if number not in self.ended]

    async def _work(self, client: StdioTaskClient) -> None:
        while self._waiting or self._open():
            if self._waiting:
                await self._order(client, self._waiting.pop(0))
            for number in self._open():
                await self._look(client, number)
            await anyio.sleep(0.05)

    async def _order(self, client: StdioTaskClient, number: int) -> None:
        self.unheard.add(number)
        more = {"sessionKey": f"order-{number}"}
        answer: dict[str, Any]
        try:
            answer = await client.order(f"mark {number}", arguments=more)
        except RpcError as refused:
            answer = {"isError": True, "content": [{"type": "text", "text": str(refused)}]}
        self.unheard.discard(number)
        if answer.get("resultType") == "task":
            self.handles[number] = answer["taskId"]
        else:
            self.ended[number] = {"status": "answered", "result": answer}

    async def _look(self, client: StdioTaskClient, number: int) -> None:
        task = await client.get(self.handles[number])
        if task["status"] in _ENDED:
            self.ended[number] = task

    async def _kill(self, every: float, stack: AsyncExitStack) -> None:
        while True:
            await anyio.sleep(every * self.chance.uniform(0.5, 1.5))
            what = self.chance.choice(("gateway", "server", "client"))
            if what == "gateway":
                assert self._gateway is not None
                self._gateway.kill()
                await self._gateway.wait()
                await anyio.sleep(self.chance.uniform(0.0, 0.5))
                self._gateway = await stack.enter_async_context(self.installation.process())
                await self.installation.running()
            elif self._clients:
                client, scope = self.chance.choice(list(self._clients.values()))
                if what == "server":
                    client.wire.process.kill()
                else:
                    scope.cancel()
            self.kills[what] += 1

    def done(self) -> Counter[int]:
        """How often each order was carried out."""
        lines = self.world.read_bytes().splitlines() if self.world.exists() else []
        return Counter(int(orjson.loads(line)["tag"].split()[-1]) for line in lines)


@dataclass(frozen=True, slots=True)
class Verdict:
    completed: int
    failed: int
    unheard: int
    lost: list[int]
    doubled: list[int]
    stuck: list[int]
    untrue: list[int]
    """Tasks that say something else than what happened."""


async def verdict(life: TaskLife) -> Verdict:
    done = life.done()
    completed = [n for n, task in life.ended.items() if _is_completed(task)]
    failed = [n for n, task in life.ended.items() if not _is_completed(task)]
    everything = set(life.ended) | life.unheard
    async with open_store("file", life.installation.paths) as store:
        now = SystemClock().now_ms()
        open_ = [task for task in await current_tasks(store, now, 100_000) if task.open]
    stuck = [int(task.session.rpartition("-")[2]) for task in open_]
    untrue = [n for n in completed if done[n] != 1]
    untrue += [n for n in failed if done[n] and "not begun" in str(life.ended[n])]
    return Verdict(
        completed=len(completed),
        failed=len(failed),
        unheard=len(life.unheard),
        lost=sorted(set(range(life.orders)) - everything),
        doubled=[n for n, count in done.items() if count > 1],
        stuck=stuck,
        untrue=untrue,
    )


def _is_completed(task: dict[str, Any]) -> bool:
    return "Done." in str(task.get("result"))


async def main(orders: int, seed: int) -> bool:
    """Live once, and say what was found; whether all is well."""
    with tempfile.TemporaryDirectory(prefix="openclaw-tasks-") as name:
        place = Path(name)
        (place / "state").mkdir(mode=0o700)
        installation = Installation(place / "state")
        async with scripted_model(rules=RULES) as model:
            configure(installation, model.url, place / "world")
            life = TaskLife(installation, place / "world", orders, random.Random(seed))
            with anyio.fail_after(3600):
                await life.live(every=2.5)
            found = await verdict(life)
    print(f"{orders} orders as tasks, killed: {dict(life.kills)}; {found}")  # noqa: T201
    return not (found.lost or found.doubled or found.stuck or found.untrue)


if __name__ == "__main__":
    sys.exit(not anyio.run(main, int(sys.argv[1]), 1))
