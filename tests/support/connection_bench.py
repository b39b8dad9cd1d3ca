"""Running connections to fake servers in a test: one reaper, one clock that leaps, one cache."""

import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.events import Event
from openclaw.mcp_client.lifecycle.connection import ServerConnection
from openclaw.mcp_client.session.connect import ConnectionDeps
from openclaw.mcp_client.transport.orphan_reaper import OrphanReaper
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import Secret
from tests.support.fake_server import server_entry

_MAX_ARGUMENT = 100_000
OBJECT = {"type": "object"}


def knowing(secret: str) -> Redactor:
    redactor = Redactor()
    redactor.register(secret)
    return redactor


@dataclass
class LeapingClock:
    """The machine's clock, which a test may put forward."""

    ahead: float = 0.0

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that only grow, and leap."""
        return time.monotonic() + self.ahead


async def resolve(values: Mapping[str, str]) -> dict[str, Secret]:
    """Every value as a secret; a reference is its own value."""
    return {name: Secret(value.removeprefix("secret://")) for name, value in values.items()}


@dataclass
class Bench:
    """What a test needs to run servers: one reaper, one clock, one place to remember."""

    directory: Path
    environ: Mapping[str, str]
    reaper: OrphanReaper = field(default_factory=OrphanReaper)
    clock: LeapingClock = field(default_factory=LeapingClock)
    events: list[Event] = field(default_factory=list[Event])

    def connection(
        self, spec: Mapping[str, Any], *, deps: Mapping[str, Any] | None = None, **settings: Any
    ) -> ServerConnection:
        """A connection to a fake server on stdio that nobody runs yet."""
        named = [{"inputSchema": OBJECT, **tool} for tool in spec.get("tools", ())]
        whole = {**spec, "tools": named}
        entry = server_entry(whole, **settings)
        if len(description := json.dumps(whole)) > _MAX_ARGUMENT:
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self.directory / "fake-server.json"
            path.write_text(description)
            entry["args"] = [*entry["args"][:-1], f"@{path}"]
        return self.to(entry, deps=deps)

    def to(
        self, entry: Mapping[str, Any], *, deps: Mapping[str, Any] | None = None, name: str = "fake"
    ) -> ServerConnection:
        """A connection to what this entry of the configuration names."""
        given: dict[str, Any] = {
            "resolve_secrets": resolve,
            "environ": self.environ,
            "reaper": self.reaper,
            "clock": self.clock,
            "cache": self.directory,
            "emit": self.events.append,
            **(deps or {}),
        }
        return ServerConnection(
            name, McpServerConfig.model_validate(dict(entry)), ConnectionDeps(**given)
        )

    @asynccontextmanager
    async def run(
        self, connection: ServerConnection, *, ready: bool = True
    ) -> AsyncGenerator[ServerConnection]:
        """Own the connection in a task until the block ends."""
        async with anyio.create_task_group() as group:
            await group.start(connection.run)
            try:
                if ready:
                    await connection.wait_ready(90)
                yield connection
            finally:
                connection.stop()

    def serve(
        self, spec: Mapping[str, Any], **settings: Any
    ) -> AbstractAsyncContextManager[ServerConnection]:
        """A fake server, ready."""
        return self.run(self.connection(spec, **settings))


def is_running(pid: int) -> bool:
    """Whether this process runs; one that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def has_line_with(file: Path, words: str) -> bool:
    """Whether this file is there and contains these words, as the `requestsFile` of a fake server."""
    return file.exists() and words in file.read_text()


async def until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait for something to become true that announces itself in no other way."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110  there is no event to wait for
            await anyio.sleep(0.005)


@dataclass
class LoopWatch:
    """How long the event loop was held up at most, in seconds, while this was watching.

    It is the loop's own CPU time that counts, as other threads and processes may keep it waiting.
    """

    longest: float = 0.0

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator["LoopWatch"]:
        """Watch until the block ends."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._tick)
            yield self
            group.cancel_scope.cancel()

    async def _tick(self) -> None:
        last = time.thread_time()
        while True:
            await anyio.sleep(0.002)
            now = time.thread_time()
            self.longest, last = max(self.longest, now - last), now
