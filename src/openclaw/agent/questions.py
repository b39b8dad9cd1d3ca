"""The questions of one turn: answered earlier, asked now, or stored until somebody answers."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from openclaw.agent.port import MessageContext
from openclaw.content.frame import frame
from openclaw.core.clock import Clock
from openclaw.core.questions import (
    DECLINED,
    NO,
    NOBODY,
    ONCE,
    WAITS,
    Answer,
    Ask,
    Question,
)
from openclaw.policy.question_text import plan_title
from openclaw.sessions import waiting_questions
from openclaw.sessions.records import SessionRef
from openclaw.sessions.store import SessionStore
from openclaw.sessions.waiting_questions import AskedIn, WaitingQuestion

Announce = Callable[[WaitingQuestion], Awaitable[None]]

CONTINUES = "question"  # the origin of a turn that only takes up an answer


@dataclass(slots=True)
class TurnQuestions:
    """Asks during one turn. What nobody can answer becomes one question that waits."""

    store: SessionStore
    session: SessionRef
    clock: Clock
    expire_ms: int
    stored: list[WaitingQuestion] = field(default_factory=list[WaitingQuestion])
    repeated: list[WaitingQuestion] = field(default_factory=list[WaitingQuestion])
    new: list[Question] = field(default_factory=list[Question])

    async def load(self) -> None:
        """Read this session's questions that are open, or whose answer still matters."""
        listed = await waiting_questions.list_questions(self.store, self.clock.now_ms())
        self.stored = [
            one
            for one in listed
            if one.place.is_in(self.session) and not (one.state == "refused" and one.told)
        ]

    @property
    def untold(self) -> list[WaitingQuestion]:
        return [one for one in self.stored if one.state != "open" and not one.told]

    def waiting_for(self, turn: str) -> list[str]:
        """The ids of the questions that a turn left open."""
        return [one.id for one in self.stored if one.place.turn == turn and not one.told]

    async def mark_told(self, answered: Sequence[WaitingQuestion]) -> None:
        for one in answered:
            await waiting_questions.mark_told(self.store, one)

    def asking(self, listener_ask: Ask | None) -> Ask:
        """`listener_ask`, preceded by earlier answers and followed by waiting."""

        async def ask(question: Question) -> Answer:
            if question.form is not None:
                return DECLINED if listener_ask is None else await listener_ask(question)
            earlier = await self._answered_earlier(question)
            if earlier is not None:
                return earlier
            answer = NOBODY if listener_ask is None else await listener_ask(question)
            if answer == NOBODY:
                self._wait(question)
                return WAITS
            if answer != WAITS:
                await self._close(question)
            return answer

        return ask

    async def _answered_earlier(self, question: Question) -> Answer | None:
        for one in self.stored:
            if one.state == "refused" and one.asks_about(question):
                return Answer(NO, one.reason)
        allowing = [
            next((one for one in self.stored if one.allows(call, question.doubts)), None)
            for call in question.calls
        ]
        if None in allowing:
            return None
        for call, one in zip(question.calls, allowing, strict=True):
            assert one is not None
            used = await waiting_questions.use_answer(self.store, one, call.digest)
            if used is None:
                return None
            self.stored = [used if old.id == used.id else old for old in self.stored]
        return Answer(ONCE)

    def _wait(self, question: Question) -> None:
        for one in self.stored:
            if one.state == "open" and one.asks_about(question):
                if one not in self.repeated:
                    self.repeated.append(one)
                return
        if question not in self.new:
            self.new.append(question)

    async def _close(self, question: Question) -> None:
        """Forget open questions that were asked again now, and answered."""
        done = [
            one for one in self.stored if one.state == "open" and question_covers(question, one)
        ]
        self.stored = [one for one in self.stored if one not in done]
        ids = [one.id for one in done]
        await waiting_questions.remove_questions(self.store, ids, self.clock.now_ms())

    async def store_new(self, turn: str, origin: str) -> WaitingQuestion | None:
        """Store what waits since this turn, as one question."""
        if not self.new:
            return None
        now = self.clock.now_ms()
        if origin == CONTINUES:  # it continues what another turn began
            origin = next((one.place.origin for one in self.stored), origin)
        place = AskedIn(self.session.agent, self.session.key, self.session.id, turn, origin)
        new = WaitingQuestion("", merged(self.new), place, now, now + self.expire_ms)
        return await waiting_questions.add_question(self.store, new)


def question_covers(question: Question, waiting: WaitingQuestion) -> bool:
    digests = {one.digest for one in question.calls}
    return {one.digest for one in waiting.question.calls} <= digests


def merged(questions: Sequence[Question]) -> Question:
    """One question about a whole plan."""
    if len(questions) == 1:
        return questions[0]
    calls = tuple({call.digest: call for one in questions for call in one.calls}.values())
    doubts = tuple(dict.fromkeys(doubt for one in questions for doubt in one.doubts))
    bodies = (f"({number}) {one.title}\n{one.body}" for number, one in enumerate(questions, 1))
    title = plan_title([one.title for one in questions])
    return Question(title, "\n\n".join(bodies), calls, doubts=doubts)


def continuation(answered: WaitingQuestion) -> MessageContext:
    """A turn that takes up the answer; several gateways on one store run it once."""
    place = answered.place
    key = f"question-{answered.id}"
    return MessageContext("", place.session, place.agent, origin=CONTINUES, idempotency_key=key)


def waiting_line(waiting: WaitingQuestion) -> str:
    """What is needed from the user, and how they allow it."""
    goes_on = "send another message here"
    if waiting.place.is_of_hub:
        goes_on = "make the same call again"
    elif waiting.place.carries_on:
        goes_on = "the schedule carries on"
    return (
        f"Waiting for your answer: {waiting.question.title} To allow or refuse it, run "
        f"`openclaw questions answer {waiting.id}` or use the page; then {goes_on}."
    )


def answer_line(answered: WaitingQuestion) -> str:
    said = "You allowed it, once" if answered.state == "allowed" else "You did not allow it"
    return f"{answered.question.title} {said}{answered.reason and f': {answered.reason}'}"


def answer_note(answered: WaitingQuestion) -> str:
    """What the agent reads about an answer."""
    calls = [
        f"{call.name} {json.dumps(dict(call.arguments), ensure_ascii=False, default=str)}"
        for call in answered.question.calls
    ]
    listed = frame("\n".join(calls), source="Calls that waited", sender="this conversation")
    which = "this call" if len(calls) == 1 else "these calls"
    if answered.state == "allowed":
        said = (
            f"[The user was asked about {which}, and allows {which}, exactly as written and once. "
            "Make it now with the same arguments, unless it is no longer needed; anything different "
            "has to be asked again."
        )
    else:
        reason = f" They say: {answered.reason}" if answered.reason else ""
        said = f"[The user was asked about {which}, and does not allow {which}.{reason} Do without."
    return f"{said}]\n{listed}"
