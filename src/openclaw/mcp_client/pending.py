"""Requests that were sent and not yet answered."""

from asyncio import Future, TimerHandle
from typing import Any

from openclaw.mcp_client.decode import answered_id
from openclaw.mcp_client.failures import Interrupted, TooLarge
from openclaw.mcp_client.jsonrpc import OnProgress
from openclaw.mcp_client.lines import Oversize
from openclaw.mcp_client.snapshot import RawResult

_MAX_DIGITS = 18


class Pending:
    """A request that was sent and not yet answered."""

    __slots__ = ("future", "give_up_at", "on_progress", "reported_at", "timeout", "timer")

    def __init__(self, future: "Future[RawResult]", timeout: float | None) -> None:
        self.future = future
        self.timeout = timeout
        self.timer: TimerHandle | None = None
        self.give_up_at = 0.0
        self.on_progress: OnProgress | None = None
        self.reported_at = 0.0

    def refuse(self, error: Exception) -> None:
        """End the wait with an error. Whoever waited may have been cancelled in the same moment."""
        self.future.set_exception(error)
        self.future.exception()  # seen, so that the loop does not complain where nobody waits


class PendingTable(dict[int | str, Pending]):
    """The requests in flight, by their ids."""

    def find(self, key: Any) -> Pending | None:
        """The request with this id; a server may give a number back as text."""
        if type(key) is int:
            return self.get(key)
        if type(key) is not str:
            return None
        return self.get(key) or (
            self.get(int(key)) if key.isdecimal() and len(key) <= _MAX_DIGITS else None
        )

    def fail(self, reason: str, oversize: Oversize | None) -> None:
        """Nothing will be answered any more; one of them may be to blame."""
        guilty = None if oversize is None else self._guilty(oversize)
        for pending in self.values():
            if pending.future.done():
                continue
            if pending is guilty and oversize is not None:
                pending.refuse(TooLarge(oversize.limit))
            else:
                pending.refuse(Interrupted(reason))

    def _guilty(self, oversize: Oversize) -> Pending | None:
        """The request whose answer was too long, where that can be told."""
        alone = next(iter(self.values())) if len(self) == 1 else None
        return self.find(answered_id(oversize.head)) or alone
