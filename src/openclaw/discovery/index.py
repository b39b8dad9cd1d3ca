"""Ranks the tools of a catalogue by how well they fit a need."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from typing import TYPE_CHECKING

from openclaw.discovery.scoring import (
    FITS,
    PartScores,
    Postings,
    Query,
    Scorer,
    Scores,
    build_postings,
    confidence,
    read_conversation,
    read_query,
)
from openclaw.discovery.words import (
    NO_CO_USE,
    CoUse,
    ToolDocument,
    concept_counts,
    digest,
    document_stems,
)

if TYPE_CHECKING:
    from openclaw.discovery.vectors import ToolVectors, WordVectors

# In units of the fused score, where a clear winner is ahead by 1 to 3.
CO_USE_WEIGHT = 1.0
PART_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Match:
    """`confidence` (0 to 1) can be compared between queries; `score` only within one."""

    full_name: str
    server: str
    score: float
    confidence: float

    @property
    def fits(self) -> bool:
        return self.confidence >= FITS


@dataclass(frozen=True)
class ToolIndex:
    """Immutable, so any number of threads may search it."""

    names: tuple[str, ...]
    servers: tuple[str, ...]
    digests: tuple[str, ...]
    words: Postings
    concepts: Postings
    tool_vectors: "ToolVectors | None" = None
    word_vectors: "WordVectors | None" = None

    def search(
        self,
        query: str,
        limit: int = 5,
        *,
        used: Collection[str] = (),
        co_use: CoUse = NO_CO_USE,
    ) -> list[Match]:
        """The best matches first. `used` are tools already called for the same task."""
        return self._search(read_query(query), limit, co_use.companions(used))

    def search_many(self, queries: Iterable[str], limit: int = 5) -> list[list[Match]]:
        """One list of matches for each query, in their order."""
        return [self.search(query, limit) for query in queries]

    def nearest(
        self,
        conversation: str,
        limit: int = 20,
        *,
        used: Collection[str] = (),
        co_use: CoUse = NO_CO_USE,
    ) -> list[Match]:
        """For a longer text with code, addresses and small talk in it; its end counts most."""
        return self._search(read_conversation(conversation), limit, co_use.companions(used))

    def _search(self, query: Query, limit: int, companions: Mapping[str, float]) -> list[Match]:
        if not self.names or not query.words:
            return []
        whole = self._scorer.whole(query.words)
        parts = [self._scorer.part(words) for words in query.parts]
        totals = list(whole.totals)
        for place, bonus in _best_parts(parts).items():
            totals[place] += PART_WEIGHT * bonus
        if companions:
            for place, name in enumerate(self.names):
                totals[place] += CO_USE_WEIGHT * companions.get(name, 0.0)
        places = nlargest(limit, range(len(totals)), key=totals.__getitem__)
        return [self._match(place, totals[place], [whole, *parts]) for place in places]

    def _match(self, place: int, score: float, scores: Sequence[Scores | PartScores]) -> Match:
        likelihood = max(_confidence(place, each) for each in scores)
        return Match(self.names[place], self.servers[place], score, likelihood)

    @cached_property
    def _scorer(self) -> Scorer:
        return Scorer(self.words, self.concepts, self.tool_vectors, self.word_vectors)


def _confidence(place: int, scores: Scores | PartScores) -> float:
    similar = scores.similarities
    return confidence(scores.coverage(place), None if similar is None else similar.values[place])


def _best_parts(parts: Iterable[PartScores]) -> dict[int, float]:
    """A tool that fits one sentence well need not fit the others."""
    best: dict[int, float] = {}
    for part in parts:
        for place, score in part.totals.items():
            if score > best.get(place, 0.0):
                best[place] = score
    return best


def build_index(
    documents: Sequence[ToolDocument],
    vectors: "WordVectors | None" = None,
    previous: ToolIndex | None = None,
) -> ToolIndex:
    """Without `vectors`, search goes by words and concepts alone."""
    digests = tuple(digest(document) for document in documents)
    counts = _stem_counts(documents, digests, previous)
    return ToolIndex(
        names=tuple(document.full_name for document in documents),
        servers=tuple(document.server for document in documents),
        digests=digests,
        words=build_postings(counts),
        concepts=build_postings([concept_counts(each) for each in counts]),
        tool_vectors=_tool_vectors(documents, digests, vectors, previous) if vectors else None,
        word_vectors=vectors,
    )


def _stem_counts(
    documents: Sequence[ToolDocument], digests: Sequence[str], previous: ToolIndex | None
) -> list[dict[str, float]]:
    known: dict[str, dict[str, float]] = {}
    if previous is not None:
        known = dict(zip(previous.digests, previous.words.by_document(), strict=True))
    return [
        known[key] if key in known else document_stems(document)
        for key, document in zip(digests, documents, strict=True)
    ]


def _tool_vectors(
    documents: Sequence[ToolDocument],
    digests: Sequence[str],
    vectors: "WordVectors",
    previous: ToolIndex | None,
) -> "ToolVectors":
    import numpy as np

    from openclaw.discovery.vectors import combine, document_vector

    before = previous.tool_vectors if previous is not None else None
    known = dict(zip(previous.digests, before.own, strict=True)) if previous and before else {}
    own = np.zeros((len(documents), vectors.dimensions), dtype=np.float16)
    for place, (key, document) in enumerate(zip(digests, documents, strict=True)):
        own[place] = known[key] if key in known else document_vector(document, vectors)
    return combine(own, [document.server for document in documents])
