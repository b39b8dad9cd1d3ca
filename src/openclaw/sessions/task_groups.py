"""A task group whose body's error is not wrapped in a group."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def helper_tasks() -> AsyncGenerator[TaskGroup]:
    """Tasks that are cancelled at the end; an exception in the body is raised as it is."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # noqa: BLE001 (raised in here, it would be wrapped in a group)
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
