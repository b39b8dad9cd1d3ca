"""A session as it is written to a file: JSON objects, one a line."""

from collections.abc import AsyncIterator

from openclaw.sessions.model import SessionRef, header_json
from openclaw.sessions.store import SessionStore

_PAGE = 500
"""Entries that are read at once."""


async def exported(store: SessionStore, session: SessionRef) -> AsyncIterator[dict[str, object]]:
    """What the session is, then every entry."""
    yield {"type": "session", **header_json(await store.show(session))}
    last = 0
    while page := await store.entries(session, after=last, limit=_PAGE):
        for entry in page:
            yield {"type": "entry", **entry.to_json()}
        last = page[-1].seq
