"""docs/reference/requirements.md and the tests that carry requirements' ids say the same."""

import ast
import importlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.pages import read_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "requirements.md"
ROW = re.compile(r"^\| ([A-Z]+-[\d.]+) \| (.+?) \| (.+) \| (.+) \|$", re.MULTILINE)
CODE = re.compile(r"`([\w.]+):(\w+)`")
TEST = re.compile(r"\[`(test_\w+)`\]\((?:\.\./)+(tests/[\w/]+\.py)\)")
IDS = (
    *(f"US-{n}.{m}" for n, last in ((1, 3), (2, 4), (3, 4), (4, 3), (5, 6), (6, 5)) for m in range(1, last + 1)),
    *(f"FR-{n}.{m}" for n, last in ((1, 16), (2, 5), (3, 5), (4, 5), (5, 9), (6, 4), (7, 4)) for m in range(1, last + 1)),
    *(f"NFR-{n}.{m}" for n, last in ((1, 3), (2, 3), (3, 4), (4, 3)) for m in range(1, last + 1)),
    *(f"D-{n}" for n in range(1, 8)),
    *(f"E-{n}" for n in range(1, 9)),
    *(f"O-{n}" for n in range(1, 14)),
    *(f"M-{n}" for n in range(1, 17)),
)  # fmt: skip
ROWS = ROW.findall(PAGE.read_text())


def test_every_requirement_has_its_row_and_no_row_is_there_twice() -> None:
    assert Counter(row[0] for row in ROWS) == Counter(IDS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_code_that_is_named_exists(row: tuple[str, str, str, str]) -> None:
    named = CODE.findall(row[2])
    assert len(named) == row[2].count("`") // 2 > 0
    for module, symbol in named:
        place = module if module.startswith("tests.") else f"openclaw.{module}"
        assert hasattr(importlib.import_module(place), symbol), (module, symbol)


def _carried(path: Path) -> Iterator[tuple[str, str]]:
    """Each test of a file that carries an id, with the id."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.requirement":
                for argument in mark.args:
                    yield node.name, ast.literal_eval(argument)


def test_a_test_is_named_under_a_requirement_if_and_only_if_it_carries_its_id() -> None:
    named: dict[str, set[str]] = defaultdict(set)
    for identity, _, _, tests in ROWS:
        named[identity].update(f"{path}::{name}" for name, path in TEST.findall(tests))
    carried: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, identity in _carried(path):
            carried[identity].add(f"{path.relative_to(ROOT)}::{name}")
    assert named == carried
    assert all(named[identity] for identity in IDS)


def test_the_page_says_it_in_words_of_its_own() -> None:
    page = read_page(PAGE)
    assert len({row[1] for row in ROWS}) == len(ROWS), "two requirements in the same words"
    assert not page.blocks
