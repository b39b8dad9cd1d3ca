"""Tells a client that asked for it how the work goes, so that it neither wonders nor times out."""

from collections.abc import Awaitable
from typing import Protocol

import anyio

from openclaw.core.clock import Clock
from openclaw.core.events import Event, Notice, ToolFinished, ToolProgress, ToolStarted, TurnStarted

SILENCE_SECONDS = 10.0  # clients commonly give up after 30 to 60 s without a sign of life
_QUEUED = 256


class Report(Protocol):
    """Sends one progress notification."""

    def __call__(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Send it."""
        ...


def describe(event: Event) -> str | None:
    """What a person waiting for the answer wants to know of this event, if anything."""
    match event:
        case TurnStarted():
            return "working"
        case ToolStarted(name=name):
            return f"calling {name}"
        case ToolProgress(name=name, message=message):
            return f"{name}: {message}"
        case ToolFinished(name=name, result=result):
            return f"{name} failed" if result.is_error else f"{name} finished"
        case Notice(message=message):
            return message
        case _:
            return None


class ProgressReporter:
    """Passes events on as progress, and breaks a silence that lasts too long."""

    def __init__(self, report: Report, clock: Clock, silence: float = SILENCE_SECONDS) -> None:
        self._report = report
        self._clock = clock
        self._silence = silence
        self._send, self._receive = anyio.create_memory_object_stream[str](_QUEUED)
        self._doing = "waiting for the session"
        self._steps = 0

    def on_event(self, event: Event) -> None:
        """Queue what this event means; never blocks, and drops what a slow client cannot take."""
        message = describe(event)
        if message is None:
            return
        self._doing = message
        try:
            self._send.send_nowait(message)
        except anyio.WouldBlock:
            return

    async def run(self) -> None:
        """Send until cancelled."""
        started = self._clock.monotonic()
        async with self._send, self._receive:
            while True:
                message: str | None = None
                with anyio.move_on_after(self._silence):
                    message = await self._receive.receive()
                if message is None:
                    seconds = round(self._clock.monotonic() - started)
                    message = f"still working ({self._doing}, {seconds} s)"
                self._steps += 1  # the protocol wants a number that grows
                await self._report(float(self._steps), None, message)
