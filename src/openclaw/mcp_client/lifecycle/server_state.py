"""A server's state and the events that change it, as a pure function; and its log."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto

PROVEN_AFTER = 10.0  # seconds of being ready after which the first restart comes at once
STABLE_AFTER = 60.0  # seconds of being ready after which restarts are counted afresh
RESTART_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)


def restart_delay(attempt: int) -> float:
    """The backoff: how many seconds to wait before this restart."""
    return RESTART_DELAYS[min(attempt, len(RESTART_DELAYS) - 1)]


class ServerState(StrEnum):
    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    READY = "ready"
    ERROR = "error"
    FAILED = "failed"
    NEEDS_LOGIN = "needs_login"
    DISABLED = "disabled"
    CLOSED = "closed"


# states that a server leaves only when somebody acts, so waiting doesn't help
UNAVAILABLE = (
    ServerState.FAILED,
    ServerState.NEEDS_LOGIN,
    ServerState.DISABLED,
    ServerState.CLOSED,
)


class Event(Enum):
    STARTED = auto()  # somebody wants the server
    CONNECTED = auto()  # the handshake is done and the server has said what it offers
    LOST = auto()  # it could not be reached, or went away; trying again may help
    NOT_BEGUN = auto()  # something its start needs is unavailable; trying again may help
    BROKEN = auto()
    LOGIN_NEEDED = auto()
    RETRY_DUE = auto()  # the wait before the next attempt is over
    RESTARTED = auto()  # somebody asked for a fresh start
    STOPPED = auto()  # nobody wants the server any more


@dataclass(frozen=True, slots=True)
class ServerLifecycle:
    """Times are seconds of one monotonic clock.

    `restarts` counts attempts since the last reset; `waits` those in a row that started nothing.
    """

    state: ServerState = ServerState.DISCONNECTED
    restarts: int = 0
    waits: int = 0
    ready_since: float | None = None
    retry_at: float | None = None
    last_error: str | None = None


def advance(
    life: ServerLifecycle, event: Event, now: float, most_restarts: int, reason: str = ""
) -> ServerLifecycle:
    """The lifecycle after this event; an event that means nothing in this state changes nothing."""
    if life.state is ServerState.CLOSED:
        return life
    match event, life.state:
        case Event.STOPPED, _:
            return _resting(life, ServerState.CLOSED, life.last_error)
        case _, ServerState.DISABLED:
            return life
        case Event.RESTARTED, _:
            return ServerLifecycle(ServerState.CONNECTING, last_error=life.last_error)
        case (Event.STARTED, ServerState.DISCONNECTED) | (Event.RETRY_DUE, ServerState.ERROR):
            return replace(life, state=ServerState.CONNECTING, retry_at=None)
        case Event.CONNECTED, ServerState.CONNECTING:
            return replace(life, state=ServerState.READY, waits=0, ready_since=now)
        case _, ServerState.CONNECTING | ServerState.READY:
            return _ended(life, event, now, most_restarts, reason)
        case _:
            return life


def _ended(
    life: ServerLifecycle, event: Event, now: float, most_restarts: int, reason: str
) -> ServerLifecycle:
    match event:
        case Event.NOT_BEGUN if life.state is ServerState.CONNECTING:
            return _waiting(life, reason, now, most_restarts)
        case Event.LOST | Event.NOT_BEGUN:
            return _lost(life, reason, now, most_restarts)
        case Event.BROKEN:
            return _resting(life, ServerState.FAILED, reason)
        case Event.LOGIN_NEEDED:
            return _resting(life, ServerState.NEEDS_LOGIN, reason)
        case _:
            return life


def _lost(life: ServerLifecycle, reason: str, now: float, most_restarts: int) -> ServerLifecycle:
    uptime = 0.0 if life.ready_since is None else now - life.ready_since
    restarts = 0 if uptime >= STABLE_AFTER else life.restarts
    if restarts >= most_restarts:
        return _resting(replace(life, restarts=restarts), ServerState.FAILED, reason)
    at_once = restarts == 0 and uptime >= PROVEN_AFTER
    delay = 0.0 if at_once else restart_delay(restarts)
    return ServerLifecycle(
        ServerState.ERROR, restarts=restarts + 1, retry_at=now + delay, last_error=reason
    )


def _waiting(life: ServerLifecycle, reason: str, now: float, most_restarts: int) -> ServerLifecycle:
    """Nothing ran, so this isn't a restart; the waits are as long, and as many, as for restarts."""
    if life.waits >= most_restarts:
        return _resting(life, ServerState.FAILED, reason)
    return replace(
        life,
        state=ServerState.ERROR,
        waits=life.waits + 1,
        retry_at=now + restart_delay(life.waits),
        last_error=reason,
    )


def _resting(life: ServerLifecycle, state: ServerState, reason: str | None) -> ServerLifecycle:
    return ServerLifecycle(state, restarts=life.restarts, last_error=reason)


logger = logging.getLogger(__name__)

_FAILURES = {
    ServerState.ERROR: ("does not work", logging.WARNING),
    ServerState.NEEDS_LOGIN: ("needs a login", logging.WARNING),
    ServerState.FAILED: ("has failed", logging.ERROR),
}


def in_words(state: ServerState, reason: str | None) -> str:
    if reason and reason.startswith("cannot "):
        return reason
    words = _FAILURES[state][0] if state in _FAILURES else f"is {state.value}"
    return f"{words}: {reason}" if reason else words


_LAST_OUTPUT = 200  # characters of a server's stderr, shown with why it failed


class StateLog:
    def __init__(self, name: str, last_lines: Callable[[], Sequence[str]]) -> None:
        self._name = name
        self._last_lines = last_lines
        self._logged: str | None = None

    def say(self, life: ServerLifecycle, now: float) -> str | None:
        """Log the current state, and when it is tried again; returns what is wrong, if anything."""
        level, wrong, reason = logging.INFO, None, None
        if life.state in _FAILURES:
            level, wrong = _FAILURES[life.state][1], life.last_error
            reason = self._reason(life.state, wrong)
        if level == logging.WARNING and wrong == self._logged:
            level = logging.INFO  # the same failure again
        if wrong is not None or life.state is ServerState.READY:
            self._logged = wrong
        logger.log(level, "MCP server '%s' %s", self._name, in_words(life.state, reason))
        if life.retry_at is not None:
            wait, attempt = round(1000 * max(0.0, life.retry_at - now)), life.restarts or life.waits
            words = "MCP server '%s': restarting in %d ms (attempt %d)"
            logger.log(level, words, self._name, wait, attempt)
        return wrong

    def _reason(self, state: ServerState, wrong: str | None) -> str | None:
        if not wrong or state is ServerState.NEEDS_LOGIN:
            return wrong  # it says what to do
        lines = [line for line in self._last_lines() if line.strip()]
        words = f" (its last output: {lines[-1].strip()[:_LAST_OUTPUT]})" if lines else ""
        return f"{wrong}{words}; try it with: openclaw mcp probe {self._name}"
