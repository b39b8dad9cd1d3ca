"""A task group whose body's error is not wrapped in a group, and imports on a thread."""

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

T = TypeVar("T")
_importing = threading.Lock()


@asynccontextmanager
async def helper_tasks() -> AsyncGenerator[TaskGroup]:
    """Tasks that are cancelled at the end; an exception in the body is raised as it is."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # noqa: BLE001 (raised in here, it would come out in a group)
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def import_in_thread(work: Callable[[], T]) -> T:
    """One at a time: two threads that import the same packages may each see half of them."""

    def alone() -> T:
        with _importing:
            return work()

    return await anyio.to_thread.run_sync(alone, abandon_on_cancel=True)
