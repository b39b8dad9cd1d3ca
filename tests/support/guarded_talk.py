"""Plays conversations through the agent's loop with a model that makes exactly the calls it is given.

The model is reached over HTTP like any other. It recognises the request for the user's intent by
its only tool, `allow_actions`, and answers with what the conversation says a reader of the user's
words would answer. The user allows exactly the calls that they want.
"""

import json
import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from openclaw.agent.port import MessageContext, TurnListener
from openclaw.config.schema import Config
from openclaw.core.questions import Answer, Question
from openclaw.core.tools import CallContext, JsonObject, Origin, ToolResult, ToolSpec
from openclaw.mcp_client.bridge.results import Rendering, render_result
from openclaw.policy.dataflow.rules import FlowRules
from openclaw.testing.scripted_model import Request, Script, Step, scripted_model
from tests.support.agent_kit import AgentKit, agent_kit, scripted_config

Json = dict[str, Any]
Intent = Mapping[str, Sequence[str]]  # values by `server/tool`
NATIVE = "native"
ALLOW = "allow_actions"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the model: `tool` is `server/tool`; `gives` is the result, as MCP has it or as text.

    The user wants it, unless it is an attack.
    """

    tool: str
    arguments: JsonObject
    gives: Any = "ok"
    attack: bool = False
    result: Callable[[], ToolResult] | None = None  # in place of `gives`, when it is made


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user says, what a reader of it would allow, the calls, and what the agent answers."""

    user: str
    calls: Iterable[Call] = ()
    intent: Intent = field(default_factory=dict[str, Sequence[str]])
    answer: str = "Done."


@dataclass(frozen=True, slots=True)
class Talk:
    name: str
    turns: Sequence[Turn]
    language: str = "en"
    schemas: Mapping[str, Json] = field(default_factory=dict[str, Json])
    why: str = ""  # why an attack still passes


@dataclass(slots=True)
class Course:
    """How a conversation went. `undone` are calls that the user wanted; `passed` are attacks."""

    asked: list[str] = field(default_factory=list[str])
    undone: list[str] = field(default_factory=list[str])
    passed: list[str] = field(default_factory=list[str])
    told: list[str] = field(default_factory=list[str])  # what the model read about calls not made
    intent_requests: list[int] = field(default_factory=list[int])  # for each turn
    intent_tokens: list[int] = field(default_factory=list[int])  # for each request

    @property
    def smooth(self) -> bool:
        return not (self.asked or self.undone)


# ---- the model


def tokens(value: Any) -> int:
    """About how many tokens a provider would count for it, in any script."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    wide = sum(ord(letter) > 127 for letter in text)
    return math.ceil((len(text) - wide) / 4 + wide * 0.6)


def intent_answer(request: Request, intent: Intent | None) -> Step:
    """What the model answers if it is asked for the intent; without one it allows every tool."""
    (tool,) = request.body["tools"]
    actions = tool["function"]["parameters"]["properties"]["actions"]
    offered: list[str] = actions["items"]["properties"]["tool"]["enum"]
    wanted = intent if intent is not None else dict.fromkeys(offered, ())
    allowed = [
        {"tool": name, "values": list(values)} for name, values in wanted.items() if name in offered
    ]
    used = tokens(request.body["messages"]) + tokens(tool)
    return Step(calls=((ALLOW, {"actions": allowed}),), input_tokens=used, output_tokens=20)


class Model(Script):
    """Says what the talk that is being played wants next."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: Intent | None = {}
        self.next_step: Callable[[], Step] = Step
        self.on_intent: Callable[[int], None] = lambda used: None

    def answer(self, request: Request) -> Step:
        self.requests.append(replace(request, body={}))
        if request.tools != (ALLOW,):
            return self.next_step()
        step = intent_answer(request, self.wanted)
        self.on_intent(step.input_tokens)
        return step


# ---- the tools


def schema_of(value: Any) -> Json:
    """The schema that a server would declare for such a value, without annotations."""
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int | float):
        return {"type": "number"}
    if isinstance(value, list | tuple):
        return {"type": "array", "items": schema_of(value[0]) if value else {}}
    if isinstance(value, dict):
        fields = cast("Json", value)
        properties = {name: schema_of(field) for name, field in fields.items()}
        return {"type": "object", "properties": properties}
    return {"type": "string"}


def tool_name(tool: str) -> str:
    server, _, name = tool.partition("/")
    return name if server == NATIVE else f"mcp_{server}_{name}"


def spec_of(tool: str, schema: Json, description: str = "") -> ToolSpec:
    server, _, name = tool.partition("/")
    origin = Origin() if server == NATIVE else Origin(server, name)
    described = description or f"{name.replace('_', ' ').capitalize()}."
    return ToolSpec(tool_name(tool), described, schema, f"MCP: {tool}", origin)


def result_of(tool: str, gives: Any) -> ToolResult:
    """The result as the MCP client would hand it on."""
    server, _, name = tool.partition("/")
    text = gives if isinstance(gives, str) else json.dumps(gives, ensure_ascii=False)
    raw: Json = {"content": [{"type": "text", "text": text}]}
    result = render_result(raw, Rendering(server, name))
    if server == NATIVE and gives == "ok":
        return replace(result, untrusted=None)
    return result


# ---- the player


class Player:
    def __init__(self, kit: AgentKit, model: Model) -> None:
        self.kit, self.model = kit, model
        self._count = 0

    async def play(self, talk: Talk, *, user: bool, every_tool: bool = False) -> Course:
        """Play it with a user who answers, or with nobody to ask.

        With `every_tool` the intent wrongly allows all tools.
        """
        self.offer(
            {
                call.tool: talk.schemas.get(call.tool) or schema_of(dict(call.arguments))
                for turn in talk.turns
                for call in turn.calls
            }
        )
        course, session = Course(), self.new_session()
        for turn in talk.turns:
            intent = None if every_tool else turn.intent
            await self.turn(session, course, turn, intent, user=user)
        return course

    def new_session(self) -> str:
        self._count += 1
        return f"talk-{self._count}"

    def offer(
        self, schemas: Mapping[str, Json], descriptions: Mapping[str, str] | None = None
    ) -> None:
        """Offer exactly these tools."""
        self.kit.tools.tools = {}
        for tool, schema in schemas.items():
            spec = spec_of(tool, schema, (descriptions or {}).get(tool, ""))
            self.kit.tools.tools[spec.name] = (spec, self._give)

    async def _give(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        self._made = True
        call = self._current
        assert call is not None
        return call.result() if call.result else result_of(call.tool, call.gives)

    async def turn(
        self, session: str, course: Course, turn: Turn, intent: Intent | None, *, user: bool
    ) -> str:
        """Play one turn and return the answer."""
        waiting = iter(turn.calls)
        self._current: Call | None = None
        self._made = False
        requests = 0

        def note() -> None:
            call = self._current
            if call is None:
                return
            if self._made == call.attack:
                (course.passed if call.attack else course.undone).append(call.tool)
            self._made = False

        def next_step() -> Step:
            note()
            self._current = next(waiting, None)
            if self._current is None:
                return Step(text=turn.answer)
            return Step(calls=((tool_name(self._current.tool), dict(self._current.arguments)),))

        def count(used: int) -> None:
            nonlocal requests
            requests += 1
            course.intent_tokens.append(used)

        async def ask(request: Question) -> Answer:
            assert self._current is not None
            course.asked.append(f"{self._current.tool}\n{request.body}")
            return request.plain(not self._current.attack)

        self.model.wanted, self.model.next_step, self.model.on_intent = intent, next_step, count
        context = MessageContext(text=turn.user, session_key=session)
        reply = await self.kit.reply(context, TurnListener(ask=ask if user else None))
        course.intent_requests.append(requests)
        return reply.text


@asynccontextmanager
async def open_player(**rules: Any) -> AsyncGenerator[Player]:
    model = Model()
    async with scripted_model(script=model) as served:
        wide = {"contextWindow": 10_000_000, "maxTokens": 8192}
        config: Config = scripted_config(served.url, model=wide)
        async with agent_kit(config, data_flow=FlowRules(**rules)) as kit:
            yield Player(kit, model)


# ---- corpora


def parse_talk(raw: Mapping[str, Any]) -> Talk:
    """A talk from JSON: {name, language, turns: [{user, intent, calls: [[tool, arguments, gives]]}]}.

    A call whose fourth item is true is an attack.
    """
    turns = [
        Turn(
            turn["user"],
            [Call(*call) for call in turn.get("calls", ())],
            turn.get("intent", {}),
            turn.get("answer", "Done."),
        )
        for turn in raw["turns"]
    ]
    return Talk(
        raw["name"], turns, raw.get("language", "en"), raw.get("schemas", {}), raw.get("why", "")
    )


def read_talks(path: Path) -> list[Talk]:
    return [parse_talk(json.loads(line)) for line in path.read_text().splitlines() if line.strip()]


def summary(courses: Sequence[Course]) -> Counter[str]:
    return Counter(
        talks=len(courses),
        smooth=sum(course.smooth for course in courses),
        done=sum(not course.undone for course in courses),
        passed=sum(bool(course.passed) for course in courses),
        questions=sum(len(course.asked) for course in courses),
        intent_requests=sum(map(sum, (course.intent_requests for course in courses))),
    )
