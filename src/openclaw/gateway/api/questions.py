"""Questions to the user: those of running turns, and those that wait in the store.

Whoever answers decides what the agent may do, so these routes need the scope `admin`.
"""

from typing import Annotated

from pydantic import Field

from openclaw.agent.questions import continuation
from openclaw.core.questions import Answer
from openclaw.gateway.api import openapi
from openclaw.gateway.api.openapi import Json, operation
from openclaw.gateway.gateway import Gateway
from openclaw.gateway.owners import ALL
from openclaw.gateway.pending_questions import WAIT
from openclaw.sessions import waiting_questions
from openclaw.sessions.waiting_questions import waiting_json


@operation("GET /api/questions", ALL, {"questions": list[Json]}, needs="admin")
async def list_questions(
    gateway: Gateway, all: Annotated[bool, Field(description="answered ones as well")] = False
) -> Json:
    """Questions that wait for an answer, the latest first."""
    store, now = gateway.backend.store, gateway.clock.now_ms()
    listed = await waiting_questions.list_questions(store, now)
    shown = [one for one in listed if all or one.state == "open"]
    return {"questions": [waiting_json(one) for one in shown]}


@operation("GET /api/questions/{id}", ALL, needs="admin")
async def show_question(gateway: Gateway, id: str) -> Json:
    """A question that waits, or whose answer has not expired."""
    store, now = gateway.backend.store, gateway.clock.now_ms()
    return waiting_json(await waiting_questions.find_question(store, id, now))


@operation("POST /api/questions/{id}", ALL, {"answered": str, "turn": str | None})
async def answer_question(gateway: Gateway, id: str, body: openapi.QuestionAnswer) -> Json:
    """Answer a question event of a turn's stream, or a question that waits."""
    if gateway.questions.asks(id):
        answer = Answer(body.choice or "", body.reason or "", body.content)
        gateway.questions.answer(id, body.action, answer)
        return {"answered": id, "turn": None}
    store, now = gateway.backend.store, gateway.clock.now_ms()
    waiting = await waiting_questions.find_question(store, id, now)
    if body.action == WAIT:
        return {"answered": id, "turn": None}
    answered = await waiting_questions.answer_question(
        store, waiting, allow=body.action == "accept", reason=body.reason or "", now_ms=now
    )
    if not body.continues or gateway.answered is None:
        return {"answered": id, "turn": None}
    assert gateway.background is not None
    name = f"question {id}"
    gateway.background.start_soon(gateway.answered.continue_with, answered, name=name)
    return {"answered": id, "turn": continuation(answered).idempotency_key}
