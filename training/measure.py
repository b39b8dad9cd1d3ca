"""Recall and false positives of the detector on each part of its corpus; prints a Markdown table.

usage: measure.py [DIRECTORY ...]: parts from elsewhere, with attacks.jsonl and benign.jsonl
"""

import json
import sys
from pathlib import Path

from openclaw.content.detection.detect import detect

CORPUS = Path(__file__).parent.parent / "tests/hostile/corpus"


def texts(part: Path, kind: str) -> list[str]:
    lines = part / f"{kind}.jsonl"
    if lines.exists():
        return [json.loads(line)["text"] for line in lines.read_text().splitlines()]
    return (part / f"{kind}.txt").read_text().strip().split("\n%%\n")


def main() -> int:
    print("| part | attacks | found | ordinary texts | flagged |\n|---|---:|---:|---:|---:|")
    given = [Path(argument) for argument in sys.argv[1:]]
    for part in given or sorted(CORPUS.glob("*/*")):
        attacks, ordinary = texts(part, "attacks"), texts(part, "benign")
        found = sum(detect(text).suspicious for text in attacks)
        alarms = sum(detect(text).suspicious for text in ordinary)
        print(
            f"| {part.parent.name}/{part.name} | {len(attacks)} | {found} ({100 * found / len(attacks):.0f} %) "
            f"| {len(ordinary)} | {alarms} ({100 * alarms / len(ordinary):.1f} %) |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
