"""Ranks the tools of a catalogue by how well they fit a need."""

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import orjson

from openclaw.discovery.scoring import (
    FITS,
    Postings,
    Query,
    Scorer,
    Scores,
    build_postings,
    read_conversation,
    read_query,
)
from openclaw.discovery.stems import (
    ToolDocument,
    concept_counts,
    digest,
    document_stems,
    fingerprint,
    named_actions,
    stems,
)
from openclaw.discovery.vectors import (
    ToolVectors,
    Vector,
    WordVectors,
    combine,
    document_vector,
    load_vectors,
)

# In units of the fused score, where a clear winner is ahead by 1 to 3.
PART_WEIGHT = 0.6


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
    scorer: Scorer

    def search(self, query: str, limit: int = 5) -> list[Match]:
        """The best matches first."""
        return self._search(read_query(query), limit)

    def nearest(self, conversation: str, limit: int = 20) -> list[Match]:
        """For a longer text with code, addresses and small talk in it; its end counts most."""
        return self._search(read_conversation(conversation), limit)

    def _search(self, query: Query, limit: int) -> list[Match]:
        if not self.names or not query.words:
            return []
        whole = self.scorer.whole(query.words)
        parts = [self.scorer.part(words) for words in query.parts]
        totals = whole.totals
        if parts:  # a tool that fits one sentence well need not fit the others
            totals += PART_WEIGHT * np.maximum(0, np.max([part.totals for part in parts], axis=0))
        places = np.argsort(-totals, kind="stable")[:limit].tolist()
        return [self._match(place, float(totals[place]), [whole, *parts]) for place in places]

    def _match(self, place: int, score: float, scores: Sequence[Scores]) -> Match:
        likelihood = max(each.confidence(place) for each in scores)
        return Match(self.names[place], self.servers[place], score, likelihood)


def build_index(
    documents: Sequence[ToolDocument],
    vectors: WordVectors | None = None,
    previous: ToolIndex | None = None,
) -> ToolIndex:
    """Uses our own table of word vectors unless another is given."""
    vectors = vectors or load_vectors()
    digests = tuple(digest(document) for document in documents)
    counts = _stem_counts(documents, digests, previous)
    concepts = [
        concept_counts(each) | named_actions(Counter(stems(document.name)))
        for each, document in zip(counts, documents, strict=True)
    ]
    return ToolIndex(
        names=tuple(document.full_name for document in documents),
        servers=tuple(document.server for document in documents),
        digests=digests,
        scorer=Scorer(
            words=build_postings(counts),
            concepts=build_postings(concepts),
            tool_vectors=_tool_vectors(documents, digests, vectors, previous),
            word_vectors=vectors,
        ),
    )


def _stem_counts(
    documents: Sequence[ToolDocument], digests: Sequence[str], previous: ToolIndex | None
) -> list[dict[str, float]]:
    known: dict[str, dict[str, float]] = {}
    if previous is not None:
        known = dict(zip(previous.digests, previous.scorer.words.by_document(), strict=True))
    return [
        known[key] if key in known else document_stems(document)
        for key, document in zip(digests, documents, strict=True)
    ]


def _tool_vectors(
    documents: Sequence[ToolDocument],
    digests: Sequence[str],
    vectors: WordVectors,
    previous: ToolIndex | None,
) -> ToolVectors:
    known: dict[str, Vector] = {}
    if previous is not None:
        known = dict(zip(previous.digests, previous.scorer.tool_vectors.own, strict=True))
    own = np.zeros((len(documents), vectors.dimensions), dtype=np.float16)
    for place, (key, document) in enumerate(zip(digests, documents, strict=True)):
        own[place] = known[key] if key in known else document_vector(document, vectors)
    return combine(own, [document.server for document in documents])


# Raise it when the analysis of documents changes: files of another format are not used.
FORMAT = 9
_LENGTH_BYTES = 8


def save_index(index: ToolIndex, path: Path, catalogue: str) -> None:
    """`catalogue` is the hash to load it by. A reader never sees half a file."""
    words, concepts = index.scorer.words, index.scorer.concepts
    own = index.scorer.tool_vectors.own
    blocks = [*_blocks(words), *_blocks(concepts), own.tobytes()]
    header = {
        "signature": _signature(catalogue),
        "names": list(index.names),
        "servers": list(index.servers),
        "digests": list(index.digests),
        "words": list(words.terms),
        "concepts": list(concepts.terms),
        "dimensions": own.shape[1],
        "sizes": [len(block) for block in blocks],
    }
    start = orjson.dumps(header)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as draft:
        draft.writelines([len(start).to_bytes(_LENGTH_BYTES, "little"), start, *blocks])
    Path(draft.name).replace(path)


def load_index(path: Path, catalogue: str, vectors: WordVectors | None = None) -> ToolIndex | None:
    """None if there is no file, or it is not this catalogue's index."""
    with suppress(OSError, ValueError, KeyError, TypeError, StopIteration):
        return _read(path.read_bytes(), catalogue, vectors or load_vectors())
    return None


def _signature(catalogue: str) -> str:
    return f"{FORMAT} {sys.byteorder} {fingerprint()} {catalogue}"


def _blocks(postings: Postings) -> list[bytes]:
    arrays = (postings.starts, postings.documents, postings.frequencies, postings.scores)
    return [each.tobytes() for each in arrays]


def _read(data: bytes, catalogue: str, vectors: WordVectors) -> ToolIndex | None:
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = orjson.loads(data[_LENGTH_BYTES:end])
    if header["signature"] != _signature(catalogue) or header["dimensions"] != vectors.dimensions:
        return None
    places = list(accumulate(header["sizes"], initial=end))
    if places[-1] != len(data):
        return None
    blocks = (data[begin:end] for begin, end in pairwise(places))
    size = len(header["names"])
    return ToolIndex(
        names=tuple(header["names"]),
        servers=tuple(header["servers"]),
        digests=tuple(header["digests"]),
        scorer=Scorer(
            words=_postings(size, header["words"], blocks),
            concepts=_postings(size, header["concepts"], blocks),
            tool_vectors=_combined(next(blocks), header["dimensions"], header["servers"]),
            word_vectors=vectors,
        ),
    )


def _postings(size: int, terms: list[str], blocks: Iterator[bytes]) -> Postings:
    return Postings(
        size=size,
        terms={term: place for place, term in enumerate(terms)},
        starts=np.frombuffer(next(blocks), np.uint32),
        documents=np.frombuffer(next(blocks), np.uint32),
        frequencies=np.frombuffer(next(blocks), np.float32),
        scores=np.frombuffer(next(blocks), np.float32),
    )


def _combined(block: bytes, dimensions: int, servers: Sequence[str]) -> ToolVectors:
    own = np.frombuffer(block, dtype=np.float16).reshape(-1, dimensions)
    return combine(own, servers)
