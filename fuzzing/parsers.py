"""Search the parsers for an unhandled exception or a disagreement; prints a Markdown table.

usage: parsers.py [--seconds N] [--seed N] [--only TARGET]… [--engine own|atheris]

The engine of our own mutates and splices the seeds of tests.support.parser_targets and keeps
what reaches new lines of the target. With --engine atheris (pip install atheris) libFuzzer does,
for one target at a time.
"""

import argparse
import importlib
import random
import sys
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tests.support.parser_targets import SEEDS, TARGETS

_MOST_KEPT = 2000
_LONGEST = 4096
# How often a try is traced for new lines: tracing costs ten times what the try does.
_TRACED = 0.05
_TOKENS = (
    b"{ } [ ] ( ) < > , : ; \" ' \\ \\u0041 \\ud800 \\x41 // /* */ \n \r \t \0 \x1b[ \xff \xc3\xa9 \xe2\x80\x8b \xf0\x9f\x98\x80"
    b" null true false 0 -0 1e999 0x 9999999999999999999999 .5 Infinity NaN = == ? # & % %25 &amp; &#65; ${ secret:// <| |> [INST] Human: ``` base64"
).split(b" ")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the parsers.")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=sorted(TARGETS), default=[])
    parser.add_argument("--engine", choices=["own", "atheris"], default="own")
    args = parser.parse_args()
    names: list[str] = args.only or list(TARGETS)
    if args.engine == "atheris":
        return _atheris(names[0], args.seconds)
    print("| parser | tries | inputs kept | findings |\n|---|---:|---:|---:|")
    worst = 0
    for name in names:
        tries, kept, findings = _search(name, args.seconds / len(names), random.Random(args.seed))
        print(f"| {name} | {tries} | {kept} | {len(findings)} |", flush=True)
        for finding in findings[:3]:
            print(finding, file=sys.stderr)
        worst = max(worst, len(findings))
    return 1 if worst else 0


def _search(name: str, seconds: float, rng: random.Random) -> tuple[int, int, list[str]]:
    target, pool = TARGETS[name], list(SEEDS[name])
    seen: set[tuple[str, int]] = set()
    findings: list[str] = []
    tries, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        data = mutated(rng, pool) if tries >= len(pool) else pool[tries]
        tries += 1
        try:
            if rng.random() < _TRACED:
                with _lines(seen) as new:
                    target(data)
                if new() and len(pool) < _MOST_KEPT:
                    pool.append(data)
            else:
                target(data)
        except Exception:  # noqa: BLE001 - that nothing escapes is what is tested
            findings.append(f"{name}: {data!r}\n{traceback.format_exc(limit=-3)}")
    return tries, len(pool), findings


@contextmanager
def _lines(seen: set[tuple[str, int]]) -> Generator[Callable[[], bool]]:
    """Note the lines of openclaw that run; the function says whether any was new."""
    before = len(seen)

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        file = frame.f_code.co_filename
        if "openclaw" not in file:
            return None
        seen.add((file, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        yield lambda: len(seen) > before
    finally:
        sys.settrace(None)


def mutated(rng: random.Random, pool: list[bytes]) -> bytes:
    """One of the pool with a few changes."""
    data = bytearray(rng.choice(pool))
    for _ in range(rng.randint(1, 6)):
        rng.choice(_CHANGES)(rng, data, pool)
    return bytes(data[:_LONGEST])


def _flip(rng: random.Random, data: bytearray, pool: list[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def _insert(rng: random.Random, data: bytearray, pool: list[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice(_TOKENS) * rng.choice((1, 1, 1, 2, 40))


def _cut(rng: random.Random, data: bytearray, pool: list[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    del data[at : at + rng.randint(1, 12)]


def _repeat(rng: random.Random, data: bytearray, pool: list[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = data[at : at + rng.randint(1, 20)] * rng.choice((1, 2, 30))


def _splice(rng: random.Random, data: bytearray, pool: list[bytes]) -> None:
    other = rng.choice(pool)
    at = rng.randrange(len(other) + 1)
    data[rng.randrange(len(data) + 1) :] = other[at:]


_CHANGES = (_flip, _insert, _insert, _cut, _repeat, _splice)


def _atheris(name: str, seconds: float) -> int:
    try:
        import atheris  # pyright: ignore[reportMissingModuleSource] - optional, see above
    except ImportError:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    fuzz: Any = atheris
    # What was imported already would run without being watched.
    for module in [module for module in sys.modules if module.startswith("openclaw")]:
        del sys.modules[module]
    with fuzz.instrument_imports(include=["openclaw"]):
        target = importlib.import_module("tests.support.parser_targets").TARGETS[name]
    fuzz.Setup([sys.argv[0], f"-max_total_time={int(seconds)}", "-max_len=4096"], target)
    fuzz.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
