import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.embedded.entities import Kind, find_spans, without


def values(message: str, kind: Kind) -> list[str | int | float]:
    return [span.value for span in find_spans(message) if span.kind is kind]


@pytest.mark.parametrize(
    ("message", "kind", "expected"),
    [
        ("see https://a.example/x?y=1.", Kind.URL, ["https://a.example/x?y=1"]),
        ("what is on example.org?", Kind.URL, ["https://example.org"]),
        ("write to ana@example.org now", Kind.EMAIL, ["ana@example.org"]),
        ('say "hello there"', Kind.QUOTED, ["hello there"]),
        ('read "/a b/c.txt"', Kind.PATH, ["/a b/c.txt"]),
        ('find "*.md"', Kind.GLOB, ["*.md"]),
        ("since 2024-01-15", Kind.DATE, ["2024-01-15"]),
        ("at 3pm", Kind.TIME, ["15:00"]),
        ("at 12 am", Kind.TIME, ["00:00"]),
        ("at 23:59", Kind.TIME, ["23:59"]),
        ("at noon or midnight", Kind.TIME, ["12:00", "00:00"]),
        ("from Europe/Paris", Kind.ZONE, ["Europe/Paris"]),
        ("in New York", Kind.ZONE, ["America/New_York"]),
        ("in são paulo", Kind.ZONE, ["America/Sao_Paulo"]),
        ("in the UK", Kind.ZONE, ["Europe/London"]),
        ("*.py in src/x", Kind.GLOB, ["*.py"]),
        ("Say **hi**", Kind.GLOB, []),
        ("Say **hi there**, *twice*!", Kind.GLOB, []),
        ('Say "**hi**"', Kind.GLOB, []),
        ('Say "**hi**"', Kind.QUOTED, ["**hi**"]),
        ("What is 2 * 3?", Kind.GLOB, []),
        ("* milk", Kind.GLOB, []),
        ("List the **files** now", Kind.GLOB, []),
        ("Read **notes.txt**", Kind.PATH, ["notes.txt"]),
        ("Open **https://a.example/x**", Kind.URL, ["https://a.example/x"]),
        ("files named *test*", Kind.GLOB, ["*test*"]),
        ('find "*test*"', Kind.GLOB, ["*test*"]),
        ("list **/*.py and **/docs/**", Kind.GLOB, ["**/*.py", "**/docs/**"]),
        ("open ./a/b.txt, then ~/c", Kind.PATH, ["./a/b.txt", "~/c"]),
        (r"open C:\Users\a.txt", Kind.PATH, [r"C:\Users\a.txt"]),
        ("list the docs folder", Kind.PATH, ["docs"]),
        ("commit 4f2a9bc and HEAD~2", Kind.REVISION, ["4f2a9bc", "HEAD~2"]),
        ("switch to branch main", Kind.REF, ["main"]),
        ("the release-2 branch", Kind.REF, ["release-2"]),
        ("a file called notes", Kind.NAMED, ["notes"]),
        ("the last 20 lines", Kind.NUMBER, [20]),
        ("the first five lines", Kind.NUMBER, [5]),
        ("2.5 litres", Kind.NUMBER, [2.5]),
    ],
)
def test_a_stretch_of_the_message_is_recognised(
    message: str, kind: Kind, expected: list[object]
) -> None:
    assert values(message, kind) == expected


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("pi is 3.14", Kind.TIME),
        ("at 25:00", Kind.TIME),
        ("we march in step", Kind.ZONE),
        ("la la la", Kind.ZONE),
        ("the west is wild", Kind.ZONE),
        ("Foo/Bar", Kind.ZONE),
        ("defaced", Kind.REVISION),
        ("1234567", Kind.REVISION),
        ("which branch is it", Kind.REF),
        ("in this directory", Kind.PATH),
        ("it is called the thing", Kind.NAMED),
    ],
)
def test_what_only_looks_like_it_is_left_alone(message: str, kind: Kind) -> None:
    assert values(message, kind) == []


def test_a_place_in_lower_case_needs_a_word_such_as_in_before_it() -> None:
    assert values("time in paris", Kind.ZONE) == ["Europe/Paris"]
    assert values("paris hilton", Kind.ZONE) == []


@given(st.text(max_size=200))
def test_spans_never_overlap_and_always_lie_in_the_message(message: str) -> None:
    end = 0
    for span in find_spans(message):
        assert end <= span.start < span.end <= len(message)
        end = span.end


def test_the_words_around_spans_stay_where_they_are() -> None:
    message = "Read /a/b now"
    assert without(message, find_spans(message)) == "Read      now"
