"""Calls whose client can only be asked in a result (2026-07-28, "Multi Round-Trip Requests").

The call goes on in a task of its own while the client fetches answers, and the client's next request
takes it up again.
"""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from openclaw.core.clock import random_id
from openclaw.mcp.jsonrpc import INVALID_PARAMS, REQUEST_TIMEOUT, JsonObject, RpcError
from openclaw.mcp.request_state import seal, unseal

ANSWER_SECONDS = 600.0  # how long a client may take to come back with an answer
_MOST_OPEN = 1_000

AskClient = Callable[..., Awaitable[JsonObject]]  # a peer's `ask`, or a round's
Work = Callable[[AskClient], Awaitable[JsonObject]]


@dataclass(eq=False)
class _Question:
    request: JsonObject
    answer: JsonObject | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


@dataclass(eq=False)
class Round:
    """One call, from its first request to its result."""

    owner: str
    id: str = field(default_factory=random_id)
    questions: dict[str, _Question] = field(default_factory=dict[str, _Question])
    changed: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    result: JsonObject | None = None
    error: RpcError | None = None

    @property
    def is_over(self) -> bool:
        return self.result is not None or self.error is not None

    async def ask(
        self, method: str, params: JsonObject | None = None, *, seconds: float = ANSWER_SECONDS
    ) -> JsonObject:
        key = random_id()
        question = self.questions[key] = _Question({"method": method, "params": params or {}})
        self._signal()
        with anyio.move_on_after(seconds):
            await question.answered.wait()
        del self.questions[key]
        if question.answer is None:
            self.scope.cancel()  # nobody is there to read the result either
            raise RpcError(REQUEST_TIMEOUT, "the client did not come back with an answer")
        return question.answer

    async def run(self, work: Work) -> None:
        try:
            with self.scope:
                self.result = await work(self.ask)
        except RpcError as error:
            self.error = error
        finally:
            if not self.is_over:
                self.error = RpcError(REQUEST_TIMEOUT, "the call was cancelled")
            self._signal()

    async def news(self) -> None:
        """Wait for the result, or for a question without an answer."""
        while not self.is_over and not self.unanswered:
            await self.changed.wait()

    @property
    def unanswered(self) -> dict[str, JsonObject]:
        return {key: one.request for key, one in self.questions.items() if one.answer is None}

    def take(self, answers: JsonObject) -> None:
        for key, answer in answers.items():
            question = self.questions.get(key)
            if question is not None and isinstance(answer, dict):
                question.answer = answer
                question.answered.set()

    def _signal(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class Rounds:
    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._secret = secrets.token_bytes(32)
        self._open: dict[str, Round] = {}

    async def begin(self, owner: str, work: Work) -> JsonObject:
        if len(self._open) >= _MOST_OPEN:
            raise RpcError(REQUEST_TIMEOUT, "too many calls wait for answers")
        round = Round(owner)
        self._open[round.id] = round
        self._tasks.start_soon(self._run, round, work, name=f"hub call {round.id}")
        return await self._next(round)

    async def resume(self, owner: str, state: str, answers: JsonObject) -> JsonObject:
        id = unseal(self._secret, state, owner)
        round = self._open.get(id) if id is not None else None
        if round is None:  # never make the call again
            raise RpcError(INVALID_PARAMS, "this call is not open any more")
        round.take(answers)
        return await self._next(round)

    async def _run(self, round: Round, work: Work) -> None:
        try:
            await round.run(work)
        finally:
            if round.scope.cancelled_caught:
                self._open.pop(round.id, None)

    async def _next(self, round: Round) -> JsonObject:
        try:
            await round.news()
        except anyio.get_cancelled_exc_class():
            round.scope.cancel()  # the client cancelled the call
            raise
        if round.error is not None or round.result is not None:
            self._open.pop(round.id, None)
            if round.error is not None:
                raise round.error
            return round.result or {}
        return {
            "resultType": "input_required",
            "inputRequests": round.unanswered,
            "requestState": seal(self._secret, round.id, round.owner),
        }
