"""Which tools the model is shown, and how it finds the others."""

from collections.abc import Sequence

import pytest

from openclaw.agent.toolpath.build import ToolPathDeps, tool_path
from openclaw.agent.toolpath.search import ToolIndex, words
from openclaw.agent.toolpath.toolbox import SEARCH_TOOL, Toolbox
from openclaw.core.clock import SystemClock
from openclaw.core.content import text_of
from openclaw.core.tools import CallContext, ToolSource
from openclaw.policy import Policy, Rules
from openclaw.secrets.redactor import Redactor
from openclaw.testing.agent_kit import FakeTools

PLENTY = 1_000_000
CONTEXT = CallContext("main", "s", "c")


def toolbox(tools: FakeTools, limit: int = 40, deny: tuple[str, ...] = ()) -> Toolbox:
    return toolbox_of([tools], limit, deny)


def toolbox_of(tools: Sequence[ToolSource], limit: int = 40, deny: tuple[str, ...] = ()) -> Toolbox:
    policy = Policy.from_layers([Rules.of("tools", deny=deny)])
    deps = ToolPathDeps(Redactor(), SystemClock())
    box = tool_path(tools, policy, deps, search_limit=limit)
    box.refresh()
    return box


def many(count: int) -> FakeTools:
    tools = FakeTools()
    tools.add("read", description="Read a file.")
    for number in range(count):
        tools.add(f"mcp_a_t{number}", description=f"Thing {number}.", server="a")
    return tools


def test_few_tools_are_all_shown_and_without_the_search() -> None:
    assert [spec.name for spec in toolbox(many(3)).shown(PLENTY)] == [
        "read",
        "mcp_a_t0",
        "mcp_a_t1",
        "mcp_a_t2",
    ]


def test_many_tools_are_cut_to_the_limit_with_our_own_and_the_search_among_them() -> None:
    names = [spec.name for spec in toolbox(many(100), limit=10).shown(PLENTY)]
    assert len(names) == 10
    assert names[0] == "read"
    assert names[-1] == SEARCH_TOOL


def test_a_model_to_which_no_tool_costs_anything_is_shown_everything() -> None:
    assert len(toolbox(many(100), limit=10).shown(0, everything=True)) == 101


def test_the_list_is_the_same_from_step_to_step() -> None:
    box = toolbox(many(100), limit=10)
    first = box.shown(PLENTY)
    box.refresh()
    assert box.shown(PLENTY) == first


def test_definitions_that_are_too_long_together_are_cut_too() -> None:
    box = toolbox(many(20))
    tokens = box.sizes.total(box.shown(PLENTY)) // 2
    shown = box.shown(tokens)
    assert box.sizes.total(shown) <= tokens
    assert shown[-1].name == SEARCH_TOOL
    assert len(shown) > 3


def test_even_a_tiny_budget_leaves_the_search() -> None:
    assert [spec.name for spec in toolbox(many(20)).shown(1)] == [SEARCH_TOOL]


def test_a_tool_that_was_used_stays_in_sight() -> None:
    box = toolbox(many(100), limit=10)
    box.use("mcp_a_t77")
    box.use("mcp_a_t78")
    box.use("mcp_a_t77")
    box.use("gone")
    names = [spec.name for spec in box.shown(PLENTY)]
    assert {"mcp_a_t77", "mcp_a_t78", "read"} <= set(names)
    assert len(names) == 10


def test_our_own_tools_alone_may_be_too_many() -> None:
    tools = FakeTools()
    for number in range(30):
        tools.add(f"own{number}")
    box = toolbox(tools, limit=10)
    box.use("own29")
    names = [spec.name for spec in box.shown(PLENTY)]
    assert len(names) == 10
    assert "own29" in names


@pytest.mark.requirement("NFR-2.3")
def test_the_first_source_to_use_a_name_has_it() -> None:
    first, second = FakeTools(), FakeTools()
    first.add("twin", description="first")
    second.add("twin", description="second")
    box = toolbox_of([first, second])
    assert [spec.description for spec in box.shown(PLENTY)] == ["first"]


async def refusal(box: Toolbox, name: str) -> str:
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


async def test_a_search_shows_what_it_found_from_then_on() -> None:
    tools = many(100)
    tools.add("mcp_b_translate", description="Translate text between languages. " * 20, server="b")
    box = toolbox(tools, limit=10)
    assert box.find(SEARCH_TOOL) is not None
    result = await box.call(SEARCH_TOOL, {"query": "translating languages"}, CONTEXT)
    assert "- mcp_b_translate: Translate text" in text_of(result.blocks)
    assert "…" in text_of(result.blocks)
    assert "mcp_b_translate" in [spec.name for spec in box.shown(PLENTY)]


async def test_a_search_that_finds_nothing_says_so() -> None:
    box = toolbox(many(100), limit=10)
    result = await box.call(SEARCH_TOOL, {"query": "qqq", "limit": 999}, CONTEXT)
    assert result.is_error


def test_a_tool_of_that_name_from_elsewhere_is_not_hidden_by_ours() -> None:
    tools = FakeTools()
    tools.add(SEARCH_TOOL, description="theirs")
    found = toolbox(tools).find(SEARCH_TOOL)
    assert found is not None
    assert found.description == "theirs"


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
def test_the_search_ranks_by_what_tools_do(query: str, best: str) -> None:
    tools = FakeTools()
    for name, description in {
        "mcp_mail_send_message": "Send an email to someone.",
        "mcp_mail_list": "List emails in a folder.",
        "mcp_git_createIssue": "Opens a new issue in the tracker.",
        "mcp_git_close": "Closes an issue.",
        "mcp_fs_list_directory": "Lists the files in a directory.",
        "mcp_time_get_current_time": "The current time in a timezone.",
    }.items():
        tools.add(name, description=description, server="x")
    assert ToolIndex(tools.specs()).search(query, 3)[0].name == best


def test_words_are_taken_apart_and_folded() -> None:
    assert words("createIssue list_FILES über-Straßen class") == [
        "create",
        "issue",
        "list",
        "file",
        "über",
        "strassen",
        "class",
    ]


def test_an_empty_index_finds_nothing() -> None:
    assert ToolIndex([]).search("anything", 5) == []
