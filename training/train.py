"""Learn the detector's weights; writes src/openclaw/content/detection/weights.bin.

usage: train.py [--ordinary FILE] [--without PART]… [--out FILE] [--digest]

It learns from tests/hostile/corpus/train, from what grammar.py puts together and, as ordinary text,
from the descriptions and docstrings of the packages that the lock names and from what
gather_ordinary.py gathered. With `--without` a part is left out, to be measured on. The same texts
give the same weights.
"""

import argparse
import hashlib
import importlib
import json
import re
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from grammar import generate, interpret
from measure import CORPUS, texts

from openclaw.content.detection.concepts import BUCKETS, regions
from openclaw.content.detection.detect import Weights, folded, share

detector = importlib.import_module("openclaw.content.detection.detect")
ROOT = Path(__file__).parent.parent
WEIGHTS = ROOT / "src/openclaw/content/detection/weights.bin"
TRAIN = CORPUS / "train"
# In this order: adding up in another one gives slightly different weights.
RECENT = (
    "hard_negatives",
    "single_sentences",
    "inside_documents",
    "thirty_languages",
    "everyday_text",
)
PARTS = (
    "plain_orders",
    "reworded_orders",
    "attack_classes",
    "attack_classes_reworded",
    "lookalikes",
    *RECENT,
)
SEED, GENERATED, IN_TONGUES = 5, 8000, 4000
ROUNDS, STEPS, RATE, DECAY, LEAST = 3, 80, 0.1, 4.0, -1.0
LEAST_TEXTS, EASY = 2, -5.0
EVERY = 100  # of so many texts, the features of one are part of the digest
# How much a text counts. Ordinary texts of `lookalikes`, made to look like attacks, count little: they
# are rarer in life than in the corpus.
WRITTEN, NEW, ENVIRONMENT, GATHERED = 2.0, 6.0, 3.0, 3.0
WRITTEN_ORDINARY, NEW_ORDINARY, LIKE_ATTACKS = 6.0, 20.0, 2.0
MADE, MADE_ORDINARY, TONGUES = 0.15, 0.1, 0.2
PACKAGES = ("openai", "anthropic", "mcp", "pydantic_ai", "google/genai", "httpx", "rich", "pydantic",
            "hypothesis", "starlette", "click", "pytest", "_pytest", "anyio", "PIL", "pypdf")  # fmt: skip
# Those that speak of models, agents and tools, of which all is read.
OF_MODELS = ("openai", "anthropic", "mcp", "pydantic_ai", "google/genai")
_DOCSTRING = re.compile(r'"""(.{250,6000}?)"""', re.DOTALL)
_REMARK = re.compile(r'"""([^"]{60,1000})"""')


class Example(NamedTuple):
    """A text, whether it is an attack, and how much it counts."""

    text: str
    attack: bool
    weight: float


def windows(text: str) -> list[list[int]]:
    """The features of each window of `text`."""
    found: dict[tuple[int, ...], None] = {}
    sample = detector.sample(text)
    for view, _ in detector.readings(sample, folded(sample)):
        for region in regions(view):
            found[tuple(sorted(detector.features_of(region)))] = None
    return [list(window) for window in found]


def main() -> int:
    parser = argparse.ArgumentParser(description="Learn the detector's weights.")
    parser.add_argument("--ordinary", type=Path, help="what gather_ordinary.py wrote")
    parser.add_argument("--without", action="append", default=[], choices=PARTS)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--digest", action="store_true", help="of what would be learnt from")
    args = parser.parse_args()
    if args.digest:
        print(digest())
        return 0
    parts = [part for part in PARTS if part not in args.without]
    bias, weights = learn([*corpus(parts), *environment(), *gathered(args.ordinary)])
    write(args.out, bias, weights)
    return 0


def corpus(parts: list[str]) -> list[Example]:
    """The texts to learn from that are written, or made of what is written."""
    found: list[Example] = []
    for part in parts:
        weight = NEW if part in RECENT else WRITTEN
        found += [Example(text, True, weight) for text in texts(TRAIN / part, "attacks")]
        weight = NEW_ORDINARY if part in RECENT else WRITTEN_ORDINARY
        weight = LIKE_ATTACKS if part == "lookalikes" else weight
        found += [Example(text, False, weight) for text in texts(TRAIN / part, "benign")]
    attacks, ordinary = generate(SEED, GENERATED, GENERATED)
    found += [Example(text, True, MADE) for text in attacks]
    found += [Example(text, False, MADE_ORDINARY) for text in ordinary]
    attacks, ordinary = interpret(SEED + 1, IN_TONGUES, IN_TONGUES // 2)
    found += [Example(text, True, TONGUES) for text in attacks]
    return found + [Example(text, False, TONGUES) for text in ordinary]


def environment() -> list[Example]:
    """What installed packages say of themselves: the same wherever the lock is installed."""
    place = Path(sysconfig.get_path("purelib"))
    found: list[str] = []
    for path in sorted(place.glob("*.dist-info/METADATA")):
        if not path.parent.name.startswith("openclaw"):
            said = path.read_text(errors="replace").split("\n\n", 1)[-1][:24_000]
            found += [said[at : at + 1500] for at in range(0, len(said), 1500)]
    for package in PACKAGES:
        for path in sorted((place / package).rglob("*.py")):
            said = _DOCSTRING.findall(path.read_text(errors="replace"))
            found += [docstring[:2000] for docstring in said[:12]]
    for package in OF_MODELS:
        for path in sorted((place / package).rglob("*.py")):
            said = "\n\n".join(_REMARK.findall(path.read_text(errors="replace"))[:200])
            found += [said[at : at + 1500] for at in range(0, len(said), 1500)]
    return [Example(text, False, ENVIRONMENT) for text in found]


def gathered(path: Path | None) -> list[Example]:
    """What gather_ordinary.py wrote."""
    lines = path.read_text().splitlines() if path else []
    return [Example(json.loads(line)["text"], False, GATHERED) for line in lines]


def learn(examples: list[Example]) -> tuple[float, list[float]]:
    """Logistic regression. Of an attack, the window counts that looks most like one."""
    import numpy as np

    rows: list[list[int]] = []
    of_text: list[int] = []
    seen = np.zeros(BUCKETS, int)
    for number, example in enumerate(examples):
        found = windows(example.text)
        rows += found
        of_text += [number] * len(found)
        seen[sorted({feature for window in found for feature in window})] += 1
    print(f"{len(examples)} texts, {len(rows)} windows", file=sys.stderr)
    lengths = np.array([len(row) for row in rows])
    features = np.concatenate([np.array(row, np.int64) for row in rows])
    text = np.array(of_text)
    wanted = np.array([float(examples[number].attack) for number in of_text])
    counts = np.array([examples[number].weight for number in of_text])
    values = (seen > LEAST_TEXTS)[features] * np.repeat(
        np.array([share(int(n)) for n in lengths]), lengths
    )
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    weights, bias, steps = np.zeros(BUCKETS), -1.0, 0
    mean, square = np.zeros(BUCKETS + 1), np.zeros(BUCKETS + 1)
    taken = counts > 0
    for turn in range(ROUNDS):
        if turn:
            odds = np.add.reduceat(weights[features] * values, starts) + bias
            taken = (wanted == 0) & (odds > EASY)
            attacks = np.flatnonzero(wanted)
            attacks = attacks[np.lexsort((-odds[attacks], text[attacks]))]
            taken[attacks[np.unique(text[attacks], return_index=True)[1]]] = True
        chosen = np.repeat(taken, lengths)
        f, x, n = features[chosen], values[chosen], lengths[taken]
        at, row = np.concatenate([[0], np.cumsum(n)[:-1]]), np.repeat(np.arange(len(n)), n)
        for _ in range(STEPS):
            odds = np.clip(np.add.reduceat(weights[f] * x, at) + bias, -30, 30)
            error = (1 / (1 + np.exp(-odds)) - wanted[taken]) * counts[taken]
            slope = np.bincount(f, weights=error[row] * x, minlength=BUCKETS) + DECAY * weights
            slope = np.append(slope, error.sum())
            steps += 1
            mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
            step = mean / (1 - 0.9**steps) / (np.sqrt(square / (1 - 0.99**steps)) + 1e-6)
            step *= RATE / (1 + steps / 100)
            weights, bias = np.maximum(weights - step[:-1], LEAST), float(bias - step[-1])
        print(f"round {turn}: {len(n)} windows", file=sys.stderr)
    return bias, [float(weight) for weight in weights]


def write(path: Path, bias: float, weights: list[float]) -> None:
    scale = max(map(abs, weights)) / 127
    learnt = Weights(bias, scale, digest(), [round(weight / scale) for weight in weights])
    path.write_bytes(learnt.to_bytes())


def digest() -> str:
    """Of everything that the weights depend on: the settings, every text, and how texts are read."""
    learning = (ROUNDS, STEPS, RATE, DECAY, LEAST, LEAST_TEXTS, EASY)
    counting = (WRITTEN, NEW, ENVIRONMENT, GATHERED, MADE, MADE_ORDINARY, TONGUES)
    counting += (WRITTEN_ORDINARY, NEW_ORDINARY, LIKE_ATTACKS)
    settings = (SEED, GENERATED, IN_TONGUES, learning, counting, PACKAGES, OF_MODELS)
    found = hashlib.sha256(repr(settings).encode())
    examples = corpus(list(PARTS))
    for example in examples:
        found.update(repr(example).encode())
    # The features of a few stand for the lexicon and the code, which may be moved about freely.
    for example in examples[::EVERY]:
        found.update(repr(sorted(windows(example.text))).encode())
    return found.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
