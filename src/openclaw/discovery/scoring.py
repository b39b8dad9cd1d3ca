"""Scores every tool for one query, or for one sentence of it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from openclaw.discovery.stems import (
    SHORTEST,
    Speller,
    content_words,
    query_concepts,
    query_stems,
    split_words,
    stem,
)
from openclaw.discovery.vectors import ToolVectors, Vector, WordVectors

SATURATION = 1.0
LENGTH_WEIGHT = 0.6
COMMON_SHARE = 0.15
COMMON_LEAST = 50


@dataclass(frozen=True, slots=True)
class Postings:
    """Immutable. `starts[i]` to `starts[i + 1]` are the entries of the i-th term."""

    size: int
    terms: dict[str, int]
    starts: NDArray[np.uint32]
    documents: NDArray[np.uint32]
    frequencies: Vector
    scores: Vector

    def scores_of(self, weights: Mapping[str, float], most: float = math.inf) -> Vector:
        """The score of each document. Terms in more than `most` documents do not count."""
        totals = np.zeros(self.size, dtype=np.float32)
        for term, weight in weights.items():
            begin, end = self._range(term)
            if end - begin <= most:
                totals[self.documents[begin:end]] += weight * self.scores[begin:end]
        return totals

    def rarity(self, term: str) -> float:
        begin, end = self._range(term)
        return _rarity(end - begin, self.size)

    def _range(self, term: str) -> tuple[int, int]:
        place = self.terms.get(term)
        return (0, 0) if place is None else tuple(self.starts[place : place + 2].tolist())

    def by_document(self) -> list[dict[str, float]]:
        """Each document's term frequencies: the input of `build_postings`."""
        result: list[dict[str, float]] = [{} for _ in range(self.size)]
        documents, frequencies = self.documents.tolist(), self.frequencies.tolist()
        for term in self.terms:
            for entry in range(*self._range(term)):
                result[documents[entry]][term] = frequencies[entry]
        return result


def build_postings(documents: Sequence[Mapping[str, float]]) -> Postings:
    entries: dict[str, list[tuple[int, float]]] = {}
    for position, frequencies in enumerate(documents):
        for term, frequency in frequencies.items():
            entries.setdefault(term, []).append((position, frequency))
    return Postings(
        size=len(documents),
        terms={term: place for place, term in enumerate(entries)},
        starts=np.fromiter(accumulate(map(len, entries.values()), initial=0), np.uint32),
        documents=np.fromiter((at for found in entries.values() for at, _ in found), np.uint32),
        frequencies=np.fromiter((n for found in entries.values() for _, n in found), np.float32),
        scores=_scores(documents, entries),
    )


def _scores(
    documents: Sequence[Mapping[str, float]], entries: Mapping[str, list[tuple[int, float]]]
) -> Vector:
    lengths = [sum(frequencies.values()) for frequencies in documents]
    average = sum(lengths) / max(1, len(lengths)) or 1.0
    damping = [
        SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * each / average) for each in lengths
    ]
    scores: list[float] = []
    for found in entries.values():
        factor = _rarity(len(found), len(documents)) * (SATURATION + 1)
        scores.extend(factor * count / (count + damping[place]) for place, count in found)
    return np.array(scores, dtype=np.float32)


def _rarity(count: int, size: int) -> float:
    return math.log(1 + (size - count + 0.5) / (count + 0.5))


# Each signal is divided by its spread over the catalogue, so that a score counts by how far it
# stands out, then multiplied by a weight. The weights were learnt (softmax regression) on public
# tool sets, then adjusted; training/README.md has the figures.


WORDS_WEIGHT = 0.33
CONCEPTS_WEIGHT = 0.18
VECTORS_WEIGHT = 0.75


def standardised(scores: Vector) -> Vector:
    deviation = float(scores.std())
    return (scores - scores.mean()) / deviation if deviation > 0 else np.zeros_like(scores)


FITS = 0.5  # a confidence


@dataclass(frozen=True, slots=True)
class Scores:
    """One entry for each tool: in all, for its words, and how near its vector is to the query's.

    `reachable` is what a tool would get for having every one of the words.
    """

    totals: Vector
    by_words: Vector
    similarities: Vector
    reachable: float

    def confidence(self, place: int) -> float:
        """A likelihood from 0 to 1 that the tool does what the query asks."""
        coverage = float(self.by_words[place]) / max(self.reachable, 1e-9)
        # Learnt by logistic regression on queries whose first match is right, and on queries put
        # to a catalogue that has nothing for them.
        value = 5.2 * coverage + 7.5 * float(self.similarities[place]) - 7.0
        return 1 / (1 + math.exp(-value))


@dataclass(frozen=True)
class Scorer:
    words: Postings
    concepts: Postings
    tool_vectors: ToolVectors
    word_vectors: WordVectors

    def whole(self, words: Mapping[str, float]) -> Scores:
        return self._scores(words, math.inf)

    def part(self, words: Mapping[str, float]) -> Scores:
        """The scores, which are 0 for tools that share no distinctive word or concept with `words`."""
        return self._scores(words, COMMON_LEAST + self.words.size * COMMON_SHARE)

    def _scores(self, words: Mapping[str, float], most: float) -> Scores:
        words = self._as_meant(words)
        stems = self.spelt(query_stems(words))
        by_words = self.words.scores_of(stems, most)
        by_concepts = self.concepts.scores_of(query_concepts(stems), most)
        similar = self.tool_vectors.similarities(self.word_vectors.mean(words))
        totals = WORDS_WEIGHT * standardised(by_words)
        totals += CONCEPTS_WEIGHT * standardised(by_concepts)
        totals += VECTORS_WEIGHT * standardised(similar)
        if most < math.inf:
            totals[(by_words == 0) & (by_concepts == 0)] = 0
        return Scores(totals, by_words, similar, self._reachable(stems))

    def _reachable(self, stems: Mapping[str, float]) -> float:
        return sum(weight * self.words.rarity(each) for each, weight in stems.items())

    def _as_meant(self, words: Mapping[str, float]) -> Mapping[str, float]:
        """The words, with typos corrected in those that neither the catalogue nor the table has."""
        result: dict[str, float] = {}
        for word, weight in words.items():
            meant = word if self._is_known(word) else self._speller.meant(stem(word)) or word
            result[meant] = result.get(meant, 0.0) + weight
        return result

    def _is_known(self, word: str) -> bool:
        return stem(word) in self.words.terms or len(self.word_vectors.pieces(word)) == 1

    def spelt(self, stems: dict[str, float]) -> dict[str, float]:
        """Adds similar words of the catalogue for those that it does not have."""
        result = dict(stems)
        for unknown in stems:
            if len(unknown) >= SHORTEST and unknown not in self.words.terms:
                for near, likeness in self._speller.near(unknown):
                    result[near] = max(result.get(near, 0.0), likeness * stems[unknown])
        return result

    @cached_property
    def _speller(self) -> Speller:
        return Speller(self.words.terms)


QUERY_CHARACTERS = 4000
CONVERSATION_CHARACTERS = 3000
CONVERSATION_WITH_NOISE_CHARACTERS = 20000
PARTS = 8
_SHORTEST_PART = 3

_PART_END = re.compile(
    r"(?<=[.!?;:])\s+|(?<=。)|\n+|,?\s{1,9}(?:and then|then|and also|after that|finally|next|also)\s+"
)
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{1,19}://\S+", re.IGNORECASE)
# Keys, hashes and encoded data: long, without a space, and with a digit in it.
_BLOB = re.compile(r"(?<!\S)(?=\S*\d)\S{24,}")


# Numbers and names of files say less about what is needed than other words do.
NUMBER_WEIGHT = 0.3
PLACE_WEIGHT = 0.5
# To get something about a subject, one mostly has to search for it.
ABOUT_WEIGHT = 0.3
_ABOUT = re.compile(r"\b(?:about|regarding|concerning)\b", re.IGNORECASE)
_PLACE = re.compile(
    r"(?<![\w/.:\\])(?:(?P<url>[a-z][a-z0-9+.-]{1,19}://)|[A-Za-z]:[\\/]|~?\.{0,2}/)[^\s,;()\"'`]+"
)


@dataclass(frozen=True, slots=True)
class Query:
    """How much each word counts. `parts` are the sentences of a text that has several."""

    words: Mapping[str, float]
    parts: tuple[Mapping[str, float], ...]


def read_query(text: str) -> Query:
    text = text[:QUERY_CHARACTERS]
    return Query(_weigh(text) or dict.fromkeys(split_words(text), 1.0), _parts(text))


def read_conversation(text: str) -> Query:
    """The end counts: what was said last says best what is needed next."""
    text = text[-CONVERSATION_WITH_NOISE_CHARACTERS:]
    for noise in (_FENCED, _ADDRESS, _BLOB):
        text = noise.sub(" ", text)
    return read_query(text[-CONVERSATION_CHARACTERS:])


def _weigh(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    places = list(_PLACE.finditer(text))
    said = _PLACE.sub(" ", text) + (" file" if any(not each["url"] for each in places) else "")
    for part, weight in ((said, 1.0), (" ".join(each.group() for each in places), PLACE_WEIGHT)):
        for word in content_words(part):
            counted = min(weight, NUMBER_WEIGHT) if word.isdigit() else weight
            found[word] = found.get(word, 0.0) + counted
    if found and _ABOUT.search(said):
        found["search"] = found.get("search", 0.0) + ABOUT_WEIGHT
    return found


def _parts(text: str) -> tuple[Mapping[str, float], ...]:
    long_enough = [
        part for part in map(_weigh, _PART_END.split(text)) if len(part) >= _SHORTEST_PART
    ]
    return tuple(long_enough[-PARTS:]) if len(long_enough) > 1 else ()
