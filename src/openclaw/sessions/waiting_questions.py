"""Questions about calls that nobody could answer when they arose, as every process on the store sees
them.

A question waits until somebody answers it or it expires. An answer holds for exactly these calls,
and for each of them once.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from openclaw.core.errors import NotFound, UserFacing
from openclaw.core.questions import AskedCall, Question
from openclaw.core.tools import JsonObject
from openclaw.sessions.records import Document, SessionRef
from openclaw.sessions.store import SessionStore

State = Literal["open", "allowed", "refused"]

HUB = "hub"  # the origin of calls that other MCP clients make through the hub

EXPIRE_MS = 7 * 24 * 3_600_000
MOST_OPEN_IN_SESSION = 20  # the oldest are forgotten
REASON_CHARS = 2_000

_QUESTION = "question"
_MOST = 10_000
_ID_LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"  # those that are not mistaken for each other
_ID_CHARS = 6


@dataclass(frozen=True, slots=True)
class AskedIn:
    """The turn in which a question arose. `origin` is what started it."""

    agent: str
    session: str
    session_id: str
    turn: str
    origin: str

    def is_in(self, session: SessionRef) -> bool:
        return self.session_id == session.id

    @property
    def is_of_hub(self) -> bool:
        """Whether another program made the call, and has to make it again."""
        return self.origin == HUB

    @property
    def carries_on(self) -> bool:
        """Whether a gateway carries on once it is answered: nobody sends the next message."""
        return self.origin == "cron"


@dataclass(frozen=True, slots=True)
class WaitingQuestion:
    """A stored question. `used` are digests of allowed calls that were made since.

    `told` says that the agent knows the answer.
    """

    id: str
    question: Question
    place: AskedIn
    created_ms: int
    expires_ms: int
    state: State = "open"
    reason: str = ""
    answered_ms: int | None = None
    told: bool = False
    used: frozenset[str] = frozenset()
    rev: int = 0

    def allows(self, call: AskedCall, doubts: Sequence[str]) -> bool:
        """Whether the answer covers this call now; the user must have seen what is in doubt."""
        digests = {one.digest for one in self.question.calls} - self.used
        return (
            self.state == "allowed"
            and call.digest in digests
            and set(doubts) <= set(self.question.doubts)
        )

    def asks_about(self, question: Question) -> bool:
        """Whether this question contains that one."""
        digests = {one.digest for one in self.question.calls}
        return {one.digest for one in question.calls} <= digests and set(question.doubts) <= set(
            self.question.doubts
        )


def waiting_json(waiting: WaitingQuestion) -> dict[str, Any]:
    place = waiting.place
    return {
        "id": waiting.id,
        "state": waiting.state,
        "title": waiting.question.title,
        "body": waiting.question.body,
        "doubts": list(waiting.question.doubts),
        "calls": [
            {"name": one.name, "label": one.label, "arguments": dict(one.arguments)}
            for one in waiting.question.calls
        ],
        "agent": place.agent,
        "sessionKey": place.session,
        "turn": place.turn,
        "origin": place.origin,
        "createdAt": waiting.created_ms,
        "expiresAt": waiting.expires_ms,
        "answeredAt": waiting.answered_ms,
        "reason": waiting.reason,
    }


def _data(waiting: WaitingQuestion) -> dict[str, Any]:
    question = waiting.question
    calls = [{**asdict(one), "arguments": dict(one.arguments)} for one in question.calls]
    return {
        "title": question.title,
        "body": question.body,
        "calls": calls,
        "doubts": list(question.doubts),
        "place": asdict(waiting.place),
        "created_ms": waiting.created_ms,
        "expires_ms": waiting.expires_ms,
        "state": waiting.state,
        "reason": waiting.reason,
        "answered_ms": waiting.answered_ms,
        "told": waiting.told,
        "used": sorted(waiting.used),
    }


def _waiting(document: Document) -> WaitingQuestion:
    data = document.data
    calls = tuple(AskedCall(**call) for call in data["calls"])
    question = Question(data["title"], data["body"], calls, doubts=tuple(data["doubts"]))
    return WaitingQuestion(
        document.id,
        question,
        AskedIn(**data["place"]),
        data["created_ms"],
        data["expires_ms"],
        data["state"],
        data["reason"],
        data["answered_ms"],
        data["told"],
        frozenset(data["used"]),
        document.rev,
    )


async def list_questions(
    store: SessionStore, now_ms: int, ids: Sequence[str] | None = None
) -> list[WaitingQuestion]:
    """All that have not expired, or those of `ids`, the latest first; answered ones as well."""
    documents = await store.documents(_QUESTION, ids, limit=_MOST)
    questions = [_waiting(one) for one in documents if one.data["expires_ms"] > now_ms]
    return sorted(questions, key=lambda one: one.created_ms, reverse=True)


async def open_questions(store: SessionStore, now_ms: int) -> list[WaitingQuestion]:
    return [one for one in await list_questions(store, now_ms) if one.state == "open"]


async def find_question(store: SessionStore, id: str, now_ms: int) -> WaitingQuestion:
    documents = await store.documents(_QUESTION, [id])
    if not documents or documents[0].data["expires_ms"] <= now_ms:
        raise NotFound(
            f"there is no question '{id}': it has already been answered, or has expired",
            hint="list the open ones with: openclaw questions",
        )
    return _waiting(documents[0])


async def add_question(store: SessionStore, new: WaitingQuestion) -> WaitingQuestion:
    """Store a question under an id of its own; a session keeps only its latest ones open."""
    while True:
        id = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_CHARS))
        document = Document(id, 1, _data(new))
        if await store.write_document(_QUESTION, document, expires_ms=new.expires_ms):
            break
    questions = await open_questions(store, new.created_ms)
    of_session = [one.id for one in questions if one.place.session_id == new.place.session_id]
    too_many = of_session[MOST_OPEN_IN_SESSION:]
    await store.delete_documents(_QUESTION, too_many, expired=new.created_ms)
    return replace(new, id=id, rev=1)


async def answer_question(
    store: SessionStore, waiting: WaitingQuestion, *, allow: bool, reason: str, now_ms: int
) -> WaitingQuestion:
    """Answer an open question; the first answer counts, and only a refusal has a reason."""
    reason = "" if allow else reason.strip()[:REASON_CHARS]
    state: State = "allowed" if allow else "refused"

    def answered(before: WaitingQuestion) -> WaitingQuestion:
        if before.state != "open":
            raise already_answered(before)
        return replace(before, state=state, reason=reason, answered_ms=now_ms)

    return await _change(store, waiting, answered)


def already_answered(waiting: WaitingQuestion) -> UserFacing:
    return UserFacing(f"question '{waiting.id}' has already been answered: {waiting.state}")


async def mark_told(store: SessionStore, waiting: WaitingQuestion) -> WaitingQuestion:
    return await _change(store, waiting, lambda before: replace(before, told=True))


async def use_answer(
    store: SessionStore, waiting: WaitingQuestion, digest: str
) -> WaitingQuestion | None:
    """Take up an allowed call, so that it is not made twice; None if it was already."""
    taken = False

    def used(before: WaitingQuestion) -> WaitingQuestion:
        nonlocal taken
        taken = digest not in before.used
        return replace(before, used=before.used | {digest})

    changed = await _change(store, waiting, used)
    return changed if taken else None


async def remove_questions(store: SessionStore, ids: Sequence[str], now_ms: int) -> None:
    if ids:
        await store.delete_documents(_QUESTION, ids, expired=now_ms)


async def _change(
    store: SessionStore,
    waiting: WaitingQuestion,
    change: Callable[[WaitingQuestion], WaitingQuestion],
) -> WaitingQuestion:
    changed = waiting

    def data(before: JsonObject) -> Mapping[str, Any]:
        nonlocal changed
        if not before:
            raise NotFound(f"question '{waiting.id}' is gone")
        changed = change(_waiting(Document(waiting.id, 0, before)))
        return _data(changed)

    await store.update_document(_QUESTION, waiting.id, data, expires_ms=waiting.expires_ms)
    return changed
