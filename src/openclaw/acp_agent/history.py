"""Stored conversations of ACP clients. A session's id is its key, whichever agents answered in it."""

from collections.abc import Sequence
from dataclasses import dataclass

from openclaw.sessions.model import Entry, SessionInfo, SessionRef
from openclaw.sessions.store import SessionStore

SESSION_PREFIX = "acp-"

_FIRST_ENTRIES = 4  # the first message is among them


@dataclass(frozen=True, slots=True)
class Found:
    """A conversation: the agent that answered last, and everything that was said."""

    agent: str
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Listed:
    """A conversation in a list."""

    key: str
    cwd: str
    title: str | None
    updated_ms: int


async def find(store: SessionStore, key: str) -> Found | None:
    """The conversation with this key; each agent has kept its own part of it."""
    parts = [part for part in await store.find_sessions(key) if part.key == key]
    if not parts:
        return None
    entries: list[Entry] = []
    for part in parts:
        entries += await store.history(_ref(part), since_compaction=False)
    latest = max(parts, key=lambda part: part.updated_ms)
    return Found(latest.agent, sorted(entries, key=lambda entry: entry.at_ms))


async def list_page(
    store: SessionStore, cwd: str | None, cursor: str | None
) -> tuple[list[Listed], str | None]:
    """Conversations that began in a directory, or in `cwd` alone, and where the list goes on."""
    page = await store.list_sessions(cursor=cursor, search=SESSION_PREFIX)
    found: dict[str, Listed] = {}
    for info in page.sessions:
        if not info.key.startswith(SESSION_PREFIX) or info.key in found:
            continue
        began_in = await _directory(store, info)
        if began_in is not None and cwd in (None, began_in):
            found[info.key] = Listed(info.key, began_in, info.title, info.updated_ms)
    return list(found.values()), page.cursor


async def _directory(store: SessionStore, info: SessionInfo) -> str | None:
    """Where the person's first message was given."""
    first = await store.entries(_ref(info), limit=_FIRST_ENTRIES)
    return next((str(entry.data["cwd"]) for entry in first if "cwd" in entry.data), None)


def _ref(info: SessionInfo) -> SessionRef:
    return SessionRef(info.id, info.agent, info.key)
