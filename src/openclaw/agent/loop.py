"""One turn: ask the model, run the tools it calls, until it answers. Imports pydantic-ai."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio
from pydantic_ai import messages as library
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import AbstractNativeTool, WebSearchTool
from pydantic_ai.tools import ToolDefinition

from openclaw.agent import compaction, transcript
from openclaw.agent.budget import LimitReached, check_day, estimate, spent_on
from openclaw.agent.model_messages import (
    MOST_CALLS,
    answer_from,
    definition,
    definitions,
    messages_from,
    stored_native,
)
from openclaw.agent.port import CallItem
from openclaw.agent.redaction import clean_answer
from openclaw.agent.tool_calls import ToolCallRunner
from openclaw.agent.transcript import AssistantItem, Item, ResultItem, UserItem
from openclaw.core import events
from openclaw.core.content import Text
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.tools import ToolSpec
from openclaw.media.images import MOST_SHOWN
from openclaw.models.build import TOOL_SEARCH, BuiltModel
from openclaw.models.choose import ModelOptions
from openclaw.models.fallback import (
    Answered,
    ContextOverflow,
    FallbackModels,
    ImageRefused,
    Messages,
    StreamCallbacks,
)
from openclaw.policy.dataflow.intent import ALLOW_ACTIONS, Intent, IntentRequest
from openclaw.sessions.usage import UsageLedger

if TYPE_CHECKING:
    from openclaw.policy.dataflow.answers import AnswerStream

logger = logging.getLogger(__name__)


_ATTEMPTS_PER_STEP = 5
_OVERFLOW_SHARE = 0.6  # how much of a conversation that did not fit is tried next
_EMPTY_ANSWERS = 1  # a model that says nothing at all is asked once more
_CUT_ANSWERS = 2  # the turn ends after this many answers in a row cut off in a call
CLOSING_SECONDS = 60.0  # for the model to say what was done, once a limit has ended the turn

_CLOSING = (
    "[Not from the person: {why} No more tools can be called. Tell the person briefly what was done, "
    "what is left to do, and anything they must know before they continue.]"
)

# How long a turn that has done something waits for providers that are overloaded.
PATIENCE_SECONDS = 600.0

_SHOWN_ON_FILTER = "The provider's content filter stopped the answer."
_SHOWN_ON_LENGTH = "[The answer was cut off at the model's limit on its length.]"
_SHOWN_ON_NOTHING = "The model gave no answer."
_TOO_MANY = (
    "\n\n[System notice: that answer made {count} calls. Only its first {most} were made; make the "
    "others again if they are still needed.]"
)


@dataclass(slots=True)
class Loop:
    """One turn in progress. `items` is the conversation, the person's new message last."""

    items: list[Item]
    models: FallbackModels
    preamble: tuple[str, ...]
    runner: ToolCallRunner
    compact_at: float
    options: ModelOptions | None
    ledger: UsageLedger
    intent_models: "Callable[[], Awaitable[FallbackModels]] | None" = None  # not the turn's own
    finish_reason: str = "stop"  # why the last answer ended, in the library's words
    thinking: str = ""  # before the last answer
    client_calls: tuple[CallItem, ...] = ()  # the turn ended with these, for the sender to run
    _factor: float = 1.0
    _prompt: int = 0  # tokens of the preamble
    _fixed: int = 0  # and of the tools
    _images: dict[str, bytes | str] = field(default_factory=dict[str, bytes | str])
    _accepted: set[str] = field(default_factory=set[str])
    _notes: list[str] = field(default_factory=list[str])
    _taken: set[str] = field(default_factory=set[str])
    _turn_start: int = 0
    _cut: int = 0
    _shown: "tuple[_Shown, ...]" = ()
    asking: bool = False  # whether a model is being waited for

    def __post_init__(self) -> None:
        self._prompt = sum(map(estimate, self.preamble))
        self._taken = {
            call.id for item in self.items if isinstance(item, AssistantItem) for call in item.calls
        }
        self._turn_start = next((i.seq for i in reversed(self.items) if isinstance(i, UserItem)), 0)
        before = transcript.images_in(item for item in self.items if item.seq < self._turn_start)
        self._accepted = {image.digest for image in before if image.digest is not None}
        if self.runner.toolbox.flow is not None:
            self.runner.toolbox.flow.read_intent = self.read_intent

    @property
    def _streaming(self) -> bool:
        return self.runner.listener.on_event is not None

    async def run(self) -> tuple[str, str]:
        empty = 0
        while True:
            answered = await self._ask()
            answer = replace(
                answer_from(answered.response, self._taken, self._client_tools),
                maker=answered.built.maker,
            )
            model = answered.built.candidate.ref
            if answer.calls:
                await self._step(answer, model)
                if self.client_calls:
                    return "", model
                continue
            self.finish_reason = answered.response.finish_reason or "stop"
            is_client = self.options is not None  # it gets `finish_reason` instead
            text = _final_text(answered, answer, explain=not is_client)
            if text or empty == _EMPTY_ANSWERS:
                text = text or ("" if is_client else _SHOWN_ON_NOTHING)
                self.thinking = await self.disarm_answer(self.runner.redact(answer.thinking))
                return "\n\n".join([text, *self._notes, *self._report_refused()]), model
            empty += 1

    async def compact(self, focus: str) -> str:
        """Summarise everything before the person's last message; returns the answer."""
        built = await self.models.primary()
        before = compaction.total_tokens(self.items)
        from_turn = [compaction.is_from_turn(item, self._turn_start) for item in self.items]
        cut = from_turn.index(True)
        if not await self._summarise(built, cut, focus):
            return "There is nothing to summarise yet."
        after = compaction.total_tokens(self.items)
        return f"I summarised the conversation: about {before} tokens before, {after} now."

    async def closing(self, why: str, *, ask: bool = True) -> str:
        said = None
        if ask:
            self.items.append(UserItem(_CLOSING.format(why=why)))
            with anyio.move_on_after(CLOSING_SECONDS):
                try:
                    built = await self.models.primary()
                    specs = await self._specs(built)
                    said = (await self._request(specs, StreamCallbacks(), None)).response.text
                except (OpenClawError, ContextOverflow, ImageRefused, LimitReached):
                    logger.warning("no model could say what the turn had done", exc_info=True)
            self.items.pop()
        return f"{why}\n\n{said or self._so_far()}"

    def _so_far(self) -> str:
        own = [item for item in self.items if item.seq >= self._turn_start]
        calls = Counter(item.name for item in own if isinstance(item, ResultItem))
        used = ", ".join(f"{name} ({count})" for name, count in calls.most_common(12))
        done = compaction.summary_of(self.items, "", 1_000)
        lines = [
            f"Tools used: {used}." if used else "No tool had been used yet.",
            f"Files changed: {', '.join(done.files)}." if done.files else "",
            f"The plan:\n{done.plan}" if done.plan else "",
        ]
        return "\n".join(line for line in lines if line)

    def _report_refused(self) -> list[str]:
        flow = self.runner.toolbox.flow
        lines = [f"Not done: {one}" for one in flow.refused] if flow is not None else []
        if lines and self._streaming:
            shown = self.runner.toolbox.disarm_links("".join(f"\n\n{one}" for one in lines))
            self.runner.emit(events.TextDelta(shown))
        return lines

    async def disarm_answer(self, text: str) -> str:
        return await self.runner.toolbox.disarm_answer(text)

    @property
    def _client_tools(self) -> set[str]:
        return {tool.name for tool in self.options.tools} if self.options else set()

    async def _step(self, answer: AssistantItem, model: str) -> None:
        clean = clean_answer(answer, self.runner.redact)
        if clean.text.strip():
            blocks = (Text(await self.disarm_answer(clean.text), addressed=True),)
            self.runner.emit(events.BlockReply(blocks))
            if self.runner.listener.on_block_reply is not None:
                self.runner.listener.on_block_reply(blocks)
        shown = replace(
            clean,
            thinking=await self.disarm_answer(clean.thinking),
            native=stored_native(answer.native, self.runner.redactor),
        )
        entry = transcript.assistant_entry(shown, model)
        own = [call for call in answer.calls if call.name not in self._client_tools]
        theirs = (call for call in clean.calls if call.name in self._client_tools)
        self.client_calls = tuple(theirs)
        seq, results = await self.runner.run(entry, own)
        if answer.left_out and results:
            notice = _TOO_MANY.format(count=len(answer.calls) + answer.left_out, most=MOST_CALLS)
            results[-1] = replace(results[-1], text=results[-1].text + notice)
        self.items.append(replace(answer, seq=seq))
        self.items.extend(results)
        self.runner.toolbox.index_items(results)
        self._cut = self._cut + 1 if any(call.cut for call in answer.calls) else 0
        if self._cut == _CUT_ANSWERS:
            raise LimitReached(
                "I stopped: twice in a row the model reached the limit on the length of its answers "
                "in the middle of a tool call (maxTokens of the model)."
            )

    async def _ask(self) -> Answered:
        """A model's answer, after making room if the conversation has grown too long."""
        for _ in range(_ATTEMPTS_PER_STEP):
            self.runner.budget.before_request()
            built = await self.models.primary()
            specs = await self._specs(built)
            await self._make_room(built)
            await self._load_images(built)
            try:
                return await self._request(specs, self._watcher(), self.options)
            except ImageRefused as refused:
                await self._drop_images(str(refused))
            except ContextOverflow:
                # The context is smaller than assumed: shrink relative to what did not fit.
                room = int(compaction.total_tokens(self.items) * _OVERFLOW_SHARE)
                await self._shrink(built, room)
        raise InvalidRequest(
            "the message does not fit into the model's context, even alone",
            hint="send less at once, or use a model with a larger context",
        )

    async def _specs(self, built: BuiltModel) -> list[ToolSpec]:
        box = self.runner.toolbox
        specs = await box.shown(
            built.context_window,
            everything=built.reads_every_tool,
            deferring=built.loads_tools,
        )
        # If rules choose a model's tools, they take no room in its context.
        tools = 0 if built.reads_every_tool else box.sizes.total(specs)
        self._fixed = self._prompt + tools
        return specs

    async def _request(
        self, specs: list[ToolSpec], watcher: StreamCallbacks, options: ModelOptions | None
    ) -> Answered:
        box = self.runner.toolbox
        native: list[AbstractNativeTool] = [WebSearchTool()] if box.may_search else []
        native += [TOOL_SEARCH] if box.deferred else []
        parameters = ModelRequestParameters(
            function_tools=[*definitions(specs, box.deferred), *self._client_definitions()],
            instruction_parts=[library.InstructionPart(content=part) for part in self.preamble],
            native_tools=native,
        )
        guess = self._guess()
        answered = await self._respond(self._messages, parameters, watcher, options)
        self._accepted.update(self._images)
        usage = answered.response.usage
        if usage.input_tokens and guess:
            # The provider's count corrects the next guess, within reason.
            self._factor = min(3.0, max(0.9, usage.input_tokens / guess))
        return answered

    def _client_definitions(self) -> list[ToolDefinition]:
        for name in self._client_tools:
            if self.runner.toolbox.find(name) is not None:
                raise InvalidRequest(f"the agent already has a tool called '{name}'", field="tools")
        tools = self.options.tools if self.options else ()
        return [definition(tool.name, tool.description, tool.schema) for tool in tools]

    async def read_intent(self, asked: IntentRequest) -> Intent | None:
        """What the user wants, by a model that sees their own words and nothing else."""
        models = self.models if self.intent_models is None else await self.intent_models()
        try:
            if (await models.primary()).reads_every_tool:  # it cannot read a request
                return None
            tool = definition(ALLOW_ACTIONS, "Say what the user wants.", asked.schema)
            parameters = ModelRequestParameters(
                function_tools=[tool],
                instruction_parts=[library.InstructionPart(content=asked.instructions)],
            )
            request = library.ModelRequest(parts=[library.UserPromptPart(asked.words)])
            answered = await self._respond(
                lambda _model, _forget: [request], parameters, StreamCallbacks(), models=models
            )
        except (OpenClawError, ContextOverflow):
            logger.warning("no model read what the user wants; their words are searched for it")
            return None
        calls = [part for part in answered.response.parts if isinstance(part, library.ToolCallPart)]
        call = next((one for one in calls if one.tool_name == ALLOW_ACTIONS), None)
        intent = asked.read(call.args if call is not None else None)
        await self.runner.lane.append(self.runner.turn, [transcript.intent_entry(intent)])
        return intent

    async def _respond(
        self,
        messages: Messages,
        parameters: ModelRequestParameters,
        watcher: StreamCallbacks,
        options: ModelOptions | None = None,
        *,
        models: FallbackModels | None = None,
    ) -> Answered:
        models = models or self.models
        clock, budget = self.runner.clock, self.runner.budget
        session = self.runner.lane.session
        await check_day(self.ledger, session.agent, budget.limits.max_cost_per_day)
        started = clock.monotonic()
        self.asking = True
        try:
            answered = await models.respond(
                messages,
                parameters,
                watcher,
                options,
                patience=self._patience,
                most_bytes=budget.limits.max_answer_bytes,
            )
        except (OpenClawError, ContextOverflow, ImageRefused) as error:
            self.asking = False
            asked = models.choice.candidates[0].ref
            elapsed = (clock.monotonic() - started) * 1000
            self.runner.emit(events.ModelCalled(asked, elapsed, error=type(error).__name__))
            raise
        self.asking = False
        if answered.forgot:
            self.items = [
                replace(item, native=None) if isinstance(item, AssistantItem) else item
                for item in self.items
            ]
        for shown in self._shown:
            shown.finish()
        self._shown = ()
        response, usage = answered.response, answered.response.usage
        model, spent = answered.built.candidate.ref, spent_on(answered.built, response)
        self._note_searches(response)
        budget.usage += spent
        await self.ledger.add(session, model, spent)
        elapsed = (clock.monotonic() - started) * 1000
        about = usage.input_tokens, usage.output_tokens, response.finish_reason
        self.runner.emit(events.ModelCalled(model, elapsed, *about, response.model_name))
        return answered

    def _note_searches(self, response: library.ModelResponse) -> None:
        """Treat results of a provider's own search as untrusted, like any result."""
        flow = self.runner.toolbox.flow
        found = (one for one in response.parts if isinstance(one, library.NativeToolReturnPart))
        for part in found:
            if part.tool_name == events.WEB_SEARCH:
                self.runner.emit(events.Notice("info", "the model's provider searched the web"))
                if flow is not None:
                    flow.searched(part.model_response_str())

    @property
    def _patience(self) -> float:
        """Seconds to wait for overloaded models: a turn that has done something is worth it."""
        last = self.items[-1]
        has_worked = isinstance(last, ResultItem) and last.seq >= self._turn_start
        return PATIENCE_SECONDS if has_worked else 0.0

    def _messages(self, built: BuiltModel, keep_native: bool) -> list[library.ModelMessage]:
        images = self._images if built.accepts_images else {}
        return messages_from(self.items, images, built.maker if keep_native else None)

    def _watcher(self) -> StreamCallbacks:
        text, thinking = (
            _Shown(
                self.runner.toolbox.answers(),
                lambda piece, kind=kind: self.runner.emit(kind(piece)),
            )
            for kind in (events.TextDelta, events.ThinkingDelta)
        )

        def notice(message: str) -> None:
            if message == events.STARTS_OVER.message:
                text.finish(drop=True)
            self.runner.emit(events.Notice("warning", self.runner.redact(message)))

        if not self._streaming:
            return StreamCallbacks(notice=notice)
        self._shown = (thinking, text)
        return StreamCallbacks(text=text.feed, thinking=thinking.feed, notice=notice)

    # ---- room

    def _guess(self) -> int:
        return self._fixed + compaction.total_tokens(self.items)

    async def _make_room(self, built: BuiltModel) -> None:
        count = len(transcript.images_in(self.items))
        shown = compaction.shown_images(count, MOST_SHOWN)
        self.items = compaction.without_old_images(self.items, shown)
        window = built.context_window
        most = min(window * self.compact_at, window - built.output_room)
        if self._guess() * self._factor <= most:
            return
        # If preamble and tools fill the context by themselves, the message still gets some room.
        room = int(max(most / self._factor - self._fixed, window * compaction.LEAST_SHARE))
        await self._shrink(built, compaction.cut_target(compaction.total_tokens(self.items), room))

    async def _shrink(self, built: BuiltModel, room: int) -> None:
        """Cut old results, then summarise the oldest part, then cut what is left if need be."""
        items = compaction.trimmed_old(self.items, room)
        if compaction.total_tokens(items) > room:
            notes = min(int(built.context_window * compaction.SUMMARY_SHARE), room // 4)
            cut = compaction.cut_index(items, room - notes, self._turn_start)
            await self._summarise(built, cut)
        self.items = compaction.trimmed(self.items, room)

    async def _summarise(self, built: BuiltModel, cut: int, focus: str = "") -> bool:
        """Replace the items before `cut` by a summary; False if there is nothing to summarise."""
        old = [
            item for item in self.items[:cut] if not compaction.is_from_turn(item, self._turn_start)
        ]
        if not any(isinstance(item, UserItem | AssistantItem) for item in old):
            return False
        most = max(60, int(built.context_window * compaction.SUMMARY_SHARE / self._factor))
        summary = compaction.summary_of(old, await self._notes_on(old, built, most, focus), most)
        kept, redact = self.items[cut:], self.runner.redact
        earlier = (item.through for item in old if isinstance(item, transcript.SummaryItem))
        through = max(kept[0].seq - 1, *earlier, 0)
        summary = replace(
            summary,
            summary=redact(summary.summary),
            plan=redact(summary.plan),
            files=tuple(map(redact, summary.files)),
            through=through,
        )
        # The store returns only what comes after `through`, so the entry has to carry these.
        own = [item for item in self.items[:cut] if compaction.is_from_turn(item, self._turn_start)]
        early = [item for item in kept if isinstance(item, UserItem) and item.seq <= through]
        messages = [item for item in (*own, *early) if isinstance(item, UserItem)]
        entry = transcript.summary_entry(summary, messages)
        seq = await self.runner.lane.compact(self.runner.turn, entry, through=through)
        self.items = [replace(summary, seq=seq), *own, *kept]
        message = "earlier parts of the conversation were summarised"
        self.runner.emit(events.Notice("info", message))
        return True

    async def _notes_on(self, old: list[Item], built: BuiltModel, most: int, focus: str) -> str:
        tokens = int(built.context_window * compaction.REQUEST_SHARE / self._factor)
        text = compaction.request_text(old, max(100, tokens - 250))
        asked = f"{compaction.INSTRUCTIONS}Write at most {most * 2 // 3} words.\n"
        if focus:
            asked += f"The person wants these notes to keep above all: {focus}\n"
        instructions = [library.InstructionPart(content=asked)]
        parameters = ModelRequestParameters(instruction_parts=instructions)
        request = library.ModelRequest(parts=[library.UserPromptPart(text)])
        try:
            answered = await self._respond(
                lambda built, keep: [request], parameters, StreamCallbacks()
            )
        except (OpenClawError, ContextOverflow):
            logger.warning("no model made a summary; the oldest part is cut short instead")
            return compaction.plain_summary(old, most)
        return answered.response.text or compaction.plain_summary(old, most)

    # ---- images

    async def _load_images(self, built: BuiltModel) -> None:
        if not built.accepts_images:
            return
        before = list(self._images.values()).count(compaction.LEFT_OUT)
        self._images = await self.runner.attachments.images(self.items, built.image_bytes)
        left_out = list(self._images.values()).count(compaction.LEFT_OUT)
        if left_out > before:
            message = f"the {left_out} oldest images are no longer shown to the model"
            self.runner.emit(events.Notice("warning", message))

    async def _drop_images(self, reason: str) -> None:
        """Stop sending the images that a provider refused: the new ones or, if there are none, all."""
        sent = [digest for digest, image in self._images.items() if isinstance(image, bytes)]
        fresh = [digest for digest in sent if digest not in self._accepted] or sent
        reason = self.runner.redact(reason)
        entry = transcript.refused_entry(fresh, reason)
        await self.runner.lane.append(self.runner.turn, [entry])
        self.items = transcript.with_refusals(self.items, dict.fromkeys(fresh, reason))
        what = "an image was" if len(fresh) == 1 else f"{len(fresh)} images were"
        note = f"[{what} not shown to the model: {reason}]"
        self._notes.append(note)
        self.runner.emit(events.Notice("warning", note[1:-1]))


@dataclass(frozen=True, slots=True)
class _Shown:
    """Shows pieces of an answer, made harmless if there is a `stream`."""

    stream: "AnswerStream | None"
    show: Callable[[str], None]

    def feed(self, piece: str) -> None:
        shown = piece if self.stream is None else self.stream.feed(piece)
        if shown:
            self.show(shown)

    def finish(self, *, drop: bool = False) -> None:
        if self.stream is not None and (rest := self.stream.finish()) and not drop:
            self.show(rest)


def _final_text(answered: Answered, answer: AssistantItem, *, explain: bool) -> str:
    reason = answered.response.finish_reason
    if reason == "content_filter" and (explain or not answer.text):
        return f"{answer.text}\n\n{f'[{_SHOWN_ON_FILTER}]' if answer.text else _SHOWN_ON_FILTER}".strip()
    if reason == "length" and explain:
        return f"{answer.text}\n\n{_SHOWN_ON_LENGTH}".strip()
    return answer.text
