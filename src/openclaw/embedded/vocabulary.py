"""Splits messages and tools into words, folded so that variants of a word are equal."""

import re
import tomllib
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import Any

from openclaw.discovery.stems import stem


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


@lru_cache(maxsize=1)
def _vocabulary() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("vocabulary.toml").read_text("utf-8"))


def vocabulary(name: str) -> frozenset[str]:
    return word_set(_vocabulary()[name])


def vocabularies(name: str) -> dict[str, frozenset[str]]:
    return {kind: word_set(text) for kind, text in _vocabulary()[name].items()}


STOP_WORDS = vocabulary("stop_words")

_NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen twenty"""
NUMBER_WORDS = {word: value for value, word in enumerate(_NUMBERS.split())}


def fold(text: str) -> str:
    """Lower case without accents, so that São Paulo and sao paulo are one place."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in decomposed if not unicodedata.combining(c))


@lru_cache(maxsize=4096)  # the same parts of a message are read for many tools
def words(text: str) -> tuple[str, ...]:
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return tuple(re.findall(r"[^\W\d_]+", fold(apart).replace("'s ", " ").replace("n't", " not")))


_NOT_DONE = re.compile(r"\bnot (?:yet )?(?:been )?(\w+ed)\b")


def terms(text: str) -> list[str]:
    """Stems of the words that mean something, in order; what is not staged is unstaged."""
    said = _NOT_DONE.sub(r"un\1", " ".join(words(text)))
    return [stem(word) for word in said.split() if word not in STOP_WORDS and len(word) > 1]


@lru_cache(maxsize=1)
def _synonyms() -> dict[str, frozenset[str]]:
    mates: dict[str, set[str]] = {}
    for group in Path(__file__).with_name("synonyms.txt").read_text("utf-8").splitlines():
        if group.startswith("#"):
            continue
        stems = {stem(word) for word in group.split()}
        for term in stems:
            mates.setdefault(term, set()).update(stems - {term})
    return {term: frozenset(others) for term, others in mates.items()}


def synonyms(term: str) -> frozenset[str]:
    return _synonyms().get(term, frozenset())
