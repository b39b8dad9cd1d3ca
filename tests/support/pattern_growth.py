"""Finds regular expressions whose time grows faster than the text.

Each repetition of a pattern is pumped, behind what the pattern needs before it, and with an ending
that makes it fail. What counts is the growth from one size to the next, not the time.
"""

import ast
import importlib
import pkgutil
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import openclaw
from openclaw.secrets.shapes import SHAPES

# The standard library's own parser of patterns: nothing public gives their structure.
codes: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")
compiler: Any = importlib.import_module("re._compiler")

_ROOT = Path(openclaw.__path__[0])
SLOW = 0.04  # seconds; less says nothing about growth
LONGEST = 24_000
ENDINGS = ("", "\0", "\n", "!x")
_INLINE = {"search", "match", "fullmatch", "sub", "split", "findall", "finditer", "subn"}
_SAMPLES = "a0A .-_/:@=<([{\"'`\\\n\t%&#é\u200b"


@dataclass(frozen=True)
class Found:
    where: str
    pattern: str
    flags: int
    searches: bool = True  # rather than being tried in one place only


@dataclass(frozen=True)
class Growth:
    text: str  # of the pump
    size: int
    seconds: float
    ratio: float


def patterns_of_the_program() -> list[Found]:
    """Of every module: what it compiles when it is imported, and what it gives to `re` literally."""
    seen: dict[tuple[str, int], Found] = {}
    genuine = re.compile

    def recording(pattern: Any, flags: int = 0) -> re.Pattern[Any]:
        frame = sys._getframe(1)
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("openclaw") and isinstance(pattern, str):
            seen.setdefault((pattern, int(flags)), Found(name, pattern, int(flags)))
        return genuine(pattern, flags)

    re.compile = recording
    try:
        for module in pkgutil.walk_packages(openclaw.__path__, "openclaw."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    finally:
        re.compile = genuine
    _add_imported(seen)
    for shape in SHAPES:
        found = Found("openclaw.secrets.shapes", shape.expression, shape.flags)
        seen.setdefault((found.pattern, found.flags), found)
    trees = {path: ast.parse(path.read_text()) for path in _ROOT.rglob("*.py")}
    for path, tree in trees.items():
        for found in _inline(path.stem, tree):
            seen.setdefault((found.pattern, found.flags), found)
    anchored, named = _only_anchored(trees), _names()
    return [_with_use(found, named, anchored) for found in seen.values()]


def _add_imported(seen: dict[tuple[str, int], Found]) -> None:
    for name, module in list(sys.modules.items()):  # also those that were imported before
        values: dict[str, Any] = vars(module) if name.startswith("openclaw") else {}
        for value in values.values():
            if isinstance(value, re.Pattern):
                value = cast("re.Pattern[str]", value)
                flags = value.flags & ~re.UNICODE
                seen.setdefault((value.pattern, flags), Found(name, value.pattern, flags))


def _only_anchored(trees: Mapping[Path, ast.Module]) -> set[str]:
    """Names that are only used with `match` and `fullmatch`."""
    anchored: set[str] = set()
    searching: set[str] = set()
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                uses = anchored if node.attr in ("match", "fullmatch") else searching
                uses.add(f"{_module(path)}.{node.value.id}")
    return anchored - searching


def _names() -> dict[str, str]:
    compiled: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        values: dict[str, Any] = vars(module) if name.startswith("openclaw") else {}
        for attribute, value in values.items():
            if isinstance(value, re.Pattern):
                value = cast("re.Pattern[str]", value)
                compiled[f"{value.flags & ~32}{value.pattern}"] = f"{name}.{attribute}"
    return compiled


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[len(parts) - 1 - parts[::-1].index("openclaw") :])


def _with_use(found: Found, named: dict[str, str], anchored: set[str]) -> Found:
    key = f"{re.compile(found.pattern, found.flags).flags & ~32}{found.pattern}"
    return replace(found, searches=found.searches and named.get(key) not in anchored)


def _inline(module: str, tree: ast.Module) -> Iterator[Found]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner, arguments = node.func.value, node.args
        if not (isinstance(owner, ast.Name) and owner.id == "re" and node.func.attr in _INLINE):
            continue
        if arguments and isinstance(arguments[0], ast.Constant):
            searches = node.func.attr not in ("match", "fullmatch")
            yield Found(module, str(arguments[0].value), 0, searches)


def growth(found: Found, seconds: float = 20) -> Growth | None:
    """The worst growth if it is faster than linear."""
    compiled = re.compile(found.pattern, found.flags)
    use = compiled.finditer if found.searches else compiled.match
    until = time.thread_time() + seconds
    for before, pump in _pumps(parser.parse(found.pattern, found.flags), ""):
        for repeated, prefix in ((pump, before), (before + pump, "")):
            for ending in ENDINGS:
                grown = _measure(use, prefix, repeated, ending)
                if grown is not None:
                    return grown
                if time.thread_time() > until:
                    return None
    return None


def _measure(use: Callable[[str], object], prefix: str, pump: str, ending: str) -> Growth | None:
    size, earlier = 10, 0.0
    while pump and size * len(pump) <= LONGEST:
        text = prefix + pump * size + ending
        elapsed = _seconds(use, text)
        if elapsed > SLOW:
            step = _next(size) / size
            again = _seconds(use, text)  # a busy machine is no growth
            elapsed = min(elapsed, again)
            if elapsed > SLOW and elapsed > earlier * step**1.5:
                return Growth(pump, size, elapsed, elapsed / max(earlier, 1e-9))
        earlier, size = elapsed, _next(size)
    return None


def _next(size: int) -> int:
    return size * 2 if size > 100 else size + max(2, size // 5)


def _seconds(use: Callable[[str], object], text: str) -> float:
    started = time.thread_time()
    result = use(text)
    if isinstance(result, Iterator):
        deque(cast("Iterator[object]", result), maxlen=0)
    return time.thread_time() - started


def _pumps(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """For each long repetition: what comes before it, and a text that it repeats."""
    for code, argument in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            _, most, inner = argument
            yield from _pumps(inner, before)
            if most > 300:
                for sample in _samples(inner):
                    yield before, sample
        elif code is codes.SUBPATTERN:
            yield from _pumps(argument[-1], before)
        elif code is codes.BRANCH:
            for branch in argument[1]:
                yield from _pumps(branch, before)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _pumps(argument[1], before)
        elif code is codes.ATOMIC_GROUP:
            yield from _pumps(argument, before)
        before += next(_samples([(code, argument)]), "")


def _samples(tree: Any) -> Iterator[str]:
    """Texts that it may match, the shortest of each alternative."""
    texts = [""]
    for code, argument in tree:
        texts = [text + more for text in texts[:4] for more in _of(code, argument)[:4]]
    yield from dict.fromkeys(texts)


def _of(code: Any, argument: Any) -> list[str]:
    if code is codes.LITERAL:
        return [chr(argument)]
    if code in (codes.NOT_LITERAL, codes.IN, codes.ANY):
        return _characters(code, argument)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, most, inner = argument
        return [text * max(least, 1 if most else 0) for text in _samples(inner)] or [""]
    if code is codes.SUBPATTERN:
        return list(_samples(argument[-1]))
    if code is codes.ATOMIC_GROUP:
        return list(_samples(argument))
    if code is codes.BRANCH:
        return [text for branch in argument[1] for text in _samples(branch)]
    return [""]


def _characters(code: Any, argument: Any) -> list[str]:
    state = parser.State()
    pattern = parser.SubPattern(state, [(code, argument)])
    one = _compiled(pattern)
    return [sign for sign in _SAMPLES if one(sign)] or [_first(code, argument)]


def _compiled(pattern: Any) -> Any:
    compiled = compiler.compile(pattern)
    return compiled.fullmatch


def _first(code: Any, argument: Any) -> str:
    for kind, value in argument if code is codes.IN else ():
        if kind is codes.LITERAL:
            return chr(value)
        if kind is codes.RANGE:
            return chr(value[0])
    return "x"
