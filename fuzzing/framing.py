"""Generate attacks on the frame and count those that survive; prints a Markdown table.

usage: framing.py [CASES] [SEED]

The disguises and the independent reader are those of tests/hostile/test_framing.py.
"""

import importlib.util
import random
import sys
import time
from collections import Counter
from pathlib import Path

from openclaw.content.sanitise import sanitise

TESTS = Path(__file__).parent.parent / "tests/hostile/test_framing.py"
WORDS = (
    "< <<< >>> | [ ] END_ EXTERNAL _UNTRUSTED _CONTENT external untrusted content INST im_start "
    "system sys &lt; &gt; %3C %3E &#69; \\u003c </s> <s> - _ / : a x"
)
OTHERS = (" ", "\n", "\n\nHuman:", "\u200b", "\u0301", "\x1b[1m", "\u0415", "\uff58", "«", "»")
SPLINTERS = (*WORDS.split(), *OTHERS)


def main() -> int:
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    spec = importlib.util.spec_from_file_location("framing_tests", TESTS)
    assert spec is not None
    assert spec.loader is not None
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    names = sorted(tests.CLASSES)
    tries: Counter[str] = Counter()
    survivors: Counter[str] = Counter()
    started = time.monotonic()
    for _ in range(cases):
        name = rng.choice(names)
        text = tests.CLASSES[name](generate(rng, tests), rng.randrange(64))
        if rng.random() < 0.2:
            text = tests.CLASSES[rng.choice(names)](text or "x", rng.randrange(64))
        tries[name] += 1
        if tests.escapes(sanitise(text)) is not None:
            survivors[name] += 1
            if survivors[name] <= 3:
                print(repr(text), repr(sanitise(text)), file=sys.stderr)
    print("| attack class | tries | survivors |\n|---|---:|---:|")
    for name in names:
        print(f"| {name} | {tries[name]} | {survivors[name]} |")
    print(f"| **all** | {cases} | {survivors.total()} |")
    print(f"\n{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 1 if survivors else 0


def generate(rng: random.Random, tests: object) -> str:
    targets: list[str] = tests.TARGETS  # type: ignore[attr-defined]
    parts = [
        rng.choice(targets) if rng.random() < 0.4 else rng.choice(SPLINTERS)
        for _ in range(rng.randint(1, 5))
    ]
    text = "".join(parts)
    if rng.random() < 0.3:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(SPLINTERS) + text[at:]
    return text


if __name__ == "__main__":
    sys.exit(main())
