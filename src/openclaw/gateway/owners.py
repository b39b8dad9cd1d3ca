"""What a route reaches, and whose that is.

Turns, tasks, responses, questions and attachments belong to their session, and a session belongs to
the token whose conversation it is, or to the user. A route declares what it reaches; one that names
an object in its path gets the object from here, and only if its caller may have it.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from openclaw.core.errors import NotFound
from openclaw.gateway.auth import RequestRefused, grant_of, is_owner
from openclaw.gateway.tokens import Grant
from openclaw.sessions import task_records
from openclaw.sessions.records import SessionInfo, SessionRef, Turn, session_owner

if TYPE_CHECKING:
    from openclaw.gateway.event_streams import EventFeed
    from openclaw.gateway.gateway import Gateway, RunningTurn

_READING = ("GET", "HEAD")
_RESPONSE_ID = re.compile(r"resp_([0-9A-Za-z-]+)_([0-9a-f]{16})")


@dataclass(frozen=True, slots=True)
class Reach:
    """`find` returns the object that the path names; the handler gets it as `target`."""

    label: str
    find: "Callable[[Gateway, Request], Awaitable[Any]] | None" = None


def caller(request: Request) -> Grant:
    grant = grant_of(request.scope)
    if grant is None:
        raise RequestRefused(401, "a bearer token is required")
    return grant


def may_reach(request: Request, owner: str) -> bool:
    """Whether the caller may see what is this owner's, or use it unless the request only reads."""
    grant = caller(request)
    return grant.may_see(owner) if request.method in _READING else grant.may_use(owner)


@dataclass(frozen=True, slots=True)
class TurnTarget:
    """A turn, where it runs: its events and itself in this gateway, or its orders in others."""

    id: str
    feed: "EventFeed | None"
    running: "tuple[RunningTurn, ...]"
    orders: tuple[int, ...]


async def _turn(gateway: "Gateway", request: Request) -> TurnTarget:
    id = request.path_params["turn"]
    running = tuple(
        turn for turn in gateway.turns.running if turn.id == id and may_reach(request, turn.owner)
    )
    feed = gateway.feeds.find(id, lambda owner: may_reach(request, owner))
    cluster = gateway.backend.cluster
    orders: tuple[int, ...] = ()
    if cluster is not None and (feed is None or not running):
        known = await cluster.orders_of_turn(id)
        orders = tuple(order for order, key in known if may_reach(request, session_owner(key)))
    if feed is None and not running and not orders:
        raise NotFound(f"no turn '{id}' is running")
    return TurnTarget(id, feed, running, orders)


async def _session(gateway: "Gateway", request: Request) -> str:
    return caller(request).session(request.path_params["key"])


async def _task(gateway: "Gateway", request: Request) -> task_records.Task:
    id, now = request.path_params["id"], gateway.clock.now_ms()
    tasks = await task_records.current_tasks(gateway.backend.store, now, 1, [id])
    if not tasks or not may_reach(request, session_owner(tasks[0].session)):
        raise NotFound(f"there is no task '{id}'")
    return tasks[0]


async def _response(gateway: "Gateway", request: Request) -> tuple[SessionRef, Turn]:
    return await find_response(gateway, request, request.path_params["response"])


def response_id(session: str, turn: str) -> str:
    return f"resp_{session}_{turn}"


async def find_response(gateway: "Gateway", request: Request, id: str) -> tuple[SessionRef, Turn]:
    """The session and the turn of an earlier response."""
    parts = _RESPONSE_ID.fullmatch(id)
    session = await find_session_by_id(gateway, request, parts[1]) if parts else None
    if parts is not None and session is not None:
        turn = await gateway.backend.store.find_turn(session.ref, parts[2])
        if turn is not None:
            return session.ref, turn
    raise NotFound(f"there is no response '{id}'")


async def find_session_by_id(gateway: "Gateway", request: Request, id: str) -> SessionInfo | None:
    """The session with this id, if there is one that the caller may have."""
    sessions = await gateway.backend.store.find_sessions(id)
    return next(
        (one for one in sessions if one.id == id and may_reach(request, session_owner(one.key))),
        None,
    )


def require_owner(request: Request, what: str) -> None:
    """Raise unless the request comes from a program of this account on this machine."""
    if not is_owner(request.scope):
        raise RequestRefused(403, f"{what} is only for programs of this account on this machine")


async def _account(gateway: "Gateway", request: Request) -> None:
    require_owner(request, "starting MCP servers")


NOTHING = Reach("nothing that belongs to a session")
ALL = Reach("everyone's")  # only with the scope read or admin
OWN = Reach("the token's own sessions")  # which the body or a header names
ACCOUNT = Reach("only for programs of this account on this machine", _account)
SESSION = Reach("the token's own session", _session)
TURN = Reach("a turn of the token's own sessions", _turn)
TASK = Reach("a task of the token's own sessions", _task)
RESPONSE = Reach("a response of the token's own sessions", _response)
