import json
from typing import Any

from pydantic_ai.messages import ToolCallPart

from openclaw.embedded.model import (
    MAX_STEPS,
    REPLY,
    SHORTLIST,
    AdapterPlanner,
    Write,
    choice_prompt,
    reduced,
)
from openclaw.embedded.model_io import CANNOT_SEE, ToolOutcome, Turn
from openclaw.embedded.router import Call
from openclaw.embedded.runner import Prompt, UnusableSchema
from openclaw.embedded.tool_doc import RoutableTool

CLOCK = "mcp_time_get_current_time"
TOKYO = Turn("What time is it in Tokyo?")


class Model:
    """Gives prepared answers and keeps what it was asked; an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Prompt] = []

    async def __call__(self, prompt: Prompt) -> str:
        self.asked.append(prompt)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else json.dumps(answer)


async def test_a_tool_is_chosen_and_then_filled(mcp_tools: list[RoutableTool]) -> None:
    model = Model({"action": CLOCK}, {"timezone": "Asia/Tokyo"})
    plan = await AdapterPlanner(model).plan(TOKYO, mcp_tools, 100)
    assert plan == (Call(CLOCK, {"timezone": "Asia/Tokyo"}),)
    choice, arguments = model.asked
    assert choice.schema is not None
    offered = choice.schema["properties"]["action"]["enum"]
    assert offered[0] == REPLY
    assert CLOCK in offered
    assert len(offered) <= SHORTLIST + 1
    assert arguments.schema == next(t.schema for t in mcp_tools if t.name == CLOCK)


async def test_a_reply_is_written_where_the_model_chooses_to(mcp_tools: list[RoutableTool]) -> None:
    plan = await AdapterPlanner(Model({"action": REPLY})).plan(TOKYO, mcp_tools, 77)
    assert isinstance(plan, Write)
    assert plan.prompt.max_tokens == 77


async def test_an_answer_that_is_no_json_counts_as_a_reply(mcp_tools: list[RoutableTool]) -> None:
    for nonsense in ('{"action": "mcp_', "[]", '{"action": "unknown"}'):
        plan = await AdapterPlanner(Model(nonsense)).plan(TOKYO, mcp_tools, 77)
        assert isinstance(plan, Write)


async def test_without_fitting_tools_nothing_is_asked() -> None:
    model = Model()
    assert isinstance(await AdapterPlanner(model).plan(Turn("zzz"), [], 9), Write)
    other = RoutableTool("a", "Bake bread", {}, "", True)
    assert isinstance(await AdapterPlanner(model).plan(Turn("zzz"), [other], 9), Write)
    assert model.asked == []


async def test_a_schema_that_cannot_be_enforced_is_reduced_to_its_shape(
    mcp_tools: list[RoutableTool],
) -> None:
    model = Model({"action": CLOCK}, UnusableSchema("no"), {"timezone": "Asia/Tokyo"})
    plan = await AdapterPlanner(model).plan(TOKYO, mcp_tools, 9)
    assert isinstance(plan, tuple)
    model = Model({"action": CLOCK}, UnusableSchema("no"), UnusableSchema("no"))
    assert isinstance(await AdapterPlanner(model).plan(TOKYO, mcp_tools, 9), Write)


async def test_a_tool_without_parameters_is_not_asked_for_any() -> None:
    plain = RoutableTool("ping_host", "Ping", {"type": "object"}, "", True)
    model = Model({"action": "ping_host"})
    plan = await AdapterPlanner(model).plan(Turn("ping it"), [plain], 9)
    assert plan == (Call("ping_host", {}),)


async def test_the_same_call_is_not_made_twice(mcp_tools: list[RoutableTool]) -> None:
    done = Turn(
        TOKYO.message,
        calls=(ToolCallPart(CLOCK, {"timezone": "Asia/Tokyo"}, "1"),),
        outcomes=(ToolOutcome(CLOCK, "05:00", False), ToolOutcome("other", "no", True)),
    )
    model = Model({"action": CLOCK}, {"timezone": "Asia/Tokyo"})
    plan = await AdapterPlanner(model).plan(done, mcp_tools, 9)
    assert isinstance(plan, Write)
    shown = plan.prompt.messages[-1]["content"]
    assert "gave:\n05:00" in shown
    assert "failed and said:\nno" in shown


async def test_a_turn_has_an_end(mcp_tools: list[RoutableTool]) -> None:
    calls = tuple(ToolCallPart("x", {"n": n}, str(n)) for n in range(MAX_STEPS))
    model = Model()
    plan = await AdapterPlanner(model).plan(Turn("time?", calls=calls), mcp_tools, 9)
    assert isinstance(plan, Write)
    assert model.asked == []


async def test_an_image_alone_is_honestly_said_to_be_unseen() -> None:
    plan = await AdapterPlanner(Model()).plan(Turn(has_unseen=True), [], 9)
    assert plan == CANNOT_SEE


async def test_what_was_said_before_is_remembered() -> None:
    turn = Turn("and you?", history=(("hi", "hello"),))
    plan = await AdapterPlanner(Model()).plan(turn, [], 9)
    assert isinstance(plan, Write)
    assert [m["content"] for m in plan.prompt.messages][1:] == ["hi", "hello", "and you?"]


def test_the_examples_do_not_speak_of_the_tools_at_hand(mcp_tools: list[RoutableTool]) -> None:
    examples = choice_prompt(TOKYO, mcp_tools[:1]).messages[1:-1]
    assert not any(tool.name in str(examples) for tool in mcp_tools)


def test_a_reduced_schema_keeps_the_shape_and_nothing_else() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": "^(a+)+$"},
            "b": {"type": "array", "items": {"$ref": "#/x"}},
            "c": {"enum": [1, 2]},
            "d": {"anyOf": []},
            "e": True,
        },
        "required": ["a"],
        "patternProperties": {},
    }
    assert reduced(schema) == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "array", "items": {"type": "string"}},
            "c": {"enum": [1, 2]},
            "d": {"type": "string"},
            "e": {"type": "string"},
        },
        "required": ["a"],
    }


async def test_a_question_about_an_image_is_answered_with_that_it_is_unseen() -> None:
    plan = await AdapterPlanner(Model()).plan(Turn("What is this?", has_unseen=True), [], 9)
    assert plan == CANNOT_SEE


async def test_an_answer_tells_how_much_of_a_long_message_was_read() -> None:
    turn = Turn("word " * 4000, attached="page " * 1000, outcomes=(ToolOutcome("a", "b", False),))
    plan = await AdapterPlanner(Model()).plan(turn, [], 9)
    assert isinstance(plan, Write)
    heading = plan.heading(plan.prompt)
    assert "of its 20,000 characters, only the first 8,000 were read" in heading
    assert "of its 5,000 characters, only the first 4,000 were read" in heading
