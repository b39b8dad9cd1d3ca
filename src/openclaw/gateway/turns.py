"""The turns that run now: counted, cancelled one by one, and ended together."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from openclaw.core.clock import Clock
from openclaw.core.errors import Busy, Cancelled, NotFound, OperatorFacing

_RETRY_AFTER = 5.0
_BY_REQUEST = "the turn was cancelled"
_BY_SHUTDOWN = "the gateway is stopping, and the turn's time to finish was up"


@dataclass(slots=True)
class Running:
    """A turn on its way; `why` is set once it was told to stop."""

    id: str
    agent: str
    session: str
    origin: str
    started: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    why: str | None = None

    def stop(self, why: str) -> None:
        """End it; its session records that it was cancelled."""
        self.why = self.why or why
        self.scope.cancel()


class Turns:
    """Every turn that a client of the gateway waits for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[str, Running] = {}
        self._closing = False
        self._idle = anyio.Event()

    @property
    def running(self) -> tuple[Running, ...]:
        """Those that run now, the oldest first."""
        return tuple(self._running.values())

    @asynccontextmanager
    async def run(self, id: str, agent: str, session: str, origin: str) -> AsyncGenerator[Running]:
        """Run one inside; raises `Cancelled` where it was told to stop."""
        if self._closing:
            raise OperatorFacing("the gateway is stopping")
        if id in self._running:
            raise Busy(f"turn {id} is running already", retry_after=_RETRY_AFTER)
        turn = Running(id, agent, session, origin, self._clock.now_ms())
        self._running[id] = turn
        try:
            with turn.scope:
                yield turn
        finally:
            del self._running[id]
            if not self._running:
                self._idle.set()
        if turn.scope.cancelled_caught:
            raise Cancelled(turn.why or _BY_REQUEST)

    def has(self, id: str) -> bool:
        """Whether a client of this gateway waits for that turn."""
        return id in self._running

    def cancel(self, id: str) -> None:
        """Stop one; raises `NotFound`."""
        turn = self._running.get(id)
        if turn is None:
            raise NotFound(f"no turn '{id}' is running")
        turn.stop(_BY_REQUEST)

    def cancel_session(self, session: str, agent: str | None) -> int:
        """Stop what runs in a session, and what waits for it; returns how many."""
        found = [
            turn
            for turn in self.running
            if turn.session == session and (agent is None or turn.agent == agent)
        ]
        for turn in found:
            turn.stop(_BY_REQUEST)
        return len(found)

    async def close(self, grace: float, closing: float) -> None:
        """Take no more; let those that run finish within `grace`, then stop them within `closing`."""
        self._closing = True
        with anyio.move_on_after(grace):
            await self._until_idle()
        self.stop_all()
        with anyio.move_on_after(closing):
            await self._until_idle()

    def stop_all(self) -> None:
        """Stop everything that runs, because the gateway stops."""
        for turn in self.running:
            turn.stop(_BY_SHUTDOWN)

    async def _until_idle(self) -> None:
        while self._running:
            self._idle = anyio.Event()
            await self._idle.wait()
