"""Whom a server's question is for: the person on whose behalf it works.

A server may work for several at once. In the newest revision of MCP a question is part of the answer
to a call, so that it is clear whose it is. In the older ones it comes by itself: then it is asked
where all calls that the server has in hand are of one turn, and declined otherwise. Nobody is asked
about something that somebody else began.

Wherever that person sits, they read what a server has written: it is shown without secrets, and
without what a terminal or a model would obey.
"""

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import orjson

from openclaw.content.labels import sanitise_label, sanitise_schema
from openclaw.core.tools import Elicit, JsonObject
from openclaw.secrets.tree import redacted_tree

logger = logging.getLogger(__name__)

MAX_QUESTION = 10_000
MAX_SCHEMA = 64 * 1024

_DECLINE: JsonObject = {"action": "decline"}


async def decline(server: str, params: JsonObject) -> JsonObject:
    """The answer where there is nobody to ask."""
    return _DECLINE


_asker: ContextVar[Elicit | None] = ContextVar("openclaw_asker", default=None)


class Asking:
    """Takes the questions of one server; `otherwise` those that belong to no call."""

    def __init__(self, otherwise: Elicit, redact: Callable[[str], str] = str) -> None:
        self._otherwise = otherwise
        self._redact = redact
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
        try:
            question = shown(params, self._redact)
        except (TypeError, ValueError) as error:
            logger.warning("MCP server '%s' asks what cannot be shown: %s", server, error)
            return _DECLINE
        return await self._whose(server)(server, question)

    def _whose(self, server: str) -> Elicit:
        own = _asker.get()
        if own is not None:
            return own
        askers = set(self._calls.values())
        if len(askers) > 1:
            logger.info("MCP server '%s' asks while it works for several: declined", server)
            return decline
        return askers.pop() if askers else self._otherwise


def shown(params: JsonObject, redact: Callable[[str], str]) -> JsonObject:
    """A server's question as a person may see it. Raises ValueError where there is no such form."""
    question = dict(params)
    if "message" in question:
        message = redact(str(question["message"] or "")[: 4 * MAX_QUESTION])
        question["message"] = sanitise_label(message, MAX_QUESTION)
    url = question.get("url")
    if isinstance(url, str) and not url.isprintable():
        raise ValueError("its address has control characters")
    schema = question.get("requestedSchema")
    if isinstance(schema, dict):
        question["requestedSchema"] = _shown_schema(cast("dict[str, Any]", schema), redact)
    return question


def _shown_schema(schema: dict[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    if len(orjson.dumps(schema)) > MAX_SCHEMA:
        raise ValueError("its form is too large")
    clean = sanitise_schema(cast("dict[str, Any]", redacted_tree(schema, redact)))
    # Names and choices are sent back as they are, so that they cannot be cleaned.
    if not all(_is_plain(text) for text in _texts(clean)):
        raise ValueError("a name or a choice has control characters")
    return clean


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _texts(one)
    elif isinstance(value, dict):
        for name, one in cast("dict[str, object]", value).items():
            yield name
            yield from _texts(one)


def _is_plain(text: str) -> bool:
    return not any((char < " " and char not in "\n\t") or "\x7f" <= char < "\xa0" for char in text)
