"""One turn: ask the model, run the tools it calls, until it answers. Imports pydantic-ai."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
from pydantic_ai import messages as library
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import AbstractNativeTool, WebSearchTool
from pydantic_ai.tools import ToolDefinition

from openclaw.agent import compaction, transcript
from openclaw.agent.answer_stream import AnswerDisplay
from openclaw.agent.budget import LimitReached, estimate
from openclaw.agent.context_room import ContextRoom
from openclaw.agent.conversation import Conversation, TokenEstimator, TurnAnswer
from openclaw.agent.image_window import ImageWindow
from openclaw.agent.model_messages import (
    MOST_CALLS,
    answer_from,
    definition,
    definitions,
    messages_from,
    stored_native,
)
from openclaw.agent.model_requests import ModelRequests
from openclaw.agent.port import CallItem
from openclaw.agent.redaction import clean_answer
from openclaw.agent.tool_calls import ToolCallRunner
from openclaw.agent.transcript import AssistantItem, Item, ResultItem, UserItem
from openclaw.core import events
from openclaw.core.content import Text
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.tools import ToolSpec
from openclaw.models.build import TOOL_SEARCH, BuiltModel
from openclaw.models.choose import ModelOptions
from openclaw.models.fallback import (
    Answered,
    ContextOverflow,
    FallbackModels,
    ImageRefused,
    StreamCallbacks,
)
from openclaw.sessions.usage import UsageLedger

logger = logging.getLogger(__name__)


_ATTEMPTS_PER_STEP = 5
_EMPTY_ANSWERS = 1  # a model that says nothing at all is asked once more
_CUT_ANSWERS = 2  # the turn ends after this many answers in a row cut off in a call
CLOSING_SECONDS = 60.0  # for the model to say what was done, once a limit has ended the turn

_CLOSING = (
    "[System notice: {why} No more tools can be called. Tell the user briefly what was done, "
    "what is left to do, and anything they must know before they continue.]"
)

_SHOWN_ON_FILTER = "The provider's content filter stopped the answer."
_SHOWN_ON_LENGTH = "[The answer was cut off at the model's limit on its length.]"
_SHOWN_ON_NOTHING = "The model gave no answer."
_TOO_MANY = (
    "\n\n[System notice: that answer made {count} calls. Only its first {most} were made; make the "
    "others again if they are still needed.]"
)


class Loop:
    """One turn in progress. `items` is the conversation, the person's new message last."""

    def __init__(
        self,
        items: list[Item],
        models: FallbackModels,
        preamble: tuple[str, ...],
        runner: ToolCallRunner,
        *,
        compact_at: float,
        options: ModelOptions | None,
        ledger: UsageLedger,
        intent_models: Callable[[], Awaitable[FallbackModels]] | None = None,
    ) -> None:
        self.runner = runner
        self._models = models
        self._preamble = preamble
        self._options = options
        self._client_tools = {tool.name for tool in options.tools} if options else set[str]()
        self._conversation = Conversation.of(items)
        self._call_ids = self._conversation.call_ids
        self._tokens = TokenEstimator(sum(map(estimate, preamble)))
        self._requests = ModelRequests(models, runner, self._conversation, ledger, intent_models)
        self._room = ContextRoom(
            self._conversation, self._tokens, self._requests, runner, compact_at
        )
        self._images = ImageWindow(self._conversation, runner)
        self._display = AnswerDisplay(runner)
        if runner.toolbox.flow is not None:
            runner.toolbox.flow.read_intent = self._requests.read_intent

    @property
    def is_waiting_for_model(self) -> bool:
        return self._requests.is_waiting

    async def run(self) -> TurnAnswer:
        empty = cut = 0
        while True:
            answered = await self._ask()
            answer = answer_from(answered.response, self._call_ids, self._client_tools)
            answer = replace(answer, maker=answered.built.maker)
            model = answered.built.candidate.ref
            if answer.calls:
                client_calls = await self._run_calls(answer, model)
                if client_calls:
                    return TurnAnswer("", model, client_calls=client_calls)
                cut = cut + 1 if any(call.cut for call in answer.calls) else 0
                if cut == _CUT_ANSWERS:
                    raise LimitReached(
                        "I stopped: twice in a row the model reached the limit on the length of its "
                        "answers in the middle of a tool call (maxTokens of the model)."
                    )
                continue
            text = _final_text(answered, answer, explain=self._options is None)
            if text or empty == _EMPTY_ANSWERS:
                return await self._finish(answered, answer, text)
            empty += 1

    async def _finish(self, answered: Answered, answer: AssistantItem, text: str) -> TurnAnswer:
        if not text and self._options is None:  # a client gets `finish_reason` instead
            text = _SHOWN_ON_NOTHING
        return TurnAnswer(
            "\n\n".join([text, *self._images.notes, *self._report_refused()]),
            answered.built.candidate.ref,
            answered.response.finish_reason or "stop",
            await self.disarm_answer(self.runner.redact(answer.thinking)),
        )

    async def compact(self, focus: str) -> str:
        return await self._room.summarise_all(await self._models.primary(), focus)

    async def closing(self, why: str, *, ask: bool = True) -> str:
        said = None
        if ask:
            self._conversation.items.append(UserItem(_CLOSING.format(why=why)))
            with anyio.move_on_after(CLOSING_SECONDS):
                try:
                    specs = await self._select_tools(await self._models.primary())
                    said = (await self._request(specs, StreamCallbacks(), None)).response.text
                except (OpenClawError, ContextOverflow, ImageRefused, LimitReached):
                    logger.warning("no model could say what the turn had done", exc_info=True)
            self._conversation.items.pop()
        return f"{why}\n\n{said or self._so_far()}"

    async def disarm_answer(self, text: str) -> str:
        return await self.runner.toolbox.disarm_answer(text)

    async def _ask(self) -> Answered:
        """A model's answer, after making room if the conversation has grown too long."""
        for _ in range(_ATTEMPTS_PER_STEP):
            self.runner.budget.before_request()
            built = await self._models.primary()
            specs = await self._select_tools(built)
            self._images.drop_oldest()
            await self._room.make(built)
            await self._images.load(built)
            try:
                answered = await self._request(specs, self._display.start(), self._options)
            except ImageRefused as refused:
                await self._images.refuse(str(refused))
            except ContextOverflow:
                await self._room.shrink_after_overflow(built)
            else:
                self._display.finish()
                return answered
        raise InvalidRequest(
            "the message does not fit into the model's context, even alone",
            hint="send less at once, or use a model with a larger context",
        )

    async def _select_tools(self, built: BuiltModel) -> list[ToolSpec]:
        toolbox = self.runner.toolbox
        specs = await toolbox.shown(
            built.context_window,
            everything=built.reads_every_tool,
            deferring=built.loads_tools,
        )
        # If rules choose a model's tools, they take no room in its context.
        self._tokens.tools = 0 if built.reads_every_tool else toolbox.sizes.total(specs)
        return specs

    async def _request(
        self, specs: list[ToolSpec], callbacks: StreamCallbacks, options: ModelOptions | None
    ) -> Answered:
        toolbox = self.runner.toolbox
        native: list[AbstractNativeTool] = [WebSearchTool()] if toolbox.may_search else []
        native += [TOOL_SEARCH] if toolbox.deferred else []
        parameters = ModelRequestParameters(
            function_tools=[*definitions(specs, toolbox.deferred), *self._client_definitions()],
            instruction_parts=[library.InstructionPart(content=part) for part in self._preamble],
            native_tools=native,
        )
        guess = self._tokens.guess(self._conversation.items)
        answered = await self._requests.respond(self._messages, parameters, callbacks, options)
        self._images.accept()
        self._tokens.learn(guess, answered.response.usage.input_tokens)
        return answered

    def _messages(self, built: BuiltModel, keep_native: bool) -> list[library.ModelMessage]:
        images = self._images.shown_to(built)
        return messages_from(self._conversation.items, images, built.maker if keep_native else None)

    def _client_definitions(self) -> list[ToolDefinition]:
        for name in self._client_tools:
            if self.runner.toolbox.find(name) is not None:
                raise InvalidRequest(f"the agent already has a tool called '{name}'", field="tools")
        tools = self._options.tools if self._options else ()
        return [definition(tool.name, tool.description, tool.schema) for tool in tools]

    async def _run_calls(self, answer: AssistantItem, model: str) -> tuple[CallItem, ...]:
        """Run the calls of an answer, and record them; returns those for the sender to run."""
        clean = clean_answer(answer, self.runner.redact)
        if clean.text.strip():
            await self._say(clean.text)
        shown = replace(
            clean,
            thinking=await self.disarm_answer(clean.thinking),
            native=stored_native(answer.native, self.runner.redactor),
        )
        entry = transcript.assistant_entry(shown, model)
        own = [call for call in answer.calls if call.name not in self._client_tools]
        seq, results = await self.runner.run(entry, own)
        if answer.left_out and results:
            notice = _TOO_MANY.format(count=len(answer.calls) + answer.left_out, most=MOST_CALLS)
            results[-1] = replace(results[-1], text=results[-1].text + notice)
        self._conversation.items += [replace(answer, seq=seq), *results]
        self.runner.toolbox.index_items(results)
        return tuple(call for call in clean.calls if call.name in self._client_tools)

    async def _say(self, text: str) -> None:
        """Show what the model says beside its calls."""
        blocks = (Text(await self.disarm_answer(text), addressed=True),)
        self.runner.emit(events.BlockReply(blocks))
        if self.runner.listener.on_block_reply is not None:
            self.runner.listener.on_block_reply(blocks)

    def _report_refused(self) -> list[str]:
        flow = self.runner.toolbox.flow
        lines = [f"Not done: {refusal}" for refusal in flow.refused] if flow is not None else []
        if lines and self._display.is_watched:
            shown = self.runner.toolbox.disarm_links("".join(f"\n\n{line}" for line in lines))
            self.runner.emit(events.TextDelta(shown))
        return lines

    def _so_far(self) -> str:
        conversation = self._conversation
        own = [item for item in conversation.items if item.seq >= conversation.turn_start]
        calls = Counter(item.name for item in own if isinstance(item, ResultItem))
        used = ", ".join(f"{name} ({count})" for name, count in calls.most_common(12))
        done = compaction.summary_of(conversation.items, "", 1_000)
        lines = [
            f"Tools used: {used}." if used else "No tool had been used yet.",
            f"Files changed: {', '.join(done.files)}." if done.files else "",
            f"The plan:\n{done.plan}" if done.plan else "",
        ]
        return "\n".join(line for line in lines if line)


def _final_text(answered: Answered, answer: AssistantItem, *, explain: bool) -> str:
    reason = answered.response.finish_reason
    if reason == "content_filter" and (explain or not answer.text):
        return f"{answer.text}\n\n{f'[{_SHOWN_ON_FILTER}]' if answer.text else _SHOWN_ON_FILTER}".strip()
    if reason == "length" and explain:
        return f"{answer.text}\n\n{_SHOWN_ON_LENGTH}".strip()
    return answer.text
