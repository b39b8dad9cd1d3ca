"""A turn's questions to the person, which go through the gateway.

A question goes to the client that started the turn or, if the turn is detached, to watchers that can
answer. Its id cannot be guessed. The first answer counts; without one in time it is declined.
"""

import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import anyio
import orjson

from openclaw.core.errors import NotFound
from openclaw.core.tools import ApprovalAnswer, ApprovalChoice, JsonObject, PermissionRequest

Json = dict[str, Any]
Tell = Callable[[str, Json], None]  # puts an event of this name into the client's stream

_DECLINED: Json = {"action": "decline"}
_MOST_TEXT = 10_000
_MOST_SCHEMA = 64 * 1024


@dataclass(slots=True)
class _Open:
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Json = field(default_factory=lambda: dict(_DECLINED))


class PendingQuestions:
    """Questions waiting for an answer, each for `seconds` at most."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._open: dict[str, _Open] = {}

    def answer(self, id: str, answer: Json) -> None:
        found = self._open.pop(id, None)
        if found is None:
            raise NotFound("the question has already been answered or has expired")
        found.answer = answer
        found.answered.set()

    async def put(self, tell: Tell, question: Json) -> Json:
        """Ask a question; returns the answer in MCP's format."""
        id, one = secrets.token_hex(16), _Open()
        self._open[id] = one
        closed = "cancelled"
        tell("question", {"id": id, **question, "timeoutMs": round(self.seconds * 1000)})
        try:
            with anyio.move_on_after(self.seconds):
                await one.answered.wait()
            closed = "answered" if one.answered.is_set() else "expired"
            late = {**_DECLINED, "reason": "nobody answered in time"}
            return one.answer if closed == "answered" else late
        finally:
            self._open.pop(id, None)
            tell("question_closed", {"id": id, "why": closed})


class GatewayAsker:
    def __init__(self, questions: PendingQuestions, tell: Tell) -> None:
        self._questions = questions
        self._tell = tell

    async def permit(self, request: PermissionRequest) -> ApprovalAnswer:
        facts = asdict(request)
        question = {
            "kind": "permission",
            "text": f"The agent wants to use {request.title}",
            "callId": facts.pop("call_id"),
            **facts,
            "options": ["accept", "decline"],
        }
        answer = await self._questions.put(self._tell, question)
        said = request.plain(answer["action"] == "accept")
        return ApprovalAnswer(answer.get("choice") or said.choice, answer.get("reason") or "")

    async def elicit(self, server: str, params: JsonObject) -> JsonObject:
        schema = params.get("requestedSchema")
        if schema is not None and len(orjson.dumps(schema, default=str)) > _MOST_SCHEMA:
            return _DECLINED
        question = {
            "kind": "elicitation",
            "server": server,
            "text": str(params.get("message") or "")[:_MOST_TEXT],
            "mode": params.get("mode") or "form",
            "schema": schema,
            "url": params.get("url"),
            "elicitationId": params.get("elicitationId"),
            "options": ["accept", "decline", "cancel"],
        }
        answer = await self._questions.put(self._tell, question)
        return {name: answer[name] for name in ("action", "content") if name in answer}


def permission_from(question: JsonObject) -> PermissionRequest:
    return PermissionRequest(
        question["callId"],
        *(question[name] for name in ("name", "label", "arguments", "title", "body")),
        choices=tuple(ApprovalChoice(**one) for one in question["choices"]),
        doubt=bool(question.get("doubt")),
    )


def elicitation_from(question: JsonObject) -> tuple[str, JsonObject]:
    params = {
        "message": question["text"],
        "mode": question["mode"],
        "requestedSchema": question["schema"],
        "url": question["url"],
        "elicitationId": question["elicitationId"],
    }
    return question["server"], {name: one for name, one in params.items() if one is not None}
