"""Answers one message, in its session's lane."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from openclaw.agent import transcript
from openclaw.agent.attachments import SessionMedia
from openclaw.agent.budget import Budget, LimitReached
from openclaw.agent.conversation import TurnAnswer
from openclaw.agent.loop import Loop
from openclaw.agent.port import NO_LISTENER, Claim, MessageContext, Reply, TurnListener
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
from openclaw.agent.transcript import AssistantItem, Attachment, Item, UserItem
from openclaw.agent.turn_history import KEY_FIELD, TurnHistory
from openclaw.agent.turn_report import TurnReport
from openclaw.config.merge import EffectiveAgent
from openclaw.content.frame import frame
from openclaw.core import events
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.content import InboundMedia
from openclaw.core.errors import InvalidRequest, OpenClawError, describe
from openclaw.core.outcome import Outcome
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.lanes import Lane
from openclaw.sessions.records import (
    EntryKind,
    LaneLost,
    NewEntry,
    StoreError,
    Turn,
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


class _Turn:
    """A turn in progress."""

    def __init__(
        self,
        service: AgentService,
        setup: TurnSetup,
        context: MessageContext,
        listener: TurnListener,
    ) -> None:
        self.service = service
        self.setup = setup
        self.context = context
        self.listener = listener
        self.budget = Budget(setup.agent.limits)
        observe = service.observe() if service.observe is not None else None
        self.report = TurnReport(
            context,
            setup.agent,
            self.budget,
            service.clock,
            [emit for emit in (listener.on_event, observe) if emit is not None],
            setup.hooks,
        )

    async def reply(self) -> Reply:
        store, claim = self.service.store, self.context.claim
        session = await store.open_session(self.setup.agent.id, self.context.session_key)
        held = claim.lane(store, session) if claim else store.acquire_lane(session)
        try:
            async with held as lane:
                reply = await self._run(lane)
        except (Exception, anyio.get_cancelled_exc_class()) as error:
            if not _continues_elsewhere(claim, error):
                with anyio.CancelScope(shield=True):
                    await self.report.ended(_outcome_of(error), _reason_of(error))
            raise
        if reply.outcome != Outcome.DUPLICATE:
            await self.report.ended(reply.outcome, reply.text)
        return reply

    async def _run(self, lane: Lane) -> Reply:
        service, setup, redactor = self.service, self.setup, self.service.redactor
        # Not earlier: while the message waited for the lane, more secrets may have become known.
        context = self.context = clean_message(self.context, redactor)
        media = SessionMedia(service.store, lane.session, redactor)
        attachments = tuple(map(_attachment, context.media))
        message = await media.save(UserItem(context.text, attachments, typed=context.typed))
        questions = TurnQuestions(
            service.store, lane.session, service.clock, setup.questions_expire_ms
        )
        await questions.load()
        history = TurnHistory(service.store, lane.session, redactor)
        opening = await self._opening(message, history, questions)
        turn = context.idempotency_key
        resumed = False
        try:
            turn = await lane.begin_turn(opening, turn=turn)
        except InvalidRequest as refusal:
            if turn is None:
                raise
            earlier = await history.find_turn(turn)
            if earlier is None:
                raise InvalidRequest(refusal.message, field=KEY_FIELD) from refusal
            resumed = context.claim is not None and earlier.state is TurnState.LOST
            if not resumed:
                return await history.earlier_reply(turn, context.text, questions.waiting_for(turn))
            await self._resume(lane, history, earlier)
        self.report.turn = turn
        self.report.emit(events.TurnStarted(lane.session.key, setup.agent.id, turn))
        if not resumed:
            await self._tell_answers(questions)
        runner = self._runner(turn, lane, media, questions)
        async with self._recorded_end(runner):
            if context.claim is not None and context.claim.refusal is not None:
                raise context.claim.refusal
            new = message if opening[-1].kind is EntryKind.USER_MESSAGE else None
            items = await history.items(new, runner, resumed=resumed)
            await history.index(items, runner.toolbox)
            if len(items) == 1:
                await service.store.set_title(lane.session, _title(context.text))
                await self.report.session_started()
            loop = await self._loop(runner, items)
            return await self._answer(loop, questions)

    def _runner(
        self, turn: str, lane: Lane, media: SessionMedia, questions: TurnQuestions
    ) -> ToolCallRunner:
        ask = self.listener.ask
        return ToolCallRunner(
            turn=turn,
            lane=lane,
            toolbox=self.setup.tools(lane.session.id),
            budget=self.budget,
            clock=self.service.clock,
            emit=self.report.emit,
            redactor=self.service.redactor,
            listener=replace(self.listener, ask=questions.asking(ask and self.budget.pausing(ask))),
            attachments=media,
        )

    async def _opening(
        self, message: UserItem, history: TurnHistory, questions: TurnQuestions
    ) -> list[NewEntry]:
        """The turn's first entries: results of the sender's tools, answers, and the message."""
        context = self.context
        results = await history.client_results(context)
        opening = [transcript.result_entry(item) for item in results]
        opening += [
            transcript.note_entry(answer_note(answered), answer_line(answered))
            for answered in questions.untold
        ]
        if context.origin == CONTINUES and not opening:
            turn = context.idempotency_key
            if turn is None or await history.find_turn(turn) is None:
                raise InvalidRequest("this session has no new answer to continue with")
        if context.text or context.media or not opening:
            opening.append(transcript.user_entry(message, context.origin, context.workspace))
        return opening

    async def _tell_answers(self, questions: TurnQuestions) -> None:
        untold = questions.untold
        await questions.mark_told(untold)
        for answered in untold:
            self.report.emit(events.Notice("info", answer_line(answered)))

    async def _resume(self, lane: Lane, history: TurnHistory, lost: Turn) -> None:
        """Continue a turn whose program died.

        Calls whose outcome is unknown are marked so and never repeated; the results of calls that
        servers run as tasks are fetched.
        """
        unknown = await history.unknown_results(lost)
        entries = [transcript.resumed_entry(_TAKEN_OVER), *map(transcript.result_entry, unknown)]
        await lane.resume_turn(lost.id, entries)
        self.report.emit(events.Notice("warning", _TAKEN_OVER))

    async def _answer(self, loop: Loop, questions: TurnQuestions) -> Reply:
        runner = loop.runner
        budget, lane, turn = runner.budget, runner.lane, runner.turn
        outcome, answer = Outcome.OK, TurnAnswer("")
        closing: list[NewEntry] = []
        try:
            with budget.time_limit() as scope:
                answer = await self._run_command(loop) or await loop.run()
            if scope.cancelled_caught:
                closing = runner.close_open(_OUT_OF_TIME)
                outcome = Outcome.LIMIT
                # A model that has not answered yet will not say what was done either.
                ask = not loop.is_waiting_for_model
                answer = TurnAnswer(await loop.closing(budget.out_of_time(), ask=ask))
        except LimitReached as reached:
            outcome = Outcome.LIMIT
            answer = TurnAnswer(await loop.closing(reached.message, ask=reached.ask))
        text = answer.text
        if outcome == Outcome.LIMIT and self.report.text:
            text = f"{self.report.text}\n\n{text}"
        waiting = await self._store_questions(questions, turn)
        text = "\n\n".join([text, *map(waiting_line, waiting)])
        text = await loop.disarm_answer(self.service.redactor.redact(text))
        reply = Reply(
            text=text,
            session_id=lane.session.id,
            turn_id=turn,
            media=tuple(runner.media),
            usage=budget.usage,
            outcome=outcome,
            finish_reason=answer.finish_reason,
            calls=answer.client_calls,
            questions=tuple(question.id for question in waiting),
        )
        if self.context.claim is not None:
            await self.context.claim.finish(lane, outcome, reply)
        if not reply.calls:
            final = AssistantItem(text, thinking=answer.thinking)
            closing = [*closing, transcript.assistant_entry(final, answer.model)]
        await lane.finish_turn(
            turn,
            Outcome.OK,
            closing,
            usage=budget.usage,
            detail="" if outcome == Outcome.OK else text,
        )
        self.report.emit(events.TurnFinished(lane.session.key, turn, Outcome.OK))
        return reply

    async def _run_command(self, loop: Loop) -> TurnAnswer | None:
        """The answer to a message that is a command; None if it is for the model."""
        command, _, argument = self.context.text.strip().partition(" ")
        argument = argument.strip()
        if not self.context.prompt_calls:
            return None
        if command == _COMPACT:
            return TurnAnswer(await loop.compact(argument))
        mode = _UNDO.get(f"{command} {argument}".strip())
        if mode is None:
            return None
        session = loop.runner.lane.session.key
        return TurnAnswer(await anyio.to_thread.run_sync(self.setup.undo, session, mode))

    async def _store_questions(self, questions: TurnQuestions, turn: str) -> list[WaitingQuestion]:
        """The questions that wait because of this turn; new ones are announced."""
        new = await questions.store_new(turn, self.context.origin)
        if new is not None and self.setup.announce is not None:
            await self.setup.announce(new)
        waiting = [*questions.repeated, *([] if new is None else [new])]
        if waiting and self.listener.on_event is not None:
            lines = "".join(f"\n\n{waiting_line(question)}" for question in waiting)
            self.report.emit(events.TextDelta(lines))
        return waiting

    async def _loop(self, runner: ToolCallRunner, items: list[Item]) -> Loop:
        service, setup, context = self.service, self.setup, self.context
        agent, workspace, toolbox = setup.agent, setup.workspace, runner.toolbox
        models = await service.models(agent, context.model, context.thinking)
        built = await models.primary()
        ref = built.candidate.ref
        self.report.started(ref)
        if context.thinking is not None and not built.thinks:
            self.report.emit(events.Notice("warning", f"{ref} has no adjustable thinking"))
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
        intent_model = toolbox.flow.rules.model if toolbox.flow is not None else None
        return Loop(
            items,
            models,
            preamble,
            runner,
            compact_at=service.compact_at,
            options=context.options,
            ledger=ledger,
            intent_models=(
                None if intent_model is None else partial(service.models, agent, intent_model, None)
            ),
        )

    @asynccontextmanager
    async def _recorded_end(self, runner: ToolCallRunner) -> AsyncGenerator[None]:
        """Record the end of a turn that was stopped or failed."""
        lane, turn, claim = runner.lane, runner.turn, self.context.claim
        try:
            yield
        except BaseException as error:
            if _continues_elsewhere(claim, error):
                raise  # the process that continues it must find it unfinished
            outcome, reason = _outcome_of(error), _reason_of(error)
            partial: list[NewEntry] = []
            said, thinking = self.report.text, runner.redact(self.report.thinking)
            if said.strip() or thinking.strip():
                shown = runner.redact(f"{said}\n\n{_STOPPED_HERE}") if said.strip() else ""
                item = AssistantItem(shown, thinking=thinking)
                partial.append(transcript.assistant_entry(item, ""))
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSING_SECONDS):
                try:
                    if claim is not None:
                        await claim.finish(lane, outcome, error)
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
            self.report.emit(events.TurnFinished(lane.session.key, turn, outcome))
            raise


def _title(text: str) -> str | None:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return (line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…") or None


def _continues_elsewhere(claim: Claim | None, error: BaseException) -> bool:
    return claim is not None and (claim.yielding or isinstance(error, LaneLost | StoreError))


def _outcome_of(error: BaseException) -> Outcome:
    is_cancelled = isinstance(error, anyio.get_cancelled_exc_class())
    return Outcome.CANCELLED if is_cancelled else Outcome.ERROR


def _reason_of(error: BaseException) -> str:
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return "stopped before it was finished"
    return describe(error) if isinstance(error, OpenClawError) else type(error).__name__


def _attachment(inbound: InboundMedia) -> Attachment:
    """An attachment for the conversation; its text is framed, because others may have written it."""
    label = transcript.media_label(inbound.media)
    text = inbound.text
    if text is not None:
        text = frame(text, source="Attachment", sender=inbound.media.name or label)
    noted = f"{label}; {inbound.note}" if inbound.note else label
    return Attachment(inbound.media, noted, text, mime_type=inbound.media.mime_type)
