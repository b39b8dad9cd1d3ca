"""Finds the person whom a server's question is for, and the program that samples for it.

A server may work for several people at once. In the newest revision of MCP a question is part of
the answer to a call, so it is clear whose it is. In the older ones it comes on its own: then it is
asked if all the server's open calls belong to one turn, and declined otherwise. Nobody is asked
about something that somebody else started.

Whoever is asked reads what a server has written, so it is shown without secrets, and without
anything that a terminal or a model would obey.
"""

import logging
import unicodedata
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import orjson

from openclaw.content.labels import sanitise_label, sanitise_schema
from openclaw.content.sanitise import holds_orders
from openclaw.core.errors import ServerUnavailable
from openclaw.core.questions import DECLINED, Elicit, elicitation_result
from openclaw.core.tools import JsonObject
from openclaw.secrets.redactor import Redactor, redacted_tree

logger = logging.getLogger(__name__)

MAX_QUESTION = 10_000
MAX_SCHEMA = 64 * 1024
MAX_ADDRESS = 8192
MAX_ID = 256

_MODES = ("form", "url")
_REPEATED = frozenset({"enum", "const", "required", "enumNames"})
_JOINERS = "\u200c\u200d"  # Persian, the Indic scripts and emoji need them


async def decline(server: str, params: JsonObject) -> JsonObject:
    return elicitation_result(DECLINED)


async def refuse_sampling(server: str, params: JsonObject) -> JsonObject:
    raise ServerUnavailable(server, "sampling is unavailable here")


class CallOwner(NamedTuple):
    """Who made a call: how they are asked, and how a model samples for them if not by ours."""

    elicit: Elicit
    sample: Elicit | None = None


_owner: ContextVar[CallOwner | None] = ContextVar("openclaw_call_owner", default=None)


class ElicitationRouter:
    """Handles one server's questions; `otherwise` and `sampler` get those that belong to no call."""

    def __init__(
        self, otherwise: Elicit, redactor: Redactor | None = None, sampler: Elicit | None = None
    ) -> None:
        self._otherwise = otherwise
        self._redactor = redactor or Redactor()
        self._sampler = sampler or refuse_sampling
        self._calls: dict[object, CallOwner] = {}

    def on_behalf(self, elicit: Elicit | None, sample: Elicit | None = None) -> "_OnBehalf":
        """While this lasts, the server works for whoever `elicit` asks."""
        return _OnBehalf(self._calls, CallOwner(elicit or decline, sample))

    async def __call__(self, server: str, params: JsonObject) -> JsonObject:
        try:
            question = shown(params, self._redactor)
        except (TypeError, ValueError) as error:
            logger.warning("MCP server '%s' asks something that cannot be shown: %s", server, error)
            return elicitation_result(DECLINED)
        owners = self._owners()
        if len({owner.elicit for owner in owners}) > 1:
            logger.info("MCP server '%s' asks while it works for several people: declined", server)
            return elicitation_result(DECLINED)
        elicit = owners[0].elicit if owners else self._otherwise
        return await elicit(server, question)

    async def sample(self, server: str, params: JsonObject) -> JsonObject:
        """Have the client that made the call sample, or our own model."""
        samplers = {owner.sample for owner in self._owners()} or {None}
        if len(samplers) > 1:
            logger.info("MCP server '%s' samples while it works for several clients", server)
            return await refuse_sampling(server, params)
        sample = samplers.pop() or self._sampler
        return await sample(server, params)

    def _owners(self) -> list[CallOwner]:
        """Those whose call this may be about."""
        own = _owner.get()
        return [own] if own is not None else list(self._calls.values())


class _OnBehalf:
    """Not a generator, which would take three times as long: every call has one."""

    __slots__ = ("_calls", "_owner", "_token")

    def __init__(self, calls: dict[object, CallOwner], owner: CallOwner) -> None:
        self._calls, self._owner = calls, owner

    def __enter__(self) -> None:
        self._calls[self] = self._owner
        self._token = _owner.set(self._owner)

    def __exit__(self, *raised: object) -> None:
        _owner.reset(self._token)
        del self._calls[self]


def shown(params: JsonObject, redactor: Redactor) -> JsonObject:
    """A server's question as a person may see it; raises ValueError if it can't be shown.

    Fields that the protocol does not define are left out: nothing here would check them.
    """
    question: dict[str, Any] = {}
    if "message" in params:
        message = redactor.redact(str(params["message"] or "")[: 4 * MAX_QUESTION])
        question["message"] = sanitise_label(message, MAX_QUESTION)
    if params.get("requestedSchema") is not None:
        question["requestedSchema"] = _shown_schema(params["requestedSchema"], redactor.redact)
    if params.get("mode") is not None:
        if params["mode"] not in _MODES:
            raise ValueError("its mode is unknown")
        question["mode"] = params["mode"]
    for key, limit in (("url", MAX_ADDRESS), ("elicitationId", MAX_ID)):
        if params.get(key) is not None:
            question[key] = _unchanged(key, params[key], limit, redactor)
    if "url" in question:
        _check_address(question["url"])
    return question


def _unchanged(key: str, text: object, limit: int, redactor: Redactor) -> str:
    """Text that is useless once a character is replaced, so it is refused rather than cleaned."""
    if not isinstance(text, str) or len(text) > limit:
        raise ValueError(f"its {key} is not text, or too long")
    if not text.isprintable() or holds_orders(text):
        raise ValueError(f"its {key} has hidden characters or markers in it")
    if redactor.holds(text):
        raise ValueError(f"its {key} has a secret in it")
    return text


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("its address is not a web page")
    if "@" in parts.netloc:  # the part before it looks like the host, but isn't
        raise ValueError("its address has a user name in it")


def _shown_schema(schema: object, redact: Callable[[str], str]) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise ValueError("it has no valid form")  # noqa: TRY004  what a server sends is a value
    if len(orjson.dumps(schema)) > MAX_SCHEMA:
        raise ValueError("its form is too large")
    # Names and choices are sent back as they are, so they can't be cleaned.
    for text in _texts(cast("dict[str, object]", schema), repeated=True):
        if not _is_plain(text):
            raise ValueError("a name or a choice has hidden or control characters")
        if redact(text) != text:
            raise ValueError("a name or a choice has a secret in it")
    clean = sanitise_schema(cast("dict[str, Any]", redacted_tree(cast("Any", schema), redact)))
    if not all(_is_plain(text, also="\n\t") for text in _texts(clean)):
        raise ValueError("its form has hidden or control characters")
    return clean


def _texts(value: object, *, repeated: bool = False) -> Iterator[str]:
    """All names and texts; with `repeated`, only the names and choices that are sent back."""
    if isinstance(value, str) and not repeated:
        yield value
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _texts(item, repeated=repeated)
    elif isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            yield name
            yield from _texts(item, repeated=repeated and name not in _REPEATED)


def _is_plain(text: str, also: str = "") -> bool:
    hidden = ("C", "Zl", "Zp")  # categories of Unicode
    return text.isprintable() or all(
        char in _JOINERS or char in also or not unicodedata.category(char).startswith(hidden)
        for char in text
    )
