"""Would the tests notice? Changes the program in small ways, and counts how often they fail.

Each mutant changes one expression or statement of one module, in a copy of `src`, and runs the unit
tests that import this module. A mutant that no test notices is printed as a diff: it is a test that
is missing, or a change that makes no difference.
"""

import argparse
import ast
import difflib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC, UNIT = ROOT / "src", ROOT / "tests" / "unit"
_MOST_TEST_FILES = 6  # of a module; more are those of modules that merely use it
_LEAST_SECONDS = 60.0  # for a mutant that never ends; in any case five times as long as without it

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    module: Path
    line: int
    start: int  # in bytes of the file
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def diff(self) -> str:
        before = self.module.read_bytes()
        name = str(self.module.relative_to(ROOT))
        lines = [text.decode().splitlines() for text in (before, self.apply(before))]
        return "\n".join(difflib.unified_diff(*lines, name, name, lineterm="", n=1))


def mutants_of(module: Path) -> Iterator[Mutant]:
    source = module.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        return start, starts[node.end_lineno - 1] + node.end_col_offset

    for node, other in _changes(ast.parse(source)):
        yield Mutant(module, node.lineno, *place(node), other)


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Pairs of a node and the text to put in its place."""
    for node in _mutable(tree):
        if isinstance(node, ast.stmt):
            yield from _other_statements(node)
        elif isinstance(node, ast.expr):
            for other in _other_expressions(node):
                yield node, f"({ast.unparse(other)})"


def _other_statements(node: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.Expr(ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
            yield node, "pass"
        case ast.Return(ast.expr()):
            yield node, "return None"
        case ast.If(test):
            yield test, f"not ({ast.unparse(test)})"
        case ast.Continue():
            yield node, "break"
        case _:
            pass


def _other_expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, [operator], [right]) if type(operator) in _COMPARISONS:
            yield ast.Compare(left, [_COMPARISONS[type(operator)]()], [right])
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            if not _is_text(left) and not _is_text(right):
                yield ast.BinOp(left, _OPERATORS[type(operator)](), right)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), value):
            yield ast.Call(ast.Name("bool"), [value], [])
        case ast.Constant(bool() | int() as value):
            yield ast.Constant(not value if isinstance(value, bool) else value + 1)
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.Call(function, [first, second, *rest], keywords):
            if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
                yield ast.Call(function, [second, first, *rest], keywords)
        case _:
            pass


def _mutable(node: ast.AST) -> Iterator[ast.AST]:
    """What is worth changing: not types, tunable constants, logs, or words for people."""
    functions = ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef
    children = node.body if isinstance(node, functions) else ast.iter_child_nodes(node)
    if isinstance(node, ast.AnnAssign):
        children = [node.value] if node.value is not None else []
    for child in children:
        if not _is_left_alone(child):
            yield child
            yield from _mutable(child)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.JoinedStr() | ast.arguments():
            return True
        case ast.If(ast.Name("TYPE_CHECKING")):
            return True
        case ast.Assign([ast.Name(name), *_]) | ast.AnnAssign(ast.Name(name)):
            return name.lstrip("_").isupper()
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("logger")))):
            return True
        case _:
            return False


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def tests_of(module: Path) -> tuple[Path, ...]:
    """The unit tests of a module: those at the same place, then those that import it."""
    path = module.relative_to(SRC / "openclaw").with_suffix("")
    own = UNIT / path.parent / f"test_{path.name}.py"
    if not own.exists():
        return ()
    name = ".".join(("openclaw", *path.parts))
    parent, _, last = name.rpartition(".")
    imports = (f"from {name} import", f"import {name}\n", f"from {parent} import {last}\n")
    users = [
        file
        for file in sorted(UNIT.rglob("test_*.py"))
        if any(one in file.read_text(encoding="utf-8") for one in imports)
    ]
    return tuple(dict.fromkeys([own, *users]))[:_MOST_TEST_FILES]


def run(tests: Sequence[Path], source: Path, limit: float | None = None) -> bool:
    """Whether the tests pass with this copy of the program."""
    # Without random order or caches, and away from the terminal, which a mutant may want.
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        *map(str, tests),
    ]
    environ = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return (
            subprocess.run(
                command, cwd=ROOT, env=environ, timeout=limit, capture_output=True,
                stdin=subprocess.DEVNULL, start_new_session=True, check=False,
            ).returncode == 0
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False


@dataclass(slots=True)
class Trial:
    """One copy of the program, in which mutants are tried."""

    source: Path
    seconds: dict[tuple[Path, ...], float | None]  # that tests take; None if they fail anyway

    def survives(self, mutant: Mutant) -> bool | None:
        """None if the tests fail without the mutant, too."""
        tests = tests_of(mutant.module)
        if tests not in self.seconds:
            began = time.monotonic()
            passed = run(tests, self.source)
            self.seconds[tests] = time.monotonic() - began if passed else None
        usual = self.seconds[tests]
        if usual is None:
            return None
        copy = self.source / mutant.module.relative_to(SRC)
        before = copy.read_bytes()
        copy.write_bytes(mutant.apply(before))
        try:
            return run(tests, self.source, max(_LEAST_SECONDS, 5 * usual))
        finally:
            copy.write_bytes(before)


def chosen(count: int, seed: int, packages: Sequence[str]) -> list[Mutant]:
    """As many mutants of each module as it has a share of all mutants, at random."""
    modules = [
        module
        for module in sorted((SRC / "openclaw").rglob("*.py"))
        if (
            not packages
            or any(str(module.relative_to(SRC / "openclaw")).startswith(p) for p in packages)
        )
        and tests_of(module)
    ]
    every = [mutant for module in modules for mutant in mutants_of(module)]
    return random.Random(seed).sample(every, min(count, len(every)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", help="such as policy or agent/loop.py; all if none")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--least", type=float, help="fail below this share of noticed mutants")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    wanted = parser.parse_args()
    mutants = chosen(wanted.count, wanted.seed, wanted.packages)
    noticed, survivors, skipped = 0, list[Mutant](), 0
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(wanted.jobs) as pool:
        trials = [Trial(Path(place) / str(number), {}) for number in range(wanted.jobs)]
        for trial in trials:
            shutil.copytree(SRC, trial.source, ignore=shutil.ignore_patterns("__pycache__"))
        parts = [mutants[number :: wanted.jobs] for number in range(wanted.jobs)]

        def work(trial: Trial, part: list[Mutant]) -> None:
            nonlocal noticed, skipped
            for mutant in part:
                match trial.survives(mutant):
                    case None:
                        skipped += 1
                    case False:
                        noticed += 1
                    case True:
                        survivors.append(mutant)
                        print(mutant.diff(), end="\n\n", flush=True)

        for done in [pool.submit(work, *one) for one in zip(trials, parts, strict=True)]:
            done.result()
    tried = noticed + len(survivors)
    share = noticed / tried if tried else 1.0
    print(f"{noticed} of {tried} mutants noticed ({share:.0%}); {skipped} could not be tried")
    if wanted.json is not None:
        found = {"noticed": noticed, "tried": tried, "seed": wanted.seed}
        wanted.json.write_text(json.dumps(found) + "\n")
    return int(wanted.least is not None and share < wanted.least)


if __name__ == "__main__":
    sys.exit(main())
