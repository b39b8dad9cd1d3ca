"""The JSON5 reader: what it takes, what it refuses, and where it says things are."""

import json
import math
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw.config.json5 import MAX_DEPTH, parse
from openclaw.core.errors import InvalidConfig, Problem

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
SOUP = st.text(st.sampled_from(list("{}[]:,'\"\\/*+-.0123456789eExXaInu$_ \n\r\t\u2028\ufeffé🙂")))


def read(text: str) -> Any:
    return parse(text).root.plain()


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidConfig) as raised:
        parse(text)
    return [str(problem) for problem in raised.value.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ("", {}),
        ("  // nothing yet\n", {}),
        ("\ufeff{a: 1}", {"a": 1}),
        ("{a: 1, 'b': 2, \"c\": 3,}", {"a": 1, "b": 2, "c": 3}),
        ("[1, 2,]", [1, 2]),
        ("{$x_1: null, ünï: true, \\u0061b: false}", {"$x_1": None, "ünï": True, "ab": False}),
        ("/* a * b ** */ {a: /**/ 1} // end", {"a": 1}),
        ("[0x1F, -0xf, +1, .5, 5., -1.5e3, 1E-2]", [31, -15, 1, 0.5, 5.0, -1500.0, 0.01]),
        (r"'it\'s \"\x41\u00e9\n\t\b\f\v\r\0\/\q'", "it's \"Aé\n\t\b\f\v\r\0/q"),
        ("'one \\\ntwo \\\r\nthree'", "one two three"),
        ('"\\ud83d\\ude42"', "🙂"),
        ("{a: {b: [{c: 'd'}]}}", {"a": {"b": [{"c": "d"}]}}),
        ("'\u2028'", "\u2028"),
    ],
)
def test_it_takes_all_of_json5(text: str, value: Any) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{a: 1", "(file): the object that starts here is not closed with '}' (line 1, column 1)"),
        ("{a: 1,", "(file): the object that starts here is not closed with '}' (line 1, column 1)"),
        ("{a: [", "a: the list that starts here is not closed with ']' (line 1, column 5)"),
        ("{a: [1,2}", "a: expected ',' or ']', not '}' (line 1, column 9)"),
        ("{\n  a\n}", "a: expected ':' after the key (line 3, column 1)"),
        ("{a: }", "a: expected a value, not '}' (line 1, column 5)"),
        ("{a:", "a: expected a value, not the end of the file (line 1, column 4)"),
        ("{, a: 1}", "(file): expected a key or '}', not ',' (line 1, column 2)"),
        ("{1: 2}", "(file): expected a key or '}', not '1' (line 1, column 2)"),
        ("{a: 1} b", "(file): expected the end of the file (line 1, column 8)"),
        ("{my-key: 1}", "(file): a key with '-' in it needs quotes (line 1, column 2)"),
        ("/* never closed", "(file): the comment that starts here is not closed with */ (line 1, column 1)"),
        ("{a: 'x\n'}", "a: the text that starts here is not closed with ' (line 1, column 5)"),
        ('{a: "x', 'a: the text that starts here is not closed with " (line 1, column 5)'),
        ("{a: Infinity}", "a: Infinity cannot be used in a configuration (line 1, column 5)"),
        ("{a: -NaN}", "a: -NaN cannot be used in a configuration (line 1, column 5)"),
        ("{a: 1e999}", "a: this number is too large (line 1, column 5)"),
        ("{a: 012}", "a: this is not a number; text needs quotes (line 1, column 5)"),
        ("{a: 127.0.0.1}", "a: this is not a number; text needs quotes (line 1, column 5)"),
        ("{a: +}", "a: expected a value, not '+' (line 1, column 5)"),
        (r"{a: '\x4'}", "a: \\x needs 2 hexadecimal digits (line 1, column 6)"),
        (r"{a: '\ud83d'}", "a: unpaired surrogate (line 1, column 6)"),
        (r"{a: '\ud83dA'}", "a: unpaired surrogate (line 1, column 6)"),
        (r"{a: '\1'}", "a: a backslash before a digit means nothing here (line 1, column 6)"),
        (f"{{a: {'9' * 1001}}}", "a: a number has at most 1000 characters (line 1, column 5)"),
        ("\ufeff{a: yes}", "a: expected a value; text needs quotes (line 1, column 5)"),
    ],
)  # fmt: skip
def test_what_it_refuses_it_names_with_its_place(text: str, message: str) -> None:
    assert problems(text) == [message]


def test_a_key_given_twice_is_reported_with_both_places() -> None:
    assert problems("{\n  a: {b: 1,\n    b: 2},\n}") == [
        "a.b: this key is given twice; the first is at line 2, column 7 (line 3, column 5)"
    ]


def test_a_windows_path_that_escapes_its_own_quote_is_explained() -> None:
    assert problems('{a: "C:\\users\\"}') == [
        "a: \\u needs 4 hexadecimal digits (line 1, column 8)",
        'a: the text that starts here is not closed with " (line 1, column 5)',
    ]


def test_it_goes_on_after_an_error_whose_repair_is_plain() -> None:
    text = "{\n  a: 1\n  b: yes,\n  c: NaN,\n  d: [1 'x'],\n  a: 012\n}"
    assert problems(text) == [
        "(file): expected ',' after this (line 2, column 7)",
        "b: expected a value; text needs quotes (line 3, column 6)",
        "c: NaN cannot be used in a configuration (line 4, column 6)",
        "d: expected ',' after this (line 5, column 8)",
        "a: this is not a number; text needs quotes (line 6, column 6)",
        "a: this key is given twice; the first is at line 2, column 3 (line 6, column 3)",
    ]


def test_text_without_quotes_is_never_repeated_in_the_message() -> None:
    assert "hunter2" not in "".join(problems("{token: sk-hunter2, x: hunter2}"))


def test_nesting_is_bounded_and_never_overflows_the_stack() -> None:
    assert read("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert problems("[" * (MAX_DEPTH + 1)) == [
        f"(file): is nested more than {MAX_DEPTH} levels deep (line 1, column {MAX_DEPTH + 1})"
    ]
    assert len(problems("{a:" * 100_000)) == 1


def test_a_text_that_is_too_large_is_refused() -> None:
    assert problems(" " * (10 * 1024 * 1024 + 1)) == ["(file): is larger than 10485760 characters"]


def test_positions_are_those_of_keys_and_values_with_any_line_ending() -> None:
    for ending in ("\n", "\r\n", "\r"):
        document = parse(f"{{{ending}  a: 1,{ending}  'b c': [true, {{d: 'x'}}],{ending}}}")
        assert document.position(("a",)) == (2, 6)
        assert document.position(("a",), of_key=True) == (2, 3)
        assert document.position(("b c", 1, "d")) == (3, 21)
        assert document.position(("b c", 1, "d"), of_key=True) == (3, 18)
        assert document.position(("b c", 1, "missing")) == (3, 17)
        assert document.position(("nowhere", "at all")) == (1, 1)


@given(JSON)
@example({"": ""})
@example(-0.0)
def test_it_agrees_with_json_on_json(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        ours, theirs = read(text), json.loads(text)
        assert ours == theirs
        assert repr(ours) == repr(theirs)


@given(SOUP | st.text() | SOUP.map(lambda soup: f"{{a: [{soup}]}}"))
def test_whatever_it_is_given_it_reads_it_or_says_where_it_is_wrong(text: str) -> None:
    value: Any = None
    found: tuple[Problem, ...] = (Problem("", "", 1, 1),)
    try:
        value = parse(text).root.plain()
    except InvalidConfig as error:
        found = error.problems
    json.dumps(value, allow_nan=False)
    lines = text.count("\n") + text.count("\r") + 1
    assert found
    assert all(1 <= (problem.line or 0) <= lines for problem in found)
    assert all((problem.column or 0) >= 1 for problem in found)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_their_exact_value(number: float) -> None:
    value = read(repr(number))
    assert math.copysign(1, value) == math.copysign(1, number)
    assert value == number


@pytest.mark.parametrize(
    "unit",
    ['{"a": "xyz", b: [1, 2.5, true]},', "/* x * y */ 1,", "'" + "\\n" * 20 + "',", "// line\n1,"],
)
def test_time_grows_with_the_length_and_no_faster(unit: str) -> None:
    def cost(count: int) -> float:
        text = "[" + unit * count + "]"
        best = math.inf
        for _ in range(3):
            start = time.process_time()
            parse(text)
            best = min(best, time.process_time() - start)
        return best / len(text)

    assert cost(4_000) < 4 * cost(500)


def test_an_endless_comment_costs_no_more_than_its_length() -> None:
    start = time.process_time()
    assert problems("[/*" + "*" * 1_000_000) == [
        "(file): the comment that starts here is not closed with */ (line 1, column 2)"
    ]
    assert time.process_time() - start < 5
