import pytest
from pydantic_ai.messages import ToolCallPart

from openclaw.models.local.plan import NO_TOOL, TOOL_SEARCH, CallTools, RouterPlanner, Say, Write
from openclaw.models.local.router import Call
from openclaw.models.local.talk import CANNOT_SEE
from openclaw.models.local.tooldoc import RoutableTool
from openclaw.models.local.turn import Outcome, Turn

SEARCHING = RoutableTool(
    TOOL_SEARCH,
    "Find tools by what they do.",
    {"properties": {"query": {"type": "string"}}, "required": ["query"]},
    "Search tools",
    True,
)


def clock(tools: list[RoutableTool]) -> RoutableTool:
    return next(tool for tool in tools if tool.name == "mcp_time_get_current_time")


async def test_a_question_for_a_tool_becomes_a_call(mcp_tools: list[RoutableTool]) -> None:
    plan = await RouterPlanner().plan(Turn("What time is it in Tokyo?"), mcp_tools, 100)
    assert plan == CallTools((Call("mcp_time_get_current_time", {"timezone": "Asia/Tokyo"}),))


async def test_results_are_rendered_and_nothing_is_called_again(
    mcp_tools: list[RoutableTool],
) -> None:
    turn = Turn(
        "What time is it in Tokyo?",
        outcomes=(
            Outcome("mcp_time_get_current_time", "05:00", False),
            Outcome("gone", "oh no", True),
        ),
    )
    plan = await RouterPlanner().plan(turn, mcp_tools, 100)
    assert isinstance(plan, Say)
    assert "05:00\n\nSource: MCP: time/get_current_time" in plan.text
    assert "That did not work: oh no" in plan.text


async def test_conversation_is_left_to_the_model(mcp_tools: list[RoutableTool]) -> None:
    plan = await RouterPlanner().plan(Turn("Hello!"), mcp_tools, 100)
    assert isinstance(plan, Write)
    assert plan.prompt.messages[-1]["content"] == "Hello!"


async def test_the_text_of_an_attachment_is_shown_to_the_model() -> None:
    plan = await RouterPlanner().plan(Turn("Why?", attached="[a.txt]\nwords"), [], 100)
    assert isinstance(plan, Write)
    assert plan.prompt.messages[-1]["content"] == "[a.txt]\nwords\n\nWhy?"


async def test_an_image_is_honestly_said_to_be_unseen() -> None:
    plan = await RouterPlanner().plan(Turn("What is this?", has_unseen=True), [], 100)
    assert plan == Say(CANNOT_SEE)


@pytest.mark.parametrize(
    "message", ["What does /a/b.txt say?", "Delete /a/b.txt", "Open http://a.b/"]
)
async def test_nothing_is_made_up_about_a_file_or_a_page_without_a_tool(message: str) -> None:
    assert await RouterPlanner().plan(Turn(message), [], 100) == Say(NO_TOOL)


async def test_a_tool_that_is_not_shown_is_searched_for_once(mcp_tools: list[RoutableTool]) -> None:
    planner = RouterPlanner()
    turn = Turn("What does /a/b.txt say?")
    first = await planner.plan(turn, [clock(mcp_tools), SEARCHING], 100)
    assert first == CallTools((Call(TOOL_SEARCH, {"query": turn.message}),))
    searched = Turn(
        turn.message,
        calls=(ToolCallPart(TOOL_SEARCH, {}, "1"),),
        outcomes=(Outcome(TOOL_SEARCH, "These tools…", False),),
    )
    second = await planner.plan(searched, [*mcp_tools, SEARCHING], 100)
    assert isinstance(second, CallTools)
    assert second.calls[0].tool == "mcp_filesystem_read_text_file"
    third = await planner.plan(searched, [clock(mcp_tools), SEARCHING], 100)
    assert third == Say(NO_TOOL)


async def test_small_talk_searches_for_no_tool() -> None:
    assert isinstance(await RouterPlanner().plan(Turn("Tell me a joke"), [SEARCHING], 100), Write)
