# ruff: noqa: RUF001 - other scripts are what this is about
"""What the words of a text are about, as bits: the cheap half of detection.

Every word is looked up once. Only sentences whose words speak to an agent and ask something of it
are read by the patterns of `patterns.txt`, so that ordinary text costs one dictionary
lookup a word.
"""

import codecs
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache, partial
from itertools import combinations
from typing import NamedTuple
from zlib import crc32

from openclaw.core import installed

_PACKAGE = "openclaw.content.detection"
patterns = partial(installed.patterns, _PACKAGE)
compiled = partial(installed.compiled, _PACKAGE)


def word_lists(kind: str) -> dict[str, list[str]]:
    found = installed.sections(_PACKAGE, "words.txt")[kind]
    return {name: " ".join(lines).split() for name, lines in found.items()}


@cache
def _foreign() -> dict[str, re.Pattern[str]]:
    """Patterns for the stems of other languages; the first six are those that signals are made of."""
    lists = word_lists("foreign")
    return {concept: re.compile("|".join(stems)) for concept, stems in lists.items()}


def _foreign_patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(_foreign().values())[:6]


_FOREIGN_SENTENCE = re.compile(r"[^.!?。！？।\n]+(?:[.](?!\s)[^.!?。！？।\n]*+)*+")
_OF_PROMPT = re.compile(
    r"system-?\s?prompt|systeemprompt|系统提示|システムプロンプト|시스템\s?프롬프트|системн\w+\s(?:промпт|инструкц)|موجه\sالنظام|"
    r"prompt\s(?:del|do|de)\ssistema|invite\ssystème|systemnachricht|systémov\w+\sprompt"
)


def foreign_signals(text: str) -> dict[str, float]:
    undo, hide, agent, *_ = _foreign_patterns()
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
    undo, hide, agent, rules, give, prize = _foreign_patterns()
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


def _vocabulary() -> dict[bytes, int]:
    """The bits of each word, which is ASCII."""
    listed = [(word, bits(name)) for name, words in word_lists("about").items() for word in words]
    for word in _TELLING.split():
        listed += [(codecs.encode(word, "rot13"), CIPHER), (word[::-1], CIPHER)]
    found: dict[bytes, int] = {}
    for word, about in listed:
        found[word.encode()] = found.get(word.encode(), 0) | about
    return found


_VOCABULARY = _vocabulary()
_KNOWN = frozenset(_VOCABULARY)

_ADDRESS = bits("AGENT|USER|SELF|META|TURN|SECRET|ENCODING")
_DEMAND = bits("UNDO|GIVE|ACT|HIDE|PERSONA|TURN")
# Bytes of UTF-8 that are in no word become spaces; that and a split take a tenth of a regex's time.
_IN_WORDS = bytes(
    code if chr(code) in "abcdefghijklmnopqrstuvwxyz_" else 0x20 for code in range(256)
)
_WORD = re.compile(rb"[a-z]+(?:_[a-z]+)*")
_SENTENCE = re.compile(r"[^.!?;\n。！？।]+(?:[.!?;](?!\s)[^.!?;\n]*+)*+[.!?;\n。！？।]*+")
_LONGEST = 500
# A sentence is read together with its neighbours: the one before may say who is addressed.
_NEIGHBOURS = 1
_MOST_REGIONS = 40
# This few sentences are read whoever they address.
_FEW = 12


class Region(NamedTuple):
    """Adjacent sentences, the index of the one in question, and what they are about."""

    sentences: tuple[str, ...]
    at: int
    about: int

    @property
    def text(self) -> str:
        return "\n" + "".join(self.sentences)


def words_about(text: str) -> int:
    spelled = text.encode(errors="replace").translate(_IN_WORDS)
    words = spelled.split()
    if b"_" in spelled:  # which may also surround a word, or be in it twice
        words += _WORD.findall(b" ".join([word for word in words if b"_" in word]))
    about = 0
    for word in _KNOWN.intersection(words):
        about |= _VOCABULARY[word]
    return about


def asks(about: int) -> bool:
    return bool(about & (_DEMAND | AGENT))


def worth_reading(about: int) -> bool:
    return bool(about & AGENT or (about & _ADDRESS and about & _DEMAND))


def regions(text: str) -> list[Region]:
    """Sentences worth reading, with their neighbours; of very many, those that say most."""
    sentences = [
        match[0][start : start + _LONGEST]
        for match in _SENTENCE.finditer(text)
        for start in range(0, len(match[0]), _LONGEST)
    ]
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
    named = region.about & AGENT or (
        not sentence.isascii() and _foreign()["agent"].search(sentence) is not None
    )
    return -region.about.bit_count() - 5 * bool(named)


# The features of the detector's weights: words, pairs of words, and what they are about. Each feature
# is a number below `BUCKETS`; two may share one. A window is a sentence with its neighbours, which
# contribute fewer features.


def ways(sentence: str, names_an_agent: bool) -> Iterator[str]:
    for kind in ("named", "unnamed") if names_an_agent else ("unnamed",):
        for name, pattern in compiled(kind).items():
            if pattern.search(sentence):
                yield name


# Verbs are inflected regularly, which is wrong now and then and does no harm.

_COUNTED = frozenset({"agent!", "agent", "user", "tool"})


def _inflected(verb: str) -> set[str]:
    if verb.endswith("e"):
        return {verb, verb + "s", verb + "d", verb[:-1] + "ing"}
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return {verb, verb[:-1] + "ies", verb[:-1] + "ied", verb + "ing"}
    doubled = verb + verb[-1]
    endings = {verb + ending for ending in ("", "s", "es", "ed", "ing")}
    return endings | {doubled + "ed", doubled + "ing"}


def _lexicon() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for concept, verbs in word_lists("verb").items():
        for verb in verbs:
            for form in sorted(_inflected(verb)):
                found.setdefault(form, {})[concept] = None
    for concept, nouns in word_lists("noun").items():
        for noun in nouns:
            for form in (noun, noun + "s") if concept in _COUNTED else (noun,):
                found.setdefault(form, {})[concept] = None
    return {word: tuple(concepts) for word, concepts in found.items()}


LEXICON = _lexicon()  # the concepts of each word

BUCKETS = 1 << 18

_TOKEN = re.compile(
    r"https?://\S+|[\w.+-]+@[\w-]+(?:\.\w[\w-]*)+|~?/[\w.~-][\w./~-]*"
    r"|\.(?:env|ssh|aws|netrc|npmrc|kube)\b\S*"
    r"|[^\W\d_]+(?:['\u2019][^\W\d_]+)?(?:[_-][^\W_]+)*|\d[\d.,]*|[^\w\s]"
)
_CARRIES = re.compile(r"[?=<{\[$]")
_TELLING_SIGNS = frozenset('`<>{}[]@#"|:')
_SPECIAL = frozenset({"URL", "URLQ", "MAIL", "PATH", "IDENT", "0"})
_FIRST_IDEOGRAPH = "\u2e80"
_AGENTS = frozenset({"agent", "agent!", "auto"})
_STEM, _LEAST_FOR_STEM = 5, 7
_MOST_TOKENS, _MOST_CHUNKS = 200, 80
_PIECE, _PIECE_OF_IDEOGRAPHS = 4, 3


class Sentence(NamedTuple):
    own: frozenset[int]
    lent: frozenset[int]
    concepts: frozenset[str]


def window(sentences: Sequence[Sentence], at: int) -> set[int]:
    centre = sentences[at]
    found = set(centre.own)
    for other in sentences:
        if other is not centre:
            found |= other.lent
            for theirs in other.concepts - centre.concepts:
                found.update(_bucket(f"q:{theirs}&{ours}") for ours in centre.concepts)
    return found


@lru_cache(maxsize=256)
def read_sentence(sentence: str) -> Sentence:
    tokens = [_kind(token) for token in _TOKEN.findall(sentence)[:_MOST_TOKENS]]
    said = [token for token in tokens if token[0].isalnum() or token in _TELLING_SIGNS]
    about = [_concepts(token) for token in said]
    concepts = {concept for each in about for concept in each}
    if not sentence.isascii() or len(concepts) < len(said) // 4:
        concepts.update(name for name, stems in _foreign().items() if stems.search(sentence))
    words = {_bucket(name) for name in _of_words(said)}
    if not sentence.isascii():
        words.update(_bucket(name) for name in _of_letters(sentence))
    beginning = next((token for token in tokens if token[0].isalpha()), "")
    starts = [f"s:{concept}" for concept in _concepts(beginning) or ("-",)] if beginning else []
    kinds = [*(f"c:{concept}" for concept in concepts), *starts]
    own = words | {_bucket(name) for name in kinds}
    own.update(_bucket(name) for name in _of_sequence(said, about))
    own.update(_bucket(f"p:{one}&{other}") for one, other in combinations(sorted(concepts), 2))
    manner = sorted(ways(sentence, not concepts.isdisjoint(_AGENTS)))
    own.update(_bucket(f"a:{way}&{concept}") for way in manner for concept in concepts)
    own.update(_bucket(f"a:{way}&{other}") for way in manner for other in ("", *manner))
    # Neighbours don't get its words: an order among lines of code is still an order.
    lent = {_bucket("n" + name) for name in (*kinds, *(f"a:{way}" for way in manner))}
    return Sentence(frozenset(own), frozenset(lent), frozenset(concepts))


def _kind(token: str) -> str:
    first = token[0]
    if "@" in token and len(token) > 3:
        return "MAIL"
    if first.isalpha():
        if token.startswith("http") and "://" in token:
            return "URLQ" if _CARRIES.search(token) else "URL"
        return "IDENT" if "_" in token and token not in LEXICON else token.replace("\u2019", "'")
    if first in "~/." and len(token) > 1:
        return "PATH"
    return "0" if first.isdigit() else token


def _concepts(token: str) -> tuple[str, ...]:
    return (token,) if token in _SPECIAL else LEXICON.get(token, ())


def _of_words(said: Sequence[str]) -> Iterator[str]:
    before = "^"
    for token in said:
        if token[0].isalnum():
            yield "w:" + token
            if token[0] >= _FIRST_IDEOGRAPH:
                yield from (f"g:{token[at : at + 2]}" for at in range(len(token) - 1))
            elif len(token) >= _LEAST_FOR_STEM:
                yield "x:" + token[:_STEM]
        yield f"b:{before} {token}"
        before = token


def _of_letters(sentence: str) -> Iterator[str]:
    """Pieces of words: for scripts without spaces, and for endings we have no list of."""
    for chunk in sentence.split()[:_MOST_CHUNKS]:
        if not chunk.isascii():
            size = _PIECE_OF_IDEOGRAPHS if chunk[0] >= _FIRST_IDEOGRAPH else _PIECE
            for at in range(min(len(chunk), _MOST_CHUNKS) - size + 1):
                yield "h:" + chunk[at : at + size]


def _of_sequence(said: Sequence[str], about: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Neighbouring words with one of them, or both, replaced by what they are about."""
    word, concept = "^", ""
    for token, concepts in zip(said, about, strict=True):
        this = concepts[0] if concepts else ""
        if concept and this:
            yield f"m:{concept}+{this}"
        elif concept:
            yield f"m:{concept} {token}"
        elif this:
            yield f"m:{word} +{this}"
        word, concept = token, this
    sequence = [concepts[0] for concepts in about if concepts]
    for at in range(len(sequence) - 1):
        yield "k:" + ">".join(sequence[at : at + 2])
        if at + 2 < len(sequence):
            yield "k:" + ">".join(sequence[at : at + 3])


@lru_cache(maxsize=1 << 16)
def _bucket(name: str) -> int:
    return crc32(name.encode(errors="surrogatepass")) % BUCKETS
