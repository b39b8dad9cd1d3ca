"""Turns that go on without the client that began them, and watching those that run."""

from typing import Any

from anyio.abc import TaskStatus
from starlette.requests import Request

from openclaw.core.errors import Busy, OperatorFacing
from openclaw.gateway.feeds import Feed
from openclaw.gateway.state import Gateway
from openclaw.gateway.stream import EventStream, Work

_RETRY_AFTER = 5.0


async def detached(gateway: Gateway, turn: str, work: Work) -> EventStream:
    """Have `work` done whether or not the client stays; the answer follows it from its beginning."""
    if gateway.background is None:
        raise OperatorFacing("the gateway is starting")
    if len(gateway.turns.running) >= gateway.settings.limits.max_concurrent:
        raise Busy("too many turns are running", retry_after=_RETRY_AFTER)

    async def carry_out(*, task_status: TaskStatus[Feed]) -> None:
        with gateway.feeds.open(turn) as feed:
            task_status.started(feed)
            await work(feed.put)

    feed = await gateway.background.start(carry_out, name=f"turn {turn}")
    return EventStream(feed.follow)


async def turn_events(gateway: Gateway, request: Request) -> Any:
    """What happened in a running turn, from its beginning, and what happens, to its end."""
    return EventStream(gateway.feeds.of(request.path_params["turn"]).follow)
