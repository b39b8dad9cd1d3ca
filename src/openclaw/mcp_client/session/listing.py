"""Lists what a server offers: every page, within bounds; a bad entry costs only that entry."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import orjson

from openclaw.config.paths import private_directory, write_atomically
from openclaw.core.errors import OpenClawError
from openclaw.core.tools import json_list, json_object
from openclaw.mcp import declarations as declared
from openclaw.mcp import json_text
from openclaw.mcp.declarations import Declaration, Listing
from openclaw.mcp.jsonrpc import JsonObject as RawResult
from openclaw.mcp_client import bounds
from openclaw.mcp_client.errors import InvalidResult, RemoteError
from openclaw.secrets.redactor import redacted_tree

logger = logging.getLogger(__name__)

Ask = Callable[[str, dict[str, Any]], Awaitable[RawResult]]
Redact = Callable[[str], str]

KINDS = ("tools", "resources", "prompts")


@dataclass(frozen=True, slots=True)
class _Catalogue:
    method: str
    key: str
    limit: int
    id_field: str  # by which an entry is requested
    parse: Callable[[RawResult], Declaration]


_CATALOGUES = {
    "tools": _Catalogue("tools/list", "tools", bounds.MAX_TOOLS, "name", declared.Tool.parse),
    "resources": _Catalogue(
        "resources/list", "resources", bounds.MAX_RESOURCES, "uri", declared.Resource.parse
    ),
    "resource_templates": _Catalogue(
        "resources/templates/list",
        "resourceTemplates",
        bounds.MAX_RESOURCES,
        "uriTemplate",
        declared.ResourceTemplate.parse,
    ),
    "prompts": _Catalogue(
        "prompts/list", "prompts", bounds.MAX_PROMPTS, "name", declared.Prompt.parse
    ),
}


@dataclass(slots=True)
class Listed:
    """The well-formed entries of one catalogue, and what was left out of it.

    `failed` says that the server did not list all of it.
    """

    entries: list[Any] = field(default_factory=list[Any])
    dropped: list[str] = field(default_factory=list[str])
    failed: bool = False


async def fetch(ask: Ask, kind: str, redact: Redact = str) -> dict[str, Listed]:
    """The catalogues of `tools`, `resources` or `prompts`, by the field in `Listing`; redacted."""
    names = ("resources", "resource_templates") if kind == "resources" else (kind,)
    return {name: await _fetch_one(ask, _CATALOGUES[name], redact) for name in names}


def merged(old: Listing, parts: dict[str, Listed]) -> Listing:
    fields: dict[str, Any] = {
        name: tuple(parts[name].entries) if name in parts else getattr(old, name)
        for name in _CATALOGUES
    }
    fresh = [note for part in parts.values() for note in part.dropped]
    replaced = tuple(f"{_CATALOGUES[name].key}:" for name in parts)
    unchanged = [note for note in old.dropped if not note.startswith(replaced)]
    return Listing(**fields, instructions=old.instructions, dropped=(*unchanged, *fresh))


def without(listing: Listing, refuses: Callable[[Any], str | None]) -> Listing:
    tools: list[declared.Tool] = []
    notes: list[str] = []
    for tool in listing.tools:
        reason = refuses(tool.input_schema)
        if reason is None:
            tools.append(tool)
        else:
            name, why = bounds.printable(tool.name, 80), bounds.printable(reason, 200)
            notes.append(f"tools: '{name}' was left out ({why})")
    return replace(listing, tools=tuple(tools), dropped=(*listing.dropped, *notes))


async def _fetch_one(ask: Ask, catalogue: _Catalogue, redact: Redact) -> Listed:
    listed = Listed()
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(bounds.MAX_PAGES):
        try:
            page = await ask(catalogue.method, {} if cursor is None else {"cursor": cursor})
        except (RemoteError, InvalidResult) as error:
            why = bounds.printable(redact(str(error)[:65536]), 500)
            listed.dropped.append(f"{catalogue.key}: the server did not list them ({why})")
            listed.failed = True
            return listed
        # In a thread, since a long page takes a while.
        entries = page.get(catalogue.key)
        await anyio.to_thread.run_sync(_absorb, entries, listed, catalogue, redact)
        cursor = _next_cursor(page, seen)
        if cursor is None:
            return listed
        if len(listed.entries) >= catalogue.limit:
            break
    listed.dropped.append(f"{catalogue.key}: there are too many; the rest were left out")
    return listed


def _next_cursor(page: RawResult, seen: set[str]) -> str | None:
    cursor = page.get("nextCursor")
    if not isinstance(cursor, str) or not cursor or cursor in seen:
        return None
    seen.add(cursor)
    return cursor


def _absorb(raw: Any, listed: Listed, catalogue: _Catalogue, redact: Redact) -> None:
    entries = json_list(raw)
    room = catalogue.limit - len(listed.entries)
    for entry in entries[:room]:
        try:
            listed.entries.append(_checked(entry, catalogue, redact))
        except ValueError as error:
            why = bounds.printable(redact(str(error)), 500)
            listed.dropped.append(f"{catalogue.key}: '{_name(entry, redact)}' was left out ({why})")
    if len(entries) > room:
        listed.dropped.append(f"{catalogue.key}: {len(entries) - room} past the limit left out")


def _checked(entry: Any, catalogue: _Catalogue, redact: Redact) -> Declaration:
    """The entry without secrets; raises ValueError if it can't be used."""
    try:
        written = orjson.dumps(entry)
    except TypeError:
        raise ValueError("not JSON that can be passed on") from None
    if not isinstance(entry, dict):
        raise ValueError("not an object")  # noqa: TRY004  what a server sends is a value
    if len(written) > bounds.MAX_ENTRY_BYTES:
        raise ValueError("too large")
    fields = cast("dict[str, Any]", entry)
    key = fields.get(catalogue.id_field)
    if isinstance(key, str) and redact(key) != key:  # it could not be requested
        raise ValueError(f"its {catalogue.id_field} contains a secret")
    text = written.decode()
    clean = fields if redact(text) == text else redacted_tree(fields, redact)
    return catalogue.parse(cast("RawResult", clean))


def _name(entry: Any, redact: Redact) -> str:
    return bounds.printable(redact(str(json_object(entry).get("name", "?"))[:65536]), 80)


def ignore_progress(progress: float, total: float | None, message: str | None) -> None:
    """Ignores progress, which still keeps the call alive."""


def are_objects(value: Any) -> bool:
    return type(value) is list and all(type(item) is dict for item in cast("list[Any]", value))


def are_blocks(value: Any) -> bool:
    """Whether this is a list of content blocks, which all have a type."""
    return are_objects(value) and all(type(block.get("type")) is str for block in value)


_MAX_BYTES = 16 * 1024 * 1024


class CatalogCache:
    """What lazy servers offered when they last ran: one file for each server and configuration.

    Losing one costs only a start. `redact` removes secrets that a server put into it.
    """

    def __init__(self, directory: Path, redact: Redact = str) -> None:
        self._directory, self._redact = directory, redact

    def _path(self, fingerprint: str) -> Path:
        return self._directory / f"{fingerprint}.json"

    def load(self, fingerprint: str) -> Listing | None:
        path = self._path(fingerprint)
        try:
            if path.stat().st_size > _MAX_BYTES:
                return None
            listing = Listing.parse(json_text.loads(path.read_bytes()))
            return None if listing == Listing() else listing  # any other JSON object reads as empty
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.info("ignoring cached tool catalogue %s: %s", path.name, type(error).__name__)
            return None

    def store(self, fingerprint: str, listing: Listing) -> None:
        text = json_text.dumps(listing.to_json())
        try:
            private_directory(self._directory)
            write_atomically(self._path(fingerprint), self._redact(text.decode()))
        except OpenClawError as error:
            logger.warning("a tool catalogue could not be kept: %s", error.message)
