"""Asks the user to approve calls, and remembers approvals for a session or always."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.to_thread

from openclaw.agent.redaction import Redact, clean_json
from openclaw.agent.toolpath.audit import Preview
from openclaw.agent.toolpath.wrappers import Refused, Wrapper
from openclaw.content.detection import detect
from openclaw.core import tools
from openclaw.core.errors import OpenClawError
from openclaw.core.events import Notice, ToolApproval, ToolFinished
from openclaw.core.questions import (
    ALWAYS,
    NO,
    NOBODY,
    ONCE,
    SESSION,
    WAITS,
    YES_OR_NO,
    Answer,
    AskedCall,
    Choice,
    Question,
)
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSpec, json_object
from openclaw.policy.approval_text import CallText, describe_call, one_line, visible
from openclaw.policy.decide import covers, rule_for, what_it_covers
from openclaw.policy.question_text import Doubt, details, explained, plan_title

WriteRule = Callable[[str, str], Awaitable[str]]  # writes an agent's rule into the configuration

Directory = Callable[[CallContext], Path]  # where the next command starts

_MOST_SESSIONS = 1000
_MOST_REASON = 2000
_IN_DOUBT = "Some of this did not come from you:"


@dataclass(slots=True)
class _Session:
    rules: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    asking: anyio.Lock = field(default_factory=anyio.Lock)


class Approvals:
    """Answers that cover more than one call, each for the tool as it was declared then.

    Session answers last until the program ends. Without `write`, nobody can answer "always".
    """

    def __init__(self, write: WriteRule | None = None) -> None:
        self.write = write
        self.always: dict[str, set[tuple[str, str]]] = {}  # as long as the configuration has them
        self._sessions: dict[tuple[str, str], _Session] = {}

    def of(self, agent: str, session: str) -> _Session:
        found = self._sessions.pop((agent, session), None) or _Session()
        self._sessions[agent, session] = found
        if len(self._sessions) > _MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        return found

    def listed(self) -> Iterator[tuple[str, str, str]]:
        """Agent, session and rule of every session answer."""
        for (agent, session), one in self._sessions.items():
            yield from ((agent, session, rule) for rule, _ in sorted(one.rules))

    def revoke(self, agent: str, session: str, rule: str) -> None:
        one = self._sessions[agent, session]
        one.rules = {approved for approved in one.rules if approved[0] != rule}

    def retain_only(self, approved: Mapping[str, Sequence[str]]) -> None:
        """Forget "always" answers that are no longer among these agents' rules."""
        for agent, rules in self.always.items():
            known = approved.get(agent, ())
            rules -= {one for one in rules if one[0] not in known}


@dataclass(frozen=True, slots=True)
class Approval(Wrapper):
    """Asks the user before a call that the policy leaves to them.

    `hide` removes known secrets and nothing else: the user must see what runs.
    """

    hide: Redact
    refused: Refused
    approvals: Approvals
    preview: Preview | None = None
    directory: Directory | None = None

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        if context.ask_reason is None or context.approved:
            return await self.source.call(name, arguments, context)
        answer = await self._answer(name, arguments, context)
        if answer.choice != NO and answer not in (NOBODY, WAITS):
            return await self.source.call(name, arguments, context._replace(approved=True))
        return self.not_made(refusal(name, answer), name, arguments, context)

    def not_made(
        self, why: str, name: str, arguments: JsonObject, context: CallContext
    ) -> ToolResult:
        """Record and show that a call was not made."""
        self.refused(arguments, context)
        result = tools.failed(why)
        context.emit(ToolFinished(context.call_id, name, result, 0.0))
        return result

    async def _answer(self, name: str, arguments: JsonObject, context: CallContext) -> Answer:
        definition = _definition(name, context.spec)
        session = self.approvals.of(context.agent, context.session)
        always = self.approvals.always.setdefault(context.agent, set())
        async with session.asking:  # one at a time: an answer may hold for the next one
            if any(
                covers(rule, name, arguments) and as_declared == definition
                for rule, as_declared in session.rules | always
            ):
                return Answer(ONCE)
            rule = rule_for(name, arguments)
            question = await self._question(name, arguments, context, rule)
            answer = await self._asked(question, context)
            if rule is not None and answer.choice in (SESSION, ALWAYS):
                written = answer.choice == ALWAYS and await self._written(rule, context)
                (always if written else session.rules).add((rule, definition))
        return answer

    async def _asked(self, question: Question, context: CallContext) -> Answer:
        """The user's answer, with a reason that can be shown; anything but consent is a no."""
        answer = NOBODY if context.ask is None else await context.ask(question)
        if answer in (NOBODY, WAITS):
            return answer
        label = next((one.label for one in question.choices if one.id == answer.choice), "")
        reason = visible(self.hide(answer.reason[:_MOST_REASON])).strip()
        call, allowed = question.call, question.allowed_by(answer)
        asked = call.id, call.name, call.label, question.title, question.body
        context.emit(ToolApproval(*asked, answer.choice, label, allowed, reason))
        return Answer(answer.choice if allowed else NO, reason)

    async def ask(
        self,
        name: str,
        arguments: JsonObject,
        context: CallContext,
        *,
        doubts: Sequence[Doubt],
        others: Sequence[tuple[str, JsonObject]],
        choices: tuple[Choice, ...],
    ) -> Answer:
        """Ask about a call because of these `doubts`, and about `others` with the same doubts."""
        async with self.approvals.of(context.agent, context.session).asking:
            question = await self._question(name, arguments, context, None)
            more = [describe_call(other, other, args, self.hide) for other, args in others]
            title = plan_title([question.title, *(one.title for one in more)])
            said = details(doubts, lambda sentence: detect(sentence).suspicious)
            shown = tuple(visible(self.hide(one)) for one in said)
            parts = [question.body, *(f"and {one.title}\n{one.body}" for one in more)]
            parts.append("\n".join([_IN_DOUBT, *shown]))
            calls = [self._call(other, args, context) for other, args in others]
            question = replace(
                question,
                title=one_line(self.hide(explained(title, doubts))),
                body="\n\n".join(parts),
                calls=(*question.calls, *calls),
                choices=choices,
                doubts=shown,
            )
            return await self._asked(question, context)

    async def _question(
        self, name: str, arguments: JsonObject, context: CallContext, rule: str | None
    ) -> Question:
        call = self._call(name, arguments, context)

        def described() -> CallText:
            change = self.preview(name, arguments) if self.preview is not None else None
            shown = arguments
            if name == "exec" and self.directory is not None:
                shown = {**arguments, "directory": str(self.directory(context))}
            return describe_call(name, call.label, shown, self.hide, change)

        shown = await anyio.to_thread.run_sync(described)
        offered = YES_OR_NO
        if rule is not None:
            scope = one_line(self.hide(what_it_covers(rule)))
            always = self.approvals.write and f"Always: {scope}"
            offered = choices(f"In this session: {scope}", always)
        return Question(shown.title, shown.body, (call,), offered)

    def _call(self, name: str, arguments: JsonObject, context: CallContext) -> AskedCall:
        label = context.spec.label if context.spec is not None else name
        return AskedCall(
            context.call_id,
            one_line(name),
            one_line(self.hide(label)),
            clean_json(arguments, lambda text: visible(self.hide(text))),
            _digest(_definition(name, context.spec), arguments),
        )

    async def _written(self, rule: str, context: CallContext) -> bool:
        assert self.approvals.write is not None
        written = self.approvals.write(context.agent, rule)
        return await report_where(written, one_line(self.hide(rule)), "The rule", context)


def refusal(name: str, answer: Answer) -> str:
    """What the model reads if a call was not allowed. Quotes the user only if they were asked."""
    if answer == WAITS:
        return (
            f"This call of {name} was not made yet: the user has to allow it, and nobody is there "
            "to answer now. The question waits for them. Do not try to reach the same end another "
            "way. Do what is possible without it, and say briefly what is left."
        )
    if answer == NOBODY:
        return (
            f"This call of {name} was not made: the user has to allow it, and nobody can be asked "
            "here. Continue without this tool."
        )
    advice = f"They say: {answer.reason}" if answer.reason else "Continue without this tool."
    return f"The user did not allow this call of {name}. {advice}"


def choices(session: str, always: str | None) -> tuple[Choice, ...]:
    """What the user can answer, with these labels."""
    options = (SESSION, session), (ALWAYS, always)
    for_longer = [Choice(id, label) for id, label in options if label]
    return (Choice(ONCE, "Once"), *for_longer, Choice(NO, "No", allows=False))


async def report_where(
    written: Awaitable[str], what: str, subject: str, context: CallContext
) -> bool:
    """Wait until something is written into the configuration, and say where; False if it failed."""
    try:
        where = await written
    except OpenClawError as error:
        context.emit(Notice("warning", f"{subject} applies to this session only: {error.message}"))
        return False
    context.emit(Notice("info", f"Wrote {what} to {where}."))
    return True


def _definition(name: str, spec: ToolSpec | None) -> str:
    """A digest that changes whenever the server declares the tool differently."""
    parts: list[object] = [name]
    if spec is not None:
        parts += [spec.origin.server, spec.origin.tool, spec.description, spec.input_schema]
    return _digest(*parts)


def _digest(*parts: object) -> str:
    written = json.dumps(parts, sort_keys=True, ensure_ascii=True, default=_plain)
    return hashlib.sha256(written.encode()).hexdigest()


def _plain(value: object) -> object:
    return dict(json_object(value)) or str(value)
