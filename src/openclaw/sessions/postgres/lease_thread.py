"""Renews leases on a thread, so that nothing that blocks the event loop costs a process its sessions.

An import or a computation can hold up the event loop for longer than a lease. A process that is
frozen still renews nothing, and neither does one whose event loop is stuck for good.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from typing import Any

import anyio
import anyio.to_thread
from anyio.from_thread import start_blocking_portal

STUCK_SECONDS = 60.0  # far longer than any import; others may then have the sessions


class OwnLoop:
    """The process's event loop, as the thread sees it. Made on the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ran_at = self._loop.time()

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Have the event loop call this, as soon as it can."""
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(function, *args)

    def is_stuck(self) -> bool:
        """Whether the event loop has not run for long. Ask often: each question is also a sign."""
        self.call(self._ran)
        return self._loop.time() - self._ran_at > STUCK_SECONDS

    def _ran(self) -> None:
        self._ran_at = self._loop.time()


async def run_on_thread(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` on an event loop in a thread of its own; cancelling this cancels it."""
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        try:
            await asyncio.wrap_future(portal.start_task_soon(work))
        finally:
            with anyio.CancelScope(shield=True):
                # Waits for `work`'s own clean-up, such as closing its connection.
                await anyio.to_thread.run_sync(stack.pop_all().close)
