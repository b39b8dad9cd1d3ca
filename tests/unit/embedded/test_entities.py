import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.embedded.entities import Kind, find_spans, without


def values(message: str, kind: Kind) -> list[str | int | float]:
    return [span.value for span in find_spans(message) if span.kind is kind]


@pytest.mark.parametrize(
    ("message", "kind", "expected"),
    [
        ("see https://a.example/x?y=1.", "url", ["https://a.example/x?y=1"]),
        ("what is on example.org?", "url", ["https://example.org"]),
        ("write to ana@example.org now", "email", ["ana@example.org"]),
        ('say "hello there"', "quoted", ["hello there"]),
        ('read "/a b/c.txt"', "path", ["/a b/c.txt"]),
        ('find "*.md"', "glob", ["*.md"]),
        ("since 2024-01-15", "date", ["2024-01-15"]),
        ("at 3pm", "time", ["15:00"]),
        ("at 12 am", "time", ["00:00"]),
        ("at 23:59", "time", ["23:59"]),
        ("at noon or midnight", "time", ["12:00", "00:00"]),
        ("from Europe/Paris", "zone", ["Europe/Paris"]),
        ("in New York", "zone", ["America/New_York"]),
        ("in são paulo", "zone", ["America/Sao_Paulo"]),
        ("in the UK", "zone", ["Europe/London"]),
        ("*.py in src/x", "glob", ["*.py"]),
        ("Say **hi**", "glob", []),
        ("Say **hi there**, *twice*!", "glob", []),
        ('Say "**hi**"', "glob", []),
        ('Say "**hi**"', "quoted", ["**hi**"]),
        ("What is 2 * 3?", "glob", []),
        ("* milk", "glob", []),
        ("List the **files** now", "glob", []),
        ("Read **notes.txt**", "path", ["notes.txt"]),
        ("Open **https://a.example/x**", "url", ["https://a.example/x"]),
        ("files named *test*", "glob", ["*test*"]),
        ('find "*test*"', "glob", ["*test*"]),
        ("list **/*.py and **/docs/**", "glob", ["**/*.py", "**/docs/**"]),
        ("open ./a/b.txt, then ~/c", "path", ["./a/b.txt", "~/c"]),
        (r"open C:\Users\a.txt", "path", [r"C:\Users\a.txt"]),
        ("list the docs folder", "path", ["docs"]),
        ("commit 4f2a9bc and HEAD~2", "revision", ["4f2a9bc", "HEAD~2"]),
        ("switch to branch main", "ref", ["main"]),
        ("the release-2 branch", "ref", ["release-2"]),
        ("a file called notes", "named", ["notes"]),
        ("the last 20 lines", "number", [20]),
        ("the first five lines", "number", [5]),
        ("2.5 litres", "number", [2.5]),
    ],
)
def test_a_stretch_of_the_message_is_recognised(
    message: str, kind: Kind, expected: list[object]
) -> None:
    assert values(message, kind) == expected


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("pi is 3.14", "time"),
        ("at 25:00", "time"),
        ("we march in step", "zone"),
        ("la la la", "zone"),
        ("the west is wild", "zone"),
        ("Foo/Bar", "zone"),
        ("defaced", "revision"),
        ("1234567", "revision"),
        ("which branch is it", "ref"),
        ("in this directory", "path"),
        ("it is called the thing", "named"),
    ],
)
def test_what_only_looks_like_it_is_left_alone(message: str, kind: Kind) -> None:
    assert values(message, kind) == []


def test_a_place_in_lower_case_needs_a_word_such_as_in_before_it() -> None:
    assert values("time in paris", "zone") == ["Europe/Paris"]
    assert values("paris hilton", "zone") == []


@given(st.text(max_size=200))
def test_spans_never_overlap_and_always_lie_in_the_message(message: str) -> None:
    end = 0
    for span in find_spans(message):
        assert end <= span.start < span.end <= len(message)
        end = span.end


def test_the_words_around_spans_stay_where_they_are() -> None:
    message = "Read /a/b now"
    assert without(message, find_spans(message)) == "Read      now"
