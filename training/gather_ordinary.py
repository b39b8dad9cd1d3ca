"""Gather ordinary text for train.py --ordinary; writes one JSON object a line.

usage: gather_ordinary.py OUT PLACE… [--apart FILE]…

A place is a directory or a bare git repository, of which the newest commit and the log are read. Of
each some hundreds of pieces are taken at random, the same ones every time. What has a line in
common with a text of the files given by --apart, on which the detector is to be measured, is left out.
"""

import argparse
import gzip
import io
import json
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

DOCUMENTS = (".md", ".mdx", ".rst", ".txt", ".adoc", ".html", ".1", ".7", ".gz")
OTHERS = (
    *(
        ".json",
        ".yaml",
        ".yml",
        ".csv",
        ".tsv",
        ".xml",
        ".sql",
        ".log",
        ".po",
        ".toml",
        ".cfg",
        ".ini",
    ),
    *(".py", ".js", ".ts", ".tsx", ".go", ".rs", ".c", ".h", ".rb", ".java", ".sh", ".tf", ".css"),
    *(".erb", ".php", ".kt", ".swift", ".pl", ".service", ".conf"),
)
MOST_DOCUMENTS, MOST_OTHERS, MOST_OF_LOG = 350, 250, 20
SHORTEST, LONGEST = 200, 4000
LEAST_FILE, MOST_FILE = 200, 2_000_000
LONG_LINE = 60
"""A line of so many characters is hardly in two texts by chance."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Gather ordinary text.")
    parser.add_argument("out", type=Path)
    parser.add_argument("places", nargs="+", type=Path)
    parser.add_argument("--apart", action="append", default=[], type=Path)
    args = parser.parse_args()
    apart: set[str] = set()
    for path in args.apart:
        for line in path.read_text().splitlines():
            apart.update(long_lines(json.loads(line)["text"]))
    count = 0
    with args.out.open("w") as out:
        for place in args.places:
            for text in pieces(place):
                if apart.isdisjoint(long_lines(text)):
                    out.write(json.dumps({"place": place.name, "text": text}) + "\n")
                    count += 1
    print(f"{count} pieces", file=sys.stderr)
    return 0


def long_lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if len(line.strip()) >= LONG_LINE)


def pieces(place: Path) -> Iterator[str]:
    """Pieces of the files of a place, and of its log where it has one."""
    rng = random.Random(str(place.name))
    of_git = (place / "HEAD").exists()
    names = chosen(listed_in_git(place) if of_git else listed(place), rng)
    for data in read_from_git(place, names) if of_git else map(read, names):
        text = data.decode(errors="replace")
        if "\0" in text or text.count("\ufffd") > 3:
            continue
        for _ in range(2 if len(text) > 1.5 * LONGEST else 1):
            piece = cut(text, rng)
            if len(piece) >= SHORTEST:
                yield piece
    if of_git:
        log = git(place, "log", "-n", "300", "--format=commit %h%nAuthor: %an%nDate: %ad%n%n%B")
        said = log.decode(errors="replace")
        for at in range(0, min(len(said), MOST_OF_LOG * 3000), 3000):
            yield said[at : at + 2500].partition("\n")[2]


def cut(text: str, rng: random.Random) -> str:
    """Some of a text, from one line break to another."""
    length = rng.randint(SHORTEST, LONGEST)
    start = rng.randint(0, max(0, len(text) - length))
    piece = text[start : start + length]
    if start and "\n" in piece:
        piece = piece.partition("\n")[2]
    if start + length < len(text) and "\n" in piece:
        piece = piece.rpartition("\n")[0]
    return piece


def chosen(names: Iterable[str], rng: random.Random) -> list[str]:
    """Documents first, then anything."""
    mixed = sorted(name for name in names if name.lower().endswith(DOCUMENTS + OTHERS))
    rng.shuffle(mixed)
    documents = [name for name in mixed if name.lower().endswith(DOCUMENTS)]
    return list(dict.fromkeys(documents[:MOST_DOCUMENTS] + mixed[:MOST_OTHERS]))


def listed(place: Path) -> Iterator[str]:
    for path in place.rglob("*"):
        if path.is_file() and LEAST_FILE < path.stat().st_size < MOST_FILE:
            yield str(path)


def read(name: str) -> bytes:
    data = Path(name).read_bytes()
    try:
        return gzip.decompress(data) if name.endswith(".gz") else data
    except (OSError, EOFError):
        return b""


def git(place: Path, *arguments: str, said: bytes = b"") -> bytes:
    done = subprocess.run(
        ["git", "-C", str(place), *arguments],
        input=said,
        capture_output=True,
        check=False,
    )
    return done.stdout


def listed_in_git(place: Path) -> Iterator[str]:
    form = "--format=%(objectsize) %(path)"
    for line in git(place, "ls-tree", "-r", form, "HEAD").decode(errors="replace").splitlines():
        size, _, name = line.partition(" ")
        if size.isdigit() and LEAST_FILE < int(size) < MOST_FILE and not name.startswith('"'):
            yield name


def read_from_git(place: Path, names: list[str]) -> Iterator[bytes]:
    wanted = "".join(f"HEAD:{name}\n" for name in names).encode()
    answer = io.BytesIO(git(place, "cat-file", "--batch", said=wanted))
    while head := answer.readline():
        if not head.endswith(b" missing\n"):
            size = int(head.split()[-1])
            yield answer.read(size + 1)[:size]


if __name__ == "__main__":
    sys.exit(main())
