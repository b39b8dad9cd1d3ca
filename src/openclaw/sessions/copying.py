"""Copies every session of one store to another; can be interrupted and restarted.

A session is copied in pieces, each in one transaction that also records the progress. What the target
already has is compared and left alone. The source is only read.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from openclaw.core.clock import random_id
from openclaw.core.errors import Busy, NotFound
from openclaw.sessions.records import (
    MESSAGE_KINDS,
    CopyConflict,
    Entry,
    SessionDetails,
    SessionInfo,
    SessionRef,
    header_json,
)
from openclaw.sessions.store import SessionStore

_PIECE = 100  # entries per transaction


@dataclass(slots=True)
class CopyReport:
    copied: int = 0
    unchanged: int = 0
    entries: int = 0
    refused: list[tuple[SessionInfo, str]] = field(default_factory=list[tuple[SessionInfo, str]])

    @property
    def seen(self) -> int:
        return self.copied + self.unchanged + len(self.refused)


async def copy_sessions(
    source: SessionStore, target: SessionStore, on_progress: Callable[[CopyReport], None]
) -> CopyReport:
    """Copy every session; the report names those that cannot be copied."""
    report = CopyReport()
    for info in (await source.list_sessions(limit=None)).sessions:
        try:
            added = await _copy_one(source, target, info)
        except NotFound:
            continue  # deleted meanwhile
        except (CopyConflict, Busy) as error:
            report.refused.append((info, error.message))
        else:
            report.entries += added or 0
            report.copied += added is not None
            report.unchanged += added is None
        on_progress(report)
    return report


async def _copy_one(source: SessionStore, target: SessionStore, info: SessionInfo) -> int | None:
    """How many entries were copied; None if there was nothing to do."""
    wanted = await source.details(info.ref)
    there = await _counterpart(target, wanted.info)
    reached = 0
    if there is not None:
        if there == wanted:
            return None
        reached = there.info.entries
        await _require_same(source, target, wanted, there)
    elif not wanted.info.entries:
        await target.receive_entries(wanted.info, 0, [])
    await _copy_entries(source, target, info.ref, wanted.info, reached, wanted.info.entries)
    await target.receive_details(wanted)
    return wanted.info.entries - reached


async def _copy_entries(
    source: SessionStore,
    target: SessionStore,
    of: SessionRef,
    to: SessionInfo,
    after: int,
    last: int,
) -> int:
    """Copy entries with the attachments that they name; returns how many were messages."""
    messages = 0
    while after < last:
        piece = await source.entries(of, after=after, limit=min(_PIECE, last - after))
        if not piece:
            raise NotFound("it was deleted while it was copied")
        await target.receive_entries(to, after, piece)
        for entry in piece:
            messages += entry.kind in MESSAGE_KINDS
            for attached in entry.data.get("media", ()):
                data = await source.media(of, str(attached.get("digest", "")))
                if data is not None:
                    await target.keep_media(to.ref, data)
        after = piece[-1].seq
    return messages


async def fork(
    store: SessionStore, info: SessionInfo, key: str, before: int, now_ms: int
) -> SessionRef:
    """Copy this session as it was before the turn that contains the entry `before`."""
    whole = await store.details(info.ref)
    until = max((one.first_seq for one in whole.turns if one.first_seq <= before), default=before)
    new = SessionInfo(random_id(), info.agent, key, info.title, now_ms, now_ms, 0, until - 1)
    await store.receive_entries(new, 0, [])
    messages = await _copy_entries(store, store, info.ref, new, 0, until - 1)
    summary = whole.summary_seq if whole.summary_seq < until else 0
    await store.receive_details(
        SessionDetails(
            new._replace(messages=messages),
            summary,
            whole.summarised if summary else 0,
            tuple(one for one in whole.turns if one.first_seq < until),
        )
    )
    return new.ref


async def _counterpart(target: SessionStore, info: SessionInfo) -> SessionDetails | None:
    found = await target.find_sessions(info.key, info.agent)
    same = [one for one in found if one.key == info.key]
    if same and same[0].id != info.id:
        raise CopyConflict("the target has another session with this agent and key")
    return await target.details(info.ref) if same else None


async def _require_same(
    source: SessionStore, target: SessionStore, wanted: SessionDetails, there: SessionDetails
) -> None:
    reached = there.info.entries
    if reached > wanted.info.entries:
        raise CopyConflict("the target's session has continued on its own: it is longer")
    ref = wanted.info.ref
    theirs = await target.entries(ref, after=reached - 1, limit=1)
    ours = await source.entries(ref, after=reached - 1, limit=1)
    if reached and _essence(theirs) != _essence(ours):
        raise CopyConflict("the target's session has continued on its own: its last entry differs")


def _essence(entries: Sequence[Entry]) -> list[tuple[object, ...]]:
    """What never changes in an entry; a compaction removes its details."""
    return [(e.seq, e.turn, e.kind, e.at_ms, e.call_id, e.data) for e in entries]


_EXPORT_PAGE = 500  # entries read at once


async def exported(store: SessionStore, session: SessionRef) -> AsyncIterator[dict[str, object]]:
    yield {"type": "session", **header_json(await store.show(session))}
    last = 0
    while page := await store.entries(session, after=last, limit=_EXPORT_PAGE):
        for entry in page:
            yield {"type": "entry", **entry.to_json()}
        last = page[-1].seq
