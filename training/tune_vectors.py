"""Goes on learning `src/openclaw/discovery/word_pieces.bin`, from requests and the tools they need.

    pip install torch
    python training/tune_vectors.py START SET.json ... [--without FOLD]

START is the table that word_vectors.py wrote, a SET is one that measure_search.py reads. The score
that learns is the one that the search uses: words and concepts count in it as they do there, so
that the vectors learn what those miss. Every tool of a set is a candidate for each of its queries.
Words for actions ("find", "create") keep their vectors, because every catalogue has them.

Queries whose SHA-256 starts with an odd byte are never learnt from. With --without, neither are the
tools whose name's SHA-256 falls into that fold of five, nor their queries: what the result finds
for them is what it finds for tools that nobody has seen.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, softplus

from openclaw.discovery.scoring import (
    CONCEPTS_WEIGHT,
    VECTORS_WEIGHT,
    WORDS_WEIGHT,
    Scorer,
    query_concepts,
    query_stems,
    read_query,
    standardised,
)
from openclaw.discovery.stems import ACTIONS, ToolDocument, members, stem, topics_of
from openclaw.discovery.tool_index import build_index
from openclaw.discovery.vectors import (
    OWN,
    SIBLING_WEIGHT,
    TOPIC_WEIGHT,
    Vector,
    cut_greedily,
    document_words,
    write_table,
)

EPOCHS = 4
BATCH = 256
RATE = 2e-3
SHARPNESS = 1.5  # of the softmax over a catalogue's scores
FORGOTTEN = 0.1  # share of a query's words that are left out of its vector
PULL = 1e-3  # towards the table that it starts from
SHARE = 0.7  # of what was learnt
FOLDS = 5


def held_out(query: str) -> bool:
    return sha256(query.encode()).digest()[0] % 2 == 1


def fold(tool: str) -> int:
    return int.from_bytes(sha256(tool.encode()).digest()) % FOLDS


def sparse(rows: Sequence[Mapping[int, float]], columns: int) -> Tensor:
    starts = np.cumsum([0] + [len(row) for row in rows])
    places = np.array([place for row in rows for place in row], dtype=np.int64)
    values = np.array([value for row in rows for value in row.values()], dtype=np.float32)
    return torch.sparse_csr_tensor(
        torch.tensor(starts),
        torch.tensor(places),
        torch.tensor(values),
        size=(len(rows), columns),
        check_invariants=False,
    )


class Words:
    """The words of one set, each of them a sum of pieces that is drawn towards its topics."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._topics = [self.counted(Counter(words)) for words in members()]

    def counted(self, words: Mapping[str, float]) -> dict[int, float]:
        return {
            self._places.setdefault(word, len(self._places)): weight
            for word, weight in words.items()
        }

    def __len__(self) -> int:
        return len(self._places)

    def prepare(self, pieces: Sequence[str]) -> None:
        vocabulary = {piece: place for place, piece in enumerate(pieces)}
        cut = [Counter(cut_greedily(word, vocabulary)) for word in self._places]
        self._pieces = sparse(cut, len(pieces))
        topics = [topics_of(stem(word)) for word in self._places]
        shares = [dict.fromkeys(each, 1 / len(each)) if each else {} for each in topics]
        self._of_word = sparse(shares, len(self._topics))
        self._members = sparse([dict.fromkeys(each, 1.0) for each in self._topics], len(self))

    def vectors(self, table: Tensor) -> Tensor:
        plain = self._pieces @ table
        centres = normalize(self._members @ normalize(plain)).detach()
        return plain + TOPIC_WEIGHT * plain.norm(dim=1, keepdim=True) * (self._of_word @ centres)


class Catalogue:
    """One set's tools and queries, and all of the score that does not depend on our table."""

    def __init__(self, path: Path, pieces: Sequence[str], without: int | None) -> None:
        read = json.loads(path.read_text(encoding="utf-8"))
        documents = [ToolDocument(**each) for each in read["tools"]]
        places = {each.full_name: place for place, each in enumerate(documents)}
        known = [place for name, place in places.items() if fold(name) != without]
        self._candidates = torch.tensor(known)
        self.name, self.right = path.stem, list[list[int]]()
        self._words = Words()
        self._read_documents(documents)
        scorer = build_index(documents).scorer
        rows, scores = list[Mapping[int, float]](), list[Vector]()
        for text, names in read["queries"]:
            right = [known.index(places[name]) for name in names if fold(name) != without]
            if held_out(text) or len(right) < len(names):
                continue
            words = read_query(text).words
            rows.append(self._words.counted(words))
            scores.append(by_words(scorer, words)[known])
            self.right.append(right)
        self._rows = rows
        self._scores = torch.tensor(np.array(scores))
        self._words.prepare(pieces)
        self._bags = sparse(self._bag_rows, len(self._words))

    def _read_documents(self, documents: Sequence[ToolDocument]) -> None:
        parts = [part for each in documents for part in document_words(each)]
        weights = torch.tensor([weight for weight, _ in parts])
        self._weights = weights.reshape(len(documents), -1, 1)
        self._bag_rows = [self._words.counted(Counter(words)) for _, words in parts]
        servers = {each.server: place for place, each in enumerate(documents)}
        self._servers = torch.tensor([servers[each.server] for each in documents])

    def loss(self, table: Tensor, places: np.ndarray) -> Tensor:
        words = self._words.vectors(table)
        rows = sparse([self._rows[place] for place in places], len(self._words))
        kept = (torch.rand(rows.values().shape) >= FORGOTTEN).float()
        rows = torch.sparse_csr_tensor(
            rows.crow_indices(), rows.col_indices(), rows.values() * kept, size=rows.shape
        )
        similar = normalize(rows @ words) @ self._tools(words).T
        similar = similar[:, self._candidates]
        # Not 0 for a query of which every word was left out.
        spread = (similar.var(1, correction=0, keepdim=True) + 1e-8).sqrt()
        near = VECTORS_WEIGHT * (similar - similar.mean(1, keepdim=True)) / spread
        scores = SHARPNESS * (self._scores[places] + near)
        right = torch.zeros_like(scores)
        for row, place in enumerate(places):
            right[row, self.right[place]] = 1
        wrong = scores.masked_fill(right > 0, -math.inf).logsumexp(1, keepdim=True)
        return ((softplus(wrong - scores) * right).sum(1) / right.sum(1)).mean()

    def _tools(self, words: Tensor) -> Tensor:
        parts = normalize(self._bags @ words).reshape(*self._weights.shape[:2], -1)
        tools = normalize((self._weights * parts).sum(1))
        servers = torch.zeros_like(tools).index_add(0, self._servers, tools)
        return tools + SIBLING_WEIGHT * normalize(servers)[self._servers]


def by_words(scorer: Scorer, words: Mapping[str, float]) -> Vector:
    """What the search adds up for each tool besides the vectors' similarity."""
    stems = scorer.spelt(query_stems(words))
    by_stems = scorer.words.scores_of(stems)
    by_concepts = scorer.concepts.scores_of(query_concepts(stems))
    return WORDS_WEIGHT * standardised(by_stems) + CONCEPTS_WEIGHT * standardised(by_concepts)


def learn(start: Tensor, pieces: Sequence[str], catalogues: Sequence[Catalogue]) -> Tensor:
    generator = np.random.default_rng(0)
    torch.manual_seed(0)
    table = start.clone().requires_grad_()
    actions = {word for words in members()[:ACTIONS] for word in words}
    moving = torch.tensor([[float(piece not in actions)] for piece in pieces])
    table.register_hook(lambda gradient: gradient * moving)
    steps = sum(math.ceil(len(each.right) / BATCH) for each in catalogues) * EPOCHS
    adam = torch.optim.Adam([table], lr=RATE)
    rate = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.02, steps)
    for epoch in range(EPOCHS):
        batches = [
            (each, places)
            for each in catalogues
            for places in np.array_split(
                generator.permutation(len(each.right)), math.ceil(len(each.right) / BATCH)
            )
        ]
        total = 0.0
        for place in generator.permutation(len(batches)):
            catalogue, places = batches[place]
            loss = catalogue.loss(table, places)
            adam.zero_grad()
            (loss + PULL * ((table - start) ** 2).sum()).backward()
            adam.step()
            rate.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: {total / len(batches):.4f}", flush=True)
    return start + SHARE * (table.detach() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("start", type=Path)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--without", type=int, choices=range(FOLDS))
    parser.add_argument("--to", type=Path, default=OWN)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pieces, start = read_start(options.start)
    catalogues = [Catalogue(each, pieces, options.without) for each in options.sets]
    write_table(options.to, pieces, learn(start, pieces, catalogues).numpy())


def read_start(path: Path) -> tuple[list[str], Tensor]:
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    pieces = json.loads(data[8:end])
    rows = np.frombuffer(data[end:], np.int8).reshape(len(pieces), -1).astype(np.float32)
    return pieces, torch.tensor(rows / np.linalg.norm(rows, axis=1).mean())


if __name__ == "__main__":
    main()
