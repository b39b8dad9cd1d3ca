"""The models of an agent, asked in order, with retries, until one answers."""

import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from openclaw.core.clock import Clock
from openclaw.core.errors import ModelUnavailable, OpenClawError
from openclaw.models.build import Built
from openclaw.models.candidates import Candidate, Choice
from openclaw.models.failures import ContextOverflow, Failure, Verdict, delay_before, judge
from openclaw.models.gate import TextGate

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse

logger = logging.getLogger(__name__)

COOL_DOWN_SECONDS = 60.0
"""A model that failed for good is tried last for this long, so that each step need not wait for it."""

RETRIES_BEFORE_FALLBACK = 1
"""With another model at hand, one retry bridges a hiccup; waiting longer helps nobody."""


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who is told what comes; without `text`, answers are fetched whole."""

    text: Callable[[str], None] | None = None
    thinking: Callable[[str], None] | None = None
    notice: Callable[[str], None] = lambda message: None


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer and who gave it."""

    response: "ModelResponse"
    built: Built


@dataclass(slots=True)
class _Entry:
    candidate: Candidate
    built: Built | None = None
    rests_until: float = 0.0
    lock: anyio.Lock = field(default_factory=anyio.Lock)


class ModelStack:
    """Models in the order of preference; safe to be used by many turns at once."""

    def __init__(
        self,
        choice: Choice,
        build: Callable[[Candidate], Awaitable[Built]],
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        unit_random: Callable[[], float] = random.random,
    ) -> None:
        self.choice = choice
        self._entries = [_Entry(candidate) for candidate in choice.candidates]
        self._build = build
        self._clock = clock
        self.sleep = sleep
        self._random = unit_random
        self._never_say_why: set[str] = set()

    async def primary(self) -> Built:
        """The model that will probably answer, for what must be known beforehand."""
        failures: list[tuple[Candidate, Failure]] = []
        for entry in self._in_order():
            try:
                return await self._built(entry)
            except OpenClawError as error:
                failures.append((entry.candidate, _setup_failure(error)))
        raise _unavailable(failures)

    async def respond(
        self,
        messages: Callable[[Built], "list[ModelMessage]"],
        parameters: "ModelRequestParameters",
        watcher: Watcher,
    ) -> Answered:
        """The first answer that a model gives.

        Raises `ContextOverflow` where the request does not fit, and `ModelUnavailable`, with every
        model's reason, where none answers.
        """
        failures: list[tuple[Candidate, Failure]] = []
        entries = self._in_order()
        gate = _gate(watcher)
        for index, entry in enumerate(entries):
            last = index == len(entries) - 1
            try:
                built = await self._built(entry)
            except OpenClawError as error:
                failures.append((entry.candidate, _setup_failure(error)))
                continue
            asking = _Asking(self, built, messages(built), parameters, watcher, gate)
            outcome = await asking.run(retries=_retries(entry.candidate, last=last))
            if not isinstance(outcome, Failure):
                entry.rests_until = 0.0
                return Answered(outcome, built)
            failures.append((entry.candidate, outcome))
            entry.rests_until = self._clock.monotonic() + COOL_DOWN_SECONDS
            if not last:
                watcher.notice(f"{entry.candidate.ref}: {outcome.reason}; trying another model")
        raise _unavailable(failures)

    async def wait(self, seconds: float) -> None:
        """Sleep before a retry."""
        await self.sleep(seconds)

    def delay(self, attempt: int, failure: Failure) -> float | None:
        """Seconds before that attempt, or None where it is not worth waiting for."""
        return delay_before(attempt, failure, self._random())

    def ends_properly(self, built: Built, response: "ModelResponse") -> bool:
        """Whether a streamed answer is whole: a provider says at its end why it ended."""
        if response.state == "incomplete":
            return False
        candidate = built.candidate
        if candidate.api == "local" or candidate.ref in self._never_say_why:
            return True
        if candidate.api == "openai-completions":
            # The library fills a missing reason in; only the details have what was said.
            return "finish_reason" in (response.provider_details or {})
        return response.finish_reason is not None

    def excuse(self, built: Built) -> None:
        """Remember a server that ends every answer without a reason."""
        self._never_say_why.add(built.candidate.ref)

    async def aclose(self) -> None:
        """Close every connection."""
        for entry in self._entries:
            if entry.built is not None:
                await entry.built.aclose()
                entry.built = None

    def _in_order(self) -> list[_Entry]:
        now = self._clock.monotonic()
        return sorted(self._entries, key=lambda entry: entry.rests_until > now)

    async def _built(self, entry: _Entry) -> Built:
        async with entry.lock:
            if entry.built is None:
                entry.built = await self._build(entry.candidate)
            return entry.built


@dataclass(slots=True)
class _Asking:
    """One request to one model, with its retries."""

    stack: ModelStack
    built: Built
    messages: "list[ModelMessage]"
    parameters: "ModelRequestParameters"
    watcher: Watcher
    gate: TextGate | None
    _unfinished: "ModelResponse | None" = None

    async def run(self, *, retries: int) -> "ModelResponse | Failure":
        """The answer, or the failure that ended the attempts."""
        attempt = 0
        while True:
            failure = await self._attempt()
            if not isinstance(failure, Failure):
                return failure
            if failure.verdict is Verdict.OVERFLOW:
                raise ContextOverflow
            attempt += 1
            if failure.verdict is Verdict.NEXT or attempt > retries:
                return failure
            delay = self.stack.delay(attempt, failure)
            if delay is None:
                return Failure(Verdict.NEXT, f"{failure.reason}; it asks for a long wait")
            self._say_retry(failure, delay)
            await self.stack.wait(delay)

    def _say_retry(self, failure: Failure, delay: float) -> None:
        ref = self.built.candidate.ref
        logger.info("model request failed, retrying", extra={"model": ref, "delay": delay})
        self.watcher.notice(f"{ref}: {failure.reason}; trying again in {delay:.1f} s")

    async def _attempt(self) -> "ModelResponse | Failure":
        if self.gate is not None:
            self.gate.restart()
        try:
            response = await self._ask()
        except Exception as error:  # a library's failure is judged, whatever its type
            logger.debug("model request failed", exc_info=error)
            return judge(error, self.built.candidate.base_url)
        if self.gate is None:
            return response
        if not self.stack.ends_properly(self.built, response):
            if self._unfinished is None or response.state == "incomplete":
                self._unfinished = response
                return Failure(Verdict.RETRY, "its answer broke off")
            # Twice in a row, and cleanly: this server just does not say why an answer ends.
            self.stack.excuse(self.built)
        self.gate.finish()
        return response

    async def _ask(self) -> "ModelResponse":
        # The library's own preparation of messages would escape what the person typed, such as
        # `<system>`; ours need none, so that they go out byte for byte.
        model, messages = self.built.model, self.messages
        if self.gate is None:
            return await model.request(messages, self.built.settings, self.parameters)
        async with model.request_stream(messages, self.built.settings, self.parameters) as stream:
            await self._read(stream, self.gate)
            return stream.get()

    async def _read(self, stream: "StreamedResponse", gate: TextGate) -> None:
        from pydantic_ai import messages as m

        async for event in stream:
            part = (
                event.part
                if isinstance(event, m.PartStartEvent)
                else event.delta
                if isinstance(event, m.PartDeltaEvent)
                else None
            )
            if isinstance(part, m.TextPart) and part.content:
                gate.feed(part.content)
            elif isinstance(part, m.TextPartDelta):
                gate.feed(part.content_delta)
            elif self.watcher.thinking is not None:
                self._think(part)

    def _think(self, part: object) -> None:
        from pydantic_ai import messages as m

        assert self.watcher.thinking is not None
        if isinstance(part, m.ThinkingPart) and part.content:
            self.watcher.thinking(part.content)
        elif isinstance(part, m.ThinkingPartDelta) and part.content_delta:
            self.watcher.thinking(part.content_delta)


def _gate(watcher: Watcher) -> TextGate | None:
    if watcher.text is None:
        return None
    return TextGate(
        watcher.text, lambda: watcher.notice("the connection broke; the answer starts over")
    )


def _retries(candidate: Candidate, *, last: bool) -> int:
    if last:
        return candidate.max_retries
    return min(candidate.max_retries, RETRIES_BEFORE_FALLBACK)


def _setup_failure(error: OpenClawError) -> Failure:
    return Failure(Verdict.NEXT, error.message, hint=error.hint)


def _unavailable(failures: Sequence[tuple[Candidate, Failure]]) -> ModelUnavailable:
    """One error that names every model that was tried and why it did not answer."""
    lines = [f"{candidate.ref}: {failure.reason}" for candidate, failure in failures]
    hints = list(dict.fromkeys(failure.hint for _, failure in failures if failure.hint))
    what = "the model did not answer" if len(lines) == 1 else "no model answered"
    hint = "; ".join(hints) or "try again later, or add a fallback under agents.defaults.model"
    return ModelUnavailable(f"{what}: {'; '.join(lines)}", hint=hint)
