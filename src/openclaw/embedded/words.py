"""Splits messages and tools into words, folded so that variants of a word are equal."""

import re
import unicodedata
from functools import lru_cache
from pathlib import Path


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that carry grammar or politeness and say nothing about which tool is meant.
STOP_WORDS = word_set("""
    a about after again all also am an and any anything are as at be been before being both but by can check
    could did do does doing done for from give given go going had has have having he her here him
    his how i if in into is it its itself just kindly know let like ll lot many may maybe me might
    moment more most much must my need next no not now of off ok okay on once one only or other our
    out over own people please quick quickly re really right s same shall she should so some somebody
    someone something say says saying still such t tell than thank thanks that the their them then there these they thing
    things this those through to too up us very want was way we well were what when where which
    while who whom whose why will wish with without won would ve yes yet you your
    """)

_NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen twenty"""
NUMBER_WORDS = {word: value for value, word in enumerate(_NUMBERS.split())}

_SUFFIXES = (
    ("ies", "y"), ("sses", "ss"), ("ings", ""), ("ing", ""), ("edly", ""), ("ed", ""), ("ly", ""),
    ("es", "e"), ("s", ""),
)  # fmt: skip
_MIN_STEM = 3


def fold(text: str) -> str:
    """Lower case without accents, so that São Paulo and sao paulo are one place."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in decomposed if not unicodedata.combining(c))


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A crude English stem: enough to bring `branches` to `branch` and `matching` to `match`."""
    for suffix, replacement in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM:
            word = word[: len(word) - len(suffix)] + replacement
            break
    if len(word) > _MIN_STEM + 1 and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > _MIN_STEM else word


@lru_cache(maxsize=4096)  # for each of many tools, the same parts of one message are read
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
