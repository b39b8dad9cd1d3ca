"""A gateway's life, fast: orders, cancellations, lost clients, reloads and killed servers at random.

What must hold afterwards is checked: nothing leaked, and no line of a transcript lost or doubled.
"""

import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil

from openclaw.core.clock import SystemClock
from openclaw.gateway.lock import GatewayInfo
from openclaw.sessions.open import open_store
from openclaw.sessions.records import EntryKind
from openclaw.testing.scripted_model import Step
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation

SESSIONS = 8
_ECHO = {"name": "echo", "inputSchema": {"type": "object"}, "does": {"text": "x"}}
RULES = (
    Step(when="tool", role="user", calls=(("mcp_steady_echo", {}),)),
    Step(when="slow", role="user", text="Slowly, slowly, slowly.", delay=0.05),
)
DEFAULT = Step(text="Noted.")


def configure(installation: Installation, model_url: str, variant: int) -> None:
    """A configuration; each variant changes one server and leaves the other alone."""
    changing = server_entry({"tools": [{**_ECHO, "description": f"variant {variant}"}]})
    installation.configure(
        model_url,
        {"steady": server_entry({"tools": [_ECHO]}, maxRestarts=1000), "changing": changing},
        gateway={"limits": {"requestsPerMinute": 1_000_000}},
    )


@dataclass(slots=True)
class Life:
    """What was done, and what was acknowledged."""

    installation: Installation
    model_url: str
    info: GatewayInfo
    chance: random.Random
    told: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    done: dict[str, int] = field(default_factory=dict[str, int])
    write: Callable[[Installation, str, int], None] = configure
    servers: tuple[str, ...] = ("changing", "steady")
    kinds: tuple[str, ...] = ("tool", "slow", "plain")
    _number: int = 0

    async def live(self, seconds: float, clients: int = 6, answers: int = 0) -> None:
        """Do things at random for so long, and until so many orders were answered in all."""
        clock = SystemClock()
        until = clock.monotonic() + seconds

        async def client() -> None:
            async with self._client() as http:
                while clock.monotonic() < until or len(self.told) < answers:
                    await self._something(http)

        async with anyio.create_task_group() as group:
            for _ in range(clients):
                group.start_soon(client)

    def _client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=self.info.url, trust_env=False, timeout=60, headers=self.installation.headers
        )

    async def _something(self, http: httpx2.AsyncClient) -> None:
        doings: list[tuple[int, Callable[[httpx2.AsyncClient], Awaitable[None]]]] = [
            (60, self._order),
            (10, self._vanish),
            (10, self._cancel),
            (3, self._reload),
            (3, self._kill_server),
            (3, self._restart),
        ]
        doing = self.chance.choices([d for _, d in doings], [w for w, _ in doings])[0]
        name = doing.__name__.strip("_")
        self.done[name] = self.done.get(name, 0) + 1
        await doing(http)

    def _message(self, **more: Any) -> dict[str, Any]:
        self._number += 1
        kind = self.chance.choice(self.kinds)
        session = f"s{self.chance.randrange(SESSIONS)}"
        return {"text": f"{kind} {self._number}", "sessionKey": session, **more}

    async def _order(self, http: httpx2.AsyncClient) -> None:
        body = self._message(stream=self.chance.random() < 0.5)
        answer = await http.post("/api/messages", json=body)
        whole = "event: reply" in answer.text if body["stream"] else answer.status_code == 200
        if whole:
            self.told.append((body["sessionKey"], body["text"]))

    async def _vanish(self, http: httpx2.AsyncClient) -> None:
        with anyio.move_on_after(self.chance.random() * 0.1):
            async with self._client() as other:
                await other.post("/api/messages", json=self._message())

    async def _cancel(self, http: httpx2.AsyncClient) -> None:
        turns = (await http.get("/api/turns")).json()["turns"]
        if turns:
            await http.post(f"/api/turns/{self.chance.choice(turns)['turn']}/cancel")

    async def _reload(self, http: httpx2.AsyncClient) -> None:
        if self.chance.random() < 0.2:
            self.installation.config_file.write_text("{ this is wrong")
        else:
            self.write(self.installation, self.model_url, self.chance.randrange(3))
        await http.post("/api/reload")

    async def _kill_server(self, http: httpx2.AsyncClient) -> None:
        rows = (await http.get("/api/servers")).json()["servers"]
        pids = [row["pid"] for row in rows if row["pid"]]
        if pids:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(self.chance.choice(pids)).kill()

    async def _restart(self, http: httpx2.AsyncClient) -> None:
        await http.post("/api/servers/steady/restart")

    async def rest(self) -> None:
        """Settle on the first configuration and wait until nothing runs."""
        self.write(self.installation, self.model_url, 0)
        async with self._client() as http:
            await http.post("/api/reload")
            with anyio.fail_after(60):
                while not await self._quiet(http):  # noqa: ASYNC110 - another process
                    await anyio.sleep(0.05)

    async def _quiet(self, http: httpx2.AsyncClient) -> bool:
        turns = (await http.get("/api/turns")).json()["turns"]
        rows = (await http.get("/api/servers")).json()["servers"]
        for row in rows:
            if row["state"] in ("error", "failed"):  # it would come back, but later
                await http.post(f"/api/servers/{row['name']}/restart")
        ready = sorted(row["name"] for row in rows if row["state"] == "ready")
        return not turns and ready == sorted(self.servers)


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a gateway holds on to. `kinds` says of what kind its descriptors are."""

    processes: int
    descriptors: int
    threads: int
    megabytes: float
    temporary: int
    kinds: Mapping[str, int] = field(default_factory=dict[str, int])

    def more_than(self, before: "Holdings") -> dict[str, int]:
        """The kinds of descriptors of which there are more now than there were.

        Idle connections to models do not count: the pool keeps them for the next turn, as many as
        there ever were at once.
        """
        counts = {kind: n - before.kinds.get(kind, 0) for kind, n in self.kinds.items()}
        return {k: count for k, count in counts.items() if count > 0 and k != "to models"}


async def holdings(installation: Installation, pid: int, children: int) -> Holdings:
    """What it holds at rest: no more children than so many, and nobody connected to it."""
    process = psutil.Process(pid)
    with anyio.move_on_after(60):
        while len(process.children(recursive=True)) > children or _connected(process):  # noqa: ASYNC110 - other processes
            await anyio.sleep(0.05)
    temporary = installation.state / "tmp"
    return Holdings(
        processes=len(process.children(recursive=True)),
        descriptors=process.num_fds(),
        threads=process.num_threads(),
        megabytes=process.memory_info().rss / 1e6,
        temporary=len(list(temporary.iterdir())) if temporary.exists() else 0,
        kinds=_kinds(process),
    )


def children_of(pid: int) -> int:
    """How many processes it has started that run, and those that they started."""
    return len(psutil.Process(pid).children(recursive=True))


def _connected(process: psutil.Process) -> int:
    """How many clients are connected to it."""
    return _connections(process)["from clients"]


def _connections(process: psutil.Process) -> dict[str, int]:
    """Its TCP sockets: those that listen, its clients', and its own to models, which it keeps."""
    found = process.net_connections("tcp")
    ports = {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}
    kinds = {"listening": 0, "from clients": 0, "to models": 0}
    for one in found:
        if one.status == psutil.CONN_LISTEN:
            kinds["listening"] += 1
        else:
            kinds["from clients" if one.laddr.port in ports else "to models"] += 1
    return kinds


def _kinds(process: psutil.Process) -> dict[str, int]:
    """What its descriptors are, where the machine can tell: files by name, the rest by kind."""
    kinds = _connections(process)
    others = -sum(kinds.values())  # sockets of every kind are counted below
    folder = Path(f"/proc/{process.pid}/fd")
    for entry in folder.iterdir() if folder.exists() else ():
        try:
            target = str(entry.readlink())
        except OSError:
            continue  # closed just now
        kind = Path(target).name if target.startswith("/") else target.partition(":")[0]
        if kind == "socket":
            others += 1
        else:
            kinds[kind] = kinds.get(kind, 0) + 1
    return {**kinds, "other sockets": max(0, others)}


async def check_transcripts(installation: Installation, told: list[tuple[str, str]]) -> int:
    """Every acknowledged message is there once, in order, with its end; returns how many entries."""
    count = 0
    async with open_store("file", installation.paths) as store:
        for session in sorted({key for key, _ in told}):
            [info] = await store.find_sessions(session)
            entries = await store.entries(info.ref, limit=10_000_000)
            count += len(entries)
            assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1)), session
            said = [e for e in entries if e.kind is EntryKind.USER_MESSAGE]
            texts = [e.text for e in said]
            assert len(set(texts)) == len(texts), f"{session}: a message is there twice"
            ended = {e.turn for e in entries if e.kind is EntryKind.TURN_FINISHED}
            finished = {e.text for e in said if e.turn in ended}
            mine = {text for key, text in told if key == session}
            assert mine <= finished, f"{session}: lost {mine - finished}"
            calls = [e.call_id for e in entries if e.kind is EntryKind.TOOL_CALL]
            results = [e.call_id for e in entries if e.kind is EntryKind.TOOL_RESULT]
            assert len(set(results)) == len(results), f"{session}: a result is there twice"
            asked = {c["id"] for e in entries for c in e.data.get("calls", ())}
            assert set(calls) <= set(results) <= asked
    return count
