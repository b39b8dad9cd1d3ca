"""Waiting questions are the same to every process on a store, whichever database it is."""

from dataclasses import replace

import anyio
import pytest

from openclaw.core.errors import NotFound, UserFacing
from openclaw.core.questions import AskedCall, Question
from openclaw.sessions import waiting_questions
from openclaw.sessions.store import SessionStore
from openclaw.sessions.waiting_questions import MOST_OPEN_IN_SESSION, AskedIn, WaitingQuestion

CALL = AskedCall("c1", "send_mail", "MCP: mail/send_mail", {"to": "bob@x.com"}, "digest")
QUESTION = Question("Send mail to bob@x.com?", "to: bob@x.com", (CALL,), doubts=("From a page.",))
PLACE = AskedIn("main", "s", "session-id", "turn", "cron")
NOW = 1_000


def new(created_ms: int = NOW) -> WaitingQuestion:
    return WaitingQuestion("", QUESTION, PLACE, created_ms, NOW + 10_000)


async def test_what_is_stored_is_what_was_asked(store: SessionStore) -> None:
    added = await waiting_questions.add_question(store, new())
    assert await waiting_questions.find_question(store, added.id, NOW) == added
    assert await waiting_questions.open_questions(store, NOW) == [added]
    assert await waiting_questions.open_questions(store, NOW + 10_000) == []
    with pytest.raises(NotFound, match="has expired"):
        await waiting_questions.find_question(store, added.id, NOW + 10_000)


async def test_of_two_answers_at_once_one_counts(store: SessionStore) -> None:
    added, refused = await waiting_questions.add_question(store, new()), list[str]()

    async def answer(allow: bool) -> None:
        try:
            await waiting_questions.answer_question(
                store, added, allow=allow, reason=" no ", now_ms=NOW
            )
        except UserFacing as error:
            refused.append(error.message)

    async with anyio.create_task_group() as tasks:
        for allow in (True, False):
            tasks.start_soon(answer, allow)
    (stored,) = await waiting_questions.list_questions(store, NOW)
    assert stored.state in ("allowed", "refused")
    assert refused == [f"question '{added.id}' has already been answered: {stored.state}"]
    assert stored.reason == ("no" if stored.state == "refused" else "")
    assert stored.answered_ms == NOW


async def test_an_allowed_call_is_taken_up_once(store: SessionStore) -> None:
    added = await waiting_questions.add_question(store, new())
    assert not added.allows(CALL, QUESTION.doubts)
    allowed = await waiting_questions.answer_question(
        store, added, allow=True, reason="", now_ms=NOW
    )
    assert allowed.allows(CALL, QUESTION.doubts)
    assert allowed.allows(CALL, ())
    assert not allowed.allows(CALL, ("From another page.",))
    assert not allowed.allows(replace(CALL, digest="other"), ())
    used = await waiting_questions.use_answer(store, allowed, "digest")
    assert used is not None
    assert not used.allows(CALL, ())
    assert await waiting_questions.use_answer(store, allowed, "digest") is None


async def test_a_session_keeps_only_its_latest_questions(store: SessionStore) -> None:
    for number in range(MOST_OPEN_IN_SESSION + 2):
        await waiting_questions.add_question(store, new(NOW + number))
    listed = await waiting_questions.list_questions(store, NOW)
    assert [one.created_ms - NOW for one in listed] == list(range(MOST_OPEN_IN_SESSION + 1, 1, -1))
