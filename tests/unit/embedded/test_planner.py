import pytest
from pydantic_ai.messages import ToolCallPart

from openclaw.embedded.model import TOOL_SEARCH, RouterPlanner, Write, no_tool
from openclaw.embedded.model_io import CANNOT_SEE, ToolOutcome, Turn, fitted
from openclaw.embedded.router import Call, Previous
from openclaw.embedded.tool_doc import RoutableTool
from openclaw.embedded.tool_intent import Need

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
    assert plan == (Call("mcp_time_get_current_time", {"timezone": "Asia/Tokyo"}),)


async def test_results_are_rendered_and_nothing_is_called_again(
    mcp_tools: list[RoutableTool],
) -> None:
    turn = Turn(
        "What time is it in Tokyo?",
        outcomes=(
            ToolOutcome("mcp_time_get_current_time", "05:00", False),
            ToolOutcome("gone", "oh no", True),
        ),
    )
    plan = await RouterPlanner().plan(turn, mcp_tools, 100)
    assert isinstance(plan, str)
    assert "05:00\n\nSource: MCP: time/get_current_time" in plan
    assert "That did not work: oh no" in plan


async def test_conversation_is_left_to_the_model(mcp_tools: list[RoutableTool]) -> None:
    plan = await RouterPlanner().plan(Turn("Hello!"), mcp_tools, 100)
    assert isinstance(plan, Write)
    assert plan.prompt.messages[-1]["content"] == "Hello!"


async def test_the_text_of_an_attachment_is_shown_to_the_model() -> None:
    plan = await RouterPlanner().plan(Turn("Why?", attached="[a.txt]\nwords"), [], 100)
    assert isinstance(plan, Write)
    assert plan.prompt.messages[-1]["content"] == "[a.txt]\nwords\n\nWhy?"


@pytest.mark.parametrize("asked", ["what is this file", "What is in the file?", "List the files"])
async def test_a_file_that_is_attached_is_the_one_that_is_spoken_of(
    asked: str, mcp_tools: list[RoutableTool]
) -> None:
    lists = RoutableTool("list", "List a workspace directory.", {}, "List", True)
    turn = Turn(asked, attached="[a.txt]\nwords")
    plan = await RouterPlanner().plan(turn, [lists, *mcp_tools], 100)
    assert isinstance(plan, Write)
    assert plan.prompt.messages[-1]["content"] == f"[a.txt]\nwords\n\n{asked}"


@pytest.mark.parametrize("asked", ["What time is it in Tokyo?", "Read the file /srv/a.md"])
async def test_a_tool_is_used_beside_an_attached_text(
    asked: str, mcp_tools: list[RoutableTool]
) -> None:
    plan = await RouterPlanner().plan(Turn(asked, attached="[a.txt]\nwords"), mcp_tools, 100)
    assert isinstance(plan, tuple)


async def test_an_image_is_honestly_said_to_be_unseen() -> None:
    plan = await RouterPlanner().plan(Turn("What is this?", has_unseen=True), [], 100)
    assert plan == CANNOT_SEE


@pytest.mark.parametrize(
    ("message", "need"),
    [
        ("What does /a/b.txt say?", Need.FILES),
        ("Delete /a/b.txt", Need.FILES),
        ("Open http://a.b/", Need.WEB),
        ("Read the file notes.txt", Need.FILES),
        ("List the files in the workspace", Need.FILES),
        ('Write "hello" to the file notes.txt', Need.FILES),
        ("What time is it in Tokyo?", Need.TIME),
        ("Will it rain in Oslo tomorrow?", Need.WEATHER),
    ],
)
async def test_nothing_is_made_up_where_a_tool_would_be_needed(message: str, need: Need) -> None:
    assert await RouterPlanner().plan(Turn(message), [], 100) == no_tool(need)


async def test_a_tool_that_is_not_shown_is_searched_for_once(mcp_tools: list[RoutableTool]) -> None:
    planner = RouterPlanner()
    turn = Turn("What does /a/b.txt say?")
    first = await planner.plan(turn, [clock(mcp_tools), SEARCHING], 100)
    assert first == (Call(TOOL_SEARCH, {"query": turn.message}),)
    searched = Turn(
        turn.message,
        calls=(ToolCallPart(TOOL_SEARCH, {}, "1"),),
        outcomes=(ToolOutcome(TOOL_SEARCH, "These tools…", False),),
    )
    second = await planner.plan(searched, [*mcp_tools, SEARCHING], 100)
    assert isinstance(second, tuple)
    assert second[0].tool == "mcp_filesystem_read_text_file"
    third = await planner.plan(searched, [clock(mcp_tools), SEARCHING], 100)
    assert third == no_tool(Need.FILES)


async def test_small_talk_searches_for_no_tool() -> None:
    assert isinstance(await RouterPlanner().plan(Turn("Tell me a joke"), [SEARCHING], 100), Write)


@pytest.mark.parametrize("before", [True, False])
async def test_a_follow_up_of_a_request_without_a_tool_is_none_either(before: bool) -> None:
    asked = "What time is it in Tokyo?"
    turn = Turn(
        "and in Paris?",
        history=() if before else ((asked, no_tool(Need.TIME)),),
        previous=Previous(asked, "gone") if before else None,
    )
    assert await RouterPlanner().plan(turn, [], 100) == no_tool(Need.TIME)


async def test_a_picture_that_is_spoken_of_is_said_to_be_unseen() -> None:
    assert await RouterPlanner().plan(Turn("Describe the picture"), [], 100) == CANNOT_SEE


async def test_a_tool_is_used_beside_an_image(mcp_tools: list[RoutableTool]) -> None:
    turn = Turn("What time is it in Tokyo?", has_unseen=True)
    assert isinstance(await RouterPlanner().plan(turn, mcp_tools, 100), tuple)


async def test_an_answer_tells_how_much_of_a_long_message_was_read() -> None:
    plan = await RouterPlanner().plan(Turn("7 times 8 is 56. " * 1000), [], 100)
    assert isinstance(plan, Write)
    assert "of its 17,000 characters, only the first 3,000 were read" in plan.heading(plan.prompt)
    sent = fitted(plan.prompt, 1024)
    read = len(sent.messages[-1]["content"])
    assert read < 3000
    assert f"only the first {read:,} were read" in plan.heading(sent)


async def test_an_answer_that_no_model_wrote_tells_it_too(mcp_tools: list[RoutableTool]) -> None:
    long = f"What time is it in Tokyo? {'x ' * 2000}"
    turn = Turn(long, outcomes=(ToolOutcome(clock(mcp_tools).name, "05:00", False),))
    plan = await RouterPlanner().plan(turn, mcp_tools, 100)
    assert isinstance(plan, str)
    assert "only the first 2,000 were read" in plan


async def test_an_answer_tells_how_much_of_an_attached_text_was_read() -> None:
    plan = await RouterPlanner().plan(Turn("Why?", attached="word " * 1000), [], 100)
    assert isinstance(plan, Write)
    heading = plan.heading(plan.prompt)
    assert "The attached text is too long" in heading
    assert "only the first 1,500 were read" in heading
    assert "The message" not in heading


async def test_nothing_is_said_of_a_message_that_was_read_whole() -> None:
    plan = await RouterPlanner().plan(Turn("Hello!", attached="words"), [], 100)
    assert isinstance(plan, Write)
    assert plan.heading(plan.prompt) == ""


async def test_servers_that_are_not_available_are_named() -> None:
    line = "The MCP server 'time' is not available (it failed)"
    plan = await RouterPlanner().plan(Turn("What time is it?", unavailable=(line,)), [], 100)
    assert isinstance(plan, str)
    assert f"{line}. " in plan
