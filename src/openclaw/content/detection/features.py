"""What the detector's weights are learnt over: words, pairs of words, and what they are about.

Each feature is a number below `BUCKETS`; two may share one. A window is a sentence with its
neighbours, of which less is taken.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple
from zlib import crc32

from openclaw.content.detection.concepts import foreign_concepts, patterns, word_lists


@cache
def _patterns(named: bool) -> tuple[tuple[str, re.Pattern[str]], ...]:
    found = patterns("named" if named else "unnamed")
    return tuple((name, re.compile(pattern)) for name, pattern in found.items())


def ways(sentence: str, names_an_agent: bool) -> Iterator[str]:
    for named in (True, False) if names_an_agent else (False,):
        for name, pattern in _patterns(named):
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
    """The features of the sentence at `at` as it stands among its neighbours."""
    centre = sentences[at]
    found = set(centre.own)
    for other in sentences:
        if other is not centre:
            found |= other.lent
            for theirs in other.concepts - centre.concepts:
                found.update(_bucket(f"q:{theirs}&{ours}") for ours in centre.concepts)
    return found


@lru_cache(maxsize=256)
def read(sentence: str) -> Sentence:
    tokens = [_kind(token) for token in _TOKEN.findall(sentence)[:_MOST_TOKENS]]
    said = [token for token in tokens if token[0].isalnum() or token in _TELLING_SIGNS]
    about = [_concepts(token) for token in said]
    concepts = {concept for each in about for concept in each}
    if not sentence.isascii() or len(concepts) < len(said) // 4:
        concepts.update(foreign_concepts(sentence))
    words = {_bucket(name) for name in _of_words(said)}
    if not sentence.isascii():
        words.update(_bucket(name) for name in _of_letters(sentence))
    beginning = next((token for token in tokens if token[0].isalpha()), "")
    starts = [f"s:{concept}" for concept in _concepts(beginning) or ("-",)] if beginning else []
    kinds = [*(f"c:{concept}" for concept in concepts), *starts]
    own = words | {_bucket(name) for name in kinds}
    own.update(_bucket(name) for name in _of_sequence(said, about))
    own.update(_bucket(name) for name in _pairs(concepts))
    manner = sorted(ways(sentence, not concepts.isdisjoint(_AGENTS)))
    own.update(_bucket(f"a:{way}&{concept}") for way in manner for concept in concepts)
    own.update(_bucket(f"a:{way}&{other}") for way in manner for other in ("", *manner))
    # Its words stay its own: an order among lines of code is an order still.
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
    """Pieces of words: for scripts whose words do not part, and for endings we have no list of."""
    for chunk in sentence.split()[:_MOST_CHUNKS]:
        if not chunk.isascii():
            size = _PIECE_OF_IDEOGRAPHS if chunk[0] >= _FIRST_IDEOGRAPH else _PIECE
            for at in range(min(len(chunk), _MOST_CHUNKS) - size + 1):
                yield "h:" + chunk[at : at + size]


def _of_sequence(said: Sequence[str], about: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Neighbouring words with one of them, or both, taken for what they are about."""
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


def _pairs(concepts: Iterable[str]) -> Iterator[str]:
    ordered = sorted(concepts)
    for at, one in enumerate(ordered):
        for other in ordered[at + 1 :]:
            yield f"p:{one}&{other}"


@lru_cache(maxsize=1 << 16)
def _bucket(name: str) -> int:
    return crc32(name.encode(errors="surrogatepass")) % BUCKETS
