"""Turns that go on without the client that began them, and watching those that run."""

from contextlib import aclosing
from functools import partial
from typing import Any

from anyio.abc import TaskStatus
from starlette.requests import Request

from openclaw.agent.context import Reply
from openclaw.core.errors import Busy, InvalidRequest, OpenClawError, OperatorFacing
from openclaw.gateway.codec import error_json, reply_json
from openclaw.gateway.feeds import Feed
from openclaw.gateway.house import Cluster
from openclaw.gateway.state import Gateway
from openclaw.gateway.stream import EventStream, Put, Work, frame

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
    """What happened in a running turn, from its beginning, and what happens, to its end.

    Its questions are shown to those who say that they can answer (`?questions=true`).
    """
    turn, member = request.path_params["turn"], gateway.house.member
    if member is None or gateway.feeds.has(turn):
        follow = gateway.feeds.of(turn).follow
        return EventStream(partial(follow, questions=_can_answer(request)))
    return EventStream(_elsewhere(member, turn, _seen(request)))


def _can_answer(request: Request) -> bool:
    given = request.query_params.get("questions", "false")
    if given not in ("true", "false"):
        raise InvalidRequest("has to be true or false", field="questions")
    return given == "true"


def _seen(request: Request) -> int:
    """The number of the last event that the client has, where it comes back."""
    text = request.query_params.get("after") or request.headers.get("last-event-id") or "0"
    if not text.isdecimal() or not text.isascii():
        raise InvalidRequest("is not a number", field="after")
    return int(text)


def _elsewhere(member: Cluster, turn: str, seen: int) -> Work:
    """A turn that came in at another gateway; each event has its number, to come back with."""

    async def follow(put: Put) -> None:
        try:
            async with aclosing(member.watch_turn(turn, seen)) as events:
                async for number, name, body in events:
                    shown = _ending(body) if name in ("reply", "error") else body
                    put(b"id: %d\n%s" % (number, frame(shown, name)))
        except OpenClawError as error:
            put(frame(error_json(error), "error"))

    return follow


def _ending(result: Any) -> dict[str, Any]:
    return reply_json(result) if isinstance(result, Reply) else error_json(result)
