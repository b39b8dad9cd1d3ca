"""Static word vectors: a table of our own, learnt from a sentence model and from requests.

The table is mapped, not read: only the rows of words that occur are ever in memory.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import cast

import numpy as np
import orjson
from numpy.typing import NDArray

from openclaw.discovery.stems import (
    DESCRIPTION_CHARACTERS,
    ToolDocument,
    content_words,
    members,
    parameters,
    sentences,
    stem,
    topics_of,
)

Vector = NDArray[np.float32]
Rows = NDArray[np.int8]
Words = Sequence[str] | Mapping[str, float]  # with how much each counts

OWN = Path(__file__).with_name("word_pieces.bin")  # training/word_vectors.py writes it
_INSIDE = "##"
# Nothing longer in a tool's description is a word.
_LONGEST_WORD = 40
_WORDS_CACHED = 4096
TOPIC_WEIGHT = 0.3


class WordVectors:
    """A vector for each piece of a word. Safe to share between threads."""

    def __init__(self, pieces: Callable[[str], list[int]], rows: Callable[[], Rows]) -> None:
        self.pieces = pieces
        self._open = rows
        self._rows = rows()
        self.dimensions: int = self._rows.shape[1]
        self._vector = lru_cache(maxsize=_WORDS_CACHED)(self._enriched)
        self._centre = lru_cache(maxsize=None)(self._centre_of)

    def mean(self, words: Words) -> Vector:
        """The weighted mean of the words, of length 1, or 0 if no word is known."""
        total = np.zeros(self.dimensions, dtype=np.float32)
        for word, weight in (words if isinstance(words, Mapping) else Counter(words)).items():
            total += weight * self._vector(word)
        return unit(total)

    def _enriched(self, word: str) -> Vector:
        """The word's vector, drawn towards the topics that it belongs to."""
        plain = self._plain(word, self._rows)
        topics = topics_of(stem(word))
        if not topics:
            return plain
        centre = np.mean([self._centre(topic) for topic in topics], axis=0)
        return plain + TOPIC_WEIGHT * float(np.linalg.norm(plain)) * centre

    def _plain(self, word: str, rows: Rows) -> Vector:
        return np.asarray(rows[self.pieces(word)], dtype=np.float32).sum(axis=0)

    def _centre_of(self, topic: int) -> Vector:
        """The mean direction of a concept's words. Few are needed to read an index and search it."""
        # A separate mapping, so that the pages of hundreds of words are freed with it.
        rows, total = self._open(), np.zeros(self.dimensions, dtype=np.float32)
        for word in members()[topic]:
            total += unit(self._plain(word, rows))
        return unit(total)


def cut_greedily(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    """Word pieces as BERT has them: the longest that fits, then the longest of the rest."""
    found: list[int] = []
    start, rest = "", word[:_LONGEST_WORD]
    while rest:
        fitting = (end for end in range(len(rest), 0, -1) if start + rest[:end] in vocabulary)
        end = next(fitting, 0)
        if not end:
            return []
        found.append(vocabulary[start + rest[:end]])
        start, rest = _INSIDE, rest[end:]
    return found


def unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector


def write_table(path: Path, pieces: Sequence[str], rows: Vector) -> None:
    """One byte per number: only the direction of the sum of a text's rows counts."""
    header = orjson.dumps(list(pieces))
    scale = 127 / float(np.quantile(np.abs(rows), 0.9999))
    small = np.clip(np.round(rows * scale), -127, 127).astype(np.int8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + small.tobytes())


def read_table(path: Path = OWN) -> WordVectors:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        pieces = cast("list[str]", orjson.loads(file.read(length)))
    vocabulary = {piece: place for place, piece in enumerate(pieces)}

    def rows() -> NDArray[np.int8]:
        return np.memmap(path, dtype=np.int8, mode="r", offset=8 + length).reshape(len(pieces), -1)

    return WordVectors(partial(cut_greedily, vocabulary=vocabulary), rows)


@cache
def load_vectors() -> WordVectors:
    return read_table()


DESCRIPTION_WORDS = 80
FIRST_SENTENCE_WEIGHT = 0.8
PARAMETER_WEIGHT = 0.3
SERVER_WEIGHT = 0.6
SIBLING_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class ToolVectors:
    """`own` is stored and reused; `combined` is what queries are compared with."""

    own: NDArray[np.float16]
    combined: NDArray[np.float32]

    def similarities(self, query: Vector) -> Vector:
        # Not `@`: on a busy machine, BLAS threads wait for each other 20 times as long.
        return np.einsum("td,d->t", self.combined, query)


def document_vector(document: ToolDocument, vectors: WordVectors) -> Vector:
    total = np.zeros(vectors.dimensions, dtype=np.float32)
    for weight, words in document_words(document):
        total += weight * vectors.mean(words)
    return unit(total)


def document_words(document: ToolDocument) -> Iterator[tuple[float, list[str]]]:
    """The words of each part of a tool's document, with how much the part counts."""
    name = content_words(document.name)
    description = document.description[:DESCRIPTION_CHARACTERS]
    yield 1.0, name + content_words(description)[:DESCRIPTION_WORDS]
    yield FIRST_SENTENCE_WEIGHT, name + content_words(next(iter(sentences(description)), ""))
    named = (content_words(each.name) for each in parameters(document.schema))
    yield PARAMETER_WEIGHT, [word for words in named for word in words]
    server = content_words(document.server) + content_words(document.server_description)
    yield SERVER_WEIGHT, server[:DESCRIPTION_WORDS]


def combine(own: NDArray[np.float16], servers: Sequence[str]) -> ToolVectors:
    combined = np.empty(own.shape, dtype=np.float32)
    places: dict[str, list[int]] = {}
    for place, server in enumerate(servers):
        places.setdefault(server, []).append(place)
    for found in places.values():
        siblings = own[found].astype(np.float32)
        combined[found] = siblings + SIBLING_WEIGHT * unit(siblings.sum(axis=0))
    return ToolVectors(own, combined)
