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
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import openclaw
from openclaw.content.sanitise import prepare
from openclaw.secrets.shapes import SHAPES

# The standard library's own parser of patterns: nothing public gives their structure.
codes: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")
compiler: Any = importlib.import_module("re._compiler")

_ROOT = Path(openclaw.__path__[0])
SLOW = 0.04  # seconds; less says nothing about growth
LONGEST = 24_000
_LINEAR, _QUADRATIC = 1.5, 2.5  # the powers from which growth is more than that
ENDINGS = ("", "\0", "\n", "!x")
_INLINE = {"search", "match", "fullmatch", "sub", "split", "findall", "finditer", "subn"}
_SAMPLES = "a0A .-_/:@=<([{\"'`\\\n\t%&#é\u200b"


@dataclass(frozen=True)
class Found:
    where: str
    pattern: str
    flags: int
    uses: frozenset[str] = frozenset({"finditer"})  # how it is used: match, fullmatch, or to search


@dataclass(frozen=True)
class Growth:
    text: str  # of the pump
    size: int
    seconds: float
    ratio: float


def patterns_of_the_program() -> list[Found]:
    """Of every module: what it compiles when it is imported, or before it reads its first text, and
    what it gives to `re` literally."""
    seen: dict[tuple[str, int], Found] = {}
    genuine = re.compile

    def recording(pattern: Any, flags: int = 0) -> re.Pattern[Any]:
        frame = sys._getframe(1)
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("openclaw"):
            _add(seen, name, pattern, int(flags))
        return genuine(pattern, flags)

    re.compile = recording
    try:
        for module in pkgutil.walk_packages(openclaw.__path__, "openclaw."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
        _compile_what_is_compiled_late()
    finally:
        re.compile = genuine
    _add_imported(seen)
    for shape in SHAPES:
        _add(seen, "openclaw.secrets.shapes", shape.expression, shape.flags)
    trees = {path: ast.parse(path.read_text()) for path in _ROOT.rglob("*.py")}
    for path, tree in trees.items():
        for found in _inline(_module(path), tree):
            seen.setdefault((found.pattern, found.flags), found)
    uses, named = _uses(trees), _names()
    return [_with_uses(found, named, uses) for found in seen.values()]


def _add(seen: dict[tuple[str, int], Found], where: str, pattern: str | bytes, flags: int) -> None:
    pattern, flags = as_text(pattern, flags)
    seen.setdefault((pattern, flags), Found(where, pattern, flags))


def as_text(pattern: str | bytes, flags: int) -> tuple[str, int]:
    """A pattern for bytes as the same one for text of those 256 characters."""
    return (
        (pattern.decode("latin-1"), flags | int(re.ASCII))
        if isinstance(pattern, bytes)
        else (pattern, flags)
    )


def _compile_what_is_compiled_late() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("openclaw.content"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
    prepare()


def patterns_made_of_values() -> dict[str, int]:
    """How many patterns each module makes of values, in functions, where none of them is seen here."""
    made: Counter[str] = Counter()
    for path in _ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text())
        inside = {
            node
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for node in ast.walk(function)
        }
        for node in ast.walk(tree):
            if node in inside and _is_use_of_re(node) and not _is_literal(node):
                made[_module(path)] += 1
    return dict(made)


def _is_use_of_re(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    owner = node.func.value
    named = isinstance(owner, ast.Name) and owner.id == "re"
    return named and node.func.attr in (*_INLINE, "compile")


def _is_literal(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.args[0], ast.Constant)


def _add_imported(seen: dict[tuple[str, int], Found]) -> None:
    for name, module in list(sys.modules.items()):  # also those that were imported before
        values: dict[str, Any] = vars(module) if name.startswith("openclaw") else {}
        for value in values.values():
            if isinstance(value, re.Pattern):
                value = cast("re.Pattern[str]", value)
                _add(seen, name, value.pattern, value.flags & ~re.UNICODE)


def _uses(trees: Mapping[Path, ast.Module]) -> dict[str, set[str]]:
    """The methods that are called of each name."""
    uses: dict[str, set[str]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                uses.setdefault(f"{_module(path)}.{node.value.id}", set()).add(node.attr)
    return uses


def _names() -> dict[str, str]:
    compiled: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        values: dict[str, Any] = vars(module) if name.startswith("openclaw") else {}
        for attribute, value in values.items():
            if isinstance(value, re.Pattern):
                pattern, flags = as_text(cast("re.Pattern[Any]", value).pattern, value.flags)
                compiled[f"{flags & ~32}{pattern}"] = f"{name}.{attribute}"
    return compiled


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[len(parts) - 1 - parts[::-1].index("openclaw") :])


def _with_uses(found: Found, named: dict[str, str], uses: dict[str, set[str]]) -> Found:
    key = f"{re.compile(found.pattern, found.flags).flags & ~32}{found.pattern}"
    known = uses.get(named.get(key, ""))
    return found if known is None else replace(found, uses=frozenset(known))


def _inline(module: str, tree: ast.Module) -> Iterator[Found]:
    for node in ast.walk(tree):
        call = cast("Any", node)
        if not (_is_use_of_re(node) and _is_literal(node)) or call.func.attr == "compile":
            continue
        yield Found(module, str(call.args[0].value), 0, frozenset({call.func.attr}))


def growth(found: Found, seconds: float = 20, longest: int | None = None) -> Growth | None:
    """The growth if it is faster than linear; quadratic, if `longest` is all that it is ever given."""
    power = _LINEAR if longest is None else _QUADRATIC
    compiled = re.compile(found.pattern, found.flags)
    anchored = {"match": compiled.match, "fullmatch": compiled.fullmatch}
    uses = {anchored.get(use, compiled.finditer) for use in found.uses}
    until = time.thread_time() + seconds
    for before, pump in _pumps(parser.parse(found.pattern, found.flags), ""):
        for repeated, prefix in ((pump, before), (before + pump, "")):
            for ending, use in product(ENDINGS, uses):
                grown = _measure(use, prefix, repeated, ending, longest or LONGEST, power)
                if grown is not None:
                    return grown
                if time.thread_time() > until:
                    return None
    return None


def growth_of(read: Callable[[str], object], pumps: Iterable[str], seconds: float) -> Growth | None:
    """The first of these pumps for which the time that `read` takes grows faster than the text."""
    until = time.thread_time() + seconds
    for pump, ending in product(pumps, ("", "\0")):
        grown = _measure(read, "", pump, ending, LONGEST, _LINEAR)
        if grown is not None:
            return grown
        if time.thread_time() > until:
            return None
    return None


def _measure(
    use: Callable[[str], object],
    prefix: str,
    pump: str,
    ending: str,
    longest: int,
    power: float,
) -> Growth | None:
    size, earlier = 10, 0.0
    while pump and size * len(pump) <= longest:
        text = prefix + pump * size + ending
        elapsed = _seconds(use, text)
        if elapsed > SLOW:
            step = _next(size) / size
            again = _seconds(use, text)  # a busy machine is no growth
            elapsed = min(elapsed, again)
            if elapsed > SLOW and elapsed > earlier * step**power:
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


def nested_possessive(pattern: str, flags: int = 0) -> bool:
    """Whether a group is repeated possessively (`)*+`) inside another repetition.

    Python before 3.11.5, which Debian 12 has, matches such patterns wrongly or never ends.
    """
    return _nested(parser.parse(pattern, flags), inside=False)


def _nested(node: Any, *, inside: bool) -> bool:
    if isinstance(node, tuple) and node and isinstance(node[0], _CODE) and node[0] in _REPEATS:
        code, (_, most, body) = cast("tuple[Any, tuple[int, int, Any]]", node)
        group = len(body) > 1 or body[0][0] in (codes.BRANCH, codes.SUBPATTERN)
        if group and inside and code is codes.POSSESSIVE_REPEAT:
            return True
        return _nested(body, inside=inside or (group and most > 1))
    if isinstance(node, tuple | list | parser.SubPattern):
        return any(_nested(child, inside=inside) for child in cast("list[Any]", node))
    return False


_CODE = cast("type[Any]", type(codes.MAX_REPEAT))  # a number with a name
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
