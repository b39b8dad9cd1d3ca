"""A value that is only in untrusted content cannot steer a call without the user's consent."""

import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread

from openclaw.agent.toolpath.approval import Approval, choices, refusal, report_where
from openclaw.agent.toolpath.wrappers import Wrapper, is_large
from openclaw.agent.transcript import AssistantItem, Item, ResultItem, UserItem
from openclaw.content.frame import unframed
from openclaw.core import tools
from openclaw.core.content import text_of
from openclaw.core.events import WEB_SEARCH
from openclaw.core.questions import ALWAYS, NO, NOBODY, WAITS, Answer, Choice
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSpec
from openclaw.policy.dataflow.answers import AnswerStream
from openclaw.policy.dataflow.check import Call, check, needs_intent, origin_of
from openclaw.policy.dataflow.effects import EffectClass, Tool, effect_of
from openclaw.policy.dataflow.intent import (
    ActionTool,
    Intent,
    IntentRequest,
    intent_request,
    is_named,
    is_verb_named,
)
from openclaw.policy.dataflow.records import parse_json
from openclaw.policy.dataflow.rules import Allowance, FlowDecision, FlowRules, Reason, allowances
from openclaw.policy.dataflow.text_index import OURS, PERSON, Index, SeenText, TextOrigin

logger = logging.getLogger(__name__)

# Writes into the configuration what an "always" covers, and says where.
WriteAllowances = Callable[[Sequence[Allowance]], Awaitable[str]]
# Asks a model what the user wants; None if no model can say.
ReadIntent = Callable[[IntentRequest], Awaitable[Intent | None]]

# These only show or send something to the user.
_OUR_EFFECTS: Mapping[str, EffectClass] = {
    f"{OURS}/update_plan": "read",
    f"{OURS}/attach": "read",
}
_SEARCH = TextOrigin("page", "web search", WEB_SEARCH)
_EARLIER_MESSAGES = TextOrigin("session", "history that a client sent along")
_OTHER_SESSIONS = frozenset({"session_history", "sessions_list", "delegate"})
_MOST_SESSIONS = 32
_LARGE_ARGUMENTS = 5_000  # characters; checking them takes long enough to hold up other tasks


@dataclass(slots=True)
class _Wanted:
    """What the user wants in this turn, as far as it is known. One request at most is made for it."""

    named: set[str] = field(default_factory=set[str])
    read: Intent | None = None
    asked: bool = False
    reading: anyio.Lock = field(default_factory=anyio.Lock)

    def intent(self) -> Intent:
        return replace(self.read or Intent(), named=frozenset(self.named))


class SessionFlow:
    """Where the texts of one session came from, and what the user allowed in it.

    It outlives a turn. Another process rebuilds it from the transcript. `read_intent` is set for
    each turn by whoever has a model.
    """

    def __init__(self, rules: FlowRules, write: WriteAllowances | None = None) -> None:
        self._write = write
        self.index = Index()
        self.refused: list[str] = []  # what was not done in this turn, for the answer to mention
        self.question: _Question | None = None
        self.read_intent: ReadIntent | None = None
        self._wanted = _Wanted()
        self._configured = rules
        self._allowed: frozenset[Allowance] = frozenset()
        self._arguments: dict[str, str] = {}
        self._added: set[str] = set()
        self._trusted: dict[str, str] = {}
        self._through = 0

    def begin(self, rules: FlowRules) -> None:
        self._configured = replace(rules, effects={**_OUR_EFFECTS, **rules.effects})
        self.refused.clear()
        self._wanted = _Wanted()
        self.read_intent = None

    @property
    def rules(self) -> FlowRules:
        configured = self._configured
        return replace(configured, allowed=configured.allowed | self._allowed)

    def choices(self, asked: FlowDecision) -> tuple[Choice, ...]:
        """What the user can answer; "always" only if every value is a field of a known source."""
        lasting = [concern.lasting for concern in asked.concerns]
        fields = sorted({f"{one.source_field} of {one.source}" for one in lasting if one})
        always = f"Always, for this tool and {', '.join(fields)}"
        known = self._write is not None and all(lasting)
        return choices("In this session, for these values", always if known else None)

    async def remember(self, asked: FlowDecision, choice: str, context: CallContext) -> None:
        """Keep what the answer allows: for this turn, the kinds of action that the user agreed to."""
        if choice in (NO, NOBODY.choice, WAITS.choice):
            return
        self._wanted.named |= {
            concern.tool for concern in asked.concerns if concern.reason is Reason.ACTION
        }
        self._allowed |= allowances(asked, choice)
        lasting = [concern.lasting for concern in asked.concerns]
        if choice == ALWAYS and self._write is not None:
            written = self._write([one for one in dict.fromkeys(lasting) if one])
            await report_where(written, "the answer", "The answer", context)

    @property
    def exposed(self) -> bool:
        """Whether untrusted content is in the conversation; what servers declare is none."""
        return self.index.exposed

    def index_items(self, items: Iterable[Item]) -> None:
        """Index the transcript, each entry once; what the model said is ignored."""
        through, seen = self._through, set[int]()
        for item in items:
            if isinstance(item, AssistantItem):
                self._arguments |= {call.id: call.arguments for call in item.calls}
                if item.seq > through and not item.calls:
                    self.index.person.hear(item.text)
            elif item.seq > through:
                self._through = max(self._through, item.seq)
                if isinstance(item, UserItem) and item.seq not in seen:
                    seen.add(item.seq)  # it may occur again after a summary
                    self._index_message(item)
                elif isinstance(item, ResultItem):
                    self._recall_result(item)

    def trust(self, files: Iterable[tuple[str, str]]) -> None:
        """Index files that the configuration names as the person's own words."""
        for name, text in files:
            if self._trusted.get(name) != text:
                self._trusted[name] = text
                self.index.add(SeenText(TextOrigin("file", name, trusted=True), text))

    def _index_message(self, item: UserItem) -> None:
        typed = item.text if item.typed is None else item.typed
        self.index.add(SeenText(PERSON, typed))
        if item.typed is not None:
            self.index.add(SeenText(_origin_of_message(typed), unframed(item.text)))
        for one in item.attachments:
            if one.text:
                self.index.add(SeenText(TextOrigin("attachment", one.label), unframed(one.text)))

    def _recall_result(self, item: ResultItem) -> None:
        written = self._arguments.pop(item.call_id, "")
        if item.call_id in self._added:
            self._added.discard(item.call_id)
            return
        body = unframed(item.text)
        if item.origin is None and body == item.text:
            return  # our own words
        stored = item.origin or {"kind": "session", "name": item.name}
        origin = TextOrigin(
            stored["kind"],
            stored.get("name", ""),
            stored.get("tool", ""),
            stored.get("trusted") in self._configured.trusted_servers,
        )
        arguments: Mapping[str, object] = {}
        with suppress(ValueError, RecursionError):
            arguments = tools.json_object(json.loads(written))
        self.index.add(SeenText(origin, body, stored.get("structured"), arguments))

    def searched(self, found: str) -> None:
        """Index what a model's provider found on the web by itself."""
        self.index.add(SeenText(_SEARCH, found))

    async def add(self, call: Call, result: ToolResult, call_id: str) -> ToolResult:
        """Index a result; the returned copy says whose words it contains."""
        if not self.exposed:
            self._wanted.named.add(call.tool.label)  # only the user can have led to this call
        origin = self._origin(call, result)
        if origin is None:
            return result
        body = text_of(result.outputs) or unframed(text_of(result.blocks))
        text = SeenText(origin, body, result.structured, call.arguments)
        if is_large(result):
            await anyio.to_thread.run_sync(self.index.add, text)
        else:
            self.index.add(text)
        self._added.add(call_id)
        stored: dict[str, Any] = {"kind": origin.kind, "name": origin.name, "tool": origin.tool}
        if origin.trusted:
            stored["trusted"] = call.tool.server
        if result.structured is not None and parse_json(body) != result.structured:
            stored["structured"] = result.structured
        return replace(result, origin=stored)

    def _origin(self, call: Call, result: ToolResult) -> TextOrigin | None:
        if call.tool.server == OURS:
            if call.tool.name == WEB_SEARCH:
                return _SEARCH
            text = text_of(result.blocks)
            framed = result.untrusted is not None or unframed(text) != text
            if not effect_of(call.tool, self.rules.effects).none and not framed:
                return None
            if call.tool.name == "skill" and framed:
                return TextOrigin("file", str(call.arguments.get("name", "")), call.tool.name)
            if call.tool.name in _OTHER_SESSIONS:
                return TextOrigin("session", str(call.arguments.get("key", "")), call.tool.name)
        return origin_of(call, self.rules)

    async def decide(self, call: Call, specs: Callable[[], Sequence[ToolSpec]]) -> FlowDecision:
        """What is in doubt about a call; a model is asked what the user wants if that matters."""
        if not self.exposed or self.rules.mode_of(call.tool.server, call.tool.name) == "off":
            return FlowDecision("off")
        if needs_intent(call, self.rules):
            await self._read_intent(call, specs)
        rules, intent = self.rules, self._wanted.intent()
        if _size(call.arguments) > _LARGE_ARGUMENTS:
            return await anyio.to_thread.run_sync(check, call, self.index, rules, intent)
        return check(call, self.index, rules, intent)

    async def _read_intent(self, call: Call, specs: Callable[[], Sequence[ToolSpec]]) -> None:
        """Find out whether the user wants this kind of action, by their own words."""
        wanted, messages = self._wanted, self.index.person.messages
        async with wanted.reading:
            if call.tool.label in wanted.named or wanted.asked or not messages:
                return
            if is_named(call.tool, messages):
                wanted.named.add(call.tool.label)
                return
            if self.read_intent is not None:
                wanted.asked = True
                request = intent_request(messages, self._actions(specs()), call.tool)
                wanted.read = await self.read_intent(request)
            if wanted.read is None:  # no model could say
                if is_verb_named(call.tool, messages):
                    wanted.named.add(call.tool.label)
                return
            for values in wanted.read.values.values():
                self.index.person.learn("\n".join(values))

    def _actions(self, specs: Sequence[ToolSpec]) -> Iterable[ActionTool]:
        for spec in specs:
            tool = tool_of(spec, spec.name)
            if not effect_of(tool, self.rules.effects).none:
                yield ActionTool(tool, spec.description)

    def answers(self) -> AnswerStream | None:
        """A filter for what an answer must not contain; None if there is nothing to filter."""
        if not self.exposed or self._configured.mode not in ("ask", "refuse"):
            return None
        return AnswerStream(self.index.person.addresses)


def _origin_of_message(typed: str) -> TextOrigin:
    """Whose words a message has beside what was `typed`: a server's prompt, or other parties'."""
    command = typed.strip()
    if command.startswith("/"):
        return TextOrigin("server", command.removeprefix("/").partition(":")[0], "prompt")
    return _EARLIER_MESSAGES


def _size(arguments: JsonObject) -> int:
    return len(json.dumps(arguments, default=str))


class SessionFlows:
    def __init__(self, write: WriteAllowances | None = None) -> None:
        self._write = write
        self._flows: OrderedDict[str, SessionFlow] = OrderedDict()

    def of(self, session: str, rules: FlowRules) -> SessionFlow:
        flow = self._flows.pop(session, None)
        if flow is None or flow.rules.trusted_servers != rules.trusted_servers:
            flow = SessionFlow(rules, self._write)
        self._flows[session] = flow
        if len(self._flows) > _MOST_SESSIONS:
            self._flows.popitem(last=False)
        flow.begin(rules)
        return flow


@dataclass(slots=True)
class _Question:
    """One question about all calls in doubt that are made before it is shown: the whole plan."""

    calls: list[tuple[str, JsonObject]] = field(default_factory=list[tuple[str, JsonObject]])
    asked: list[FlowDecision] = field(default_factory=list[FlowDecision])
    shown: bool = False
    answer: Answer = NOBODY
    answered: anyio.Event = field(default_factory=anyio.Event)


@dataclass(frozen=True, slots=True)
class DataFlow(Wrapper):
    """Checks each value of a call by where it came from; asks the user if it is in doubt."""

    flow: SessionFlow
    approval: Approval

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        call = Call(tool_of(context.spec, name), arguments, computed=bool(context.within))
        if context.earlier is not None:
            result = await self.source.call(name, arguments, context)
            return await self.flow.add(call, result, context.call_id)
        while (decision := await self._decide(call)).asks:
            answer = await self._answer(decision, name, arguments, context)
            if answer is None:
                continue  # another question was answered meanwhile
            if answer == WAITS:
                return self.approval.not_made(refusal(name, answer), name, arguments, context)
            if answer == NOBODY or answer.choice == NO:
                return self._not_made(decision, name, arguments, context, answer.reason)
            context = context._replace(approved=True)
            break
        else:
            if not decision.passes:
                return self._not_made(decision, name, arguments, context)
        result = await self.source.call(name, arguments, context)
        return await self.flow.add(call, result, context.call_id)

    async def _decide(self, call: Call) -> FlowDecision:
        decision = await self.flow.decide(call, self.source.specs)
        if decision.passes:
            for concern in decision.concerns:
                logger.warning("data flow: %s: %s", concern.tool, concern.reason)
        return decision

    async def _answer(
        self, asked: FlowDecision, name: str, arguments: JsonObject, context: CallContext
    ) -> Answer | None:
        """The user's answer; None if the question they answered was not about this call."""
        if (waiting := self.flow.question) is not None:
            joined = not waiting.shown
            if joined:
                waiting.calls.append((name, arguments))
                waiting.asked.append(asked)
            await waiting.answered.wait()
            return waiting.answer if joined else None
        own = self.flow.question = _Question(asked=[asked])
        try:
            await anyio.lowlevel.checkpoint()  # calls of the same step join it
            own.shown = True
            merged = [concern for decision in own.asked for concern in decision.concerns]
            plan = FlowDecision(asked.mode, tuple(dict.fromkeys(merged)))
            offered = self.flow.choices(plan)
            own.answer = await self.approval.ask(
                name, arguments, context, doubts=plan.concerns, others=own.calls, choices=offered
            )
            await self.flow.remember(plan, own.answer.choice, context)
        finally:
            self.flow.question = None
            own.answered.set()
        return own.answer

    def _not_made(
        self,
        decision: FlowDecision,
        name: str,
        arguments: JsonObject,
        context: CallContext,
        reason: str = "",
    ) -> ToolResult:
        self.flow.refused.append(decision.not_done())
        said = f" The user says: {reason}" if reason else ""
        return self.approval.not_made(decision.refusal() + said, name, arguments, context)


def tool_of(spec: ToolSpec | None, name: str) -> Tool:
    if spec is None:
        return Tool(OURS, name, ours=True)
    server, name = spec.origin.server, spec.origin.tool or spec.name
    claims = spec.read_only, spec.destructive
    return Tool(server or OURS, name, spec.input_schema, *claims, ours=server is None)
