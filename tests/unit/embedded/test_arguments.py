"""Arguments by what parameters want: copied from the message, or chosen from what is listed."""

from typing import Any

import pytest

from openclaw.embedded.arguments import read_arguments
from openclaw.embedded.entities import find_spans
from openclaw.embedded.router import Router
from openclaw.embedded.tool_doc import RoutableTool, describe_tool

WHOLE, TEXT = {"type": "integer"}, {"type": "string"}


def read(message: str, *required: str, **properties: Any) -> dict[str, Any] | list[str]:
    """The arguments, or the names of what is missing."""
    schema = {"type": "object", "properties": properties, "required": list(required or properties)}
    doc = describe_tool(RoutableTool("tool", "", schema))
    reading = read_arguments(doc, message, find_spans(message))
    return reading.missing or reading.arguments


@pytest.mark.parametrize(
    ("message", "properties", "arguments"),
    [
        ("open https://a.example/x", {"url": TEXT}, {"url": "https://a.example/x"}),
        ("write to kim@example.org", {"recipient": TEXT}, {"recipient": "kim@example.org"}),
        ("a table at 7:30 pm", {"time": {**TEXT, "description": "As HH:MM."}}, {"time": "19:30"}),
        (
            "entries from 2026-01-02 to 2026-02-03",
            {"end_date": TEXT, "start_date": TEXT},
            {"start_date": "2026-01-02", "end_date": "2026-02-03"},
        ),
        (
            "the weather in fahrenheit",
            {"unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            {"unit": "fahrenheit"},
        ),
        ("the weather in são paulo", {"city": TEXT}, {"city": "são paulo"}),
        ("hotels in Ashland", {"city": TEXT}, {"city": "Ashland"}),
        ("book a table for 2, room 4", {"room": WHOLE}, {"room": 4}),
        (
            "a note titled 'Shopping' with the body 'milk and eggs'",
            {"body": TEXT, "title": TEXT},
            {"title": "Shopping", "body": "milk and eggs"},
        ),
        ("upload it from /srv/rows.csv", {"file_path": TEXT}, {"file_path": "/srv/rows.csv"}),
        ("a slice of cake with no ice", {"ice": {"type": "boolean"}}, {"ice": False}),
    ],
)
def test_values_go_where_their_words_and_types_say(
    message: str, properties: dict[str, Any], arguments: dict[str, Any]
) -> None:
    assert read(message, *list(arguments), **properties) == arguments


@pytest.mark.parametrize(
    ("message", "properties"),
    [
        ("the area in inches", {"unit": {"enum": ["cm", "m"]}}),
        ("1" * 400, {"count": WHOLE}),
        ("anything", {"options": {"type": "object"}}),
        ("a contract between us", {"contract_type": TEXT}),
        ("a triangle with 5 corners", {"base": WHOLE}),
    ],
)
def test_what_the_message_does_not_give_is_missing(message: str, properties: Any) -> None:
    assert read(message, **properties) == list(properties)


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("the top 5 songs called 'Yellow'", 5),
        ("songs called 'Yellow', give me three", 3),
        ("songs called 'Yellow' from the year 2019", None),
        ("songs called 'Yellow' by somebody who is 25", None),
    ],
)
def test_a_number_is_a_limit_only_if_that_many_are_asked_for(
    message: str, limit: int | None
) -> None:
    arguments = read(message, "title", title=TEXT, limit=WHOLE)
    assert arguments == {"title": "Yellow"} | ({"limit": limit} if limit else {})


@pytest.mark.parametrize(
    "message",
    [
        "Tell me something nice",
        "I had soup in Boston yesterday",
        "Who wrote Hamlet?",
        "What do you think about love?",
        "My sister moved to Denver and likes it",
    ],
)
def test_talk_calls_no_tool(message: str) -> None:
    tools = [
        ("find_hotels", "Find hotels in a city.", {"city": TEXT}),
        ("web_search", "Search the web.", {"query": TEXT}),
        ("play_song", "Play a song by its title.", {"title": TEXT, "artist": TEXT}),
    ]
    router = Router(
        [
            RoutableTool(name, text, {"type": "object", "properties": p, "required": list(p)[:1]})
            for name, text, p in tools
        ]
    )
    assert router.route(message) == ()


def test_a_tool_that_changes_something_needs_a_plain_request() -> None:
    schema = {"type": "object", "properties": {"title": TEXT}, "required": ["title"]}
    pay = RoutableTool("pay_invoice", "Pay an invoice.", schema)
    assert len(Router([pay]).route("Pay the invoice called A17")) == 1
    assert Router([pay]).route("Was the invoice called A17 an invoice to pay?") == ()
    assert Router([pay]).route("Don't pay the invoice called A17") == ()


@pytest.mark.parametrize(
    "message",
    ['Cancellations of order "A17"', 'Cancellation of order "A17"?', 'Cancelling order "A17"'],
)
def test_a_noun_of_the_verbs_stem_changes_nothing(message: str) -> None:
    schema = {"type": "object", "properties": {"order": TEXT}, "required": ["order"]}
    cancel = RoutableTool("cancel_order", "Cancel an order by its name.", schema)
    assert Router([cancel]).route(message) == ()
    assert len(Router([cancel]).route('Cancel order "A17"')) == 1


@pytest.mark.parametrize("name", ["modify_order", "create_order"])
@pytest.mark.parametrize("message", ['Status of order "A17"', 'Info about order "A17"'])
def test_a_question_about_a_thing_does_not_change_it(name: str, message: str) -> None:
    schema = {"type": "object", "properties": {"order": TEXT}, "required": ["order"]}
    tool = RoutableTool(name, f"{name.replace('_', ' ')} by its order id.", schema)
    assert Router([tool]).route(message) == ()


@pytest.mark.parametrize("piece", ["A B ", "x+", "1, ", "'", "of the ", "((", "one ", "in A "])
def test_a_hostile_message_is_read_to_its_end(piece: str) -> None:
    properties = {"function": TEXT, "date": TEXT, "city": TEXT, "options": {"type": "object"}}
    assert "options" in read(piece * (2_000 // len(piece)), **properties)


def test_a_tool_that_reads_does_not_stand_in_for_a_change() -> None:
    schema = {"type": "object", "properties": {"name": TEXT, "file": TEXT}, "required": ["name"]}
    skill = RoutableTool("skill", "Read a skill, or one of its files.", schema, read_only=True)
    assert Router([skill]).route('Write "hello" to the file notes.txt') == ()


def test_only_so_many_parameters_are_read_and_the_required_ones_first() -> None:
    properties = {f"city_{number}": TEXT for number in range(500)}
    arguments = read("a train to Oslo", "city_499", **properties)
    assert arguments == {"city_499": "Oslo"}
