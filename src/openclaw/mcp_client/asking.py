"""Whom a server's question is for: the person on whose behalf it works.

A server may work for several at once. In the newest revision of MCP a question is part of the answer
to a call, so that it is clear whose it is. In the older ones it comes by itself: then it is asked
where all calls that the server has in hand are of one turn, and declined otherwise. Nobody is asked
about something that somebody else began.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from openclaw.core.tools import Elicit, JsonObject

logger = logging.getLogger(__name__)

_DECLINE: JsonObject = {"action": "decline"}


async def decline(server: str, params: JsonObject) -> JsonObject:
    """The answer where there is nobody to ask."""
    return _DECLINE


_asker: ContextVar[Elicit | None] = ContextVar("openclaw_asker", default=None)


class Asking:
    """Takes the questions of one server; `otherwise` those that belong to no call."""

    def __init__(self, otherwise: Elicit) -> None:
        self._otherwise = otherwise
        self._calls: dict[object, Elicit] = {}

    @contextmanager
    def on_behalf(self, elicit: Elicit | None) -> Generator[None]:
        """While this lasts, the server works for whoever `elicit` asks."""
        call, asker = object(), elicit or decline
        self._calls[call] = asker
        token = _asker.set(asker)
        try:
            yield
        finally:
            _asker.reset(token)
            del self._calls[call]

    async def __call__(self, server: str, params: JsonObject) -> JsonObject:
        """The answer to a question of the server's."""
        return await self._whose(server)(server, params)

    def _whose(self, server: str) -> Elicit:
        own = _asker.get()
        if own is not None:
            return own
        askers = set(self._calls.values())
        if len(askers) > 1:
            logger.info("MCP server '%s' asks while it works for several: declined", server)
            return decline
        return askers.pop() if askers else self._otherwise
