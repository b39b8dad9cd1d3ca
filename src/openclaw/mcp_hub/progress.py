"""Passes a server's reports of progress on to the client."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio

from openclaw.mcp_client.session.caller import OnProgress
from openclaw.mcp_server.conversation import Peer
from openclaw.sessions.task_groups import helper_tasks

_QUEUED = 100


@asynccontextmanager
async def passing_on_progress(peer: Peer) -> AsyncGenerator[OnProgress | None]:
    """Takes a server's reports of progress, and passes them on in order."""
    if not peer.wants_progress:
        yield None
        return
    put, take = anyio.create_memory_object_stream[tuple[float, float | None, str | None]](_QUEUED)
    done = anyio.Event()

    def report(progress: float, total: float | None, message: str | None) -> None:
        with suppress(anyio.WouldBlock):  # a client that does not read does without some
            put.send_nowait((progress, total, message))

    async def pass_on() -> None:
        async for progress, total, message in take:
            await peer.report(progress, total, message)
        done.set()

    async with put, take, helper_tasks() as tasks:
        tasks.start_soon(pass_on, name="hub progress")
        yield report
        put.close()
        await done.wait()
