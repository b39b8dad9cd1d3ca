"""Which tools the model is shown, and how it finds the others."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.agent_kit import FakeTools

from openclaw.agent.toolpath.search import MOST_AT_FIRST, SEARCH_TOOL, ToolListLimits, ToolSearch
from openclaw.agent.toolpath.toolbox import Toolbox, ToolPathDeps, tool_path
from openclaw.agent.transcript import AssistantItem, Item, ResultItem, UserItem
from openclaw.core.clock import SystemClock
from openclaw.core.content import text_of
from openclaw.core.tools import CallContext, ToolSource
from openclaw.policy.decide import Rules
from openclaw.secrets.redactor import Redactor

WINDOW = 128_000
CONTEXT = CallContext("main", "s", "c")


def toolbox(tools: FakeTools, most: int | None = None, deny: tuple[str, ...] = ()) -> Toolbox:
    return toolbox_of([tools], most, deny)


def toolbox_of(
    tools: Sequence[ToolSource], most: int | None = None, deny: tuple[str, ...] = ()
) -> Toolbox:
    policy = [Rules("tools", deny=deny)]
    deps = ToolPathDeps(Redactor(), SystemClock())
    return tool_path(tools, policy, deps, bounds=ToolListLimits(most=most))


def many(count: int) -> FakeTools:
    tools = FakeTools()
    tools.add("read", description="Read a file.")
    for number in range(count):
        tools.add(f"mcp_a_t{number}", description=f"Thing {number}.", server="a")
    return tools


async def names(box: Toolbox, window: int = WINDOW) -> list[str]:
    return [spec.name for spec in await box.shown(window)]


def used(name: str) -> ResultItem:
    return ResultItem("c", name, "done")


async def test_few_tools_are_all_shown_and_without_the_search() -> None:
    assert await names(toolbox(many(3))) == ["read", "mcp_a_t0", "mcp_a_t1", "mcp_a_t2"]


async def test_many_tools_are_cut_to_the_limit_with_our_own_and_the_search_among_them() -> None:
    shown = await names(toolbox(many(100), most=10))
    assert len(shown) == 10
    assert shown[0] == "read"
    assert shown[-1] == SEARCH_TOOL


async def test_a_model_to_which_no_tool_costs_anything_is_shown_everything() -> None:
    assert len(await toolbox(many(100), most=10).shown(1000, everything=True)) == 101


@pytest.mark.parametrize("window", [8_000, 32_000, 128_000, 200_000, 1_000_000])
async def test_five_hundred_tools_take_at_most_four_thousand_tokens(window: int) -> None:
    tools = many(0)
    for number in range(500):
        text = f"Does thing {number} to the records of a customer. " * 4
        tools.add(f"mcp_s{number % 70}_t{number}", description=text, server=f"s{number % 70}")
    box = toolbox(tools)
    box.index_items([UserItem("Do thing 77 to a customer.")])
    shown = await box.shown(window)
    assert box.sizes.total(shown) <= min(MOST_AT_FIRST, ToolListLimits().tokens(window))
    assert len(shown) > 10


async def test_even_a_tiny_context_leaves_the_search() -> None:
    assert await names(toolbox(many(20)), 10) == [SEARCH_TOOL]


async def test_a_server_with_two_tools_is_not_hidden_by_one_with_many() -> None:
    tools = FakeTools()
    for number in range(300):
        text = "Reads and writes files in many ways. " * 10
        tools.add(f"mcp_files_f{number}", description=text, server="files")
    tools.add("mcp_time_convert_time", description="Converts a time.", server="time")
    tools.add("mcp_time_get_current_time", description="The current time.", server="time")
    box = toolbox(tools)
    box.index_items([UserItem("Read and write files.")])
    assert {"mcp_time_convert_time", "mcp_time_get_current_time"} <= set(await names(box))


async def test_tools_near_the_first_message_are_shown() -> None:
    tools = many(400)
    tools.add("mcp_a_zebra", description="Translate text between languages.", server="a")
    box = toolbox(tools)
    box.index_items(
        [UserItem("Translate this text, please."), AssistantItem("Yes."), UserItem("Thing")]
    )
    assert "mcp_a_zebra" in await names(box)


async def test_one_line_per_server_says_what_else_it_has() -> None:
    tools = many(400)
    for number in range(200):
        tools.add(f"mcp_git_g{number}", description="Commits. " * 20, server="git")
    search = (await toolbox(tools).shown(WINDOW))[-1]
    lines = [line for line in search.description.splitlines() if line.startswith("- ")]
    assert [line.split(",")[0] for line in lines] == ["- a", "- git"]
    assert " more: t" in lines[0]


async def test_hundreds_of_servers_are_named_within_the_budget() -> None:
    tools = FakeTools()
    for number in range(600):
        tools.add(f"mcp_server{number}_run", description="Runs. " * 20, server=f"server{number}")
    box = toolbox(tools)
    shown = await box.shown(WINDOW)
    assert "server599" not in shown[-1].description
    assert box.sizes.total(shown) <= MOST_AT_FIRST


async def test_a_tool_that_was_used_is_added_at_the_end_and_nothing_else_changes() -> None:
    box = toolbox(many(400))
    before = await box.shown(WINDOW)
    box.index_items([used("mcp_a_t377"), used("mcp_a_t378"), used("mcp_a_t377"), used("gone")])
    after = await box.shown(WINDOW)
    assert after[: len(before)] == before
    assert [spec.name for spec in after[len(before) :]] == ["mcp_a_t377", "mcp_a_t378"]


async def test_what_was_added_is_bounded_and_the_latest_stays() -> None:
    tools = many(0)
    for number in range(200):
        tools.add(f"mcp_a_l{number}", description="A long one. " * 100, server="a")
    box = toolbox(tools)
    first = await box.shown(WINDOW)
    box.index_items([used(f"mcp_a_l{number}") for number in range(200)])
    after = await box.shown(WINDOW)
    assert box.sizes.total(after[len(first) :]) <= ToolListLimits().tokens(WINDOW)
    assert after[-1].name == "mcp_a_l199"


async def test_a_conversation_recalled_whole_gives_the_same_list_as_bit_by_bit() -> None:
    tools = many(400)
    live, later = toolbox(tools), toolbox(tools)
    items: list[Item] = [UserItem("Thing 5, please.")]
    live.index_items(items)
    for need in ("thing 311", "thing 312"):
        said = await live.call(SEARCH_TOOL, {"query": need}, CONTEXT)
        step = [ResultItem("c", SEARCH_TOOL, text_of(said.blocks)), used("mcp_a_t312")]
        live.index_items(step)
        items += step
        await live.shown(WINDOW)
    later.index_items(items)
    assert await later.shown(WINDOW) == await live.shown(WINDOW)


async def test_our_own_tools_alone_may_be_too_many() -> None:
    tools = FakeTools()
    for number in range(30):
        tools.add(f"own{number}")
    box = toolbox(tools, most=10)
    box.index_items([used("own29")])
    shown = await names(box)
    assert shown[9:] == [SEARCH_TOOL, "own29"]


@pytest.mark.requirement("NFR-2.3")
async def test_the_first_source_to_use_a_name_has_it() -> None:
    first, second = FakeTools(), FakeTools()
    first.add("twin", description="first")
    second.add("twin", description="second")
    box = toolbox_of([first, second])
    assert [spec.description for spec in await box.shown(WINDOW)] == ["first"]


async def refusal(box: Toolbox, name: str) -> str:
    await box.shown(WINDOW)
    assert box.find(name) is None
    return text_of((await box.call(name, {}, CONTEXT)).blocks)


async def test_a_denied_tool_is_refused_with_its_rule() -> None:
    tools = many(3)
    said = await refusal(toolbox(tools, deny=("mcp_a_*",)), "mcp_a_t1")
    assert "tools.deny has 'mcp_a_*'" in said
    assert not tools.calls


async def test_an_unknown_tool_is_refused_with_the_nearest_names() -> None:
    box = toolbox(many(3))
    assert await refusal(box, "raed") == (
        "There is no tool raed. Did you mean read? Use one of the tools that are listed."
    )
    assert (await refusal(box, "zzz")).startswith("There is no tool zzz. Use")


async def asked(box: Toolbox, **arguments: object) -> str:
    await box.shown(WINDOW)
    result = await box.call(SEARCH_TOOL, arguments, CONTEXT)
    text = text_of(result.blocks)
    box.index_items([ResultItem("c", SEARCH_TOOL, text, is_error=result.is_error)])
    return text


async def test_a_search_shows_what_it_found_from_then_on() -> None:
    tools = many(400)
    tools.add("mcp_b_translate", description="Translate text between languages. " * 20, server="b")
    box = toolbox(tools, most=10)
    assert box.find(SEARCH_TOOL) is not None
    said = await asked(box, query="translating languages")
    assert "- mcp_b_translate: Translate text" in said
    assert "…" in said
    assert "mcp_b_translate" in await names(box)


async def test_a_search_that_finds_nothing_says_so() -> None:
    box = toolbox(many(100), most=10)
    result = await box.call(SEARCH_TOOL, {"query": "qqqzzz", "limit": 999}, CONTEXT)
    assert result.is_error or "Nothing fits well" in text_of(result.blocks)


async def test_a_search_without_a_need_says_what_it_takes() -> None:
    result = await toolbox(many(100), most=10).call(SEARCH_TOOL, {"queries": [" "]}, CONTEXT)
    assert result.is_error
    assert "query" in text_of(result.blocks)


def mixed() -> FakeTools:
    tools = many(50)
    for name, description in {
        "mail_send_message": "Send an email to someone.",
        "mail_list": "List emails in a folder.",
        "git_createIssue": "Opens a new issue in the tracker.",
        "git_close": "Closes an issue.",
        "fs_list_directory": "Lists the files in a directory.",
        "time_get_current_time": "The current time in a timezone.",
        "pdf_extract": "Reads the text of a PDF document.",
    }.items():
        server = name.split("_")[0]
        tools.add(f"mcp_{name}", description=description, server=server)
    return tools


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("send an email", "mcp_mail_send_message"),
        ("create issue", "mcp_git_createIssue"),
        ("list files", "mcp_fs_list_directory"),
        ("mcp_git_close", "mcp_git_close"),
        ("what time is it", "mcp_time_get_current_time"),
    ],
)
async def test_the_best_match_comes_first_by_its_full_name(query: str, best: str) -> None:
    said = await asked(toolbox(mixed(), most=5), query=query, limit=5)
    assert said.startswith(f"Found, best first: {best}")


async def test_several_needs_are_searched_for_at_once_and_grouped_by_server() -> None:
    box = toolbox(mixed(), most=5)
    said = await asked(box, queries=["read a PDF", "send an email"])
    assert 'Found for "read a PDF", best first: mcp_pdf_extract' in said
    assert 'Found for "send an email", best first: mcp_mail_send_message' in said
    assert said.index("server pdf:\n- mcp_pdf_extract") < said.index("server mail:\n- mcp_mail")
    assert {"mcp_pdf_extract", "mcp_mail_send_message"} <= set(await names(box))


async def test_a_search_tells_the_parameters_that_matter() -> None:
    tools = many(50)
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "state": {"enum": ["open", "closed"]},
            "labels": {"type": "array"},
        },
        "required": ["title", "state"],
    }
    tools.add("mcp_git_issue", description="Opens an issue.", server="git", schema=schema)
    said = await asked(toolbox(tools, most=5), query="open an issue")
    assert "Needs title (string), state (open|closed). Optional: labels." in said


async def test_a_search_says_when_nothing_fits_well() -> None:
    said = await asked(toolbox(mixed(), most=5), query="bake bread in an oven, then list")
    assert said.startswith(("Nothing fits well", "No tool fits"))


async def test_a_tool_of_that_name_from_elsewhere_is_not_hidden_by_ours() -> None:
    tools = FakeTools()
    tools.add(SEARCH_TOOL, description="theirs")
    box = toolbox(tools)
    await box.shown(WINDOW)
    found = box.find(SEARCH_TOOL)
    assert found is not None
    assert found.description == "theirs"


async def test_all_sessions_share_one_index_and_the_next_process_reads_its_file(
    tmp_path: Path,
) -> None:
    tools, place = many(300), tmp_path / "tools"
    deps = ToolPathDeps(Redactor(), SystemClock())
    for _ in range(2):  # two processes
        deps = replace(deps, finder=ToolSearch(place))
        for _ in range(2):  # two sessions
            box = tool_path([tools], [], deps)
            assert "mcp_a_t222" in await asked(box, query="thing 222")
    (file,) = place.iterdir()
    tools.add("mcp_a_new", description="Translate text.", server="a")
    box = tool_path([tools], [], deps)
    assert "best first: mcp_a_new" in await asked(box, query="translate text")
    assert len(list(place.iterdir())) == 2
    assert file.exists()
