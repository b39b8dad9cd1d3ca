"""The models of each agent: built once, and asked in order, with retries, until one answers."""

import logging
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Literal, cast

import anyio
from pydantic_ai import exceptions as known
from pydantic_ai import messages as m
from pydantic_ai.models import ModelRequestParameters

from openclaw.config.agent_schema import ModelChoice, ProviderConfig
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, ModelUnavailable, OpenClawError
from openclaw.core.events import STARTS_OVER
from openclaw.models import build
from openclaw.models.build import BuiltModel, ModelBuilder
from openclaw.models.choose import Candidate, ModelCandidates, ModelOptions, choose

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class RetryTextFilter:
    """Passes on the pieces of an answer.

    After `restart`, the new attempt's text is held back while it only repeats what was shown. If it
    differs, `diverged` is called once and the new text is shown from its beginning.
    """

    show: Callable[[str], None]
    diverged: Callable[[], None]
    _attempt: str = ""
    _shown: str = ""  # by earlier attempts, while this one may still repeat it

    def feed(self, piece: str) -> None:
        self._attempt += piece
        if not self._shown:
            self.show(piece)
        elif not self._shown.startswith(self._attempt):
            self._release()

    def restart(self) -> None:
        self._shown, self._attempt = self._shown or self._attempt, ""

    def finish(self) -> None:
        """The attempt is complete; if it is shorter than what was shown, it differs."""
        if self._shown and self._attempt != self._shown:
            self._release()

    def _release(self) -> None:
        shown, self._shown = self._shown, ""
        rest = self._attempt.removeprefix(shown)
        if rest == self._attempt:
            self.diverged()
        if rest:
            self.show(rest)


FIRST_DELAY = 0.5
LONGEST_DELAY = 20.0
LONGEST_RETRY_AFTER = 60.0  # a provider that asks for a longer wait is as good as down
_JITTER = 0.25
_TOO_LARGE = 413


Verdict = Literal["retry", "next", "overflow"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A provider's failure, judged. `reason` is for people and carries no key."""

    verdict: Verdict
    reason: str
    retry_after: float | None = None
    hint: str | None = None
    most_retries: int | None = None
    blames_request: bool = False  # the provider works, and may answer another request
    about_images: bool = False  # without its images, the request might be accepted


class ContextOverflow(Exception):
    """Raised when a request does not fit into the model's context."""


class ImageRefused(Exception):
    """Raised when a provider refuses a request because of an image in it; says why."""


def classify_error(error: Exception, asked: Candidate | None = None) -> Failure:
    """What `error`, raised by the model library or the transport, means for the request."""
    if isinstance(error, OpenClawError):  # the embedded model's own
        return _setup_failure(error)
    if isinstance(error, known.ModelContextWindowExceededError) or _says_overflow(error):
        return Failure("overflow", "the conversation does not fit into the model's context")
    if isinstance(error, known.ModelRateLimitError):
        return Failure("retry", "its rate limit is reached", error.retry_after)
    if isinstance(error, known.ModelOverloadedError):
        return Failure("retry", "it is overloaded", error.retry_after)
    if isinstance(error, known.ModelUnavailableError | known.ModelServerError):
        return Failure("retry", f"it failed ({_status(error)})", error.retry_after)
    if isinstance(error, known.ModelRequestTimeout | known.ModelTimeoutError):
        # The request may have been carried out and billed, so it is not sent again and again.
        return Failure("retry", "it did not answer in time", most_retries=1)
    if isinstance(error, known.ModelConnectionError):
        hint = f"check that {asked.base_url} is right and can be reached" if asked else None
        return Failure("retry", f"the connection failed ({_cause(error)})", hint=hint)
    if isinstance(error, known.UnexpectedModelBehavior):
        return Failure("retry", f"its answer could not be read ({_cut(str(error))})")
    return _refused(error, asked)


def _refused(error: Exception, asked: Candidate | None) -> Failure:
    if isinstance(error, known.ModelAuthenticationError):
        hint = f"check {asked.key_setting}" if asked else None
        return Failure("next", f"it refused the key ({_status(error)})", hint=hint)
    if isinstance(error, known.ModelQuotaExceededError):
        return Failure("next", "the account's quota is used up", hint="top the account up, or wait")
    if isinstance(error, known.ModelNotFoundError):
        return Failure(
            "next",
            f"it does not know the model ({_status(error)})",
            hint="check the model's name and the provider's baseUrl",
        )
    if isinstance(error, known.ModelHTTPError):
        return _refused_request(error)
    reason = f"{type(error).__name__}: {_cut(str(error))}"
    return Failure("next", reason, blames_request=True)


def _refused_request(error: known.ModelHTTPError) -> Failure:
    status = error.status_code
    if status in (408, 409, 425, 429) or status >= 500:
        return Failure("retry", f"it failed ({_status(error)})", error.retry_after)
    reason = f"it refused the request ({_status(error)})"
    if status == _TOO_LARGE:
        return Failure("overflow", reason, blames_request=True, about_images=True)
    about_images = "image" in str(error.body).casefold()
    return Failure("next", reason, blames_request=True, about_images=about_images)


@cache
def _overflow() -> re.Pattern[str]:
    lines = Path(__file__).with_name("overflow.txt").read_text("utf-8").splitlines()
    return re.compile("|".join(one for one in lines if one and one[0] != "#"), re.IGNORECASE)


def _says_overflow(error: Exception) -> bool:
    body = getattr(error, "body", None)
    return body is not None and _overflow().search(str(body)) is not None


def _status(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    said: object = getattr(error, "body", None)
    for key in ("error", "message"):
        if isinstance(said, dict):
            inner = cast("dict[str, object]", said)
            said = inner.get(key, inner)
    parts = [f"HTTP {status}" if status else "", _cut(said) if isinstance(said, str) else ""]
    return ": ".join(part for part in parts if part) or _cut(str(error))


def _cause(error: Exception) -> str:
    cause = error.__cause__
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    return _cut(str(cause or error)) or type(cause or error).__name__


def _cut(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def delay_before(attempt: int, failure: Failure, unit_random: float) -> float | None:
    """Seconds before retry number `attempt`; None if the provider asks for too long a wait."""
    if failure.retry_after is not None:
        return failure.retry_after if failure.retry_after <= LONGEST_RETRY_AFTER else None
    plain = min(FIRST_DELAY * 2 ** (attempt - 1), LONGEST_DELAY)
    return plain * (1 + _JITTER * (2 * unit_random - 1))


COOL_DOWN_SECONDS = 60.0  # a model that failed is tried last for this long
RETRIES_BEFORE_FALLBACK = 1  # enough for a hiccup if there is another model


@dataclass(frozen=True, slots=True)
class StreamCallbacks:
    text: Callable[[str], None] = lambda piece: None
    thinking: Callable[[str], None] = lambda piece: None
    notice: Callable[[str], None] = lambda message: None


@dataclass(frozen=True, slots=True)
class Answered:
    response: m.ModelResponse
    built: BuiltModel


@dataclass(slots=True)
class _Entry:
    candidate: Candidate
    built: BuiltModel | None = None
    rests_until: float = 0.0
    lock: anyio.Lock = field(default_factory=anyio.Lock)


class FallbackModels:
    """Models in order of preference; many turns may use them at once."""

    def __init__(
        self,
        choice: ModelCandidates,
        build: Callable[[Candidate], Awaitable[BuiltModel]],
        *,
        clock: Clock,
    ) -> None:
        self.choice = choice
        self.sleep: Callable[[float], Awaitable[None]] = anyio.sleep
        self._entries = [_Entry(candidate) for candidate in choice.candidates]
        self._build = build
        self._clock = clock
        self.never_say_why: set[str] = set()  # models that end every answer without a reason

    async def primary(self) -> BuiltModel:
        """The model that will probably answer."""
        failures: list[tuple[Candidate, Failure]] = []
        for entry in self._in_order():
            try:
                return await self._built(entry)
            except OpenClawError as error:
                failures.append((entry.candidate, _setup_failure(error)))
        raise _unavailable(failures)

    async def respond(
        self,
        messages: Callable[[BuiltModel], list[m.ModelMessage]],
        parameters: ModelRequestParameters,
        watcher: StreamCallbacks,
        options: ModelOptions | None = None,
    ) -> Answered:
        """The first answer. Raises `ContextOverflow`, `ImageRefused`, or `ModelUnavailable`."""
        failures: list[tuple[Candidate, Failure]] = []
        entries = self._in_order()
        text_filter = RetryTextFilter(watcher.text, lambda: watcher.notice(STARTS_OVER.message))
        for index, entry in enumerate(entries):
            last = index == len(entries) - 1
            try:
                built = build.with_settings(await self._built(entry), options)
                wanted = build.with_search(build.with_output(parameters, built, options), built)
            except OpenClawError as error:
                if index == 0 and isinstance(error, InvalidRequest):
                    raise
                failures.append((entry.candidate, _setup_failure(error)))
                continue
            asking = _Asking(self, built, messages(built), wanted, watcher, text_filter)
            retries = entry.candidate.max_retries
            outcome = await asking.run(retries if last else min(retries, RETRIES_BEFORE_FALLBACK))
            if not isinstance(outcome, Failure):
                entry.rests_until = 0.0
                return Answered(outcome, built)
            failures.append((entry.candidate, outcome))
            if not outcome.blames_request:
                entry.rests_until = self._clock.monotonic() + COOL_DOWN_SECONDS
            if not last:
                watcher.notice(f"{entry.candidate.ref}: {outcome.reason}; trying another model")
        raise _unavailable(failures)

    def ends_properly(self, built: BuiltModel, response: m.ModelResponse) -> bool:
        """Whether a streamed answer is complete: a provider says at its end why it ended."""
        if response.state == "incomplete":
            return False
        candidate = built.candidate
        if candidate.api == "local" or candidate.ref in self.never_say_why:
            return True
        if candidate.api == "openai-completions":
            # The library fills in a missing reason; only the details have what the provider said.
            return "finish_reason" in (response.provider_details or {})
        return response.finish_reason is not None

    async def aclose(self) -> None:
        for entry in self._entries:
            if entry.built is not None:
                await entry.built.aclose()
                entry.built = None

    def _in_order(self) -> list[_Entry]:
        now = self._clock.monotonic()
        return sorted(self._entries, key=lambda entry: entry.rests_until > now)

    async def _built(self, entry: _Entry) -> BuiltModel:
        async with entry.lock:
            if entry.built is None:
                entry.built = await self._build(entry.candidate)
            return entry.built


@dataclass(slots=True)
class _Asking:
    models: FallbackModels
    built: BuiltModel
    messages: list[m.ModelMessage]
    parameters: ModelRequestParameters
    watcher: StreamCallbacks
    text_filter: RetryTextFilter
    _unfinished: m.ModelResponse | None = None

    async def run(self, retries: int) -> m.ModelResponse | Failure:
        ref = self.built.candidate.ref
        attempt = 0
        while True:
            failure = await self._attempt()
            if not isinstance(failure, Failure):
                return failure
            if failure.about_images and _carry_images(self.messages):
                raise ImageRefused(failure.reason)
            if failure.verdict == "overflow":
                raise ContextOverflow(failure.reason)
            attempt += 1
            if failure.most_retries is not None:
                retries = min(retries, failure.most_retries)
            if failure.verdict == "next" or attempt > retries:
                return failure
            delay = delay_before(attempt, failure, random.random())  # noqa: S311 - no secret
            if delay is None:
                return Failure("next", f"{failure.reason}; it asks for a long wait")
            logger.info("model request failed, retrying", extra={"model": ref, "delay": delay})
            self.watcher.notice(f"{ref}: {failure.reason}; trying again in {delay:.1f} s")
            await self.models.sleep(delay)

    async def _attempt(self) -> m.ModelResponse | Failure:
        self.text_filter.restart()
        try:
            response = await self._ask()
        except Exception as error:  # a library's failure is judged, whatever its type
            logger.debug("model request failed", exc_info=error)
            return classify_error(error, self.built.candidate)
        if not self.models.ends_properly(self.built, response):
            if self._unfinished is None or response.state == "incomplete":
                self._unfinished = response
                return Failure("retry", "its answer broke off")
            # Twice in a row, and cleanly: this server just does not say why an answer ends.
            self.models.never_say_why.add(self.built.candidate.ref)
        self.text_filter.finish()
        return response

    async def _ask(self) -> m.ModelResponse:
        # The library's own preparation of messages would escape what the person typed, such as
        # `<system>`, so it is skipped, and messages are sent byte for byte.
        # Always streamed: then only silence can end it early, however long the answer is.
        built, messages = self.built, self.messages
        async with built.model.request_stream(messages, built.settings, self.parameters) as stream:
            async for event in stream:
                if not isinstance(event, m.PartEndEvent):  # it repeats the whole part
                    self._pass_on(event)
            return stream.get()

    def _pass_on(self, event: m.ModelResponseStreamEvent) -> None:
        part = getattr(event, "part", None) or getattr(event, "delta", None)
        piece = getattr(part, "content", None) or getattr(part, "content_delta", None)
        if piece and isinstance(part, m.TextPart | m.TextPartDelta):
            self.text_filter.feed(piece)
        elif piece and isinstance(part, m.ThinkingPart | m.ThinkingPartDelta):
            self.watcher.thinking(piece)


def _carry_images(messages: Sequence[m.ModelMessage]) -> bool:
    parts = (part for message in messages for part in message.parts)
    contents: list[object] = [getattr(part, "content", None) for part in parts]
    return any(
        isinstance(piece, m.BinaryImage)
        for content in contents
        if isinstance(content, list)
        for piece in cast("list[object]", content)
    )


def _setup_failure(error: OpenClawError) -> Failure:
    return Failure("next", error.message, hint=error.hint)


def _unavailable(failures: Sequence[tuple[Candidate, Failure]]) -> ModelUnavailable:
    lines = [f"{candidate.ref}: {failure.reason}" for candidate, failure in failures]
    hints = list(dict.fromkeys(failure.hint for _, failure in failures if failure.hint))
    what = "the model did not answer" if len(lines) == 1 else "no model answered"
    hint = "; ".join(hints) or "try again later, or add a fallback under agents.defaults.model"
    return ModelUnavailable(f"{what}: {'; '.join(lines)}", hint=hint)


@dataclass(slots=True)
class ModelFactory:
    """Returns the models for a choice; the same choice gives the same object."""

    providers: Mapping[str, ProviderConfig]
    builder: ModelBuilder
    clock: Clock
    _models: dict[object, FallbackModels] = field(default_factory=dict[object, FallbackModels])
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def choice(self, model: ModelChoice | None) -> ModelCandidates:
        return await choose(model, self.providers, self.builder.environ)

    async def models_of(
        self,
        model: ModelChoice | None,
        *,
        temperature: float | None = None,
        thinking: str | None = None,
    ) -> FallbackModels:
        key = ((model.primary, *model.fallbacks) if model else (), temperature, thinking)
        async with self._lock:
            if key not in self._models:
                build = partial(self.builder.build, temperature=temperature, thinking=thinking)
                chosen = await self.choice(model)
                self._models[key] = FallbackModels(chosen, build, clock=self.clock)
            return self._models[key]

    async def aclose(self) -> None:
        opened, self._models = self._models, {}
        for models in opened.values():
            await models.aclose()
