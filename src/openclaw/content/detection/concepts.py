# ruff: noqa: RUF001 - other scripts are what this is about
"""What the words of a text are about, as bits: the cheap half of detection.

Every word is looked up once. Only sentences whose words speak to an agent and ask something of it
are read by the patterns of `patterns.txt`, so that ordinary text costs one dictionary
lookup a word.
"""

import codecs
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from openclaw.core.data_file import sections


def word_lists(kind: str) -> dict[str, list[str]]:
    """The lists of a kind in `words.txt`, by name."""
    found = sections("openclaw.content.detection", "words.txt")[kind]
    return {name: " ".join(lines).split() for name, lines in found.items()}


def patterns(kind: str) -> dict[str, str]:
    """The patterns of a kind in `patterns.txt`, by their names and what stands behind these."""
    found = sections("openclaw.content.detection", "patterns.txt")
    return {
        name: _PART.sub(lambda part: "".join(found["part"][part[1]]), "".join(lines))
        for name, lines in found[kind].items()
    }


_PART = re.compile(r"\{([A-Z]+)\}")


@cache
def _foreign() -> dict[str, re.Pattern[str]]:
    """Patterns for the stems of other languages; the first six are those that signals are made of."""
    lists = word_lists("foreign")
    return {concept: re.compile("|".join(stems)) for concept, stems in lists.items()}


def _patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(_foreign().values())[:6]


_FOREIGN_SENTENCE = re.compile(r"[^.!?。！？।\n]+(?:[.](?!\s)[^.!?。！？।\n]*+)*+")
_OF_PROMPT = re.compile(
    r"system-?\s?prompt|systeemprompt|系统提示|システムプロンプト|시스템\s?프롬프트|системн\w+\s(?:промпт|инструкц)|موجه\sالنظام|"
    r"prompt\s(?:del|do|de)\ssistema|invite\ssystème|systemnachricht|systémov\w+\sprompt"
)


def foreign_signals(text: str) -> dict[str, float]:
    undo, hide, agent, *_ = _patterns()
    if not (undo.search(text) or hide.search(text) or agent.search(text)):
        return {}
    best: dict[str, float] = {}
    sentences: list[str] = _FOREIGN_SENTENCE.findall(text)
    for at in range(len(sentences)):
        found = _judge(sentences[at], ".".join(sentences[at : at + 2]))
        if sum(found.values()) > sum(best.values()):
            best = found
    return best


def _judge(sentence: str, pair: str) -> dict[str, float]:
    undo, hide, agent, rules, give, prize = _patterns()
    found: dict[str, float] = {}
    if undo.search(sentence) and rules.search(sentence):
        found["override-foreign"] = 1.0
    if hide.search(pair):
        found["concealment-foreign"] = 0.6
    if agent.search(sentence):
        found["addressed-foreign"] = 0.4
    if found and give.search(pair):
        found["orders-foreign"] = 0.3
        if prize.search(pair):
            found["secrets-foreign"] = 0.3
            if _OF_PROMPT.search(pair):
                found["own-prompt-foreign"] = 0.4
    return found


def may_address_an_agent(sentence: str) -> bool:
    return bool(_foreign()["agent"].search(sentence))


def foreign_concepts(sentence: str) -> tuple[str, ...]:
    return tuple(concept for concept, pattern in _foreign().items() if pattern.search(sentence))


_CONCEPTS = (
    "AGENT", "USER", "SELF", "META", "UNDO", "PRIOR", "GIVE", "ACT", "SECRET", "HIDE", "PERSONA",
    "TURN", "STEER", "FOREIGN", "CIPHER", "ENCODING",
)  # fmt: skip


def bits(concepts: str) -> int:
    """The bits of concepts, as `META|PRIOR`."""
    return sum(1 << _CONCEPTS.index(concept) for concept in concepts.split("|"))


AGENT, SELF, FOREIGN, CIPHER = map(bits, ("AGENT", "SELF", "FOREIGN", "CIPHER"))


_TELLING = """ignore disregard forget previous instructions instruction reveal system prompt password
    secret secrets override assistant"""

VOCABULARY: dict[str, int] = {}
for _name, _words in word_lists("about").items():
    for _word in _words:
        VOCABULARY[_word] = VOCABULARY.get(_word, 0) | bits(_name)
for _word in _TELLING.split():
    for _disguise in (codecs.encode(_word, "rot13"), _word[::-1]):
        VOCABULARY[_disguise] = VOCABULARY.get(_disguise, 0) | CIPHER

_ADDRESS = bits("AGENT|USER|SELF|META|TURN|SECRET|ENCODING")
_DEMAND = bits("UNDO|GIVE|ACT|HIDE|PERSONA|TURN")
_WORD = re.compile(r"[a-z]+(?:_[a-z]+)*")
_SENTENCE = re.compile(r"[^.!?;\n。！？।]+(?:[.!?;](?!\s)[^.!?;\n]*+)*+[.!?;\n。！？।]*+")
_LONGEST = 500
# A sentence is read together with its neighbours: who is spoken to may stand in the one before.
_NEIGHBOURS = 1
_MOST_REGIONS = 40
# So few sentences are read whoever they speak to.
_FEW = 12


class Region(NamedTuple):
    """Some sentences that stand together, which of them this is about, and what it is about."""

    sentences: tuple[str, ...]
    at: int
    about: int

    @property
    def text(self) -> str:
        return "\n" + "".join(self.sentences)


def words_about(text: str) -> int:
    """Everything the words of `text`, in lower case, are about."""
    about = 0
    get = VOCABULARY.get
    for word in set(_WORD.findall(text)):
        about |= get(word, 0)
    return about


def asks(about: int) -> bool:
    return bool(about & (_DEMAND | AGENT))


def worth_reading(about: int) -> bool:
    """Whether words such as these may speak to an agent and ask something of it."""
    return bool(about & AGENT or (about & _ADDRESS and about & _DEMAND))


def regions(text: str) -> list[Region]:
    """The parts of `text` that are worth reading: sentences with their neighbours.

    Of very many, those that say most.
    """
    sentences = list(_sentences(text))
    marks = [words_about(sentence) for sentence in sentences]
    found: dict[tuple[str, ...], Region] = {}  # what is repeated is read once
    for at, mark in enumerate(marks):
        if not mark & (_DEMAND | AGENT | FOREIGN) and sentences[at].isascii():
            continue
        first = max(0, at - _NEIGHBOURS)
        around = slice(first, at + _NEIGHBOURS + 1)
        about = 0
        for neighbour in marks[around]:
            about |= neighbour
        few = len(sentences) <= _FEW
        if few or worth_reading(about) or about & FOREIGN or not sentences[at].isascii():
            close = tuple(sentences[around])
            found[close] = Region(close, at - first, about)
    if len(found) > _MOST_REGIONS:
        return sorted(found.values(), key=_weight)[:_MOST_REGIONS]
    return list(found.values())


def _weight(region: Region) -> int:
    sentence = region.sentences[region.at]
    named = region.about & AGENT or (not sentence.isascii() and may_address_an_agent(sentence))
    return -region.about.bit_count() - 5 * bool(named)


def _sentences(text: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(text):
        sentence = match[0]
        if len(sentence) <= _LONGEST:
            yield sentence
        else:
            for start in range(0, len(sentence), _LONGEST):
                yield sentence[start : start + _LONGEST]
