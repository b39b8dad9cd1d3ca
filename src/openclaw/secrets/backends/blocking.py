"""Calls that block, in threads that may be left behind."""

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

from openclaw.secrets.resolver import BackendFailure

T = TypeVar("T")

_MOST_LEFT_BEHIND: Final = 16


class BlockingCalls:
    """Runs a library's blocking calls in daemon threads.

    A call that is cancelled is left to itself: it holds up neither its caller nor the end of the
    program. When too many hang, new ones are refused instead of piling up.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._slots = threading.Semaphore(_MOST_LEFT_BEHIND)

    async def run(self, call: Callable[[], T]) -> T:
        """The result of `call()`, or what it raised."""
        if not self._slots.acquire(blocking=False):
            raise BackendFailure(f"{_MOST_LEFT_BEHIND} earlier calls to {self._what} still hang")
        outcome: dict[str, Any] = {}
        done = anyio.Event()
        token = anyio.lowlevel.current_token()

        def body() -> None:
            try:
                outcome["value"] = call()
            except BaseException as error:  # noqa: BLE001 - it is raised again where it belongs
                outcome["error"] = error
            finally:
                self._slots.release()
            try:
                anyio.from_thread.run_sync(done.set, token=token)
            except RuntimeError:
                return  # the caller's event loop is gone

        threading.Thread(target=body, name=f"{self._what} call", daemon=True).start()
        await done.wait()
        if "error" in outcome:
            raise outcome["error"]
        return outcome["value"]
