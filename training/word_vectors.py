"""Learns `src/openclaw/discovery/word_pieces.bin`: one short vector for each word or piece of one.

    pip install torch transformers
    python training/word_vectors.py MODEL TEXTS PAIRS

MODEL is a directory with all-MiniLM-L6-v2 (BERT's layout). TEXTS has one text a line, PAIRS a
request and, after a tab, what fits it. The sum of the vectors of a text's words first learns to
point where the model's embedding of the text points; then also to tell, among 512 pairs, which
belongs to which.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch.nn import EmbeddingBag
from torch.nn.functional import cross_entropy, normalize
from transformers import AutoModel, AutoTokenizer

from openclaw.discovery.stems import content_words
from openclaw.discovery.vectors import OWN, cut_greedily, write_table

LEARNT_DIMENSIONS = 256
KEPT_DIMENSIONS = 128
EPOCHS = 4
PAIR_EPOCHS = 3
BATCH = 512
RATE = 5e-3
PAIR_RATE = 3e-3
PAIR_WEIGHT = 0.1
TEMPERATURE = 0.07

Bags = list[list[int]]


@torch.inference_mode()
def embed(model: torch.nn.Module, batches: list[list[list[int]]]) -> torch.Tensor:
    found: list[torch.Tensor] = []
    for batch in batches:
        rows = [torch.tensor(each) for each in batch]
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(row)) for row in rows], True)
        padded = torch.nn.utils.rnn.pad_sequence(rows, True)
        hidden = model(input_ids=padded, attention_mask=mask).last_hidden_state.float()
        found.append((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))
    return torch.cat(found)


def embed_texts(model: torch.nn.Module, encoded: list[list[int]]) -> torch.Tensor:
    order = sorted(range(len(encoded)), key=lambda place: len(encoded[place]))  # little padding
    batches = [[encoded[place] for place in order[at : at + 64]] for at in range(0, len(order), 64)]
    result = torch.empty(len(encoded), model.config.hidden_size)
    result[order] = embed(model, batches)
    return normalize(result)


def start(
    model: torch.nn.Module, vocabulary: dict[str, int], ends: tuple[int, int]
) -> torch.Tensor:
    """Each piece's own embedding; frequent ones, which come first in the vocabulary, are shorter."""
    alone = [[ends[0], place, ends[1]] for place in vocabulary.values()]
    found = embed(model, [alone[at : at + 256] for at in range(0, len(alone), 256)])
    return (found - found.mean(0)) * torch.log(torch.arange(len(alone)) + 2.0)[:, None]


def sums(bag: EmbeddingBag, chosen: Bags) -> torch.Tensor:
    starts = np.cumsum([0] + [len(each) for each in chosen[:-1]])
    flat = torch.tensor([piece for each in chosen for piece in each])
    return normalize(bag(flat, torch.tensor(starts)))


class Optimizer:
    """Adam whose rate falls to almost nothing by the last step."""

    def __init__(self, bag: EmbeddingBag, rate: float, steps: int) -> None:
        self._adam = torch.optim.Adam(bag.parameters(), lr=rate)
        self._rate = torch.optim.lr_scheduler.LinearLR(self._adam, 1.0, 0.01, steps)

    def step(self, loss: torch.Tensor) -> None:
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
        self._rate.step()


def learn_texts(bag: EmbeddingBag, bags: Bags, targets: torch.Tensor) -> None:
    generator, count = np.random.default_rng(0), len(bags) // BATCH
    optimizer = Optimizer(bag, RATE, EPOCHS * count)
    for epoch in range(EPOCHS):
        total = 0.0
        for places in generator.permutation(len(bags))[: count * BATCH].reshape(count, BATCH):
            loss = text_loss(bag, bags, targets, places)
            optimizer.step(loss)
            total += loss.item()
        print(f"epoch {epoch + 1}: {total / count:.4f}", flush=True)


def text_loss(
    bag: EmbeddingBag, bags: Bags, targets: torch.Tensor, places: np.ndarray
) -> torch.Tensor:
    return 1 - (sums(bag, [bags[place] for place in places]) * targets[places]).sum(1).mean()


def learn_pairs(
    bag: EmbeddingBag, pairs: list[tuple[list[int], list[int]]], bags: Bags, targets: torch.Tensor
) -> None:
    generator, count = np.random.default_rng(0), len(pairs) // BATCH
    optimizer = Optimizer(bag, PAIR_RATE, PAIR_EPOCHS * count)
    for epoch in range(PAIR_EPOCHS):
        total = 0.0
        for places in generator.permutation(len(pairs))[: count * BATCH].reshape(count, BATCH):
            chosen = [pairs[place] for place in places]
            requests, fitting = (sums(bag, [each[side] for each in chosen]) for side in (0, 1))
            scores = requests @ fitting.T / TEMPERATURE
            same = [[a[1] == b[1] and a is not b for b in chosen] for a in chosen]
            scores = scores.masked_fill(torch.tensor(same), -1e4)
            right = torch.arange(BATCH)
            among = (cross_entropy(scores, right) + cross_entropy(scores.T, right)) / 2
            kept = text_loss(bag, bags, targets, generator.integers(0, len(bags), BATCH))
            optimizer.step(PAIR_WEIGHT * among + kept)
            total += among.item()
        print(f"epoch {epoch + 1} of pairs: {total / count:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--embeddings", type=Path, help="of the texts, if there already (.npy)")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModel.from_pretrained(arguments.model, dtype=torch.bfloat16).eval()
    texts = arguments.texts.read_text(encoding="utf-8").splitlines()
    if arguments.embeddings is None:
        targets = embed_texts(model, tokenizer(texts, truncation=True, max_length=64)["input_ids"])
    else:
        targets = torch.tensor(np.load(arguments.embeddings).astype(np.float32))

    pieces = {each: place for each, place in tokenizer.get_vocab().items() if each.isascii()}
    pieces = dict(sorted(pieces.items(), key=lambda item: item[1]))
    ends = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    table = start(model, pieces, ends)
    places = {each: place for place, each in enumerate(pieces)}

    def cut(text: str) -> list[int]:
        return [piece for word in content_words(text) for piece in cut_greedily(word, places)]

    bags = [cut(text) for text in texts]
    known = [place for place, each in enumerate(bags) if each]
    bags = [bags[place] for place in known]
    lines = arguments.pairs.read_text(encoding="utf-8").splitlines()
    sides = [(cut(request), cut(fit)) for request, fit in (line.split("\t") for line in lines)]
    pairs = [each for each in sides if all(each)]

    directions = main_directions(targets[:20000], LEARNT_DIMENSIONS)
    lengths = table.norm(dim=1, keepdim=True)
    table = normalize(table @ directions) * lengths / lengths.mean()
    targets = normalize(targets[known] @ directions)
    bag = EmbeddingBag.from_pretrained(table, freeze=False, mode="sum")
    learn_texts(bag, bags, targets)
    learn_pairs(bag, pairs, bags, targets)
    with torch.no_grad():
        kept = main_directions(sums(bag, bags[:15000]), KEPT_DIMENSIONS)
        write_table(OWN, list(pieces), (bag.weight @ kept).numpy())


def main_directions(vectors: torch.Tensor, count: int) -> torch.Tensor:
    return torch.linalg.svd(vectors, full_matrices=False)[2][:count].T


if __name__ == "__main__":
    main()
