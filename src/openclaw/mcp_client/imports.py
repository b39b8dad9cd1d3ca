"""Imports large modules on a thread, to keep the event loop free.

Code that may be the first to import one must await one of these, even on the event loop: if two
threads import packages that import each other, Python raises in one of them to avoid a deadlock, or
shows it a half-initialised module.
"""

import threading
from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

import anyio.to_thread

T = TypeVar("T")
_importing = threading.Lock()


async def import_in_thread(work: Callable[[], T]) -> T:
    """Call `work`, which imports something, while nothing else is imported here."""

    def alone() -> T:
        with _importing:
            return work()

    return await anyio.to_thread.run_sync(alone, abandon_on_cancel=True)


async def load(module: str) -> None:
    await import_in_thread(lambda: import_module(module))
