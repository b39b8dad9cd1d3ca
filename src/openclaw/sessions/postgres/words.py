"""Which words a text is found by, decided here so that every database server finds the same."""

import re

from openclaw.sessions.snippets import bare

_WORD = re.compile(r"\w+")

_LONGEST_WORD_BYTES = 255
_MOST_BYTES = 256 * 1024
"""What is indexed of one text at most: PostgreSQL refuses a megabyte of them."""


def words_of(text: str) -> list[str]:
    """The words of `text`, each once, without case and accents, in the order of the text."""
    found: list[str] = []
    size = 0
    for word in dict.fromkeys(_WORD.findall(bare(text))):
        length = len(word.encode())
        size += length
        if size > _MOST_BYTES:
            break
        if length <= _LONGEST_WORD_BYTES:
            found.append(word)
    return found


def as_vector(text: str) -> str | None:
    """The words of `text` as PostgreSQL reads a `tsvector`; None where there is none."""
    return " ".join(words_of(text)) or None


def as_query(text: str) -> str | None:
    """What finds every word of `text`, or one that begins so; None where nothing is asked."""
    return " & ".join(f"{word}:*" for word in words_of(text)) or None


def without_spaces(text: str) -> bool:
    """Whether `text` is in a script whose words cannot be told apart: Thai to Khmer, kana, Han."""
    return any(
        "\u0e00" <= char <= "\u0eff" or "\u1780" <= char <= "\u17ff" or char >= "\u2e80"
        for char in text
    )


def containing(text: str) -> str:
    """A pattern for LIKE that matches whatever contains `text` literally."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
