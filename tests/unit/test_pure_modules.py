"""Every module that calls itself pure is held to it by import-linter."""

import ast
import re
import tomllib
from pathlib import Path

import openclaw

ROOT = Path(__file__).parents[2]
SOURCE = Path(openclaw.__file__).parent
CLAIM = re.compile(r"\bPure[.:,](?! except)|\bNo I/O\.")


def test_every_module_that_calls_itself_pure_is_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (checked,) = [
        contract["source_modules"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["name"].startswith("Deciding is not doing")
    ]
    claiming: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        if CLAIM.search(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""):
            claiming.append(name)
    assert claiming
    assert [one for one in claiming if not _within(one, checked)] == []


def _within(name: str, packages: list[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)
