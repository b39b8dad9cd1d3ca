"""What a search shows of what it found."""

import pytest

from openclaw.content.frame import frame
from openclaw.sessions.queries import snippet


def test_a_snippet_shows_the_words_that_were_found() -> None:
    text = "a" * 100 + " needle " + "b" * 300
    cut = snippet(text, "NEEDLE b")
    assert " needle " in cut
    assert cut.startswith("…")
    assert cut.endswith("…")
    assert snippet("short", "nothing of it") == "short"
    assert snippet("", "anything") == ""


def test_a_snippet_is_cut_between_words() -> None:
    words = [f"word{number}" for number in range(100)]
    cut = snippet(" ".join(words), "word50")
    assert cut[0] == cut[-1] == "…"
    assert "word50" in cut
    assert set(cut.strip("…").split()) <= set(words)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Wir sehen uns im Café am See", "cafe"),
        ("cats and a concert in C++ for all", "concert"),
        ("今日の東京の天気", "天気"),
        ("foo bar", "foo-bar"),
    ],
)
def test_the_place_is_found_as_the_entry_was(text: str, wanted: str) -> None:
    before = "x" * 30 + " " + "ccc " * 60
    cut = snippet(f"{before}{text}{' y' * 200}", wanted)
    assert text[-6:] in cut


def test_a_snippet_has_nothing_of_a_frame() -> None:
    said = "\n".join(["before", frame("12:00\nsharp", sender="time"), "after"])
    assert snippet(said, "sharp") == "before 12:00 sharp after"
    assert snippet(frame("12:00 sharp", sender="time"), "untrusted") == "12:00 sharp"


def test_characters_that_stand_for_many_shift_nothing_out_of_sight() -> None:
    assert "needle" in snippet(f"{chr(0xFDFA) * 20} needle", "needle")
