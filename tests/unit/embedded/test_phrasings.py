"""How often the router is right. The figures are reported in docs/explanation/embedded-model.md."""

import sys
import time
from typing import Any

import pytest

from openclaw.agent.tools.native_tools import native_tools
from openclaw.embedded.router import Previous, Router
from openclaw.embedded.tool_doc import RoutableTool


@pytest.fixture(scope="module")
def router(mcp_tools: list[RoutableTool]) -> Router:
    return Router(mcp_tools)


@pytest.fixture(scope="module")
def crowded(mcp_tools: list[RoutableTool], tmp_path_factory: Any) -> Router:
    """The same tools beside those that every agent has."""
    own = native_tools("main", tmp_path_factory.mktemp("workspace")).specs()
    native = [
        RoutableTool(s.name, s.description, s.input_schema, s.label, s.read_only) for s in own
    ]
    return Router([*native, *mcp_tools])


def misses(router: Router, cases: list[Any], judge: Any, tools: list[RoutableTool]) -> list[str]:
    return [case["text"] for case in cases if not judge(case, router.route(case["text"]), tools)]


def test_every_phrasing_that_may_be_tuned_on_is_routed_right(
    router: Router, phrasings: Any, judge: Any, mcp_tools: list[RoutableTool]
) -> None:
    assert misses(router, phrasings["first"], judge, mcp_tools) == []


@pytest.mark.parametrize("group", ["heldOut", "late", "blind"])
def test_at_least_seventeen_of_twenty_other_phrasings_are_routed_right(
    router: Router, phrasings: Any, judge: Any, mcp_tools: list[RoutableTool], group: str
) -> None:
    cases = phrasings[group]
    assert len(cases) >= 20
    assert len(misses(router, cases, judge, mcp_tools)) / len(cases) <= 3 / 20


def test_the_phrasings_of_development_are_routed_right_but_for_one(
    router: Router, development: Any, judge: Any, mcp_tools: list[RoutableTool]
) -> None:
    assert len(misses(router, development["tool"], judge, mcp_tools)) <= 1


def test_the_agents_own_tools_beside_them_change_nothing_for_absolute_paths(
    crowded: Router, phrasings: Any, judge: Any, mcp_tools: list[RoutableTool]
) -> None:
    assert misses(crowded, phrasings["first"], judge, mcp_tools) == []


@pytest.fixture(scope="module")
def chat(phrasings: Any, development: Any) -> list[str]:
    groups = ("noTool", "noToolLate", "noToolBlind")
    return [*development["noTool"], *(text for name in groups for text in phrasings[name])]


def test_what_needs_no_tool_calls_none(router: Router, chat: list[str]) -> None:
    assert [text for text in chat if router.route(text)] == []


def test_what_needs_no_tool_calls_none_with_the_agents_own_tools_either(
    crowded: Router, chat: list[str]
) -> None:
    assert [text for text in chat if crowded.route(text)] == []


def test_follow_ups_go_to_the_tool_of_the_turn_before(
    router: Router, phrasings: Any, judge: Any, mcp_tools: list[RoutableTool]
) -> None:
    for case in phrasings["followUps"]:
        first, second = case["turns"]
        before = Previous(first, router.route(first)[0].tool)
        assert judge(case, router.route(second, before), mcp_tools), case["turns"]


def test_five_hundred_tools_are_looked_through_in_less_than_fifty_milliseconds(
    mcp_tools: list[RoutableTool],
) -> None:
    many = [
        RoutableTool(f"{tool.name}_{copy}", tool.description, tool.schema, "", tool.read_only)
        for copy in range(18)
        for tool in mcp_tools
    ]
    assert len(many) >= 500
    router = Router(many)
    took: list[float] = []
    for _ in range(7):
        start = time.process_time()
        assert router.route("What changed last in the repository at /srv/repos/atlas?")
        took.append(time.process_time() - start)
    traced = sys.gettrace() is not None  # measuring coverage slows it several times
    assert min(took) < (0.5 if traced else 0.05)


@pytest.mark.parametrize(
    "question", ["What files are there?", "what files do I have?", "How many files are there?"]
)
def test_a_question_for_the_files_lists_them(crowded: Router, question: str) -> None:
    assert [call.tool for call in crowded.route(question)] == ["list"]


@pytest.mark.parametrize(
    ("question", "source", "time", "target"),
    [
        ("What time is it in London when it is 14:00 in Tokyo?", "Tokyo", "14:00", "London"),
        ("What time is it in London when it's 9:30 in New York?", "New_York", "09:30", "London"),
        ("London time for 14:00 in Tokyo?", "Tokyo", "14:00", "London"),
        ("Convert 14:00 in Tokyo to London time", "Tokyo", "14:00", "London"),
        ("What is 14:00 from Tokyo in London?", "Tokyo", "14:00", "London"),
    ],
)
def test_a_time_is_converted_from_the_zone_that_it_stands_at(
    router: Router, question: str, source: str, time: str, target: str
) -> None:
    [call] = router.route(question)
    assert call.tool == "mcp_time_convert_time"
    assert call.arguments["source_timezone"].endswith(source)
    assert call.arguments["target_timezone"].endswith(target)
    assert call.arguments["time"] == time


@pytest.mark.parametrize(
    ("request_", "tool", "arguments"),
    [
        ("Show the image /tmp/cat.png", "filesystem_read_media_file", {"path": "/tmp/cat.png"}),
        ("Open /home/me/song.mp3", "filesystem_read_media_file", {"path": "/home/me/song.mp3"}),
        ("Show the last commit in /repo", "git_git_log", {"repo_path": "/repo", "max_count": 1}),
        ("Show the last commits in /repo", "git_git_log", {"repo_path": "/repo"}),
        (
            "List the directory /tmp/work sorted by size",
            "filesystem_list_directory_with_sizes",
            {"path": "/tmp/work", "sortBy": "size"},
        ),
        (
            'Search for "see https://example.com" in /tmp/work',
            "filesystem_search_files",
            {"path": "/tmp/work", "pattern": "see https://example.com"},
        ),
        (
            "Add a.py and b.py to the index of /repo",
            "git_git_add",
            {"repo_path": "/repo", "files": ["a.py", "b.py"]},
        ),
    ],
)
def test_all_that_a_request_says_is_used(
    crowded: Router, request_: str, tool: str, arguments: dict[str, Any]
) -> None:
    [call] = crowded.route(request_)
    assert (call.tool, call.arguments) == (f"mcp_{tool}", arguments)


def test_a_tool_that_leaves_the_pattern_or_the_address_unused_is_not_taken(
    router: Router, crowded: Router
) -> None:
    [call] = router.route("Is there a *.toml in the folder /srv/app?")
    assert call.arguments == {"path": "/srv/app", "pattern": "*.toml"}
    [call] = crowded.route("Show README.md in https://example.com")
    assert call.arguments == {"url": "https://example.com"}


def test_files_are_read_in_the_order_in_which_they_are_named(mcp_tools: list[RoutableTool]) -> None:
    several = Router([tool for tool in mcp_tools if tool.name.endswith("read_multiple_files")])
    [call] = several.route("Read the files /srv/a.md, /srv/intro and /srv/b.md")
    assert call.arguments == {"paths": ["/srv/a.md", "/srv/intro", "/srv/b.md"]}


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ('Write "hello" to x.txt', "hello"),
        ("Write hello into x.txt", "hello"),
        ("write a file x.txt with the text hello", "hello"),
        ("Create a file x.txt with the text hello.", "hello"),
        ("Create the file x.txt with the content: 'hello there'", "hello there"),
        ("Make a file called x.txt with hello in it", "hello"),
        ("Could you make me a new text file named x.txt that says hello?", "hello"),
        ("save Hello, World! to x.txt", "Hello, World!"),
        ("put the words a story into the file x.txt", "a story"),
    ],
)
def test_a_text_is_written_to_the_file_that_is_named(
    crowded: Router, request_: str, text: str
) -> None:
    [call] = crowded.route(request_)
    assert (call.tool, call.arguments) == ("write", {"path": "x.txt", "content": text})


@pytest.mark.parametrize(
    "request_",
    [
        "Create a file x.txt",
        "Make an empty file x.txt",
        "Write a poem into x.txt",
        "Save the results to x.txt",
        "put it in x.txt",
        "Write three haikus to x.txt",
        "Write hello to x.txt and bye to y.txt",
        f"Create a file x.txt with the text {'hello ' * 400}",
    ],
)
def test_nothing_is_done_where_the_text_to_write_is_not_said_whole(
    crowded: Router, request_: str
) -> None:
    assert crowded.route(request_) == ()
