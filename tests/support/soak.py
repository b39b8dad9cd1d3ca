"""Everything at once against one gateway: front ends, hostile servers, kills, reloads, lost clients.

Afterwards it is counted what leaked, and whether every acknowledged turn is in its transcript once
and in order.
"""

import random
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import TextContent

from openclaw.core.clock import SystemClock
from openclaw.gateway.openai.requests import SESSION_HEADER
from openclaw.mcp_client.errors import first_cause
from openclaw.media.stored_files import sweep
from openclaw.sessions.open import open_store
from openclaw.sessions.records import EntryKind
from openclaw.testing.scripted_model import Step
from tests.support import gateway_life
from tests.support.fake_server import server_entry
from tests.support.fake_tools import one_pixel_png
from tests.support.gateway_kit import Installation
from tests.support.gateway_life import SESSIONS, Holdings, Life

_PROGRAM = str(Path(sys.executable).with_name("openclaw"))
_KILLED = "killed front ends"
_LOG_BYTES, _LOG_FILES = 65_536, 2
_LATE = 30.0  # seconds that what was begun may take beyond the end
_BOUNDED = {"sessions.db": 5, "audit.jsonl": 1, "l2_supercat_256.safetensors": 1}
_ORDERS = 12  # that one process of a front end is given before it ends or is killed
_MOST_GROWTH = 60.0  # MB that a gateway may have grown by: its sessions are longer than they were

_WILD: dict[str, dict[str, Any]] = {
    "flood": {"notifications": 20_000, "text": "flooded"},
    "giant": {"giant": 3_000_000},
    "deep": {"deep": 20_000},
    "halfline": {"halfLine": True},
    "crashing": {"crash": 3},
    "noise": {"raw": "this is no message", "text": "noisy"},
}
KINDS = (*("tool", "slow", "plain") * 4, *_WILD)
RULES = (
    *(Step(when=kind, role="user", calls=((f"mcp_wild_{kind}", {}),)) for kind in _WILD),
    *gateway_life.RULES,
)


def configure(installation: Installation, model_url: str, variant: int) -> None:
    """A good server, one that each variant changes, and one whose every tool is hostile."""
    mark = _mark(installation)
    echo = {"name": "echo", "inputSchema": {"type": "object"}, "does": {"text": "x"}}
    wild = [{"name": k, "inputSchema": {"type": "object"}, "does": v} for k, v in _WILD.items()]
    changing = {"tools": [{**echo, "description": f"variant {variant}"}], "name": mark}
    installation.configure(
        model_url,
        {
            "steady": server_entry({"tools": [echo], "name": mark}, maxRestarts=100_000),
            "changing": server_entry(changing),
            "wild": server_entry(
                {"tools": wild, "name": mark},
                maxRestarts=100_000,
                toolTimeout=3000,
                maxMessageBytes=1_000_000,
            ),
        },
        gateway={"limits": {"requestsPerMinute": 1_000_000}},
        logging={"level": "debug", "maxFileBytes": _LOG_BYTES, "keep": _LOG_FILES},
    )


@dataclass(slots=True)
class Soak:
    """What was done at once, what was acknowledged to whom, and what nobody had foreseen."""

    life: Life
    gateway: psutil.Process
    told: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])
    done: Counter[str] = field(default_factory=Counter[str])
    trouble: list[str] = field(default_factory=list[str])
    _number: int = 0
    _until: float = 0.0

    async def run(self, seconds: float) -> None:
        """Do everything at once for so long, and a little longer for those that have nothing done."""
        self._until = SystemClock().monotonic() + seconds

        async def again(name: str, one: Callable[[str], Awaitable[None]]) -> None:
            while not self._over(name):
                try:
                    with anyio.move_on_after(seconds + _LATE):
                        await one(name)
                except Exception as error:  # noqa: BLE001 - counted, and the others go on
                    self._failed(name, first_cause(error))

        async with anyio.create_task_group() as group:
            group.start_soon(self.life.live, seconds, 3)
            group.start_soon(again, "completions", self._completion)
            group.start_soon(again, "streams", self._streamed)
            group.start_soon(again, "orders", self._orders)
            group.start_soon(again, "local orders", self._local_orders)
            group.start_soon(again, "editor", self._editor)

    def _over(self, client: str) -> bool:
        late = SystemClock().monotonic() - self._until
        return late >= _LATE or (late >= 0 and self.done[client] > 0)

    def _failed(self, name: str, error: BaseException) -> None:
        """Who starts while the configuration is a wrong one is told so; the rest is trouble."""
        if "openclaw.json" in str(error):
            self.done["refused for a wrong configuration"] += 1
        else:
            self.trouble.append(f"{name}: {error!r}")

    def _message(self) -> tuple[str, str]:
        self._number += 1
        chance = self.life.chance
        kind = chance.choice(KINDS)
        return f"s{chance.randrange(SESSIONS)}", f"{kind} o{self._number}"

    def _acknowledged(self, client: str, session: str, text: str) -> None:
        self.told.setdefault((client, session), []).append(text)
        self.done[client] += 1

    async def _completion(self, client: str) -> None:
        async with self._http() as http:
            session, text = self._message()
            answer = await http.post("/v1/chat/completions", **_asked(session, text))
            if answer.is_success:
                self._acknowledged(client, session, text)

    async def _streamed(self, client: str) -> None:
        session, text = self._message()
        leaves_early = self.life.chance.random() < 0.3
        asked = _asked(session, text, stream=True)
        ended = failed = False
        async with (
            self._http() as http,
            http.stream("POST", "/v1/chat/completions", **asked) as r,
        ):
            async for line in r.aiter_lines():
                ended, failed = ended or line == "data: [DONE]", failed or '"error"' in line
                if leaves_early:
                    self.done["left early"] += 1
                    return
        if ended and not failed:
            self._acknowledged(client, session, text)

    def _http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=self.life.info.url,
            trust_env=False,
            timeout=120,
            headers=self.life.installation.headers,
        )

    async def _orders(self, client: str) -> None:
        await self._ordered(client)

    async def _local_orders(self, client: str) -> None:
        await self._ordered(client, "--local")

    async def _ordered(self, client: str, *arguments: str) -> None:
        """One process of the MCP server; some are killed in the middle of an order."""
        self._number += 1
        mine = f"{client} {self._number}"
        program = StdioServerParameters(
            command=_PROGRAM,
            args=["mcp-server", *arguments],
            env=self.life.installation.environ(SOAK_PROCESS=mine),
        )
        killed = self.life.chance.random() < 0.3
        try:
            async with Client(program) as server:
                for _ in range(_ORDERS - 1):
                    if self._over(client):
                        return
                    await self._order(server, client)
                if killed:
                    await self._killed(server, client, mine)
        except Exception as error:
            if not killed or not isinstance(first_cause(error), MCPError):
                raise

    async def _order(self, server: Client, client: str) -> None:
        session, text = self._message()
        order: dict[str, Any] = {"message": text, "sessionKey": session}
        if self.life.chance.random() < 0.3:
            order["images"] = [{"data": one_pixel_png(), "mimeType": "image/png"}]
        if self.life.chance.random() < 0.3:
            order["files"] = [{"data": "aGVsbG8=", "mimeType": "text/plain", "filename": "a.txt"}]
        if self.life.chance.random() < 0.1:
            with anyio.move_on_after(self.life.chance.random() * 0.3):
                await server.call_tool("order_openclaw", order)
            self.done["cancelled orders"] += 1
            return
        answer = await server.call_tool("order_openclaw", order)
        if not answer.is_error:
            assert any(isinstance(block, TextContent) for block in answer.content)
            self._acknowledged(client, session, text)

    async def _killed(self, server: Client, client: str, mine: str) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._unanswered, server, client)
            await anyio.sleep(self.life.chance.random() * 0.2)
            for child in psutil.Process().children():
                with suppress(psutil.Error):
                    if child.environ().get("SOAK_PROCESS") == mine:
                        child.kill()
                        self.done[_KILLED] += 1

    async def _unanswered(self, server: Client, client: str) -> None:
        with suppress(MCPError):
            await self._order(server, client)

    async def _editor(self, client: str) -> None:
        async with _editor(self.life.installation) as connection:
            from acp import text_block

            session = await connection.new_session(
                cwd=str(self.life.installation.state / "workspace"), mcp_servers=[]
            )
            for _ in range(_ORDERS):
                if self._over(client):
                    return
                _, text = self._message()
                async with anyio.create_task_group() as group:
                    if self.life.chance.random() < 0.15:
                        group.start_soon(self._cancel, connection, session.session_id)
                    answer = await connection.prompt(
                        session_id=session.session_id, prompt=[text_block(text)]
                    )
                    if answer.stop_reason == "end_turn":
                        self._acknowledged(client, session.session_id, text)

    async def _cancel(self, connection: Any, session: str) -> None:
        await anyio.sleep(self.life.chance.random() * 0.1)
        await connection.cancel(session_id=session)
        self.done["cancelled prompts"] += 1

    async def findings(self, before: Holdings, after: Holdings) -> list[tuple[str, str, bool]]:
        """What was counted at the end: what, how many, and whether that is as it should be."""
        logs = sum(p.stat().st_size for p in self.life.installation.paths.logs.glob("gateway*"))
        more = _unbounded(after.more_than(before))
        most = {k: after.kinds.get(k, 0) for k in _BOUNDED}
        temporary = self.life.installation.paths.temp
        swept = sweep(temporary)  # as the next start does, for those that were killed
        names = sorted(p.name for p in temporary.rglob("*")) if temporary.exists() else []
        grown = after.megabytes - before.megabytes
        wrong = await self._transcripts()
        return [
            (
                "child processes more than at first",
                str(after.processes - before.processes),
                after.processes <= before.processes,
            ),
            ("descriptors of a kind more than at first", str(more or 0), not more),
            (
                "descriptors that are opened at need",
                str(most),
                all(count <= _BOUNDED[kind] for kind, count in most.items()),
            ),
            (
                "threads more than at first",
                str(after.threads - before.threads),
                after.threads - before.threads <= 8,
            ),
            ("temporary files", ", ".join(names[:9]) or "0", not names),
            ("temporary files of killed processes", str(swept), swept <= self.done[_KILLED]),
            (
                "memory more than at first",
                f"{grown:.0f} MB of {after.megabytes:.0f} MB",
                grown < _MOST_GROWTH,
            ),
            ("gateway's log", f"{logs / 1000:.0f} kB", logs <= _LOG_BYTES * (_LOG_FILES + 2)),
            ("acknowledged turns", str(len(self._all())), len(self._all()) > 0),
            ("lost, doubled or out of order", wrong or "0", not wrong),
            ("unforeseen errors", "; ".join(self.trouble[:3]) or "0", not self.trouble),
        ]

    def _all(self) -> list[tuple[str, str]]:
        own = [(session, text) for (_, session), texts in self.told.items() for text in texts]
        return [*self.life.told, *own]

    async def _transcripts(self) -> str:
        try:
            await gateway_life.check_transcripts(self.life.installation, self._all())
        except AssertionError as wrong:
            return str(wrong)
        async with open_store("file", self.life.installation.paths) as store:
            for (client, session), texts in self.told.items():
                [info] = await store.find_sessions(session)
                entries = await store.entries(info.ref, limit=10_000_000)
                said = [e.text for e in entries if e.kind is EntryKind.USER_MESSAGE]
                places = [said.index(text) for text in texts]
                if places != sorted(places):
                    return f"{client} in {session}: out of order"
        return ""


def _asked(session: str, text: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {
        "json": {"model": "openclaw", "messages": messages, **more},
        "headers": {SESSION_HEADER: session},
    }


class _Silent:
    """The client's side of ACP, which hears everything and says nothing."""

    def on_connect(self, conn: Any) -> None:
        """Nothing to keep."""

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Heard."""


@asynccontextmanager
async def _editor(installation: Installation) -> AsyncGenerator[Any]:
    from acp import spawn_agent_process

    async with spawn_agent_process(
        _Silent(),  # pyright: ignore[reportArgumentType] - it offers no files and no terminals
        _PROGRAM,
        "acp",
        env=installation.environ(),
        transport_kwargs={"limit": 50 * 1024 * 1024, "stderr": None, "shutdown_timeout": 20.0},
    ) as (connection, _):
        await connection.initialize(protocol_version=1)
        yield connection


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done how often, and what was found at the end."""

    done: dict[str, int]
    findings: list[tuple[str, str, bool]]

    @property
    def well(self) -> bool:
        """Whether everything is as it should be."""
        return all(fine for _, _, fine in self.findings)


async def soak(
    installation: Installation, model_url: str, seconds: float, seed: int = 1
) -> Outcome:
    """A whole run: warm up, soak, rest, count, stop, and look for what is left."""
    configure(installation, model_url, 0)
    async with installation.process() as process:
        info = await installation.running()
        life = Life(installation, model_url, info, random.Random(seed))
        life.write, life.servers, life.kinds = configure, ("changing", "steady", "wild"), KINDS
        one = Soak(life, psutil.Process(process.pid))
        await life.rest()
        children = gateway_life.children_of(process.pid)
        await one.run(min(20.0, seconds / 3))
        await life.rest()
        before = await gateway_life.holdings(installation, process.pid, children)
        await one.run(seconds)
        await life.rest()
        after = await _settled(installation, process.pid, before)
        process.terminate()
        code = await process.wait()
    findings = await one.findings(before, after)
    left = _left(installation)
    findings += [
        ("exit code of the gateway", str(code), code == 0),
        ("processes left behind", str(left or 0), not left),
    ]
    return Outcome({**life.done, **one.done}, findings)


async def _settled(installation: Installation, pid: int, before: Holdings) -> Holdings:
    """What it holds once what was just being started or ended is done with."""
    after = await gateway_life.holdings(installation, pid, before.processes)
    with anyio.move_on_after(_LATE):
        while _unbounded(after.more_than(before)):
            await anyio.sleep(0.2)
            after = await gateway_life.holdings(installation, pid, before.processes)
    return after


def _unbounded(more: Mapping[str, int]) -> dict[str, int]:
    """Descriptors of kinds that have no bound of their own."""
    return {kind: n for kind, n in more.items() if not kind.startswith(tuple(_BOUNDED))}


def _mark(installation: Installation) -> str:
    """What the MCP servers of this run carry in their command line."""
    return f"soak of {installation.state}"


def _left(installation: Installation) -> list[str]:
    """MCP servers of this run that outlived everybody."""
    found: list[str] = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or ())
        if _mark(installation) in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(f"{process.pid}: {words[:60]}")
    return found
