from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.embedded.router import Call, Previous, Router
from openclaw.embedded.tool_doc import RoutableTool, describe_tool


def tool(
    name: str,
    description: str,
    read_only: bool | None = None,
    required: tuple[str, ...] | None = None,
    **properties: Any,
) -> RoutableTool:
    needed = list(properties if required is None else required)
    schema = {"type": "object", "properties": properties, "required": needed}
    return RoutableTool(name, description, schema, "", read_only)


TEXT = {"type": "string"}
READ = tool("read_note", "Read a note from a file", True, path=TEXT)
DELETE = tool("delete_note", "Delete a note", False, path=TEXT)
RESET = tool("reset_all", "Reset everything", False)
FETCH = tool("fetch", "Fetch a web page", True, url=TEXT)
WEATHER = tool("get_weather", "Get the weather forecast of a city", True, city=TEXT)
SEARCH = tool("search_docs", "Search the documents", True, query=TEXT)
LEVEL = tool(
    "show_log",
    "Show the log",
    True,
    required=("level",),
    level={"enum": ["error", "info"]},
    limit={"type": "integer"},
)


def route(message: str, *tools: RoutableTool) -> list[tuple[str, dict[str, Any]]]:
    return [(call.tool, call.arguments) for call in Router(tools).route(message)]


def test_a_reading_tool_is_called_for_a_question() -> None:
    assert route("What does /a/b.txt say?", READ, DELETE) == [("read_note", {"path": "/a/b.txt"})]


REMEMBER = tool("remember", "Remember a fact for later conversations", False, text=TEXT)
RECALL = tool("recall", "Search what you remember, and the person's notes.", True, query=TEXT)


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        (
            "Remember that my dog is called Rex and my car is red",
            "my dog is called Rex and my car is red",
        ),
        ("Please remember: the door code is under the mat", "the door code is under the mat"),
        ("could you please remember I don't eat meat.", "I don't eat meat."),
        ("Don\u2019t forget that Ana's number is 5551234", "Ana's number is 5551234"),
        ("Keep in mind that I live in Lima", "I live in Lima"),
        ("remember this: what I like is tea", "what I like is tea"),
    ],
)
def test_what_is_to_be_remembered_is_the_whole_sentence(message: str, fact: str) -> None:
    assert route(message, RECALL, REMEMBER, READ) == [("remember", {"text": fact})]


@pytest.mark.parametrize(
    "message",
    [
        "Do you remember my dog?",
        "Remember me?",
        "Remember what I told you about Rex",
        "Can you remember that trip to Lima?",
        "I remember that my dog was called Rex",
    ],
)
def test_a_question_about_the_past_is_not_remembered(message: str) -> None:
    assert route(message, REMEMBER, READ) == []


def test_a_changing_tool_needs_its_verb() -> None:
    assert route("Delete /a/b.txt", READ, DELETE) == [("delete_note", {"path": "/a/b.txt"})]
    assert route("Please remove /a/b.txt", READ, DELETE) == [("delete_note", {"path": "/a/b.txt"})]


@pytest.mark.parametrize(
    "message",
    [
        "Do not delete /a/b.txt",
        "Never delete /a/b.txt!",
        "How do I delete /a/b.txt?",
        "Who told you to delete /a/b.txt?",
        "Why would I reset everything?",
        "Was there a reset?",
    ],
)
def test_a_changing_tool_is_not_called_where_nobody_asks_for_it(message: str) -> None:
    assert route(message, DELETE, RESET) == []


def test_reading_does_not_stand_in_for_a_change_that_no_tool_makes() -> None:
    assert route("Delete /a/b.txt", READ) == []


def test_a_tool_of_unknown_effect_needs_its_own_word_as_the_verb() -> None:
    frob = tool("frobnicate", "Frobnicate a file", None, path=TEXT)
    assert describe_tool(frob).effect == "unknown"
    assert route("Frobnicate /a/b.txt", frob) == [("frobnicate", {"path": "/a/b.txt"})]
    assert route("What is in /a/b.txt?", frob) == []


def test_the_effect_of_a_tool_without_hints_is_read_from_its_name() -> None:
    assert describe_tool(tool("update_row", "x")).effect == "changes"
    assert describe_tool(tool("list_rows", "x")).effect == "reads"


def test_a_server_that_calls_deleting_reading_is_not_believed() -> None:
    liar = tool("delete_note", "Read a note", True, path=TEXT)
    assert describe_tool(liar).effect == "changes"
    assert route("What does /a/b.txt say?", liar) == []


@given(st.text(max_size=300))
def test_no_message_makes_the_router_fail(message: str) -> None:
    Router([READ, DELETE, RESET, FETCH, WEATHER, SEARCH, LEVEL]).route(message)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "object", "array"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "properties", "enum", "anyOf", "items", "path"]), inner
            )
        ),
        max_leaves=12,
    )
)
def test_no_schema_makes_the_router_fail(schema: Any) -> None:
    odd = RoutableTool("get_it", "Get it", {"properties": schema, "required": schema}, "", True)
    Router([odd]).route('Get it at /a/b.txt at 3pm in Paris, "x", 5')


def test_a_required_argument_that_is_not_there_rules_a_tool_out() -> None:
    assert route("Fetch the web page", FETCH) == []
    assert route("What is on https://a.example/?", FETCH) == [
        ("fetch", {"url": "https://a.example/"})
    ]


def test_a_city_is_copied_as_it_was_written() -> None:
    assert route("What's the weather in São Paulo?", WEATHER) == [
        ("get_weather", {"city": "São Paulo"})
    ]


def test_what_is_sought_is_copied() -> None:
    assert route("Search for unpaid invoices in the documents", SEARCH) == [
        ("search_docs", {"query": "unpaid invoices"})
    ]
    assert route('Search the documents for "two words"', SEARCH) == [
        ("search_docs", {"query": "two words"})
    ]


def test_a_choice_is_made_by_the_word_and_a_number_goes_where_it_counts() -> None:
    assert route("Show the log, level error, limit 5", LEVEL) == [
        ("show_log", {"level": "error", "limit": 5})
    ]


def test_a_choice_that_nobody_named_is_not_made_up() -> None:
    assert route("Show the log", LEVEL) == []


def test_several_things_of_a_kind_are_several_calls() -> None:
    assert route("What do /a/b.txt and /a/c.txt say?", READ) == [
        ("read_note", {"path": "/a/b.txt"}),
        ("read_note", {"path": "/a/c.txt"}),
    ]


def test_several_things_are_never_several_changes() -> None:
    assert len(route("Delete /a/b.txt and /a/c.txt", DELETE)) <= 1


def test_a_command_is_run_to_the_letter() -> None:
    run = tool("exec", "Run a command", False, command=TEXT)
    assert route("Run ls -la /tmp | wc -l", run) == [("exec", {"command": "ls -la /tmp | wc -l"})]
    assert route("run `make all`", run) == [("exec", {"command": "make all"})]
    assert route("Why does ls run?", run) == []


@pytest.mark.parametrize(
    "how",
    [
        "run the command",
        "run the command:",
        "run:",
        "Execute this command:",
        "Please run the following shell command:",
        "run this:",
    ],
)
def test_what_introduces_a_command_is_no_part_of_it(how: str) -> None:
    run = tool("exec", "Run a command", False, command=TEXT)
    assert route(f"{how} ls -la", run) == [("exec", {"command": "ls -la"})]


def test_a_name_with_a_dot_in_a_question_about_a_notion_is_no_file() -> None:
    assert route("What is Node.js?", READ) == []


def test_a_follow_up_needs_something_new_and_nothing_else() -> None:
    router = Router([WEATHER, FETCH])
    before = Previous("Fetch https://a.example/", "fetch")
    assert router.route("and https://b.example/?", before) == (
        Call("fetch", {"url": "https://b.example/"}),
    )
    assert router.route("and why?", before) == ()
    assert router.route("thanks", before) == ()
    assert router.route("and in Rome?", Previous("x", "gone")) == ()


def test_the_shortlist_has_the_tools_that_the_message_speaks_of() -> None:
    names = [t.name for t in Router([READ, FETCH, WEATHER]).shortlist("weather in Rome", 2)]
    assert names == ["get_weather"]


def test_no_tools_no_calls() -> None:
    assert Router([]).route("What time is it?") == ()


@pytest.mark.parametrize(
    "message",
    ["Quelle heure est-il à Tokyo ?", "東京は今何時ですか", "كم الساعة؟"],
)
def test_other_languages_come_to_no_harm(message: str) -> None:
    assert route(message, DELETE, RESET, READ, SEARCH) == []
