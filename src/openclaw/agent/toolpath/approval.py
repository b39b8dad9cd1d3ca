"""Asks a person to approve calls, and remembers approvals for a session or for good."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio
import anyio.to_thread

from openclaw.agent.redaction import Redact, clean_json
from openclaw.agent.toolpath.wrappers import Refused, Wrapper
from openclaw.core import tools
from openclaw.core.errors import OpenClawError
from openclaw.core.events import Notice, ToolApproval, ToolFinished
from openclaw.core.tools import (
    ApprovalAnswer,
    ApprovalChoice,
    CallContext,
    JsonObject,
    ToolResult,
    ToolSpec,
)
from openclaw.policy.approval_text import CallText, Change, describe_call, one_line, visible
from openclaw.policy.decide import covers, rule_for, what_it_covers

WriteRule = Callable[[str, str], Awaitable[str]]  # writes an agent's rule into the configuration
Preview = Callable[[str, JsonObject], Change | None]  # what a call would do to a file; may block

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

    def hold_to(self, approved: Mapping[str, Sequence[str]]) -> None:
        """Forget "always" answers that are no longer among these agents' rules."""
        for agent, rules in self.always.items():
            known = approved.get(agent, ())
            rules -= {one for one in rules if one[0] not in known}


@dataclass(frozen=True, slots=True)
class Approval(Wrapper):
    """Asks the person before a call that the policy leaves to them.

    `hide` removes known secrets and nothing else: the person must see what runs.
    """

    hide: Redact
    refused: Refused
    approvals: Approvals
    preview: Preview | None = None

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        if context.ask_reason is None:
            return await self.source.call(name, arguments, context)
        refusal = None if context.approved else await self._refusal(name, arguments, context)
        if refusal is None:
            return await self.source.call(name, arguments, context._replace(approved=True))
        advice = f"They say: {refusal.reason}" if refusal.reason else "Do without it."
        why = f"The person did not allow this call of {name}. {advice}"
        return self.not_made(why, name, arguments, context)

    def not_made(
        self, why: str, name: str, arguments: JsonObject, context: CallContext
    ) -> ToolResult:
        """Record and show that a call was not made."""
        self.refused(arguments, context)
        result = tools.failed(why)
        context.emit(ToolFinished(context.call_id, name, result, 0.0))
        return result

    async def _refusal(
        self, name: str, arguments: JsonObject, context: CallContext
    ) -> ApprovalAnswer | None:
        if context.ask is None:
            return ApprovalAnswer(tools.NO)
        definition = _definition(name, context.spec)
        session = self.approvals.of(context.agent, context.session)
        always = self.approvals.always.setdefault(context.agent, set())
        async with session.asking:  # one at a time: an answer may hold for the next one
            if any(
                covers(rule, name, arguments) and as_declared == definition
                for rule, as_declared in session.rules | always
            ):
                return None
            rule = rule_for(name, arguments)
            request = await self._request(name, arguments, context, rule)
            answer = await self._answered(request, context)
            if answer.choice == tools.NO:
                return answer
            if rule is not None and answer.choice in (tools.SESSION, tools.ALWAYS):
                written = answer.choice == tools.ALWAYS and await self._written(rule, context)
                (always if written else session.rules).add((rule, definition))
        return None

    async def _answered(
        self, request: tools.PermissionRequest, context: CallContext
    ) -> ApprovalAnswer:
        """The person's answer, with a reason that can be shown; anything but consent is a no."""
        assert context.ask is not None
        answer = await context.ask(request)
        label = next((one.label for one in request.choices if one.id == answer.choice), "")
        reason = visible(self.hide(answer.reason[:_MOST_REASON])).strip()
        asked = context.call_id, request.name, request.label, request.title, request.body
        allowed = request.allowed_by(answer)
        context.emit(ToolApproval(*asked, answer.choice, label, allowed, reason))
        return ApprovalAnswer(answer.choice if allowed else tools.NO, reason)

    async def ask(
        self,
        name: str,
        arguments: JsonObject,
        context: CallContext,
        *,
        concerns: str,
        others: Sequence[tuple[str, JsonObject]],
        choices: tuple[ApprovalChoice, ...],
    ) -> ApprovalAnswer:
        """Ask about a call because of these `concerns`, and about `others` with the same concerns."""
        if context.ask is None:
            return ApprovalAnswer(tools.NO)
        async with self.approvals.of(context.agent, context.session).asking:
            request = await self._request(name, arguments, context, None)
            more = [describe_call(other, other, args, self.hide) for other, args in others]
            parts = [request.body, *(f"and {one.title}\n{one.body}" for one in more)]
            parts.append(f"{_IN_DOUBT}\n{visible(self.hide(concerns))}")
            request = replace(request, body="\n\n".join(parts), choices=choices, doubt=True)
            return await self._answered(request, context)

    async def _request(
        self, name: str, arguments: JsonObject, context: CallContext, rule: str | None
    ) -> tools.PermissionRequest:
        label = context.spec.label if context.spec is not None else name

        def described() -> CallText:
            change = self.preview(name, arguments) if self.preview is not None else None
            return describe_call(name, label, arguments, self.hide, change)

        shown = await anyio.to_thread.run_sync(described)
        offered = tools.YES_OR_NO
        if rule is not None:
            scope = one_line(self.hide(what_it_covers(rule)))
            always = self.approvals.write and f"Always: {scope}"
            offered = choices(f"In this session: {scope}", always)
        return tools.PermissionRequest(
            call_id=context.call_id,
            name=one_line(name),
            label=one_line(self.hide(label)),
            arguments=clean_json(arguments, lambda text: visible(self.hide(text))),
            title=shown.title,
            body=shown.body,
            choices=offered,
        )

    async def _written(self, rule: str, context: CallContext) -> bool:
        assert self.approvals.write is not None
        written = self.approvals.write(context.agent, rule)
        return await report_where(written, one_line(self.hide(rule)), "The rule", context)


def choices(session: str, always: str | None) -> tuple[ApprovalChoice, ...]:
    """What the person can answer, with these labels."""
    options = (tools.SESSION, session), (tools.ALWAYS, always)
    for_longer = [ApprovalChoice(id, label) for id, label in options if label]
    return (
        ApprovalChoice(tools.ONCE, "Once"),
        *for_longer,
        ApprovalChoice(tools.NO, "No", allows=False),
    )


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
    written = json.dumps(parts, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(written.encode()).hexdigest()
