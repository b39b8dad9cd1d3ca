"""Answers one message, in its session's lane."""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from openclaw.agent import transcript
from openclaw.agent.attachments import SessionMedia
from openclaw.agent.budget import Budget, LimitReached
from openclaw.agent.loop import Loop
from openclaw.agent.port import NO_LISTENER, CallItem, Claim, MessageContext, Reply, TurnListener
from openclaw.agent.prompt import assemble, read_context_files, surroundings
from openclaw.agent.questions import (
    CONTINUES,
    Announce,
    TurnQuestions,
    answer_line,
    answer_note,
    waiting_line,
)
from openclaw.agent.redaction import clean_message
from openclaw.agent.tool_calls import ToolCallRunner
from openclaw.agent.toolpath.toolbox import Toolbox
from openclaw.agent.transcript import AssistantItem, Attachment, Item, ResultItem, UserItem
from openclaw.config.merge import EffectiveAgent
from openclaw.content.frame import frame
from openclaw.core import events
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.content import InboundMedia
from openclaw.core.errors import InvalidRequest, OpenClawError, describe
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.lanes import Lane
from openclaw.sessions.records import (
    Entry,
    EntryKind,
    LaneLost,
    NewEntry,
    StoreError,
    Turn,
    TurnOutcome,
    TurnState,
    storable,
)
from openclaw.sessions.store import SessionStore
from openclaw.sessions.usage import UsageLedger
from openclaw.sessions.waiting_questions import EXPIRE_MS, WaitingQuestion

if TYPE_CHECKING:
    from openclaw.agent.toolpath.hooks import Hooks
    from openclaw.agent.tools.checkpoints import Mode as UndoMode
    from openclaw.models.fallback import FallbackModels

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 10.0  # for a stopped turn to record that it was stopped
DEFAULT_COMPACT_AT = 0.8
_LARGE = 100_000  # characters; a longer conversation is recalled in a thread

_TITLE_CHARS = 80
_TAKEN_OVER = "The program that ran this turn stopped; another one continues it."
_STOPPED_HERE = "[The answer was stopped here.]"
_OUT_OF_TIME = "Stopped: the turn's time was up. This call may or may not have happened."
# Messages that are commands, with `prompt_calls`:
_COMPACT = "/compact"  # summarises the conversation so far
_UNDO: "Mapping[str, UndoMode]" = {  # restores the files that the last turn changed, and back
    "/undo": "undo",
    "/undo show": "show",
    "/undo anyway": "anyway",
    "/redo": "redo",
}


@dataclass(frozen=True, slots=True)
class TurnSetup:
    agent: EffectiveAgent
    tools: Callable[[str], Toolbox]  # takes the session's id
    workspace: Path | None = None
    timezone: str = "UTC"
    # Takes the session, and whether to undo, to redo, to show what would be undone, or to undo anyway.
    undo: Callable[[str, "UndoMode"], str] = lambda session, mode: "There is nothing to undo."
    notes: Callable[[], Sequence[str]] = lambda: ()
    hooks: "Hooks | None" = None
    questions_expire_ms: int = EXPIRE_MS
    announce: Announce | None = None


@dataclass(slots=True, kw_only=True)
class AgentService:
    """Answers messages. Turns of one session run one at a time, in order; sessions run side by side.

    `models` takes the model and effort that a message names, if any. `server_context` returns
    what an agent's MCP servers, in a scope, say to a model that may use these tools.
    """

    store: SessionStore
    models: Callable[[EffectiveAgent, str | None, str | None], Awaitable["FallbackModels"]]
    server_context: Callable[[str, str, Collection[str]], str]
    redactor: Redactor
    clock: Clock = field(default_factory=SystemClock)
    compact_at: float = DEFAULT_COMPACT_AT
    observe: Callable[[], events.Emit] | None = None

    async def reply(
        self, context: MessageContext, setup: TurnSetup, listener: TurnListener = NO_LISTENER
    ) -> Reply:
        """Answer one message. When this returns, the turn is on disk."""
        if storable(context.text) != context.text:
            raise InvalidRequest(
                "contains characters that cannot be sent to a model", field="message"
            )
        return await _Turn(self, setup, context, listener).reply()


@dataclass(slots=True)
class _Turn:
    """A turn in progress, and the answer so far.

    It logs a line when it starts and one when it ends, without anything that was said.
    """

    service: AgentService
    setup: TurnSetup
    context: MessageContext
    listener: TurnListener
    lane: Lane = field(init=False)
    budget: Budget = field(init=False)
    text: str = ""
    thinking: str = ""
    _id: str = ""
    _began: float = 0.0
    _watchers: list[events.Emit] = field(default_factory=list[events.Emit])
    _tools: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        observe = self.service.observe
        watchers = self.listener.on_event, observe() if observe is not None else None
        self._watchers = [emit for emit in watchers if emit is not None]
        self._began = self.service.clock.monotonic()
        self.budget = Budget(self.setup.agent.limits)

    def emit(self, event: events.Event) -> None:
        match event:
            case events.TextDelta():
                self.text += event.text
            case events.ThinkingDelta():
                self.thinking += event.text
            case events.ToolStarted():
                self._tools[event.name] += 1
            case events.ModelCalled(error=None) | events.STARTS_OVER:
                self.text = self.thinking = ""
            case _:
                pass
        for emit in self._watchers:
            emit(event)

    async def reply(self) -> Reply:
        store, claim = self.service.store, self.context.claim
        session = await store.open_session(self.setup.agent.id, self.context.session_key)
        held = claim.lane(store, session) if claim else store.acquire_lane(session)
        try:
            async with held as self.lane:
                reply = await self.run()
        except (Exception, anyio.get_cancelled_exc_class()) as error:
            if not _continues_elsewhere(claim, error):
                with anyio.CancelScope(shield=True):
                    await self._ended(*_ended_by(error))
            raise
        if reply.outcome != "duplicate":
            await self._ended(reply.outcome, reply.text)
        return reply

    async def _ended(self, outcome: str, text: str) -> None:
        """Log that the turn is over, and run the hooks for it."""
        named = {"ok": "finished", "limit": "reached a limit", "error": "failed"}
        usage = self.budget.usage
        logger.info(
            "turn %s of session %s %s after %.1f s; tools: %s; tokens: %s in, %s out%s%s",
            self._id or "(not started)",
            self.context.session_key,
            named.get(outcome, outcome),
            self.service.clock.monotonic() - self._began,
            transcript.counted(self._tools) or "none",
            f"{usage.input_tokens:,}",
            f"{usage.output_tokens:,}",
            f"; cost: ${usage.cost:.2g}" if usage.cost else "",
            f"; reason: {text}" if outcome == TurnOutcome.ERROR else "",
        )
        if self.setup.hooks is not None:
            await self.setup.hooks.fire(
                "turn_end",
                agent=self.setup.agent.id,
                session=self.context.session_key,
                turn=self._id or None,
                outcome=outcome,
                text=text,
                cost=usage.cost,
            )

    async def run(self) -> Reply:
        lane, setup, redactor = self.lane, self.setup, self.service.redactor
        # Not earlier: while the message waited for the lane, more secrets may have become known.
        context = self.context = clean_message(self.context, redactor)
        media = SessionMedia(self.service.store, lane.session, redactor)
        said = UserItem(context.text, tuple(map(_attachment, context.media)), typed=context.typed)
        message = await media.save(said)
        questions = TurnQuestions(
            self.service.store, lane.session, self.service.clock, setup.questions_expire_ms
        )
        await questions.load()
        opening = await self._opening(message, questions)
        wanted = context.idempotency_key
        resumed = False
        try:
            turn = await lane.begin_turn(opening, turn=wanted)
        except InvalidRequest as refusal:
            if wanted is None:
                raise
            found = await self._find_turn(wanted)
            if found is None:
                raise InvalidRequest(refusal.message, field=_KEY) from refusal
            resumed = context.claim is not None and found.state is TurnState.LOST
            if not resumed:
                return await self._earlier_reply(wanted, questions)
            await self._resume(found)
            turn = wanted
        self._id = turn
        self.emit(events.TurnStarted(lane.session.key, setup.agent.id, turn))
        if not resumed:
            await self._tell_answers(questions)
        budget, ask = self.budget, self.listener.ask
        runner = ToolCallRunner(
            turn=turn,
            lane=lane,
            toolbox=setup.tools(lane.session.id),
            budget=budget,
            clock=self.service.clock,
            emit=self.emit,
            redactor=redactor,
            listener=replace(self.listener, ask=questions.asking(ask and budget.pausing(ask))),
            attachments=media,
        )
        async with self._ending(turn, runner):
            if context.claim is not None and context.claim.refusal is not None:
                raise context.claim.refusal
            new = message if opening[-1].kind is EntryKind.USER_MESSAGE else None
            items = await self._items(new, runner, resumed=resumed)
            await self._recall(items, runner.toolbox)
            if len(items) == 1:
                await self.service.store.set_title(lane.session, _title(context.text))
                if setup.hooks is not None:
                    facts = {"agent": setup.agent.id, "session": lane.session.key}
                    await setup.hooks.fire("session_start", **facts, origin=context.origin)
            loop = await self._loop(runner, items)
            return await self._answer(loop, questions)

    async def _opening(self, message: UserItem, questions: TurnQuestions) -> list[NewEntry]:
        """The turn's first entries: results of the sender's tools, answers, and the message."""
        context = self.context
        opening = [transcript.result_entry(item) for item in await self._client_results()]
        answered = questions.untold
        opening += [transcript.note_entry(answer_note(one), answer_line(one)) for one in answered]
        if context.origin == CONTINUES and not opening:
            wanted = context.idempotency_key
            if wanted is None or await self._find_turn(wanted) is None:
                raise InvalidRequest("this session has no new answer to continue with")
        if context.text or context.media or not opening:
            opening.append(transcript.user_entry(message, context.origin, context.workspace))
        return opening

    async def _tell_answers(self, questions: TurnQuestions) -> None:
        answered = questions.untold
        await questions.mark_told(answered)
        for one in answered:
            self.emit(events.Notice("info", answer_line(one)))

    async def _resume(self, lost: Turn) -> None:
        """Continue a turn whose program died.

        Calls whose outcome is unknown are marked so and never repeated; the results of calls that
        servers run as tasks are fetched.
        """
        fetchable = {call.id for call, _ in transcript.open_tasks(await self._history())}
        calls = [(call.call_id or "", str(call.data.get("name", ""))) for call in lost.open_calls]
        unknown = [
            ResultItem(id, name, transcript.UNKNOWN_OUTCOME, is_error=True)
            for id, name in calls
            if id not in fetchable
        ]
        entries = [transcript.resumed_entry(_TAKEN_OVER), *map(transcript.result_entry, unknown)]
        await self.lane.resume_turn(lost.id, entries)
        self.emit(events.Notice("warning", _TAKEN_OVER))

    async def _answer(self, loop: "Loop", questions: TurnQuestions) -> Reply:
        context, lane, runner = self.context, self.lane, loop.runner
        budget, turn = runner.budget, runner.turn
        outcome, text, model, finish_reason = "ok", "", "", "stop"
        calls: tuple[CallItem, ...] = ()
        closing: list[NewEntry] = []
        command, _, rest = context.text.strip().partition(" ")
        try:
            with budget.time_limit() as scope:
                mode = _UNDO.get(f"{command} {rest.strip()}".strip())
                if context.prompt_calls and mode is not None:
                    text = await anyio.to_thread.run_sync(self.setup.undo, lane.session.key, mode)
                elif context.prompt_calls and command == _COMPACT:
                    text = await loop.compact(rest.strip())
                else:
                    text, model = await loop.run()
                    finish_reason, calls = loop.finish_reason, loop.client_calls
            if scope.cancelled_caught:
                closing = runner.close_open(_OUT_OF_TIME)
                # A model that has not answered yet will not say what was done either.
                outcome = "limit"
                text = await loop.closing(budget.out_of_time(), ask=not loop.asking)
        except LimitReached as reached:
            outcome, text = "limit", await loop.closing(reached.message, ask=reached.ask)
        if outcome == "limit" and self.text:
            text = f"{self.text}\n\n{text}"
        waiting = await self._store_questions(questions, turn)
        text = "\n\n".join([text, *map(waiting_line, waiting)])
        text = await loop.disarm_answer(self.service.redactor.redact(text))
        final = transcript.assistant_entry(AssistantItem(text, thinking=loop.thinking), model)
        reply = Reply(
            text=text,
            session_id=lane.session.id,
            turn_id=turn,
            media=tuple(runner.media),
            usage=budget.usage,
            outcome=outcome,
            finish_reason=finish_reason,
            calls=calls,
            questions=tuple(one.id for one in waiting),
        )
        if context.claim is not None:
            await context.claim.finish(lane, outcome, reply)
        await lane.finish_turn(
            turn,
            TurnOutcome.OK,
            closing if calls else [*closing, final],
            usage=budget.usage,
            detail="" if outcome == "ok" else text,
        )
        self.emit(events.TurnFinished(lane.session.key, turn, "ok"))
        return reply

    async def _store_questions(self, questions: TurnQuestions, turn: str) -> list[WaitingQuestion]:
        """The questions that wait because of this turn; new ones are announced."""
        new = await questions.store_new(turn, self.context.origin)
        if new is not None and self.setup.announce is not None:
            await self.setup.announce(new)
        waiting = [*questions.repeated, *([] if new is None else [new])]
        if waiting and self.listener.on_event is not None:
            lines = "".join(f"\n\n{waiting_line(one)}" for one in waiting)
            self.emit(events.TextDelta(lines))
        return waiting

    async def _loop(self, runner: ToolCallRunner, items: list[Item]) -> Loop:
        service, setup, context = self.service, self.setup, self.context
        agent, workspace, toolbox = setup.agent, setup.workspace, runner.toolbox
        models = await service.models(agent, context.model, context.thinking)
        built = await models.primary()
        ref = built.candidate.ref
        about = self._id, agent.id, context.session_key, context.origin, ref
        logger.info("turn %s started: agent %s, session %s, from %s, model %s", *about)
        if context.thinking is not None and not built.thinks:
            self.emit(events.Notice("warning", f"{ref} has no adjustable thinking"))
        usable = {spec.name for spec in toolbox.specs()}
        files: list[tuple[str, str]] = []
        if workspace is not None and agent.context_files:
            files = await anyio.to_thread.run_sync(
                read_context_files, workspace, agent.context_files
            )
        if toolbox.flow is not None:
            toolbox.flow.trust(files)
        around = surroundings(
            service.clock.now_ms(),
            setup.timezone,
            can_ask=self.listener.ask is not None and self.listener.attended,
            searches=events.WEB_SEARCH in usable or (built.native_search and toolbox.may_search),
        )
        preamble = assemble(
            agent,
            workspace=workspace,
            around=around,
            notes=await anyio.to_thread.run_sync(setup.notes),
            resources=service.server_context(agent.id, context.server_scope, usable),
            files=files,
            window=built.context_window,
        )
        ledger = UsageLedger(service.store, service.clock, setup.timezone)
        loop = Loop(items, models, preamble, runner, service.compact_at, context.options, ledger)
        if toolbox.flow is not None and (reader := toolbox.flow.rules.model) is not None:
            loop.intent_models = lambda: service.models(agent, reader, None)
        return loop

    async def _items(
        self, message: UserItem | None, runner: ToolCallRunner, *, resumed: bool
    ) -> list[Item]:
        """The conversation, with the new message's attachments as they arrived.

        That message is the last one, except in a resumed turn, where steps may follow it or a summary
        may have replaced it.
        """
        entries = await self._history()
        tasks = transcript.open_tasks(entries)
        if tasks and await runner.fetch(tasks, wait=resumed):
            entries = await self._history()
        items = transcript.items_from(entries)
        if message is None:
            return items
        messages = [at for at, item in enumerate(items) if isinstance(item, UserItem)]
        at = messages[-1] if messages else None
        if at is not None and (not resumed or items[at].text == message.text):
            items[at] = replace(message, seq=items[at].seq)
        assert resumed or at == len(items) - 1
        return items

    async def _find_turn(self, turn: str) -> Turn | None:
        return await self.service.store.find_turn(self.lane.session, turn)

    async def _history(self, *, since_compaction: bool = True) -> Sequence[Entry]:
        session = self.lane.session
        return await self.service.store.history(session, since_compaction=since_compaction)

    async def _recall(self, items: list[Item], toolbox: Toolbox) -> None:
        if items and isinstance(items[0], transcript.SummaryItem):  # what it replaced counts, too
            items = transcript.items_from(await self._history(since_compaction=False))
        if sum(len(item.text) for item in items) > _LARGE:
            await anyio.to_thread.run_sync(toolbox.index_items, items)
        else:
            toolbox.index_items(items)

    async def _client_results(self) -> list[ResultItem]:
        """The results of the sender's own tools: one for each waiting call."""
        wanted, results = self.context.idempotency_key, self.context.results
        if not results or (wanted is not None and await self._find_turn(wanted) is not None):
            return []  # none, or already in the transcript
        calls = transcript.waiting_calls(await self._history())
        texts = {result.call_id: result.text for result in results}
        if texts.keys() - calls.keys():
            raise InvalidRequest("no call is waiting for this result", field="tool_call_id")
        if calls.keys() - texts.keys():
            raise InvalidRequest("the result of a call is missing", field="tool_call_id")
        redact = self.service.redactor.redact
        clean = {call: redact(storable(text)) for call, text in texts.items()}
        return [
            ResultItem(id, call.name, frame(clean[id], source="Client tool", sender=call.name))
            for id, call in calls.items()
        ]

    async def _earlier_reply(self, turn: str, questions: TurnQuestions) -> Reply:
        history = await self._history(since_compaction=False)
        entries = [entry for entry in history if entry.turn == turn]
        asked = next((e for e in entries if e.kind is EntryKind.USER_MESSAGE), None)
        if asked is not None and asked.data.get("text") != self.context.text:
            raise InvalidRequest(
                "another message was sent with this key",
                field=_KEY,
                hint="use a different key for each message",
            )
        ending = next((e for e in reversed(entries) if e.kind in _BAD_ENDINGS), None)
        if ending is not None:
            detail = str(ending.data.get("detail", ""))
            raise InvalidRequest(
                f"the order with this key {_BAD_ENDINGS[ending.kind]}{detail and f' ({detail})'}",
                field=_KEY,
                hint="see what it did, then send it with another key",
            )
        said = [e.text for e in entries if e.kind is EntryKind.ASSISTANT_MESSAGE]
        answer = said[-1] if said else ""
        waiting = tuple(
            one.id for one in questions.stored if one.place.turn == turn and not one.told
        )
        return Reply(answer, self.lane.session.id, turn, outcome="duplicate", questions=waiting)

    @asynccontextmanager
    async def _ending(self, turn: str, runner: ToolCallRunner) -> AsyncGenerator[None]:
        """Record the end of a turn that was stopped or failed."""
        lane, claim = self.lane, self.context.claim
        try:
            yield
        except BaseException as error:
            if _continues_elsewhere(claim, error):
                raise  # the process that continues it must find it unfinished
            outcome, reason = _ended_by(error)
            partial: list[NewEntry] = []
            said, thinking = self.text, runner.redact(self.thinking)
            if said.strip() or thinking.strip():
                shown = runner.redact(f"{said}\n\n{_STOPPED_HERE}") if said.strip() else ""
                item = AssistantItem(shown, thinking=thinking)
                partial.append(transcript.assistant_entry(item, ""))
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSING_SECONDS):
                try:
                    if claim is not None:
                        await claim.finish(lane, str(outcome), error)
                    await lane.finish_turn(
                        turn,
                        outcome,
                        [*runner.close_open(transcript.CANCELLED_CALL), *partial],
                        usage=runner.budget.usage,
                        detail=runner.redact(reason),
                    )
                except LaneLost as lost:
                    logger.info("a turn that is no longer ours ended: %s", lost.message)
                except OpenClawError:
                    logger.warning("the end of a turn could not be written", exc_info=True)
            self.emit(events.TurnFinished(lane.session.key, turn, str(outcome)))
            raise


_KEY = "idempotencyKey"
_BAD_ENDINGS = {
    EntryKind.TURN_CANCELLED: "was stopped before it was finished",
    EntryKind.TURN_ERROR: "failed",
    EntryKind.TURN_LOST: "did not finish: the program stopped while it ran",
}


def _title(text: str) -> str | None:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return (line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…") or None


def _continues_elsewhere(claim: Claim | None, error: BaseException) -> bool:
    return claim is not None and (claim.yielding or isinstance(error, LaneLost | StoreError))


def _ended_by(error: BaseException) -> tuple[TurnOutcome, str]:
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return TurnOutcome.CANCELLED, "stopped before it was finished"
    reason = describe(error) if isinstance(error, OpenClawError) else type(error).__name__
    return TurnOutcome.ERROR, reason


def _attachment(inbound: InboundMedia) -> Attachment:
    """An attachment for the conversation; its text is framed, because others may have written it."""
    label = transcript.media_label(inbound.media)
    text = inbound.text
    if text is not None:
        text = frame(text, source="Attachment", sender=inbound.media.name or label)
    noted = f"{label}; {inbound.note}" if inbound.note else label
    return Attachment(inbound.media, noted, text, mime_type=inbound.media.mime_type)
