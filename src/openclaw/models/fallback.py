"""The models of each agent: built once, and asked in order, with retries, until one answers."""

import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import anyio
from pydantic_ai import messages as m
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from openclaw.config.agent_schema import ModelChoice, ProviderConfig
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, ModelUnavailable, OpenClawError
from openclaw.core.events import STARTS_OVER
from openclaw.models import build
from openclaw.models.build import BuiltModel, ModelBuilder, StreamEnd
from openclaw.models.choose import Candidate, ModelCandidates, ModelOptions, choose
from openclaw.models.failures import Failure, classify_error, delay_before, setup_failure
from openclaw.models.thinking import with_thinking_that_fits, without_thinking
from openclaw.models.tool_schema import AdaptedTool, ToolAdapter, wire_name

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class RetryTextFilter:
    """Passes on the pieces of an answer.

    After `restart`, the new attempt's text is held back while it only repeats what was shown. If it
    differs, `diverged` is called once and the new text is shown from its beginning.
    """

    show: Callable[[str], None]
    diverged: Callable[[], None]
    _pieces: list[str] = field(default_factory=list[str])  # of this attempt
    _length: int = 0
    _shown: str = ""  # by earlier attempts, while this one may still repeat it

    def feed(self, piece: str) -> None:
        start, self._length = self._length, self._length + len(piece)
        self._pieces.append(piece)
        if not self._shown:
            self.show(piece)
        elif not self._shown.startswith(piece, start):
            self._release()

    def restart(self) -> None:
        self._shown = self._shown or "".join(self._pieces)
        self._pieces, self._length = [], 0

    def finish(self) -> None:
        """The attempt is complete; if it is shorter than what was shown, it differs."""
        if self._shown and self._length != len(self._shown):
            self._release()

    def _release(self) -> None:
        shown, self._shown = self._shown, ""
        attempt = "".join(self._pieces)
        rest = attempt.removeprefix(shown)
        if rest == attempt:
            self.diverged()
        if rest:
            self.show(rest)


COOL_DOWN_SECONDS = 60.0  # a model that failed is tried last for this long
RETRIES_BEFORE_FALLBACK = 1  # enough for a hiccup if there is another model
LONGEST_PATIENT_DELAY = 60.0  # between attempts, while a turn waits for minutes
MOST_ANSWER_BYTES = 4_000_000  # far beyond what any model is meant to write
MOST_OPENAI_TOOLS = 128


class ContextOverflow(Exception):
    """Raised when a request does not fit into the model's context."""


class ImageRefused(Exception):
    """Raised when a provider refuses a request because of an image in it; says why."""


@dataclass(frozen=True, slots=True)
class StreamCallbacks:
    text: Callable[[str], None] = lambda piece: None
    thinking: Callable[[str], None] = lambda piece: None
    notice: Callable[[str], None] = lambda message: None


# Takes the model, and whether to send what it signed or encrypted earlier.
Messages = Callable[[BuiltModel, bool], list[m.ModelMessage]]


@dataclass(frozen=True, slots=True)
class Answered:
    """`forgot` says that the model did not accept what it had signed or encrypted earlier."""

    response: m.ModelResponse
    built: BuiltModel
    forgot: bool = False


@dataclass(slots=True)
class _Entry:
    candidate: Candidate
    adapter: ToolAdapter
    built: BuiltModel | None = None
    rests_until: float = 0.0
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    # Tools that the vendor did not accept, by name, as they were defined then:
    refused: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])


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
        self._entries = [_Entry(one, ToolAdapter(one.api)) for one in choice.candidates]
        self._build = build
        self._clock = clock

    async def primary(self) -> BuiltModel:
        """The model that will probably answer."""
        failures: list[tuple[Candidate, Failure]] = []
        for entry in self._in_order():
            try:
                return await self._built(entry)
            except OpenClawError as error:
                failures.append((entry.candidate, setup_failure(error)))
        raise _unavailable(failures)

    async def respond(
        self,
        messages: Messages,
        parameters: ModelRequestParameters,
        watcher: StreamCallbacks,
        options: ModelOptions | None = None,
        *,
        patience: float = 0.0,
        most_bytes: int = MOST_ANSWER_BYTES,
    ) -> Answered:
        """The first answer. Raises `ContextOverflow`, `ImageRefused`, or `ModelUnavailable`.

        `patience` is how many seconds to wait, in all, for providers that are overloaded. An answer
        longer than `most_bytes` is cut off.
        """
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
                failures.append((entry.candidate, setup_failure(error)))
                continue
            own_tools = frozenset(tool.name for tool in (options.tools if options else ()))
            asking = _Asking(self, entry, built, messages, wanted, watcher, text_filter, own_tools)
            retries = entry.candidate.max_retries
            asking.patience = patience if last else 0.0
            asking.most_bytes = most_bytes
            outcome = await asking.run(retries if last else min(retries, RETRIES_BEFORE_FALLBACK))
            if not isinstance(outcome, Failure):
                entry.rests_until = 0.0
                return Answered(outcome, built, asking.forgot)
            failures.append((entry.candidate, outcome))
            if not outcome.blames_request:
                entry.rests_until = self._clock.monotonic() + COOL_DOWN_SECONDS
            if not last:
                watcher.notice(f"{entry.candidate.ref}: {outcome.reason}; trying another model")
        raise _unavailable(failures)

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
    """One model being asked, until it answers or is given up."""

    models: FallbackModels
    entry: _Entry
    built: BuiltModel
    history: Messages
    parameters: ModelRequestParameters
    watcher: StreamCallbacks
    text_filter: RetryTextFilter
    own_tools: frozenset[str]  # the sender's, none of which is left out
    patience: float = 0.0
    most_bytes: int = MOST_ANSWER_BYTES
    forgot: bool = False

    async def run(self, retries: int) -> m.ModelResponse | Failure:
        attempt = 0
        while True:
            messages = self.history(self.built, not self.forgot)
            failure = await self._attempt(messages)
            if not isinstance(failure, Failure):
                return failure
            if self._can_leave_out(failure):
                continue
            if failure.about_images and _carry_images(messages):
                raise ImageRefused(failure.reason)
            if failure.verdict == "overflow":
                raise ContextOverflow(failure.reason)
            attempt += 1
            if failure.most_retries is not None:
                retries = min(retries, failure.most_retries)
            delay = self._delay(failure, attempt, retries)
            if delay is None:
                return failure.given_up()
            await self.models.sleep(delay)

    def _delay(self, failure: Failure, attempt: int, retries: int) -> float | None:
        """Seconds until the next attempt, which the user is shown; None to give up."""
        ref = self.built.candidate.ref
        if failure.verdict == "next":
            return None
        unit = random.random()  # noqa: S311 - no secret
        if attempt <= retries:
            delay = delay_before(attempt, failure, unit)
            if delay is not None:
                logger.info("model request failed, retrying", extra={"model": ref, "delay": delay})
                self.watcher.notice(f"{ref}: {failure.reason}; trying again in {delay:.1f} s")
                return delay
        if not failure.worth_waiting:
            return None
        delay = delay_before(attempt, failure, unit, most=self.patience)
        if delay is None or delay > self.patience:
            return None
        if failure.retry_after is None:
            delay = min(delay, LONGEST_PATIENT_DELAY)
        self.patience -= max(delay, 1.0)
        logger.warning("waiting for a model", extra={"model": ref, "delay": delay})
        self.watcher.notice(f"{ref}: {failure.reason}; waiting {delay:.0f} s before going on")
        return delay

    def _can_leave_out(self, failure: Failure) -> bool:
        """Leave out what the vendor does not accept; False if that is nothing that could go."""
        if failure.about_tool is not None and (tool := self._blamed(failure.about_tool)):
            self.entry.refused[tool.name] = tool
            ref = self.built.candidate.ref
            logger.warning("tool left out", extra={"tool": tool.name, "reason": failure.reason})
            self.watcher.notice(f"{ref} does not accept the tool {tool.name}, which is left out")
            return True
        if failure.about_thoughts and not self.forgot:
            self.forgot = True
            return True
        return False

    def _blamed(self, tool: str | int) -> ToolDefinition | None:
        offered = [one for one in self._offered() if one.name not in self.own_tools]
        if isinstance(tool, int):
            return offered[tool] if tool < len(offered) else None
        return next((one for one in offered if wire_name(one.name) == tool), None)

    def _offered(self) -> list[ToolDefinition]:
        refused = self.entry.refused
        tools = [one for one in self.parameters.function_tools if refused.get(one.name) != one]
        if not self.built.candidate.api.startswith("openai"):
            return tools
        shown = [one for one in tools if not one.defer_loading]
        deferred = [one for one in tools if one.defer_loading]
        return [*shown[:MOST_OPENAI_TOOLS], *deferred]

    async def _attempt(self, messages: list[m.ModelMessage]) -> m.ModelResponse | Failure:
        self.text_filter.restart()
        end = StreamEnd()
        adapted = [self.entry.adapter.adapt(tool) for tool in self._offered()]
        try:
            with end.watched():
                response = await self._ask(messages, adapted)
        except Exception as error:  # a library's failure is judged, whatever its type
            logger.debug("model request failed", exc_info=error)
            return classify_error(error, self.built.candidate)
        if not _is_complete(self.built, response, end):
            return Failure("retry", "its answer broke off")
        self.text_filter.finish()
        return _with_own_names(response, adapted)

    async def _ask(
        self, messages: list[m.ModelMessage], adapted: Sequence[AdaptedTool]
    ) -> m.ModelResponse:
        # The library's own preparation of messages would escape what the person typed, such as
        # `<system>`, so it is skipped, and messages are sent byte for byte.
        # Always streamed: then only silence can end it early, however long the answer is.
        tools = [tool.definition for tool in adapted]
        parameters = replace(self.parameters, function_tools=tools)
        built = without_thinking(self.built) if self.forgot else self.built
        built = with_thinking_that_fits(built, messages)
        length = 0
        async with built.model.request_stream(messages, built.settings, parameters) as stream:
            async for event in stream:
                if not isinstance(event, m.PartEndEvent):  # it repeats the whole part
                    length += self._pass_on(event)
                if length > self.most_bytes:
                    return replace(stream.get(), finish_reason="length", state="complete")
            return stream.get()

    def _pass_on(self, event: m.ModelResponseStreamEvent) -> int:
        """Show what is new of the answer, and return its size."""
        part = getattr(event, "part", None) or getattr(event, "delta", None)
        piece = getattr(part, "content", None) or getattr(part, "content_delta", None)
        if piece and isinstance(part, m.TextPart | m.TextPartDelta):
            self.text_filter.feed(piece)
        elif piece and isinstance(part, m.ThinkingPart | m.ThinkingPartDelta):
            self.watcher.thinking(piece)
        if isinstance(part, m.ToolCallPart | m.ToolCallPartDelta):
            piece = part.args if isinstance(part, m.ToolCallPart) else part.args_delta
        return len(piece.encode(errors="surrogatepass")) if isinstance(piece, str) else 0


def _is_complete(built: BuiltModel, response: m.ModelResponse, end: StreamEnd) -> bool:
    """Whether a streamed answer is complete: a provider says at its end why it ended."""
    if response.state == "incomplete":
        return False
    if built.candidate.api == "local" or response.finish_reason == "length":
        return True
    if built.candidate.api == "openai-completions":
        # The library fills in a missing reason; only the details have what the provider said. Some
        # servers never say why, but all of them say that the stream is done.
        return end.is_done or "finish_reason" in (response.provider_details or {})
    return response.finish_reason is not None


def _with_own_names(response: m.ModelResponse, adapted: Sequence[AdaptedTool]) -> m.ModelResponse:
    """The response with our names for the tools and keys that were sent under other names."""
    tools = {tool.definition.name: tool for tool in adapted}
    for part in response.parts:
        # The subclasses are calls of the library's own tools.
        tool = tools.get(part.tool_name) if type(part) is m.ToolCallPart else None
        if tool is None or type(part) is not m.ToolCallPart:
            continue
        part.tool_name = tool.name
        if tool.keys:
            try:
                part.args = tool.restore(part.args_as_dict(raise_if_invalid=True))
            except (ValueError, AssertionError):
                continue  # the call says what is wrong with its arguments
    return response


def _carry_images(messages: Sequence[m.ModelMessage]) -> bool:
    parts = (part for message in messages for part in message.parts)
    contents: list[object] = [getattr(part, "content", None) for part in parts]
    return any(
        isinstance(piece, m.BinaryImage)
        for content in contents
        if isinstance(content, list)
        for piece in cast("list[object]", content)
    )


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
