"""What the log says of a server's state: each change once, a failure with its reason."""

import logging

from openclaw.mcp_client.state import Life, ServerState
from openclaw.mcp_client.stderr import StderrTail

logger = logging.getLogger(__name__)

_LEVELS = {
    ServerState.ERROR: logging.WARNING,
    ServerState.NEEDS_LOGIN: logging.WARNING,
    ServerState.FAILED: logging.ERROR,
}
_LAST_WORDS = 200  # characters of a server's stderr beside why it failed


class StateLog:
    """Tells of one server."""

    def __init__(self, name: str, stderr: StderrTail) -> None:
        self._name = name
        self._stderr = stderr
        self._told: str | None = None

    def say(self, life: Life) -> str | None:
        """Log the state that it is in now; returns what is wrong, where something is."""
        level = _LEVELS.get(life.state, logging.INFO)
        wrong = life.last_error if level > logging.INFO else None
        logger.log(
            self._heard(level, life.state, wrong),
            "MCP server '%s' is %s%s",
            self._name,
            life.state.replace("_", " "),
            f": {self._reason(life.state, wrong)}" if wrong else "",
        )
        return wrong

    def _heard(self, level: int, state: ServerState, wrong: str | None) -> int:
        """The level to log at: a failure that is like the last one was already told."""
        repeated = level == logging.WARNING and wrong == self._told
        if wrong is not None or state is ServerState.READY:
            self._told = wrong
        return logging.INFO if repeated else level

    def _reason(self, state: ServerState, wrong: str) -> str:
        if state is ServerState.NEEDS_LOGIN:
            return wrong  # it says what to do
        said = [line for line in self._stderr.tail() if line.strip()]
        words = f" (its last words: {said[-1].strip()[:_LAST_WORDS]})" if said else ""
        return f"{wrong}{words}; try it with: openclaw mcp probe {self._name}"
