"""Continues sessions whose questions were answered, if nobody would send their next message."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from openclaw.agent.port import MessageContext, Reply
from openclaw.agent.questions import continuation
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, OpenClawError, describe
from openclaw.sessions import waiting_questions
from openclaw.sessions.store import SessionStore
from openclaw.sessions.waiting_questions import WaitingQuestion

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0


@dataclass(slots=True)
class AnsweredQuestions:
    """Looks for answers, from whichever process on the store. `waiting` counts open questions."""

    store: SessionStore
    answer: Callable[[MessageContext], Awaitable[Reply]]
    clock: Clock
    waiting: int = 0
    _begun: set[str] = field(default_factory=set[str])

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            while True:
                for one in await self._answered():
                    self._begun.add(one.id)
                    group.start_soon(self.continue_with, one, name=f"question {one.id}")
                await anyio.sleep(LOOK_SECONDS)

    async def _answered(self) -> list[WaitingQuestion]:
        try:
            listed = await waiting_questions.list_questions(self.store, self.clock.now_ms())
        except OpenClawError as error:
            logger.warning("waiting questions cannot be read: %s", error.message)
            return []
        self.waiting = sum(one.state == "open" for one in listed)
        self._begun &= {one.id for one in listed}
        answered = (one for one in listed if one.state != "open" and not one.told)
        return [one for one in answered if one.place.carries_on and one.id not in self._begun]

    async def continue_with(self, answered: WaitingQuestion) -> None:
        try:
            await self.answer(continuation(answered))
        except InvalidRequest:
            logger.debug("question %s was taken up by another turn", answered.id)
        except OpenClawError as error:
            message = "session %s could not continue: %s"
            logger.warning(message, answered.place.session, describe(error))
        except Exception:
            logger.exception("session %s could not continue", answered.place.session)
