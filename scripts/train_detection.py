"""Learn the detector's weights; writes src/openclaw/content/weights.py.

usage: train_detection.py [--without PART]… [--out FILE] [--digest]

It learns from the parts of tests/hostile/corpus named below and from what detection_grammar.py puts
together; `unseen` is never learnt from. With `--without` a part is left out, to be measured on.
The same texts give the same weights.
"""

import argparse
import base64
import hashlib
import importlib
import math
import random
import sys
import textwrap
import zlib
from array import array
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from detection_grammar import generate
from measure_detection import CORPUS, texts

from openclaw.content.concepts import regions
from openclaw.content.features import BUCKETS
from openclaw.content.learnt import share
from openclaw.content.views import folded

detector = importlib.import_module("openclaw.content.detect")
HOUSE = Path(__file__).parent.parent
WEIGHTS = HOUSE / "src/openclaw/content/weights.py"
PARTS = ("train", "heldout", "independent", "fresh", "styles")
SEED, GENERATED = 5, 4000
ROUNDS, EPOCHS, RATE, DECAY = 5, 6, 0.05, 2e-5
LEAST_TEXTS, TIMES = 3, 4


class Text:
    """A text, whether it is an attack, and the features of each of its windows."""

    def __init__(self, text: str, attack: bool) -> None:
        self.attack = attack
        found: dict[tuple[int, ...], None] = {}
        for view, _ in detector.readings(text, folded(text)):
            for region in regions(view):
                found[tuple(sorted(detector.features_of(region)))] = None
        self.windows = list(found)


def main() -> int:
    parser = argparse.ArgumentParser(description="Learn the detector's weights.")
    parser.add_argument("--without", action="append", default=[], choices=PARTS)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--digest", action="store_true", help="of what would be learnt from")
    args = parser.parse_args()
    if args.digest:
        print(digest())
        return 0
    parts = [part for part in PARTS if part not in args.without]
    learning = [Text(text, attack) for text, attack in corpus(parts)]
    bias, weights = learn(learning)
    write(args.out, bias, weights)
    return 0


def corpus(parts: list[str]) -> list[tuple[str, bool]]:
    """The texts to learn from, those written by hand several times."""
    found: list[tuple[str, bool]] = []
    for part in parts:
        for kind in ("attacks", "benign"):
            found += [(text, kind == "attacks") for text in texts(CORPUS / part, kind)] * TIMES
    attacks, ordinary = generate(SEED, GENERATED, GENERATED)
    return [*found, *((text, True) for text in attacks), *((text, False) for text in ordinary)]


def learn(learning: list[Text]) -> tuple[float, list[float]]:
    """Logistic regression by AdaGrad. Of an attack, the window counts that looks most like one."""
    known = Counter(f for text in learning for f in {f for w in text.windows for f in w})
    common = {feature for feature, number in known.items() if number > LEAST_TEXTS}
    rows = [
        (text.attack, [[f for f in window if f in common] for window in text.windows])
        for text in learning
    ]
    sizes = {
        id(r): share(len(w))
        for (_, ws), t in zip(rows, learning, strict=True)
        for r, w in zip(ws, t.windows, strict=True)
    }
    weights, bias = [0.0] * BUCKETS, 0.0
    for turn in range(ROUNDS):
        examples: list[tuple[float, list[int], float]] = []
        for attack, windows in rows:
            chosen = windows
            if attack and turn and windows:
                chosen = [max(windows, key=lambda w: sizes[id(w)] * sum([weights[f] for f in w]))]
            examples += [(float(attack), w, sizes[id(w)]) for w in chosen]
        bias, weights = _fit(examples, random.Random(turn))
        print(f"round {turn}: {len(examples)} windows", file=sys.stderr)
    return bias, weights


def _fit(
    examples: list[tuple[float, list[int], float]], rng: random.Random
) -> tuple[float, list[float]]:
    weights, squares = [0.0] * BUCKETS, [1e-3] * BUCKETS
    bias, order = -1.0, list(range(len(examples)))
    for epoch in range(EPOCHS):
        rng.shuffle(order)
        rate = RATE / (1 + epoch / 3)
        for number in order:
            wanted, window, size = examples[number]
            odds = bias + size * sum([weights[f] for f in window])
            error = 1 / (1 + math.exp(-max(-30.0, min(30.0, odds)))) - wanted
            if -0.02 < error < 0.02:
                continue
            bias -= 0.02 * rate * error
            step = error * size
            for f in window:
                slope = step + DECAY * weights[f]
                squares[f] += slope * slope
                weights[f] -= rate * slope / squares[f] ** 0.5
    return bias, weights


def write(path: Path, bias: float, weights: list[float]) -> None:
    scale = max(map(abs, weights)) / 127
    packed = base64.b85encode(
        zlib.compress(array("b", [round(w / scale) for w in weights]).tobytes(), 9)
    ).decode()
    lines = "\n".join(textwrap.wrap(packed, 96))
    path.write_text(
        '"""Weights of the detector. Generated by scripts/train_detection.py; do not edit."""\n\n'
        f"BIAS = {bias!r}\nSCALE = {scale!r}\n"
        f'DIGEST = "{digest()}"\n"""Of what they were learnt from."""\n'
        f'PACKED = r"""\n{lines}\n"""\n'
    )


def digest() -> str:
    """Of everything that the weights depend on."""
    settings = (SEED, GENERATED, ROUNDS, EPOCHS, RATE, DECAY, LEAST_TEXTS, TIMES, PARTS)
    found = hashlib.sha256(repr(settings).encode())
    names = ["features", "lexicon", "foreign", "concepts", "views"]
    files = [HOUSE / f"src/openclaw/content/{name}.py" for name in names]
    files += [HOUSE / "scripts/detection_grammar.py"]
    files += [HOUSE / "scripts/detection_parts.txt"]
    files += [path for part in PARTS for path in sorted((CORPUS / part).iterdir())]
    for path in files:
        found.update(path.read_bytes())
    return found.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
