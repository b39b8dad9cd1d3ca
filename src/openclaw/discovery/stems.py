"""A tool's document or a query, as weighted stems and concepts."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.resources import files
from itertools import islice
from typing import cast

import orjson

DESCRIPTION_CHARACTERS = 1500
PARAMETER_DESCRIPTION_CHARACTERS = 200
PARAMETERS = 60
ENUM_VALUES = 20
SCHEMA_DEPTH = 3


@dataclass(frozen=True, slots=True)
class ToolDocument:
    """`full_name` identifies the tool in results; `name` is what its server calls it."""

    full_name: str
    server: str
    name: str
    description: str = ""
    schema: Mapping[str, object] = field(default_factory=dict[str, object])
    server_description: str = ""


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    description: str
    values: tuple[str, ...]


def parameters(schema: Mapping[str, object]) -> list[Parameter]:
    return list(islice(_walk(schema, SCHEMA_DEPTH), PARAMETERS))


def digest(document: ToolDocument) -> str:
    """A digest that changes with anything that the index reads from the document."""
    read: list[object] = [
        document.full_name,
        document.server,
        document.name,
        document.description[:DESCRIPTION_CHARACTERS],
        document.server_description[:DESCRIPTION_CHARACTERS],
    ]
    try:
        # The whole schema: that is ten times as fast as finding the parts that the index reads.
        text = orjson.dumps([*read, document.schema])
    except TypeError:  # too deep, circular, or not of JSON's types
        some = [[each.name, each.description, each.values] for each in parameters(document.schema)]
        text = repr([*read, some]).encode()
    return blake2b(text, digest_size=12).hexdigest()


def catalogue_hash(documents: Iterable[ToolDocument]) -> str:
    whole = blake2b(digest_size=16)
    for each in sorted(digest(document) for document in documents):
        whole.update(each.encode())
    return whole.hexdigest()


def _walk(schema: object, depth: int) -> Iterator[Parameter]:
    properties = _mapping(_mapping(schema).get("properties"))
    for name, value in properties.items():
        described = _mapping(value)
        yield _parameter(str(name), described)
        if depth > 1:
            yield from _walk(described, depth - 1)
            yield from _walk(described.get("items"), depth - 1)


def _parameter(name: str, described: Mapping[str, object]) -> Parameter:
    text = described.get("description")
    values = described.get("enum")
    listed = cast("list[object]", values) if isinstance(values, list) else []
    return Parameter(
        name=name[:PARAMETER_DESCRIPTION_CHARACTERS],
        description=text[:PARAMETER_DESCRIPTION_CHARACTERS] if isinstance(text, str) else "",
        values=tuple(str(value)[:40] for value in listed[:ENUM_VALUES]),
    )


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


# `concepts.txt` has one concept a line: first the actions ("create add make…"), then the topics with
# words that give them away ("weather forecast rain…"). A word may be in several.

ACTIONS = 13


def concepts_of(stemmed: str) -> tuple[int, ...]:
    return _table().get(stemmed, ())


def topics_of(stemmed: str) -> tuple[int, ...]:
    return tuple(concept for concept in concepts_of(stemmed) if concept >= ACTIONS)


@cache
def members() -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(line.split()) for line in _text("concepts.txt").splitlines())


@cache
def fingerprint() -> str:
    read = _text("concepts.txt") + _text("chinese.txt")
    return blake2b(read.encode(), digest_size=8).hexdigest()


@cache
def _table() -> dict[str, tuple[int, ...]]:
    table: dict[str, list[int]] = {}
    for concept, words in enumerate(members()):
        for stemmed in dict.fromkeys(map(stem, words)):
            table.setdefault(stemmed, []).append(concept)
    return {stemmed: tuple(found) for stemmed, found in table.items()}


def _text(name: str) -> str:
    return files("openclaw.discovery").joinpath(name).read_text(encoding="utf-8")


@cache
def _porter() -> Callable[[str], str]:
    from Stemmer import Stemmer  # pyright: ignore[reportUnknownVariableType] - untyped

    # Without its own cache, a stemmer can be shared between threads.
    return cast("Callable[[str], str]", Stemmer("porter", 0).stemWord)  # pyright: ignore[reportUnknownMemberType]


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """The stem of a lower-case word; words that are not English letters are returned unchanged."""
    english = len(word) > 2 and word.isascii() and word.isalpha()
    return _porter()(word) if english else word


_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=。)|\n+")
_WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u9fff]+")  # Chinese and Japanese

_STOP_WORDS = """
a an the of to in for on with and or is are be been was were am can could would will shall should
may might must you i me my we our us your their they them he she his her its it this that these
those there here please help what which who whom whose how when where why do does did done doing
from by as at into about than then so if but not no nor any some have has had having just like want
need know let give tell also very much more most such via per using use used each all both other
another up out over own same too only s t d ll m re ve im id ok hi hello hey thanks thank
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


def split_words(text: str) -> list[str]:
    """Lower-case words; snake_case, kebab-case and camelCase are split, and Chinese is translated."""
    text = _JOINT.sub(" ", text).lower()
    return _WORD.findall(text if text.isascii() else _WITHOUT_SPACES.sub(_spaced, text))


def _spaced(run: re.Match[str]) -> str:
    """The longest words that `chinese.txt` has, in English, and every two letters of the rest."""
    known, longest = _chinese()
    found: list[str] = []
    place, unknown = 0, ""
    letters = run.group()
    while place < len(letters):
        ends = range(min(len(letters), place + longest), place, -1)
        end = next((end for end in ends if letters[place:end] in known), None)
        if end is None:
            unknown += letters[place]
            place += 1
        else:
            found += [*_pairs(unknown), known[letters[place:end]]]
            place, unknown = end, ""
    return f" {' '.join([*found, *_pairs(unknown)])} "


def _pairs(letters: str) -> list[str]:
    return [letters[at : at + 2] for at in range(max(1, len(letters) - 1))] if letters else []


@cache
def _chinese() -> tuple[dict[str, str], int]:
    """Each line of the file has an English word and the Chinese ones for it."""
    lines = [line.split() for line in _text("chinese.txt").splitlines()]
    known = {word: english for english, *words in lines for word in words}
    return known, max(map(len, known))


def content_words(text: str) -> list[str]:
    return [word for word in split_words(text) if word not in STOP_WORDS]


def stems(text: str) -> list[str]:
    return [stem(word) for word in content_words(text)]


def sentences(text: str) -> list[str]:
    return [part for part in _SENTENCE_END.split(text.strip()) if part.strip()]


# Sums of quarters are exact, so an index that is loaded and updated equals one that is built.
NAME_WEIGHT = 3.0
SERVER_WEIGHT = 1.0
DESCRIPTION_WEIGHT = 1.0
PARAMETER_WEIGHT = 0.75
DETAIL_WEIGHT = 0.25
# A query that repeats a topic is not about that topic alone.
CONCEPT_LIMIT = 1.5


def document_stems(document: ToolDocument) -> dict[str, float]:
    """How often each stem occurs, weighted by the field it occurs in."""
    counts: dict[str, float] = {}
    for text, weight in _fields(document):
        for stem in stems(text):
            counts[stem] = counts.get(stem, 0.0) + weight
    return counts


def _fields(document: ToolDocument) -> Iterator[tuple[str, float]]:
    yield document.name, NAME_WEIGHT
    yield document.server, SERVER_WEIGHT
    yield document.description[:DESCRIPTION_CHARACTERS], DESCRIPTION_WEIGHT
    yield document.server_description[:DESCRIPTION_CHARACTERS], DETAIL_WEIGHT
    for parameter in parameters(document.schema):
        yield parameter.name, PARAMETER_WEIGHT
        yield parameter.description, DETAIL_WEIGHT
        yield " ".join(parameter.values), DETAIL_WEIGHT


def query_stems(words: Mapping[str, float]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for word, weight in words.items():
        totals[stem(word)] = totals.get(stem(word), 0.0) + weight
    return {each: 1 + math.log(total) if total >= 1 else total for each, total in totals.items()}


def concept_counts(counts: Mapping[str, float]) -> dict[str, float]:
    """A stem with several concepts counts less for each of them."""
    result: dict[str, float] = {}
    for stem, count in counts.items():
        found = concepts_of(stem)
        for concept in map(str, found):
            result[concept] = result.get(concept, 0.0) + count / math.sqrt(len(found))
    return result


def named_actions(counts: Mapping[str, float]) -> dict[str, float]:
    """The actions among them, as separate terms: a tool's name says best what it does."""
    found = concept_counts(counts)
    return {f"name {each}": count for each, count in found.items() if int(each) < ACTIONS}


def query_concepts(counts: Mapping[str, float]) -> dict[str, float]:
    found = concept_counts(counts) | named_actions(counts)
    return {concept: min(CONCEPT_LIMIT, weight) for concept, weight in found.items()}


NEAREST = 3
LEAST_LIKENESS = 0.5
SHORTEST = 4
# A word with one typing error in it mostly shares more triples than this with the right one.
LEAST_LIKENESS_OF_TYPO = 0.3
SHORTEST_TYPO = 5


class Speller:
    """Immutable after it is built; compares words by the letter triples they share."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = [word for word in words if len(word) >= SHORTEST]
        self._sizes = [len(_triples(word)) for word in self._words]
        self._places: dict[str, list[int]] = {}
        for place, word in enumerate(self._words):
            for triple in _triples(word):
                self._places.setdefault(triple, []).append(place)
        self.near = lru_cache(maxsize=1024)(self._near)
        self.meant = lru_cache(maxsize=1024)(self._meant)

    def _near(self, word: str) -> tuple[tuple[str, float], ...]:
        """The nearest words, each with a weight below 1."""
        best = self._alike(word, LEAST_LIKENESS)[:NEAREST]
        return tuple((near, likeness * likeness) for likeness, near in best)

    def _meant(self, word: str) -> str | None:
        """The nearest word that one typing error turns into this one."""
        if len(word) < SHORTEST_TYPO or not word.isalpha():
            return None
        alike = self._alike(word, LEAST_LIKENESS_OF_TYPO)
        return next((near for _, near in alike if _differ_by_a_typo(word, near)), None)

    def _alike(self, word: str, least: float) -> list[tuple[float, str]]:
        """The share of triples that each word has in common with it, if enough; most first."""
        triples = _triples(word)
        shared = Counter(place for each in triples for place in self._places.get(each, ()))
        found = (
            (2 * count / (len(triples) + self._sizes[place]), self._words[place])
            for place, count in shared.items()
        )
        return sorted((each for each in found if each[0] >= least), reverse=True)


def _differ_by_a_typo(typed: str, meant: str) -> bool:
    """Whether a letter is missing, wrong or too many, or two have changed places; not the first."""
    start = _shared_start(typed, meant)
    some, other = typed[start:], meant[start:]
    end = _shared_start(some[::-1], other[::-1])
    some, other = some[: len(some) - end], other[: len(other) - end]
    swapped = len(some) == 2 and some == other[::-1]
    return start > 0 and (swapped or max(len(some), len(other)) == 1)


def _shared_start(some: str, other: str) -> int:
    pairs = enumerate(zip(some, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(some), len(other)))


def _triples(word: str) -> set[str]:
    padded = f"^{word}$"
    return {padded[place : place + 3] for place in range(len(padded) - 2)}
