"""Which words a text is found by."""

import pytest

from openclaw.sessions.postgres.lanes import as_query, as_vector, search_words
from openclaw.sessions.queries import containing, without_spaces


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The quick, quick fox!", ["the", "quick", "fox"]),
        ("Ärger über Åse", ["arger", "uber", "ase"]),
        ("see /etc/passwd or a@b.example", ["see", "etc", "passwd", "or", "a", "b", "example"]),
        ("STRASSE Straße", ["strasse"]),
        ("' \\ : & | ! * <->", []),
    ],
)
def test_words_have_neither_case_nor_accents_nor_marks(text: str, words: list[str]) -> None:
    assert search_words(text) == words


def test_a_query_finds_every_word_and_those_that_begin_so() -> None:
    assert as_query("Quick FOX") == "quick:* & fox:*"
    assert as_query("!") is None
    assert as_vector("Quick FOX") == "quick fox"
    assert as_vector("") is None


def test_text_made_to_grow_is_bounded() -> None:
    assert sum(len(word.encode()) for word in search_words("\ufdfa " * 65_536)) <= 256 * 1024
    assert search_words("x" * 70_000) == []
    many = search_words(" ".join(f"w{number:06}" for number in range(100_000)))
    assert sum(map(len, many)) <= 256 * 1024


def test_scripts_that_do_not_part_words_are_known() -> None:
    assert without_spaces("東京")
    assert without_spaces("สวัสดี")
    assert not without_spaces("Grüße, мир, שלום")


def test_a_pattern_takes_its_characters_literally() -> None:
    assert containing("100%_\\") == "%100\\%\\_\\\\%"
