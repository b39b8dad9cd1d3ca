"""Orders that outlive their request, as every process on the store sees them.

A task has one runner: the process that carries it out, which alone writes its record. Others put
answers and requests to stop into its inbox.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from openclaw.core.tools import JsonObject
from openclaw.sessions import waiting_questions
from openclaw.sessions.liveness import is_gone, own_mark
from openclaw.sessions.records import Document, EntryKind, SessionInfo, Turn
from openclaw.sessions.store import SessionStore

TTL_MS = 24 * 3_600_000  # how long a task is kept, from its creation and again from its end
LEASE_SECONDS = (
    20.0  # how long a runner on another machine counts as alive after it was last heard of
)

OPEN = ("working", "input_required")

_TASK, _INBOX, _RUNNER, _ORDER = "task", "task-inbox", "task-runner", "task-order"
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Task:
    """A task's record. `reader` may read it; `requests` are its open questions."""

    id: str
    reader: str
    runner: str
    agent: str
    session: str
    turn: str
    title: str
    secret: str
    created_ms: int
    updated_ms: int
    status: str = "working"
    message: str = ""
    ttl_ms: int = TTL_MS
    in_gateway: bool = False
    asks: bool = False
    revision: str = ""
    requests: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    result: JsonObject | None = None
    error: JsonObject | None = None
    rev: int = 0

    @property
    def open(self) -> bool:
        return self.status in OPEN

    @property
    def expires_ms(self) -> int:
        return self.created_ms + self.ttl_ms


_FIELDS = tuple(one.name for one in fields(Task))


def _task(document: Document) -> Task:
    known: dict[str, Any] = {name: document.data[name] for name in _FIELDS if name in document.data}
    known["rev"] = document.rev
    return Task(**known)


def task_json(task: Task, *, whole: bool = True) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "id": task.id,
        "title": task.title,
        "status": task.status,
        "statusMessage": task.message,
        "agent": task.agent,
        "sessionKey": task.session,
        "turn": task.turn,
        "reader": task.reader,
        "inGateway": task.in_gateway,
        "createdAt": task.created_ms,
        "updatedAt": task.updated_ms,
        "ttlMs": task.ttl_ms,
    }
    if whole:
        facts |= {"questions": dict(task.requests), "result": task.result, "error": task.error}
    return facts


async def find_task(store: SessionStore, id: str) -> Task | None:
    found = await store.documents(_TASK, [id])
    return _task(found[0]) if found else None


async def current_tasks(
    store: SessionStore, now_ms: int, limit: int, ids: Sequence[str] | None = None
) -> list[Task]:
    """Tasks, the most recently changed first; those whose process is gone count as failed."""
    found = [_task(one) for one in await store.documents(_TASK, ids, limit=limit)]
    return [
        replace(task, status="failed", message="The program that carried it out is gone.")
        if task.open and await is_abandoned(store, task)
        else task
        for task in found
        if task.expires_ms > now_ms
    ]


async def write_task(store: SessionStore, task: Task, *, durable: bool = True) -> Task | None:
    """Write the record; None if it was changed by someone else."""
    task = replace(task, rev=task.rev + 1)
    document = Document(task.id, task.rev, {name: getattr(task, name) for name in _FIELDS})
    expires = task.expires_ms
    written = await store.write_document(_TASK, document, expires_ms=expires, durable=durable)
    return task if written else None


async def keep_order(store: SessionStore, task: Task, arguments: JsonObject) -> None:
    document = Document(task.id, 1, dict(arguments))
    await store.write_document(_ORDER, document, expires_ms=task.expires_ms)


async def kept_order(store: SessionStore, id: str) -> JsonObject | None:
    found = await store.documents(_ORDER, [id])
    return found[0].data if found else None


async def forget_order(store: SessionStore, id: str, now_ms: int) -> None:
    await store.delete_documents(_ORDER, [id], expired=now_ms)
    await store.delete_documents(_INBOX, [id], expired=now_ms)


async def delete_session(store: SessionStore, session: SessionInfo, now_ms: int) -> None:
    """Remove a session with its tasks and questions; `Busy` while a turn runs."""
    await store.delete(session.ref)
    questions = await waiting_questions.list_questions(store, now_ms)
    asked = [one.id for one in questions if one.place.is_in(session.ref)]
    await waiting_questions.remove_questions(store, asked, now_ms)
    found = [_task(one) for one in await store.documents(_TASK, limit=_MOST)]
    ids = [
        one.id for one in found if one.session == session.key and one.agent in ("", session.agent)
    ]
    for kind in (_TASK, _ORDER, _INBOX) if ids else ():
        await store.delete_documents(kind, ids, expired=now_ms)


async def tell_task(
    store: SessionStore,
    task: Task,
    responses: Mapping[str, Any] | None = None,
    *,
    cancel: bool = False,
) -> None:
    def merged(before: JsonObject) -> JsonObject:
        return {
            "responses": {**(responses or {}), **before.get("responses", {})},  # the first counts
            "cancel": cancel or before.get("cancel", False),
        }

    await store.update_document(_INBOX, task.id, merged, expires_ms=task.expires_ms)


async def read_inboxes(store: SessionStore, ids: Sequence[str]) -> dict[str, JsonObject]:
    found = await store.documents(_INBOX, ids, limit=len(ids))
    return {one.id: one.data for one in found}


async def say_alive(store: SessionStore, runner: str, now_ms: int) -> None:
    alive = {"mark": own_mark()}
    await store.update_document(
        _RUNNER, runner, lambda _: alive, expires_ms=now_ms + TTL_MS, durable=False
    )


async def is_abandoned(store: SessionStore, task: Task) -> bool:
    """Whether its runner is gone, by the store's clock: those of machines may differ."""
    found = await store.documents(_RUNNER, [task.runner])
    if not found:
        return True
    mark = str(found[0].data["mark"])
    if mark.rsplit("/", 2)[0] == own_mark().rsplit("/", 2)[0]:
        return is_gone(mark)
    age = await store.seconds_since_written(_RUNNER, task.runner)
    return age is None or abs(age) > LEASE_SECONDS


async def find_turn(store: SessionStore, task: Task) -> Turn | None:
    for session in await store.find_sessions(task.session, task.agent or None):
        found = await store.find_turn(session.ref, task.turn)
        if found is not None:
            return found
    return None


async def what_happened(store: SessionStore, task: Task) -> str:
    """Which calls of an interrupted turn were made, and which may have been."""
    entries = [
        entry
        for session in await store.find_sessions(task.session, task.agent or None)
        for entry in await store.history(session.ref, since_compaction=False)
        if entry.turn == task.turn
    ]
    if not entries:
        return "It had not begun."
    done = {one.call_id for one in entries if one.kind is EntryKind.TOOL_RESULT}
    calls = [one for one in entries if one.kind is EntryKind.TOOL_CALL]
    made = [str(one.data.get("name", "")) for one in calls if one.call_id in done]
    open_ = [str(one.data.get("name", "")) for one in calls if one.call_id not in done]
    if not calls:
        return "No tool had been called."
    parts = [f"These calls were made: {', '.join(made)}."] if made else []
    parts += [f"These calls may or may not have happened: {', '.join(open_)}."] if open_ else []
    return " ".join(parts)
