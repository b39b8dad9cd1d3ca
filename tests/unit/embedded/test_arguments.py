"""Arguments by the types of parameters: copied from the message, or chosen from what is listed."""

from typing import Any

import pytest

from openclaw.embedded.arguments import read_arguments
from openclaw.embedded.entities import find_spans
from openclaw.embedded.router import Router
from openclaw.embedded.tool_doc import RoutableTool, describe_tool

NUMBER, WHOLE, TEXT = {"type": "number"}, {"type": "integer"}, {"type": "string"}
PLACES = {
    "origin": {"type": "string", "description": "A city"},
    "destination": {"type": "string", "description": "A city"},
}


def read(message: str, *required: str, **properties: Any) -> dict[str, Any] | list[str]:
    """The arguments, or the names of what is missing."""
    schema = {"type": "object", "properties": properties, "required": list(required or properties)}
    doc = describe_tool(RoutableTool("tool", "", schema))
    reading = read_arguments(doc, message, find_spans(message))
    return reading.missing or reading.arguments


@pytest.mark.parametrize(
    ("message", "properties", "arguments"),
    [
        (
            "the area of a triangle with a height of 5 cm and a base of 10 cm",
            {"base": NUMBER, "height": NUMBER},
            {"base": 10, "height": 5},
        ),
        (
            "properties of a triangle whose three sides are 5, 4 and 3",
            {"side1": WHOLE, "side2": WHOLE, "side3": WHOLE},
            {"side1": 5, "side2": 4, "side3": 3},
        ),
        (
            "interest on 2.5 million at a rate of 5%",
            {"amount": WHOLE, "rate": NUMBER},
            {"amount": 2_500_000, "rate": 0.05},
        ),
        ("book two tickets", {"tickets": WHOLE}, {"tickets": 2}),
        (
            "a hotel from July 10, 2022 to 2022-07-20",
            {"start_date": TEXT, "end_date": {"type": "string", "description": "DD/MM/YYYY"}},
            {"start_date": "2022-07-10", "end_date": "20/07/2022"},
        ),
        (
            "the weather in fahrenheit",
            {"unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            {"unit": "fahrenheit"},
        ),
        (
            "drive from New York to Los Angeles",
            {"origin": TEXT, "destination": TEXT},
            {"origin": "New York", "destination": "Los Angeles"},
        ),
        (
            "the mean of [3, 4.5, 8]",
            {"values": {"type": "array", "items": NUMBER}},
            {"values": [3, 4.5, 8]},
        ),
        ("a circle in the color \u2018Red\u2019", {"color": TEXT}, {"color": "Red"}),
        (
            "stats of the player 'LeBron James'",
            {"player_name": TEXT},
            {"player_name": "LeBron James"},
        ),
        (
            "a crate whose width and depth are 40 cm and 25 cm",
            {"depth": WHOLE, "width": WHOLE},
            {"depth": 25, "width": 40},
        ),
        (
            "tides on 2024/03/09",
            {"date": {"type": "string", "description": "The date (day-month-year)."}},
            {"date": "09-03-2024"},
        ),
        (
            "Play Roar by Katy Perry. The song_id is katy_roar.",
            {"song_id": TEXT, "artist": TEXT},
            {"song_id": "katy_roar", "artist": "Katy Perry"},
        ),
        (
            "the pods in the namespace blue-sandbox",
            {"namespace": {"type": "string", "default": "default"}},
            {"namespace": "blue-sandbox"},
        ),
        ("a drive from berlin to rome", PLACES, {"origin": "berlin", "destination": "rome"}),
        ("is the host 8.8.8.8 up", {"host": TEXT}, {"host": "8.8.8.8"}),
        ("who owns the domain example.com", {"domain": TEXT}, {"domain": "example.com"}),
        (
            "the headers of https://example.com/a?b=c",
            {"url": TEXT},
            {"url": "https://example.com/a?b=c"},
        ),
        (
            "a slice of cake with no ice",
            {"ice": {"type": "boolean"}},
            {"ice": False},
        ),
        (
            "show all of the new tickets",
            {"state": {"type": "string", "enum": ["all", "new", "old"]}},
            {"state": "new"},
        ),
        (
            "a flat with 4 rooms, 2 balconies",
            {"balconies": WHOLE, "rooms": WHOLE},
            {"balconies": 2, "rooms": 4},
        ),
        (
            "a table at 7:30 pm",
            {"start_time": {"type": "string", "description": "As HH:MM."}},
            {"start_time": "19:30"},
        ),
        (
            "hotels in Ashland, Oregon",
            {"city": {"type": "string", "description": "In the format 'City, State'."}},
            {"city": "Ashland, Oregon"},
        ),
        (
            "hotels in Osaka",
            {"city": {"type": "string", "description": "'City, State' or 'City, Country'"}},
            {"city": "Osaka, Japan"},
        ),
        (
            "paint it: color 'green' on the wall 'north side'",
            {"wall": TEXT, "color": TEXT},
            {"wall": "north side", "color": "green"},
        ),
        (
            "the novel 'Emma' by Jane Austen",
            {"author": TEXT, "novel": TEXT},
            {"author": "Jane Austen", "novel": "Emma"},
        ),
        ("status of parcel id PX-7731", {"parcel_id": TEXT}, {"parcel_id": "PX-7731"}),
        (
            "upload it from /srv/data/rows.csv",
            {"file_path": TEXT},
            {"file_path": "/srv/data/rows.csv"},
        ),
        (
            "write to kim@example.org",
            {"receiver": TEXT},
            {"receiver": "kim@example.org"},
        ),
        (
            "invite Ana, Bob and Chloe",
            {"guests": {"type": "array", "items": TEXT}},
            {"guests": ["Ana", "Bob", "Chloe"]},
        ),
        (
            "series_a is 1, 2, 3 and series_b is 4, 5, 6",
            {
                "series_a": {"type": "array", "items": NUMBER},
                "series_b": {"type": "array", "items": NUMBER},
            },
            {"series_a": [1, 2, 3], "series_b": [4, 5, 6]},
        ),
        (
            "a villa near the lake",
            {"kind": {"type": "string", "description": "Such as villa, cabin or tent"}},
            {"kind": "villa"},
        ),
        (
            "show all the graphs in blue and red",
            {"colours": {"type": "array", "items": {"enum": ["blue", "red", "grey"]}}},
            {"colours": ["blue", "red"]},
        ),
        (
            "a room with a balcony",
            {"has_balcony": {"type": "string", "enum": ["True", "False", "any"]}},
            {"has_balcony": "True"},
        ),
        ("the usual", {"size": {"type": "string", "default": "m"}}, {"size": "m"}),
        ("the function 3x^2 + 1", {"function": TEXT}, {"function": "3x^2 + 1"}),
        ("a flight to New York City", {"city": TEXT}, {"city": "New York City"}),
        ("the scores of the 2022 season", {"season": TEXT}, {"season": "2022"}),
        (
            "a double room in the Hilton Hotel",
            {"room_style": TEXT, "hotel_name": TEXT, "style": {"enum": ["double"]}},
            ["room_style"],
        ),
        (
            "games with an ESRB rating of 'Everyone'",
            {"esrb_rating": TEXT},
            {"esrb_rating": "Everyone"},
        ),
        (
            "opening hours of the Museum of Art on Sunday",
            {"museum_name": TEXT, "day": {"enum": ["Saturday", "Sunday"]}},
            {"museum_name": "Museum of Art", "day": "Sunday"},
        ),
        (
            "the same with standardization",
            {"standardize": {"type": "boolean"}},
            {"standardize": True},
        ),
        (
            "news with pictures, without videos",
            {"include_pictures": {"type": "boolean"}, "include_videos": {"type": "boolean"}},
            {"include_pictures": True, "include_videos": False},
        ),
    ],
)
def test_values_go_where_their_words_and_types_say(
    message: str, properties: dict[str, Any], arguments: dict[str, Any] | list[str]
) -> None:
    assert read(message, **properties) == arguments


@pytest.mark.parametrize(
    ("message", "properties"),
    [
        ("the area of a triangle", {"base": NUMBER}),
        ("the area in inches", {"unit": {"enum": ["cm", "m"]}}),
        ("on the 31st of February 2022", {"date": TEXT}),
        ("1" * 400, {"count": WHOLE}),
        ("anything", {"options": {"type": "object"}}),
        ("a contract between us", {"contract_type": TEXT}),
    ],
)
def test_what_the_message_does_not_give_is_missing(message: str, properties: Any) -> None:
    assert read(message, **properties) == list(properties)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("songs like Yellow", {"title": "Yellow"}),
        ("the song Yellow by Coldplay", {"title": "Yellow", "artist": "Coldplay"}),
        ("the song Yellow, at most 3 minutes", {"title": "Yellow", "longest": 3}),
    ],
)
def test_what_is_optional_is_filled_only_if_the_message_speaks_of_it(
    message: str, arguments: dict[str, Any]
) -> None:
    longest = {"type": "integer", "description": "Minutes at most."}
    title = {"type": "string", "description": "Of the song."}
    assert read(message, "title", title=title, artist=TEXT, longest=longest) == arguments


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("the top 5 songs called 'Yellow'", 5),
        ("songs called 'Yellow', give me three", 3),
        ("the ten most recent songs called 'Yellow'", 10),
        ("songs called 'Yellow' from the year 2019", None),
        ("songs called 'Yellow' by somebody who is 25", None),
    ],
)
def test_a_number_is_a_limit_only_if_that_many_are_asked_for(
    message: str, limit: int | None
) -> None:
    found = read(message, "title", title=TEXT, limit=WHOLE)
    assert found == {"title": "Yellow"} | ({"limit": limit} if limit else {})


def test_an_option_is_chosen_whatever_the_default_is() -> None:
    choice = {"anyOf": [{"enum": ["celsius", "fahrenheit"]}, {"type": "array"}], "default": []}
    assert read("weather in Paris in celsius", "city", city=TEXT, unit=choice) == {
        "city": "Paris",
        "unit": "celsius",
    }


def test_what_is_said_anyway_is_chosen_last() -> None:
    scope = {"type": "string", "enum": ["All", "open"]}
    assert read("all the issues that are open", scope=scope) == {"scope": "open"}


@pytest.mark.parametrize(
    ("message", "level"),
    [("weather in Paris for 2 people", {}), ("weather in Paris, level 2", {"level": 2})],
)
def test_an_optional_number_is_chosen_only_if_its_name_is_said(
    message: str, level: dict[str, int]
) -> None:
    levels = {"type": "integer", "enum": [1, 2, 3]}
    assert read(message, "city", city=TEXT, level=levels) == {"city": "Paris", **level}


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
    city = {"type": "string", "description": "In the format 'City, State'."}
    tools = [
        ("find_hotels", "Find hotels in a city.", {"city": city}),
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


def test_a_tool_that_is_plainly_meant_is_called_and_one_that_is_not_is_left() -> None:
    schema = {"type": "object", "properties": {"base": NUMBER, "height": NUMBER}}
    area = RoutableTool(
        "calculate_triangle_area",
        "Calculate the area of a triangle given its base and height.",
        {**schema, "required": ["base", "height"]},
    )
    [call] = Router([area]).route("What is the area of a triangle with base 10 and height 5?")
    assert call.arguments == {"base": 10, "height": 5}
    assert Router([area]).route("What is the boiling point of water at a height of 5 km?") == ()


def test_a_tool_that_changes_something_needs_a_plain_request() -> None:
    schema = {"type": "object", "properties": {"amount": NUMBER}, "required": ["amount"]}
    pay = RoutableTool("pay_invoice", "Pay an invoice of an amount.", schema)
    assert Router([pay]).route("Was the invoice with an amount of 30 an invoice to pay?") == ()
    assert Router([pay]).route("Don't pay the invoice with the amount 30") == ()


@pytest.mark.parametrize(
    "message",
    ["Cancellations of order id A17", "Cancellation of order id A17?", "Cancelling order id A17"],
)
def test_a_noun_of_the_verbs_stem_changes_nothing(message: str) -> None:
    schema = {"type": "object", "properties": {"order_id": TEXT}, "required": ["order_id"]}
    cancel = RoutableTool("cancel_order", "Cancel an order by its id.", schema)
    assert Router([cancel]).route(message) == ()
    assert len(Router([cancel]).route("Cancel order id A17")) == 1


@pytest.mark.parametrize("name", ["modify_order", "create_order"])
@pytest.mark.parametrize("message", ["Status of order id A17", "Info about order id A17"])
def test_a_question_about_a_thing_does_not_change_it(name: str, message: str) -> None:
    schema = {"type": "object", "properties": {"order_id": TEXT}, "required": ["order_id"]}
    tool = RoutableTool(name, f"{name.replace('_', ' ')} by its order id.", schema)
    assert Router([tool]).route(message) == ()


@pytest.mark.parametrize("piece", ["A B ", "x+", "1, ", "'", "of the ", "((", "May 1 ", "one "])
def test_a_hostile_message_is_read_to_its_end(piece: str) -> None:
    properties = {"function": TEXT, "date": TEXT, "city": TEXT, "options": {"type": "object"}}
    assert "options" in read(piece * (2_000 // len(piece)), **properties)


def test_a_tool_that_reads_does_not_stand_in_for_a_change() -> None:
    schema = {"type": "object", "properties": {"name": TEXT, "file": TEXT}, "required": ["name"]}
    skill = RoutableTool("skill", "Read a skill, or one of its files.", schema, read_only=True)
    assert Router([skill]).route('Write "hello" to the file notes.txt') == ()


def test_only_so_many_parameters_are_read_and_the_required_ones_first() -> None:
    properties = {f"city_{number}": TEXT for number in range(500)}
    assert read("a train to Oslo", "city_499", **properties) == {"city_499": "Oslo"}
