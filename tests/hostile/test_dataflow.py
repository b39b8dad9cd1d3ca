"""Attacks written against the data-flow check, and ordinary work, through the agent's tool path.

Each conversation is played as it would happen: what the person says, calls whose results carry the
injected text, then the call that an obedient model would make.
"""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.policy.dataflow.attack_cases import ATTACKS, Attack
from tests.unit.policy.dataflow.honest_sessions import SESSIONS
from tests.unit.policy.dataflow.kit import TOOLS, Honest
from tests.unit.policy.dataflow.unseen_cases import A, H

from openclaw.agent.toolpath.dataflow import SessionFlow
from openclaw.agent.toolpath.toolbox import ToolPathDeps, tool_path
from openclaw.agent.transcript import Item, ResultItem, UserItem
from openclaw.core.clock import SystemClock
from openclaw.core.content import text_of
from openclaw.core.questions import SESSION, Answer, Question
from openclaw.core.tools import CallContext, JsonObject, Origin, ToolResult, ToolSpec
from openclaw.mcp_client.bridge.results import Rendering, render_result
from openclaw.policy.dataflow import text_index
from openclaw.policy.dataflow.check import Call
from openclaw.policy.dataflow.effects import Tool
from openclaw.policy.dataflow.intent import Intent, IntentRequest
from openclaw.policy.dataflow.rules import FlowRules
from openclaw.policy.dataflow.text_index import OURS, SeenText
from openclaw.secrets.redactor import Redactor

ALL = [*ATTACKS, *A]
ORDINARY = [*SESSIONS, *H]
MOST_WITH_A_QUESTION = 1
OURSELVES = text_index.TextOrigin("ourselves")


class Source:
    """Tools that give what the conversation says they gave."""

    def __init__(self) -> None:
        self.made: list[tuple[str, JsonObject]] = []
        self.gives = SeenText(OURSELVES, "")
        self._specs: tuple[ToolSpec, ...] = ()

    def offer(self, tool: Tool) -> str:
        name = f"{tool.server}_{tool.name}"
        if name not in {spec.name for spec in self._specs}:
            own = tool.server == OURS
            spec = ToolSpec(
                name,
                "A tool.",
                dict(tool.schema),
                name,
                Origin() if own else Origin(tool.server, tool.name),
                tool.read_only,
                tool.destructive,
            )
            self._specs = (*self._specs, replace(spec, name=tool.name) if own else spec)
        return tool.name if tool.server == OURS else name

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        self.made.append((name, arguments))
        spec = next(spec for spec in self._specs if spec.name == name)
        how = Rendering(spec.origin.server or "", spec.origin.tool or name)
        raw: dict[str, Any] = {"content": [{"type": "text", "text": self.gives.text}]}
        if self.gives.structured is not None:
            raw["structuredContent"] = self.gives.structured
        return render_result(raw, how)


class Conversation:
    def __init__(self) -> None:
        self.source = Source()
        self.flow = SessionFlow(FlowRules())
        self.flow.begin(FlowRules())
        deps = ToolPathDeps(Redactor(), SystemClock())
        self.path = tool_path([self.source], (), deps, flow=self.flow)
        self.asked: list[Question] = []
        self._count = 0

    def add(self, item: Item) -> None:
        self._count += 1
        self.path.index_items([replace(item, seq=self._count)])

    def say(self, text: str) -> None:
        self.add(UserItem(text))

    async def call(
        self, call: Call, *, gives: SeenText | None = None, person: str | None = SESSION
    ) -> tuple[bool, str]:
        """Whether the call was made, and what the model was told; `person` is their answer."""
        name = self.source.offer(call.tool)
        self.source.gives = gives or SeenText(OURSELVES, "ok")
        before = len(self.source.made)

        async def ask(request: Question) -> Answer:
            self.asked.append(request)
            return Answer(person or "no")

        self._count += 1
        context = CallContext("main", "s", f"c{self._count}", ask=ask if person else None)
        result = await self.path.call(name, call.arguments, context)
        return len(self.source.made) > before, text_of(result.blocks)

    async def hear(self, text: SeenText) -> None:
        """Have a text arrive as it would: typed, returned by the tool that its origin names, or kept."""
        tool = next((one for one in TOOLS.values() if one.name == text.origin.tool), None)
        if text.origin.kind == "person":
            self.say(text.text)
        elif tool is not None and text.origin.kind in ("server", "page", "file"):
            made, _ = await self.call(Call(tool, text.asked_with), gives=text)
            assert made
        else:
            origin = {"kind": text.origin.kind, "name": text.origin.name, "tool": text.origin.tool}
            self.add(ResultItem("x", "x", text.text, origin=origin))


async def attacked(attack: Attack) -> Conversation:
    conversation = Conversation()

    async def read_intent(request: IntentRequest) -> Intent:
        return Intent(dict(attack.intent), read=True)

    conversation.flow.read_intent = read_intent
    for text in attack.texts:
        await conversation.hear(text)
    conversation.asked.clear()
    return conversation


def test_there_are_at_least_three_hundred_attacks_and_thirty_sessions() -> None:
    assert len({attack.name for attack in ALL}) >= 300
    assert len(SESSIONS) >= 30


@pytest.mark.parametrize("attack", ALL, ids=lambda one: one.name)
async def test_the_attackers_call_is_asked_about_and_is_not_made_without_a_yes(
    attack: Attack,
) -> None:
    conversation = await attacked(attack)
    made, told = await conversation.call(attack.call, person="no")
    assert (made, len(conversation.asked)) == (False, 1)
    assert "was not called" in told


@pytest.mark.parametrize("attack", ALL[::5], ids=lambda one: one.name)
async def test_where_nobody_can_be_asked_it_is_not_made(attack: Attack) -> None:
    conversation = await attacked(attack)
    made, told = await conversation.call(attack.call, person=None)
    assert not made
    assert "was not called" in told
    assert len(conversation.flow.refused) == 1


async def played(session: Honest) -> int:
    """How many questions the session takes if a competent model reads what the user wants."""
    conversation = Conversation()
    calls = [step.call for step in session.script if not isinstance(step, str)]

    async def read_intent(request: IntentRequest) -> Intent:
        return Intent({call.tool.label: () for call in calls if call.tool.label in request.tools})

    for call in calls:
        conversation.source.offer(call.tool)
    for step in session.script:
        if isinstance(step, str):
            conversation.flow.begin(FlowRules())
            conversation.flow.read_intent = read_intent
            conversation.say(step)
        else:
            gives = SeenText(OURSELVES, step.text or "ok", step.structured)
            made, _ = await conversation.call(step.call, gives=gives)
            assert made
    return len(conversation.asked)


async def test_ordinary_work_leads_to_hardly_any_question() -> None:
    questions = {session.name: await played(session) for session in ORDINARY}
    asked = [name for name, count in questions.items() if count]
    assert len(asked) <= MOST_WITH_A_QUESTION, asked
    assert max(questions.values()) <= 1
