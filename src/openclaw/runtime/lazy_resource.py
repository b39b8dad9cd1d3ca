import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import anyio

from openclaw.core.errors import DeveloperFacing, OpenClawError, OperatorFacing, leaves

logger = logging.getLogger(__name__)

T = TypeVar("T")


class LazyResource(Generic[T]):
    """Opens something when it is first needed, and again after a failure.

    It is opened and closed in one task, `run`, because its task groups require that. Only `close` ends
    it: an outside cancellation also stops its users, who still need it while they stop.
    """

    def __init__(self, what: str, open_it: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self.opened: T | None = None
        self._what, self._open = what, open_it
        self._wanted, self._tried = anyio.Event(), anyio.Event()
        self._failure: OpenClawError | None = None
        self._life = anyio.CancelScope(shield=True)

    async def get(self) -> T:
        """Wait until it is open; raises the error if it fails to open."""
        if self.opened is None:
            self.request_open()
            await self._tried.wait()
        if self.opened is None:
            raise self._failure or OperatorFacing(f"{self._what} is closed")
        return self.opened

    def request_open(self) -> None:
        self._wanted.set()

    def close(self) -> None:
        self._life.cancel()

    async def run(self) -> None:
        """Start this with `start_soon`: a cancelled `start` would wait for it for ever."""
        with self._life:
            while True:
                await self._opened_once()

    async def _opened_once(self) -> None:
        await self._wanted.wait()
        try:
            async with self._open() as opened:
                self.opened = opened
                self._tried.set()
                await anyio.sleep_forever()
        except Exception as error:  # noqa: BLE001 (`get` raises it)
            self._failure = self._logged(error)
        finally:
            self.opened = None
        tried, self._tried, self._wanted = self._tried, anyio.Event(), anyio.Event()
        tried.set()

    def _logged(self, error: Exception) -> OpenClawError:
        inside = list(leaves(error))
        own = next((one for one in inside if isinstance(one, OpenClawError)), None)
        if own is not None:
            logger.info("%s cannot be opened: %s", self._what, own)
            return own
        logger.error("%s failed", self._what, exc_info=error)
        return DeveloperFacing(
            f"{self._what} cannot be opened: unexpected {type(inside[0]).__name__}",
            hint="see the log",
        )
