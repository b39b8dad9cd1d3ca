"""Write docs/explanation/attacks.md: every attack class, how often it was tried, and what survived.

usage: tables.py FRAMING.txt… -- PARSERS.txt ATHERIS.txt

The files are what framing.py and parsers.py printed; tries of the former are added up.
Those of atheris are lines of a parser's name, a tab, and the number of its runs.
"""

import re
import sys
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs/explanation/attacks.md"
ROW = re.compile(r"^\| ([^|*]+?) \| (\d+) \| (\d+) \|$", re.MULTILINE)
INTRODUCTION = """\
# Attacks tried

Written by `fuzzing/tables.py`; do not edit.

## On the frame

`fuzzing/framing.py CASES SEED` generates attacks, sanitises them and lets an independent reader (`tests/hostile/test_framing.py`, which shares no code or table with the sanitiser) look for markers and control tokens.

"""
PARSERS = """
## On the parsers

`fuzzing/parsers.py` looks for an exception that a parser does not promise, and for a difference to a yardstick where there is one (`json`, `base64`): with an engine of our own, and with libFuzzer (`--engine atheris`, half a minute or more for each).

| parser | tries | inputs kept | runs of atheris | findings |
|---|---:|---:|---:|---:|
"""
PARSER = re.compile(r"^\| ([^|]+?) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


def main() -> int:
    at = sys.argv.index("--")
    tries: Counter[str] = Counter()
    survivors: Counter[str] = Counter()
    for name in sys.argv[1:at]:
        for attack, tried, survived in ROW.findall(Path(name).read_text()):
            tries[attack] += int(tried)
            survivors[attack] += int(survived)
    lines = [f"| {attack} | {tries[attack]} | {survivors[attack]} |" for attack in sorted(tries)]
    lines.append(f"| **all** | {tries.total()} | {survivors.total()} |")
    framing = "| attack class | tries | survivors |\n|---|---:|---:|\n" + "\n".join(lines) + "\n"
    runs = dict(line.split("\t") for line in Path(sys.argv[at + 2]).read_text().splitlines())
    parsers = [
        f"| {parser} | {tried} | {kept} | {runs[parser]} | {findings} |"
        for parser, tried, kept, findings in PARSER.findall(Path(sys.argv[at + 1]).read_text())
    ]
    PAGE.write_text(INTRODUCTION + framing + PARSERS + "\n".join(parsers) + "\n")
    return 1 if survivors.total() else 0


if __name__ == "__main__":
    sys.exit(main())
