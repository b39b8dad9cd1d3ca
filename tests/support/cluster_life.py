"""Several gateways on one database, some of them killed and frozen, and the check of what is left.

A client sends each session's messages one behind the other, the next as soon as the one before has
begun. Where its gateway goes away it asks another one, with the same idempotency key. Every message
makes the agent call a tool of a real MCP server on stdio, which writes down what it was told.
"""

import itertools
import random
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import asyncpg
import httpx2
import orjson
from anyio.abc import Process

from openclaw.agent.transcript import ResultItem, items_from
from openclaw.core.clock import SystemClock
from openclaw.sessions.open import open_store
from openclaw.sessions.records import Entry, EntryKind
from openclaw.testing.scripted_model import Step
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation

TOKEN = "a-token-that-every-gateway-of-the-cluster-knows"
_RETRY_SECONDS = 0.1
_ANSWER_SECONDS = 120.0


def rules(delay: float = 0.0) -> tuple[Step, ...]:
    """What the model does: a message makes it call the tool, and the tool's result answer."""
    call = ("mcp_world_mark", '{"tag": "{last}"}')
    return (
        Step(when="plain", role="user", text="Plainly: {last}"),
        Step(when="slow", role="user", text="Slowly, slowly, slowly, slowly, done.", delay=0.1),
        Step(role="user", calls=(call,), delay=delay),
        Step(role="tool", text="Done.", delay=delay),
    )


@dataclass(slots=True)
class Gateway:
    """One of them: its state directory, and the process while there is one."""

    installation: Installation
    url: str = ""
    process: Process | None = None
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    environ: dict[str, str] = field(default_factory=dict[str, str])

    async def start(self) -> None:
        """Start it and wait until it takes orders."""
        self.process = await self.stack.enter_async_context(
            self.installation.process(**self.environ)
        )
        self.url = (await self.installation.running()).url

    async def kill(self) -> None:
        """End it as a loss of power would."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()
        self.process = None

    async def replace(self) -> None:
        """Let it finish its turns or hand them over, and start it again, as an upgrade does."""
        assert self.process is not None
        process, self.process = self.process, None
        process.terminate()
        await process.wait()
        await self.start()

    def freeze(self) -> None:
        """Stop its clock."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


@dataclass(slots=True)
class Cluster:
    """Gateways on one database. `world` is what the tool calls did."""

    database: str
    world: Path
    gateways: list[Gateway]

    def client(self, number: int) -> httpx2.AsyncClient:
        """A client of one gateway, as it is now."""
        gateway = self.gateways[number]
        return httpx2.AsyncClient(
            base_url=gateway.url,
            trust_env=False,
            timeout=_ANSWER_SECONDS,
            headers=gateway.installation.headers,
        )

    async def cut(self) -> None:
        """Break every connection to the database."""
        connection = await asyncpg.connect(self.database)
        try:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        finally:
            await connection.close()

    def done(self) -> list[str]:
        """What the tool was told, in the order in which it was."""
        lines = self.world.read_bytes().splitlines() if self.world.exists() else []
        return [orjson.loads(line)["tag"] for line in lines]


def _wrong_clock(directory: Path, seconds: int) -> Path:
    """A path for Python on which every process finds its wall clock wrong by so many seconds."""
    place = directory / "clock"
    place.mkdir()
    (place / "sitecustomize.py").write_text(
        "import time\n"
        "right, right_ns = time.time, time.time_ns\n"
        f"time.time = lambda: right() + {seconds}\n"
        f"time.time_ns = lambda: right_ns() + {seconds} * 10**9\n"
    )
    return place


@asynccontextmanager
async def cluster(
    directory: Path,
    database: str,
    model_url: str,
    workers: tuple[int, ...] = (16, 16, 16),
    *,
    tool_seconds: float = 0.0,
    skews: tuple[int, ...] = (),
    servers: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AsyncGenerator[Cluster]:
    """So many gateways, each with so many workers and a server of its own; gone at the end.

    `skews` are the seconds by which their clocks are wrong, one for each.
    """
    world = directory / "world"
    does = {"sleep": tool_seconds, "record": str(world), "text": "marked"}
    tool = {"name": "mark", "inputSchema": {"type": "object"}, "does": does}
    gateways: list[Gateway] = []
    async with AsyncExitStack() as stack:
        for number, count in enumerate(workers):
            state = directory / f"gateway-{number}"
            state.mkdir(mode=0o700)
            installation = Installation(state)
            installation.configure(
                model_url,
                {"world": server_entry({"tools": [tool]}), **(servers or {})},
                sessions={"store": database},
                gateway={
                    "auth": {"token": TOKEN},
                    "limits": {"requestsPerMinute": 10_000_000, "maxConcurrent": 1000},
                    "cluster": {"workers": count},
                },
                **settings,
            )
            gateways.append(Gateway(installation))
            if number < len(skews):
                gateways[-1].environ["PYTHONPATH"] = str(_wrong_clock(state, skews[number]))
            stack.push_async_callback(gateways[-1].stack.aclose)
        async with anyio.create_task_group() as group:
            for gateway in gateways:
                group.start_soon(gateway.start)
        yield Cluster(database, world, gateways)


@asynccontextmanager
async def round_robin(cluster: Cluster) -> AsyncGenerator[str]:
    """The address of a proxy that gives each connection to the next gateway that takes it."""
    following = itertools.count()

    async def connected() -> anyio.abc.SocketStream:
        for _ in range(len(cluster.gateways)):
            gateway = cluster.gateways[next(following) % len(cluster.gateways)]
            with suppress(OSError):
                return await anyio.connect_tcp("127.0.0.1", int(gateway.url.rpartition(":")[2]))
        raise ConnectionRefusedError

    async def pump(source: anyio.abc.ByteStream, target: anyio.abc.ByteStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for piece in source:
                await target.send(piece)

    async def handle(client: anyio.abc.SocketStream) -> None:
        async with client, await connected() as gateway, anyio.create_task_group() as group:
            group.start_soon(pump, client, gateway)
            await pump(gateway, client)
            group.cancel_scope.cancel()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, handle)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}"
        group.cancel_scope.cancel()


@dataclass(slots=True)
class Life:
    """Messages for many sessions, and what became of them."""

    cluster: Cluster
    sessions: int
    turns: int
    chance: random.Random
    at_once: int = 32
    answered: dict[str, str] = field(default_factory=dict[str, str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    retries: int = 0
    kills: int = 0
    freezes: int = 0
    cuts: int = 0
    upgrades: int = 0

    async def live(
        self,
        kills: int = 0,
        freezes: int = 0,
        *,
        cuts: int = 0,
        upgrades: int = 0,
        every: float = 1.0,
    ) -> None:
        """Send everything; meanwhile hit gateways, one at a time, about `every` seconds.

        A cut breaks every connection to the database; an upgrade replaces one gateway after the other.
        """
        blows = ["kill"] * kills + ["freeze"] * freezes + ["cut"] * cuts + ["upgrade"] * upgrades
        room = anyio.CapacityLimiter(self.at_once)
        async with anyio.create_task_group() as trouble:
            trouble.start_soon(self._hit, blows, every)
            async with anyio.create_task_group() as group:
                for number in range(self.sessions):
                    group.start_soon(self._session, number, room)
            if self.kills + self.freezes + self.cuts + self.upgrades >= len(blows):
                trouble.cancel_scope.cancel()

    async def _session(self, number: int, room: anyio.CapacityLimiter) -> None:
        async with room, anyio.create_task_group() as group:
            for turn in range(self.turns):
                await group.start(self._turn, number, turn)

    async def _turn(self, number: int, turn: int, *, task_status: Any) -> None:
        """Send one message, again and again until it was answered; started once the turn has."""
        clock = SystemClock()
        began = clock.monotonic()
        told = [False]

        def has_begun() -> None:
            if not told[0]:
                told[0] = True
                task_status.started()

        key = f"s{number}-{turn}"
        body = {"text": f"mark {key}", "sessionKey": f"s{number}", "idempotencyKey": key}
        while (answer := await self._attempt(body, has_begun)) is None:
            self.retries += 1
            await anyio.sleep(_RETRY_SECONDS)
        has_begun()
        self.answered[key] = answer
        self.seconds[key] = clock.monotonic() - began

    async def _attempt(self, body: dict[str, Any], has_begun: Any) -> str | None:
        alive = [n for n, one in enumerate(self.cluster.gateways) if one.process is not None]
        chosen = self.chance.choice(alive)
        with suppress(httpx2.HTTPError):
            async with (
                self.cluster.client(chosen) as http,
                http.stream("POST", "/api/messages", json=body) as answer,
            ):
                name = ""
                async for line in answer.aiter_lines():
                    if line.startswith("event: "):
                        name = line[7:]
                        if name == "turn_started":
                            has_begun()
                    elif line.startswith("data: ") and name in ("reply", "error"):
                        data = orjson.loads(line[6:])
                        if name == "reply":
                            return str(data["text"])
                        if data.get("type") not in ("OperatorFacing", "Busy", "Cancelled"):
                            return f"error: {data}"
        return None

    async def _hit(self, blows: list[str], every: float) -> None:
        self.chance.shuffle(blows)
        for blow in blows:
            await anyio.sleep(every * self.chance.uniform(0.5, 1.5))
            gateway = self.chance.choice(self.cluster.gateways)
            match blow:
                case "kill":
                    await gateway.kill()
                    self.kills += 1
                    await anyio.sleep(0.2)
                    await gateway.start()
                case "freeze":
                    gateway.freeze()
                    self.freezes += 1
                    await anyio.sleep(8.0)
                    gateway.thaw()
                case "cut":
                    await self.cluster.cut()
                    self.cuts += 1
                case _:
                    for one in self.cluster.gateways:
                        await one.replace()
                    self.upgrades += 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the check found; `unknown` are calls whose outcome nobody knows."""

    turns: int
    lost: int
    doubled: int
    out_of_order: int
    unknown: int
    resumed: int
    longest_takeover: float
    """Seconds between the last that was heard of a turn and its going on elsewhere, at the most."""

    @property
    def clean(self) -> bool:
        """Nothing went wrong."""
        return not (self.lost or self.doubled or self.out_of_order)


async def verdict(life: Life) -> Verdict:
    """Compare the transcripts and the world with what was sent and answered."""
    done = Counter(life.cluster.done())
    lost = doubled = out_of_order = unknown = resumed = turns = 0
    longest = 0.0
    async with open_store(
        life.cluster.database, life.cluster.gateways[0].installation.paths
    ) as store:
        for number in range(life.sessions):
            [info] = await store.find_sessions(f"s{number}")
            entries = await store.entries(info.ref, limit=1_000_000)
            seen = _session(entries)
            wanted = [f"mark s{number}-{turn}" for turn in range(life.turns)]
            turns += len(seen.said)
            lost += len(set(wanted) - set(seen.finished))
            doubled += len(seen.said) - len(set(seen.said)) + seen.doubled
            out_of_order += seen.said != [text for text in wanted if text in seen.said]
            out_of_order += [entry.seq for entry in entries] != list(range(1, len(entries) + 1))
            unknown += seen.unknown
            resumed += seen.resumed
            longest = max(longest, seen.longest)
            # A tool may have run though its outcome is unknown; it never runs twice.
            doubled += sum(max(0, done[text] - 1) for text in wanted)
            lost += sum(done[text] == 0 for text in wanted if text not in seen.uncertain)
    return Verdict(turns, lost, doubled, out_of_order, unknown, resumed, longest)


@dataclass(slots=True)
class _Seen:
    said: list[str] = field(default_factory=list[str])
    finished: list[str] = field(default_factory=list[str])
    uncertain: set[str] = field(default_factory=set[str])
    doubled: int = 0
    unknown: int = 0
    resumed: int = 0
    longest: float = 0.0


def _session(entries: list[Entry]) -> _Seen:
    seen = _Seen()
    text_of: dict[str | None, str] = {}
    results: Counter[str | None] = Counter()
    heard: dict[str | None, int] = {}
    for entry in entries:
        match entry.kind:
            case EntryKind.USER_MESSAGE:
                seen.said.append(entry.text)
                text_of[entry.turn] = entry.text
            case EntryKind.TURN_FINISHED:
                seen.finished.append(text_of[entry.turn])
            case EntryKind.TOOL_RESULT:
                results[entry.call_id] += 1
                seen.unknown += "Outcome unknown" in entry.text
            case EntryKind.NOTICE if entry.data.get("resumed"):
                seen.resumed += 1
                seen.longest = max(seen.longest, (entry.at_ms - heard[entry.turn]) / 1000)
            case _:
                pass
        if entry.kind is not EntryKind.TURN_LOST:
            heard[entry.turn] = entry.at_ms
    # What the model was told, for a gateway may die after the model asked for a call and before it is
    # recorded as made. Then the transcript has no result of it, and the model reads that it was not
    # made. That is not a loss, though the model of these tests does not ask again.
    turn_of = {entry.seq: entry.turn for entry in entries}
    for item in items_from(entries):
        if isinstance(item, ResultItem) and item.is_error:  # it failed, or may have
            seen.uncertain.add(text_of[turn_of[item.seq]])
    seen.doubled = len(seen.finished) - len(set(seen.finished))
    seen.doubled += sum(count - 1 for count in results.values())
    return seen
