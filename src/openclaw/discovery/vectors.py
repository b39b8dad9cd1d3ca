"""The static word vectors in wordllama's wheel, read without importing wordllama.

Its own loader asks the network for a tokenizer. The weights are mapped, not read: only the rows
of words that occur are ever in memory.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np
import orjson
from numpy.typing import NDArray

from openclaw.discovery.scoring import Spread
from openclaw.discovery.words import (
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

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_WORD_START = "\u2581"
# Nothing in a tool's description that is longer is a word.
_LONGEST_WORD = 40
_WORDS_KEPT = 4096
TOPIC_WEIGHT = 0.3


class WordVectors:
    """Safe to share between threads."""

    def __init__(self, weights: Path, vocabulary: dict[str, int]) -> None:
        self._weights = weights
        self._vocabulary = vocabulary
        self._rows = _map_rows(weights)
        self.dimensions: int = self._rows.shape[1]
        self._vector = lru_cache(maxsize=_WORDS_KEPT)(self._enriched)
        self._centre = lru_cache(maxsize=None)(self._centre_of)

    def mean(self, words: Iterable[str]) -> Vector:
        """Of length 1, or 0 if no word is known."""
        total = np.zeros(self.dimensions, dtype=np.float32)
        for word in words:
            total += self._vector(word)
        return unit(total)

    def pieces(self, word: str) -> list[int]:
        """Byte-pair encoding; in this vocabulary, a lower id means an earlier merge."""
        parts = [_WORD_START, *word[:_LONGEST_WORD]]
        while len(parts) > 1:
            ranks = [self._rank(parts, place) for place in range(len(parts) - 1)]
            best = min(ranks)
            if best == math.inf:
                break
            place = ranks.index(best)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        return [self._vocabulary[part] for part in parts if part in self._vocabulary]

    def _rank(self, parts: list[str], place: int) -> float:
        return self._vocabulary.get(parts[place] + parts[place + 1], math.inf)

    def _enriched(self, word: str) -> Vector:
        """Drawn towards the topics that the word belongs to."""
        plain = self._plain(word, self._rows)
        topics = topics_of(stem(word))
        if not topics:
            return plain
        centre = np.mean([self._centre(topic) for topic in topics], axis=0)
        return plain + TOPIC_WEIGHT * float(np.linalg.norm(plain)) * centre

    def _plain(self, word: str, rows: NDArray[np.float16]) -> Vector:
        found = np.asarray(rows[self.pieces(word)], dtype=np.float32)
        return found.sum(axis=0)

    def _centre_of(self, topic: int) -> Vector:
        """The mean direction of a concept's words. Few are needed to read an index and search it."""
        # A mapping of its own: freed with it are the pages of hundreds of words.
        rows, total = _map_rows(self._weights), np.zeros(self.dimensions, dtype=np.float32)
        for word in members()[topic]:
            total += unit(self._plain(word, rows))
        return unit(total)


def unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector


def read_word_vectors(directory: Path) -> WordVectors:
    """`directory` is wordllama's package directory."""
    return WordVectors(directory / WEIGHTS, _read_vocabulary(directory / TOKENIZER))


def _read_vocabulary(path: Path) -> dict[str, int]:
    """Parses the vocabulary alone: the merges beside it would take 10 MB and are not needed."""
    data = path.read_bytes()
    begin = data.index(b"{", data.index(b'"vocab"'))
    end = data.rindex(b"}", begin, data.index(b'"merges"', begin)) + 1
    return cast("dict[str, int]", orjson.loads(data[begin:end]))


def _map_rows(path: Path) -> NDArray[np.float16]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = orjson.loads(file.read(length))
    (tensor,) = (value for name, value in header.items() if name != "__metadata__")
    if tensor["dtype"] != "F16":
        raise ValueError(f"{path.name} has weights of type {tensor['dtype']}, not F16")
    offset = 8 + length + int(tensor["data_offsets"][0])
    shape = cast("list[int]", tensor["shape"])
    return np.memmap(path, dtype="<f2", mode="r", offset=offset, shape=(shape[0], shape[1]))


DESCRIPTION_WORDS = 80
FIRST_SENTENCE_WEIGHT = 0.8
PARAMETER_WEIGHT = 0.3
SERVER_WEIGHT = 0.2
SIBLING_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class ToolVectors:
    """`own` is stored and reused; `combined` is what queries are compared with."""

    own: NDArray[np.float16]
    combined: NDArray[np.float32]

    def similarities(self, query: Vector) -> tuple[list[float], Spread]:
        # Not `@`: on a busy machine, BLAS threads wait for each other 20 times as long.
        found = np.einsum("td,d->t", self.combined, query)
        return found.tolist(), Spread(float(found.mean()), float(found.std()))


def document_vector(document: ToolDocument, vectors: WordVectors) -> Vector:
    name = content_words(document.name)
    description = document.description[:DESCRIPTION_CHARACTERS]
    first = content_words(next(iter(sentences(description)), ""))
    named = [word for each in parameters(document.schema) for word in content_words(each.name)]
    server = content_words(document.server) + content_words(document.server_description)
    total = vectors.mean(name + content_words(description)[:DESCRIPTION_WORDS])
    total += FIRST_SENTENCE_WEIGHT * vectors.mean(name + first)
    total += PARAMETER_WEIGHT * vectors.mean(named)
    total += SERVER_WEIGHT * vectors.mean(server[:DESCRIPTION_WORDS])
    return unit(total)


def combine(own: NDArray[np.float16], servers: Sequence[str]) -> ToolVectors:
    combined = np.empty(own.shape, dtype=np.float32)
    places: dict[str, list[int]] = {}
    for place, server in enumerate(servers):
        places.setdefault(server, []).append(place)
    for found in places.values():
        siblings = own[found].astype(np.float32)
        combined[found] = siblings + SIBLING_WEIGHT * unit(siblings.sum(axis=0))
    return ToolVectors(own, combined)
