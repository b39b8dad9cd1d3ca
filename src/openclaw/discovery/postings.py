"""An inverted index whose BM25 scores are computed when it is built."""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

SATURATION = 1.2
LENGTH_WEIGHT = 0.6
COMMON_SHARE = 0.15
COMMON_LEAST = 50


@dataclass(frozen=True, slots=True)
class Postings:
    """Immutable. `starts[i]` to `starts[i + 1]` are the entries of the i-th term."""

    size: int
    terms: dict[str, int]
    starts: "array[int]"
    documents: "array[int]"
    frequencies: "array[float]"
    scores: "array[float]"

    def scores_of(self, weights: Mapping[str, float]) -> list[float]:
        """One score per document."""
        totals = [0.0] * self.size
        for term, weight in weights.items():
            begin, end = self._range(term)
            entries = zip(self.documents[begin:end], self.scores[begin:end], strict=True)
            for document, score in entries:
                totals[document] += weight * score
        return totals

    def some_scores_of(self, weights: Mapping[str, float]) -> dict[int, float]:
        """The scores that are not 0, without the terms that too many documents have."""
        most = COMMON_LEAST + self.size * COMMON_SHARE
        totals: dict[int, float] = {}
        for term, weight in weights.items():
            begin, end = self._range(term)
            if end - begin > most:
                continue
            entries = zip(self.documents[begin:end], self.scores[begin:end], strict=True)
            for document, score in entries:
                totals[document] = totals.get(document, 0.0) + weight * score
        return totals

    def rarity(self, term: str) -> float:
        begin, end = self._range(term)
        return _rarity(end - begin, self.size)

    def _range(self, term: str) -> tuple[int, int]:
        place = self.terms.get(term)
        return (0, 0) if place is None else (self.starts[place], self.starts[place + 1])

    def by_document(self) -> list[dict[str, float]]:
        """Each document's term frequencies: what `build_postings` was given."""
        result: list[dict[str, float]] = [{} for _ in range(self.size)]
        for term, place in self.terms.items():
            for entry in range(self.starts[place], self.starts[place + 1]):
                result[self.documents[entry]][term] = self.frequencies[entry]
        return result


def build_postings(documents: Sequence[Mapping[str, float]]) -> Postings:
    entries: dict[str, list[tuple[int, float]]] = {}
    for position, frequencies in enumerate(documents):
        for term, frequency in frequencies.items():
            entries.setdefault(term, []).append((position, frequency))
    return Postings(
        size=len(documents),
        terms={term: place for place, term in enumerate(entries)},
        starts=array("I", accumulate(map(len, entries.values()), initial=0)),
        documents=array("I", (each[0] for found in entries.values() for each in found)),
        frequencies=array("f", (each[1] for found in entries.values() for each in found)),
        scores=_scores(documents, entries),
    )


def _scores(
    documents: Sequence[Mapping[str, float]], entries: Mapping[str, list[tuple[int, float]]]
) -> "array[float]":
    lengths = [sum(frequencies.values()) for frequencies in documents]
    average = sum(lengths) / max(1, len(lengths)) or 1.0
    damping = [
        SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * each / average) for each in lengths
    ]
    scores = array("f")
    for found in entries.values():
        factor = _rarity(len(found), len(documents)) * (SATURATION + 1)
        scores.extend(factor * count / (count + damping[place]) for place, count in found)
    return scores


def _rarity(count: int, size: int) -> float:
    return math.log(1 + (size - count + 0.5) / (count + 0.5))
