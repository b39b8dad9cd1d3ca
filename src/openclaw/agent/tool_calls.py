"""Runs the tool calls of one step in parallel; their results come back in order."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, pairwise
from typing import Any, cast

import anyio

from openclaw.agent import transcript
from openclaw.agent.attachments import SessionMedia
from openclaw.agent.budget import Budget, cut_to
from openclaw.agent.event_codec import record_json
from openclaw.agent.port import TurnListener
from openclaw.agent.redaction import clean_json, clean_result
from openclaw.agent.toolpath.toolbox import Toolbox
from openclaw.agent.transcript import CallItem, ResultItem
from openclaw.content.labels import single_line
from openclaw.core import tools
from openclaw.core.clock import Clock
from openclaw.core.content import Media, Text
from openclaw.core.errors import ToolFailure, cause_of
from openclaw.core.events import (
    Emit,
    Event,
    ToolApproval,
    ToolFinished,
    ToolProgress,
    ToolQuestion,
    ToolStarted,
)
from openclaw.core.questions import Answer, Ask, Question, elicit_with
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSpec
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.lanes import Lane
from openclaw.sessions.records import NewEntry

_NAME_CHARS = 64

_TYPES: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,), "string": (str,), "integer": (int,), "number": (int, float),
    "array": (list,), "object": (dict,), "null": (type(None),),
}  # fmt: skip


def read_arguments(spec: ToolSpec, raw: str) -> dict[str, Any]:
    """The arguments as an object; raises `ToolFailure` that tells the model how to fix them."""
    arguments = _parse(spec.name, raw)
    # The names come from a server, and our own messages are not framed.
    complaints = [
        f"'{single_line(name, _NAME_CHARS)}' is required"
        for name in tools.json_list(spec.input_schema.get("required"))
        if isinstance(name, str) and name not in arguments
    ]
    if spec.origin.server is None:
        # A server checks types itself, and may well take "5" for 5; our own tools rely on them.
        complaints += _wrong_types(spec.input_schema, arguments)
    if complaints:
        raise ToolFailure(
            f"The call to {spec.name} was not made: {'; '.join(complaints)}. "
            "Call it again with arguments that fit its schema."
        )
    return arguments


def _parse(name: str, raw: str) -> dict[str, Any]:
    try:
        parsed: Any = json.loads(raw) if raw.strip() else {}
        problem = f"must be a JSON object, not {_kind(parsed)}"
    except (ValueError, RecursionError) as error:
        parsed, problem = None, f"are not valid JSON ({error})"
    if not isinstance(parsed, dict):
        raise ToolFailure(
            f"The call to {name} was not made: its arguments {problem}. "
            "Call it again with a JSON object."
        )
    return cast("dict[str, Any]", parsed)


def _wrong_types(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    known = tools.json_object(schema.get("properties"))
    complaints: list[str] = []
    for name, value in arguments.items():
        if name not in known:
            complaints.append(f"there is no argument '{name}'")
            continue
        declared = tools.json_object(known[name]).get("type")
        listed = tools.json_list(declared) or [declared]
        expected = [kind for kind in listed if isinstance(kind, str) and kind in _TYPES]
        if expected and not any(_fits(value, kind) for kind in expected):
            complaints.append(f"'{name}' must be {' or '.join(expected)}, not {_kind(value)}")
    return complaints


def _kind(value: Any) -> str:
    return next((kind for kind in _TYPES if _fits(value, kind)), "something else")


def _fits(value: Any, kind: str) -> bool:
    if isinstance(value, bool):  # to Python, a bool is a number
        return kind == "boolean"
    whole = kind == "integer" and isinstance(value, float) and value.is_integer()
    return whole or isinstance(value, _TYPES[kind])


MOST_AT_ONCE = 16  # a model that makes a hundred calls must not get a hundred processes

_CUT_CALL = (
    "The call to {name} was not made: your answer reached the limit on its length before its arguments "
    "were complete. Write less at once: make several smaller calls."
)
_TOO_MANY_CALLS = "This call was not made: the turn's limit on tool calls is reached."
_SCRIPT_RESULT_TOKENS = 1_000  # of a script's call, for the record: no model reads the result


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call ready for the tool path, which says that no such tool exists if `spec` is None."""

    call: CallItem
    spec: ToolSpec | None
    arguments: dict[str, Any]


Prepared = PreparedCall | ToolResult


@dataclass(slots=True)
class ToolCallRunner:
    turn: str
    lane: Lane
    toolbox: Toolbox
    budget: Budget
    clock: Clock
    emit: Emit
    redactor: Redactor
    listener: TurnListener
    attachments: SessionMedia
    media: list[Media] = field(default_factory=list[Media])
    _open: dict[str, CallItem] = field(default_factory=dict[str, CallItem])
    _sent: set[str] = field(default_factory=set[str])
    _facts: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def redact(self, text: str) -> str:
        return self.redactor.redact(text)

    def prepare(self, call: CallItem) -> Prepared:
        spec = self.toolbox.find(call.name)
        if spec is None:
            return PreparedCall(call, None, {})
        try:
            if call.cut:
                raise ToolFailure(_CUT_CALL.format(name=call.name))
            arguments = read_arguments(spec, call.arguments)
            if self.budget.take_call():
                return PreparedCall(call, spec, arguments)
            problem = _TOO_MANY_CALLS
        except ToolFailure as error:
            problem = error.message
        return clean_result(tools.failed(problem), self.redactor)

    async def run(
        self, answer: NewEntry, calls: Sequence[CallItem]
    ) -> tuple[int, list[ResultItem]]:
        """Record the answer, run its calls, and return its number and their results in order.

        Each result is recorded as soon as it arrives, so that a crash loses none.
        """
        prepared = [self.prepare(call) for call in calls]
        done: dict[int, tuple[ResultItem, ToolResult]] = {}
        at_once = anyio.Semaphore(MOST_AT_ONCE)

        ended = [anyio.Event() for _ in calls]
        in_order = [at for at, call in enumerate(prepared) if _runs_in_order(call)]
        predecessors = dict(pairwise(reversed(in_order)))

        async def run_call(at: int) -> None:
            if at in predecessors:
                await ended[predecessors[at]].wait()
            async with at_once:
                call = prepared[at]
                is_ready = isinstance(call, PreparedCall)
                result = await self._call(call, within="") if is_ready else call
                done[at] = await self.record(calls[at], result), result
            ended[at].set()

        # A call is recorded when it is made, which may be after a person has agreed to it.
        (number,) = await self.lane.append(self.turn, [answer])
        self._open = {call.id: call for call in calls}
        self._sent.clear()
        try:
            if len(calls) == 1:
                await run_call(0)
            else:
                async with anyio.create_task_group() as tasks:
                    for at, call in enumerate(calls):
                        tasks.start_soon(run_call, at, name=f"tool {call.name}")
        except BaseExceptionGroup as group:  # the store's error, as if there were only one call
            raise cause_of(group) from None
        finally:  # what a stopped turn's tools handed over belongs to its answer, too
            results = [done[at] for at in sorted(done)]
            for item, result in results:
                self.deliver(item.name, result)
        return number, [item for item, _ in results]

    def close_open(self, text: str) -> list[NewEntry]:
        """Results for calls that a stopped turn leaves without one; `text` if the call was sent."""
        missing, self._open = self._open.values(), {}
        texts = [text if call.id in self._sent else transcript.NOT_MADE for call in missing]
        return [
            transcript.result_entry(ResultItem(call.id, call.name, why, is_error=True))
            for call, why in zip(missing, texts, strict=True)
        ]

    async def fetch(self, tasks: Sequence[tuple[CallItem, JsonObject]], *, wait: bool) -> bool:
        """Fetch the results of calls that an earlier program made; False if there were none."""
        offered = {spec.name for spec in self.toolbox.specs()}
        found = False
        for call, handle in tasks:
            if call.name not in offered:
                continue
            context = self._context(call)._replace(earlier=tools.EarlierCall(handle, wait))
            result = await self.toolbox.call(call.name, json.loads(call.arguments), context)
            if not result.details.get(tools.PENDING):
                await self.record(call, result)
                self.deliver(call.name, result)
                found = True
        return found

    async def record(self, call: CallItem, result: ToolResult) -> ResultItem:
        item = await self.attachments.save(transcript.result_item(call, result))
        facts = {**self._facts.pop(call.id, {}), **_handed(result, item)}
        entry = transcript.result_entry(item, result.details, facts)
        (seq,) = await self.lane.append(self.turn, [entry])
        self._open.pop(call.id, None)
        return replace(item, seq=seq)

    async def _call(self, ready: PreparedCall, within: str) -> ToolResult:
        name = ready.call.name
        numbers = count(1)

        async def call(name: str, arguments: JsonObject) -> ToolResult:
            return await self._call_within(ready.call, next(numbers), name, arguments)

        context = self._context(ready.call)._replace(
            begin=partial(self._begin, ready, within),
            call=None if within else call,
            within=within,
            on_task=None if within else partial(self._on_task, ready.call),
        )
        result = await self.toolbox.call(name, ready.arguments, context)
        # If the tool does not exist, only the model wrote its name, which is not redacted yet.
        return result if ready.spec is not None else clean_result(result, self.redactor)

    def _note_event(self, call_id: str, event: Event) -> None:
        """Remember what was shown of a call, for its record."""
        if isinstance(event, ToolStarted) and event.diff:
            self._facts.setdefault(call_id, {})["diff"] = event.diff
        elif isinstance(event, ToolFinished):
            self._facts.setdefault(call_id, {})["durationMs"] = round(event.duration_ms)
        elif isinstance(event, ToolApproval):
            shown = {k: v for k, v in record_json(event).items() if k not in ("callId", "name")}
            self._facts.setdefault(call_id, {})["approval"] = shown
        self.emit(event)

    async def _fill_in(self, call_id: str, ask: Ask, question: Question) -> Answer:
        """Put a server's form to the user, and remember both for the record."""
        answer, form = await ask(question), question.form
        assert form is not None
        asked = call_id, form.server, form.message
        event = ToolQuestion(*asked, answer.choice, form.url, answer.content)
        shown = clean_json(record_json(event), self.redact)
        facts = self._facts.setdefault(call_id, {}).setdefault("questions", [])
        facts.append({name: value for name, value in shown.items() if name != "callId"})
        self.emit(event)
        return answer

    def _context(self, call: CallItem) -> CallContext:
        ask = self.listener.ask

        def progress(message: str) -> None:
            self.emit(ToolProgress(call.id, call.name, message))

        return CallContext(
            agent=self.lane.session.agent,
            session=self.lane.session.key,
            call_id=call.id,
            progress=progress,
            elicit=elicit_with(partial(self._fill_in, call.id, ask)) if ask else None,
            ask=ask,
            emit=partial(self._note_event, call.id),
            turn=self.turn,
        )

    async def _on_task(self, call: CallItem, handle: JsonObject) -> None:
        await self.lane.append(self.turn, [transcript.task_entry(call, handle)])

    def deliver(self, name: str, result: ToolResult) -> None:
        self.media.extend(block for block in result.outputs if isinstance(block, Media))
        if self.listener.on_tool_result is None:
            return
        outputs = (  # what is addressed to the person becomes part of the answer
            replace(block, text=self.toolbox.disarm_links(block.text))
            if isinstance(block, Text) and block.addressed
            else block
            for block in result.outputs
        )
        self.listener.on_tool_result(name, replace(result, outputs=tuple(outputs)))

    async def _call_within(
        self, script: CallItem, number: int, name: str, arguments: JsonObject
    ) -> ToolResult:
        call = CallItem(f"{script.id}.{number}", name, json.dumps(dict(arguments)))
        prepared = self.prepare(call)
        if not isinstance(prepared, PreparedCall):
            return prepared
        result = await self._call(prepared, within=script.id)
        if prepared.call.id in self._sent:
            item = transcript.result_item(prepared.call, result)
            kept = replace(item, text=cut_to(item.text, _SCRIPT_RESULT_TOKENS), attachments=())
            facts = self._facts.pop(prepared.call.id, {})
            await self.lane.append(self.turn, [transcript.result_entry(kept, facts=facts)])
            self._open.pop(prepared.call.id, None)
        return result

    async def _begin(self, ready: PreparedCall, within: str) -> None:
        """Record that a call is about to be made: from here on it may have happened."""
        label = ready.spec.label if ready.spec is not None else ""
        shown = clean_json(ready.arguments, self.redact)
        entry = transcript.call_entry(ready.call, shown, within, label)
        await self.lane.append(self.turn, [entry])
        self._open[ready.call.id] = ready.call
        self._sent.add(ready.call.id)


def _runs_in_order(call: Prepared) -> bool:
    return isinstance(call, PreparedCall) and call.spec is not None and call.spec.in_order


def _handed(result: ToolResult, item: ResultItem) -> dict[str, Any]:
    """What a tool handed to the person: files by their paths, other media by their digests."""
    media = [one for one in result.outputs if isinstance(one, Media)]
    files = [one for one in media if one.path is not None]
    rows = [{"path": str(o.path), "mimeType": o.mime_type, "name": o.name} for o in files]
    kept = [one for one in item.attachments if one.digest is not None]
    if not files and len(kept) == len(media):
        rows = [{"digest": o.digest, "mimeType": o.mime_type, "label": o.label} for o in kept]
    return {"handed": rows} if rows else {}
