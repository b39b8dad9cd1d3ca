"""Questions of running turns that go through the gateway, until somebody answers.

A question goes to the client that started the turn or, if the turn is detached, to watchers that can
answer. Its id cannot be guessed. The first answer counts.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import orjson

from openclaw.core.errors import NotFound
from openclaw.core.questions import (
    ACCEPT,
    CANCEL,
    DECLINE,
    DECLINED,
    NOBODY,
    Answer,
    AskedCall,
    Choice,
    Form,
    Question,
    question_of,
)

Json = dict[str, Any]
Tell = Callable[[str, Json], None]  # puts an event of this name into the client's stream

WAIT = "wait"  # leaves a question about calls for later
_MOST_TEXT = 10_000
_MOST_SCHEMA = 64 * 1024


@dataclass(slots=True)
class _Pending:
    question: Question
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer = DECLINED


class PendingQuestions:
    def __init__(self) -> None:
        self._pending: dict[str, _Pending] = {}

    def asks(self, id: str) -> bool:
        return id in self._pending

    def answer(self, id: str, action: str, answer: Answer) -> None:
        """Answer a question with a choice or, if `answer` names none, with MCP's `action`."""
        pending = self._pending.pop(id, None)
        if pending is None:
            raise NotFound("the question has already been answered, or is no longer needed")
        pending.answer = answer
        if pending.question.form is not None:
            pending.answer = Answer(action, content=answer.content if action == ACCEPT else None)
        elif action == WAIT:
            pending.answer = NOBODY
        elif not answer.choice:
            said = pending.question.plain(action == ACCEPT)
            pending.answer = Answer(said.choice, answer.reason)
        pending.answered.set()

    def leave_all(self) -> None:
        """Let nobody wait any longer here: questions about calls are stored instead."""
        for id in list(self._pending):
            self.answer(id, WAIT if self._pending[id].question.form is None else DECLINE, NOBODY)

    async def put(self, tell: Tell, question: Question) -> Answer:
        """Ask, and wait for as long as the user needs."""
        id, pending = secrets.token_hex(16), _Pending(question)
        self._pending[id] = pending
        tell("question", {"id": id, **question_json(question)})
        try:
            await pending.answered.wait()
        finally:
            self._pending.pop(id, None)
            closed = "answered" if pending.answered.is_set() else "cancelled"
            tell("question_closed", {"id": id, "why": closed})
        return pending.answer


@dataclass(frozen=True, slots=True)
class GatewayAsker:
    questions: PendingQuestions
    tell: Tell

    async def ask(self, question: Question) -> Answer:
        form = question.form
        schema = None if form is None else form.schema
        if schema is not None and len(orjson.dumps(schema, default=str)) > _MOST_SCHEMA:
            return DECLINED
        return await self.questions.put(self.tell, question)


# ---- the event


def question_json(question: Question) -> Json:
    if question.form is not None:
        form = question.form
        return {
            "kind": "elicitation",
            "server": form.server,
            "text": form.message[:_MOST_TEXT],
            "mode": "form" if form.url is None else "url",
            "schema": form.schema,
            "url": form.url,
            "elicitationId": form.elicitation_id,
            "options": [ACCEPT, DECLINE, CANCEL],
        }
    return {
        "kind": "permission",
        "callId": question.call.id,
        "text": question.title,
        "title": question.title,
        "body": question.body,
        "calls": [_call_json(call) for call in question.calls],
        "choices": [{"id": c.id, "label": c.label, "allows": c.allows} for c in question.choices],
        "doubts": list(question.doubts),
        "options": [ACCEPT, DECLINE],
    }


def _call_json(call: AskedCall) -> Json:
    arguments = dict(call.arguments)
    return {"id": call.id, "name": call.name, "label": call.label, "arguments": arguments}


def question_from(event: Json) -> Question:
    if event["kind"] == "elicitation":
        form = Form(
            event["server"], event["text"], event["schema"], event["url"], event["elicitationId"]
        )
        return question_of(form)
    return Question(
        event["title"],
        event["body"],
        tuple(AskedCall(**call) for call in event["calls"]),
        tuple(Choice(**choice) for choice in event["choices"]),
        tuple(event["doubts"]),
    )
