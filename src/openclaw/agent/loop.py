"""The steps of one turn: ask the model, run the tools it calls, until it answers. Imports the library."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.to_thread
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from openclaw.agent import compaction
from openclaw.agent.budget import Budget
from openclaw.agent.dispatch import Dispatcher
from openclaw.agent.messages import MAX_IMAGE_BYTES, answer_from, definitions, messages_from
from openclaw.agent.port import ClientCall, OnBlockReply
from openclaw.agent.prompt import Preamble
from openclaw.agent.redaction import clean_answer
from openclaw.agent.transcript import (
    AssistantItem,
    Attachment,
    Item,
    ResultItem,
    SummaryItem,
    UserItem,
    assistant_entry,
)
from openclaw.core.content import Text
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.events import (
    BlockReply,
    Emit,
    ModelCalled,
    Notice,
    TextDelta,
    ThinkingDelta,
)
from openclaw.core.tools import ToolSpec
from openclaw.models.build import Built
from openclaw.models.options import ModelOptions
from openclaw.models.stack import Answered, ContextOverflow, ModelStack, Watcher
from openclaw.sessions.model import EntryKind, NewEntry
from openclaw.sessions.store import Lane

logger = logging.getLogger(__name__)

MOST_IMAGES = 8
"""The newest images go to the model; older ones are named only."""

TOOLS_SHARE = 0.35
"""Of the context, what definitions of tools may take; the rest are found by searching."""

Messages = Callable[[Built], list[ModelMessage]]

_COMPACTIONS_PER_STEP = 3
_EMPTY_ANSWERS = 1
"""A model that says nothing at all is asked once more."""

_SHOWN_ON_FILTER = "The provider's content filter stopped the answer."
_SHOWN_ON_LENGTH = "[The answer was cut off at the model's limit on its length.]"


@dataclass(slots=True)
class Loop:
    """One turn in progress. `items` is the conversation, the person's new message last."""

    items: list[Item]
    turn: str
    lane: Lane
    stack: ModelStack
    preamble: Preamble
    dispatcher: Dispatcher
    budget: Budget
    compact_at: float
    emit: Emit
    streaming: bool
    on_block_reply: OnBlockReply | None = None
    options: ModelOptions | None = None
    finish_reason: str = "stop"
    """Why the last answer ended, in the library's word."""
    client_calls: tuple[ClientCall, ...] = ()
    """With these, for the sender to run, the turn ended."""
    _factor: float = 1.0
    _fixed: int = 0
    _images: dict[Path, bytes] = field(default_factory=dict[Path, bytes])
    _taken: set[str] = field(default_factory=set[str])

    async def run(self) -> tuple[str, str]:
        """The answer and the model that gave it."""
        self._taken = {
            call.id for item in self.items if isinstance(item, AssistantItem) for call in item.calls
        }
        for item in self.items:
            if isinstance(item, ResultItem):
                self.dispatcher.toolbox.use(item.name)
        empty = 0
        while True:
            answered = await self._ask()
            answer = answer_from(answered.response, self._taken)
            model = answered.built.candidate.ref
            if answer.calls:
                await self._step(answer, model)
                if self.client_calls:
                    return "", model
                continue
            self.finish_reason = answered.response.finish_reason or "stop"
            text = _final_text(answered, answer, say_length=self.options is None)
            if text or empty == _EMPTY_ANSWERS:
                return text, model
            empty += 1

    @property
    def _client_tools(self) -> set[str]:
        return {tool.name for tool in self.options.tools} if self.options else set()

    async def _step(self, answer: AssistantItem, model: str) -> None:
        """Run the calls of an answer that is not the last."""
        kept = clean_answer(answer, self.dispatcher.redact)
        if kept.text.strip():
            blocks = (Text(kept.text, addressed=True),)
            self.emit(BlockReply(blocks))
            if self.on_block_reply is not None:
                self.on_block_reply(blocks)
        entry = assistant_entry(kept, model)
        own = [call for call in answer.calls if call.name not in self._client_tools]
        self.client_calls = tuple(
            ClientCall(call.id, call.name, call.arguments)
            for call in kept.calls
            if call.name in self._client_tools
        )
        seq, results = await self.dispatcher.run(entry, own)
        self.items.append(replace(answer, seq=seq))
        self.items.extend(results)

    async def _ask(self) -> Answered:
        """One answer of a model, with room made for it where the conversation has grown too long."""
        for attempt in range(_COMPACTIONS_PER_STEP + 1):
            self.budget.before_request()
            built = await self.stack.primary()
            self.dispatcher.toolbox.refresh()
            specs = self.dispatcher.toolbox.shown(
                int(built.context_window * TOOLS_SHARE), everything=built.reads_every_tool
            )
            # A model whose rules look through the tools has them beside its context, not in it.
            tools = 0 if built.reads_every_tool else self.dispatcher.toolbox.sizes.total(specs)
            self._fixed = self.preamble.tokens + tools
            await self._make_room(built)
            if built.accepts_images:
                await self._load_images()
            try:
                return await self._request(specs)
            except ContextOverflow:
                if attempt == _COMPACTIONS_PER_STEP:
                    break
                # The context is smaller than was thought, so that only what is there is a measure.
                room = compaction.total_tokens(self.items) // 2 ** (attempt + 1)
                await self._shrink(built, room)
        raise InvalidRequest(
            "the message does not fit into the model's context, even alone",
            hint="send less at once, or use a model with a larger context",
        )

    async def _request(self, specs: list[ToolSpec]) -> Answered:
        parameters = ModelRequestParameters(
            function_tools=[*definitions(specs), *self._client_definitions()],
            instruction_parts=[InstructionPart(content=part) for part in self.preamble.parts],
        )
        guess = self._guess()
        answered = await self._respond(self._messages, parameters, self._watcher(), self.options)
        usage = answered.response.usage
        self._count(usage)
        if usage.input_tokens and guess:
            # What the provider counted corrects the next guess, within reason.
            self._factor = min(3.0, max(0.9, usage.input_tokens / guess))
        return answered

    def _client_definitions(self) -> list[ToolDefinition]:
        for name in self._client_tools:
            if self.dispatcher.toolbox.find(name) is not None:
                raise InvalidRequest(f"the agent has a tool '{name}' of its own", field="tools")
        tools = self.options.tools if self.options else ()
        return [
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=dict(tool.schema),
                strict=False,
            )
            for tool in tools
        ]

    async def _respond(
        self,
        messages: Messages,
        parameters: ModelRequestParameters,
        watcher: Watcher,
        options: ModelOptions | None = None,
    ) -> Answered:
        """The stack's answer; that a model was called is told, whatever came of it."""
        clock = self.dispatcher.clock
        started = clock.monotonic()
        try:
            answered = await self.stack.respond(messages, parameters, watcher, options)
        except (OpenClawError, ContextOverflow) as error:
            asked = self.stack.choice.candidates[0].ref
            elapsed = (clock.monotonic() - started) * 1000
            self.emit(ModelCalled(asked, elapsed, error=type(error).__name__))
            raise
        response = answered.response
        self.emit(
            ModelCalled(
                answered.built.candidate.ref,
                (clock.monotonic() - started) * 1000,
                response.usage.input_tokens,
                response.usage.output_tokens,
                response.finish_reason,
                response.model_name,
            )
        )
        return answered

    def _count(self, usage: RequestUsage) -> None:
        self.budget.requests += 1
        self.budget.input_tokens += usage.input_tokens
        self.budget.output_tokens += usage.output_tokens
        self.budget.cache_read_tokens += usage.cache_read_tokens
        self.budget.reasoning_tokens += usage.output_reasoning_tokens
        self.budget.cache_write_tokens += usage.cache_write_tokens

    def _messages(self, built: Built) -> list[ModelMessage]:
        images = built.accepts_images
        return messages_from(self.items, images=images, read_bytes=self._images.get)

    def _watcher(self) -> Watcher:
        def notice(message: str) -> None:
            self.emit(Notice("warning", self.dispatcher.redact(message)))

        if not self.streaming:
            return Watcher(notice=notice)
        return Watcher(
            text=lambda piece: self.emit(TextDelta(piece)),
            thinking=lambda piece: self.emit(ThinkingDelta(piece)),
            notice=notice,
        )

    # ---- room

    def _guess(self) -> int:
        return self._fixed + compaction.total_tokens(self.items)

    async def _make_room(self, built: Built) -> None:
        window = built.context_window
        if self._guess() * self._factor <= window * self.compact_at:
            return
        # Where preamble and tools fill the context by themselves, the message still has its place.
        room = max(window * compaction.KEEP_SHARE - self._fixed, window * compaction.LEAST_SHARE)
        await self._shrink(built, int(room / self._factor))

    async def _shrink(self, built: Built, room: int) -> None:
        """Summarise the oldest part, then cut long results where what is left is still too much."""
        cut = compaction.cut_index(self.items, room)
        old = self.items[:cut]
        if old and not (len(old) == 1 and isinstance(old[0], SummaryItem)):
            summary = await self._summary(old, built)
            await self._keep_summary(summary, cut)
        self.items = compaction.trimmed(self.items, room)

    async def _keep_summary(self, summary: str, cut: int) -> None:
        kept = self.items[cut:]
        last = next((at for at in range(cut - 1, -1, -1) if _is_user(self.items[at])), None)
        if last is not None and not any(map(_is_user, kept)):
            order = self.items[last].text
            summary = (
                f"{summary}\n\nThe person's message that is being worked on, verbatim:\n{order}"
            )
        summary = self.dispatcher.redact(summary)
        through = kept[0].seq - 1
        entry = NewEntry(EntryKind.COMPACTION, {"summary": summary}, summary)
        seq = await self.lane.compact(self.turn, entry, through=through)
        self.items = [SummaryItem(summary, seq), *kept]
        self.emit(Notice("info", "earlier parts of the conversation were summarised"))

    async def _summary(self, old: list[Item], built: Built) -> str:
        tokens = int(built.context_window * compaction.SUMMARY_SHARE / self._factor)
        text = compaction.request_text(old, max(100, tokens - 250))
        parameters = ModelRequestParameters(
            instruction_parts=[InstructionPart(content=compaction.INSTRUCTIONS)]
        )
        try:
            answered = await self._respond(
                lambda _: [ModelRequest(parts=[UserPromptPart(text)])], parameters, Watcher()
            )
        except (OpenClawError, ContextOverflow):
            logger.warning("no model made a summary; the oldest part is cut short instead")
            return compaction.plain_summary(old, tokens // 2)
        self._count(answered.response.usage)
        summary = answered.response.text or compaction.plain_summary(old, tokens // 2)
        return compaction.cut_to(summary, max(60, tokens // 2))

    # ---- images

    async def _load_images(self) -> None:
        wanted = [path for path in self._image_paths() if path not in self._images]
        if wanted:
            self._images.update(await anyio.to_thread.run_sync(_read_all, wanted))

    def _image_paths(self) -> list[Path]:
        attachments: list[Attachment] = []
        for item in self.items:
            if isinstance(item, UserItem | ResultItem):
                attachments.extend(item.attachments)
        media = [one.media for one in attachments if one.media and one.media.kind == "image"]
        return [one.path for one in media[-MOST_IMAGES:] if one.path is not None]


def _is_user(item: Item) -> bool:
    return isinstance(item, UserItem)


def _read_all(paths: list[Path]) -> dict[Path, bytes]:
    found: dict[Path, bytes] = {}
    for path in paths:
        try:
            if path.stat().st_size <= MAX_IMAGE_BYTES:
                found[path] = path.read_bytes()
        except OSError:
            logger.info("an image is gone", extra={"path": str(path)})
    return found


def _final_text(answered: Answered, answer: AssistantItem, *, say_length: bool) -> str:
    reason = answered.response.finish_reason
    if reason == "content_filter" and not answer.text:
        return _SHOWN_ON_FILTER
    if reason == "length" and say_length:
        return f"{answer.text}\n\n{_SHOWN_ON_LENGTH}".strip()
    return answer.text
