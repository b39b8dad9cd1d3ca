"""What is installed for users runs with what is installed for users: no development dependency."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import openclaw

ROOT = Path(__file__).parents[2]
SOURCE = Path(openclaw.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Imported on one system only, or run by an interpreter of another program.
NOT_HERE = {"winreg", "msvcrt"}
# Of a dependency with an extra, such as pydantic-ai-slim[openai], the extra's packages come too.
WITH_EXTRAS = re.compile(r"^([\w.-]+)(?:\[([\w,.-]+)\])?")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def granted() -> set[str]:
    """The distributions that pyproject.toml promises a user, extras included, and theirs."""
    project = PROJECT["project"]
    wanted = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    found: set[str] = set()
    todo = [(one, True) for one in wanted]
    while todo:
        requirement, ours = todo.pop()
        match = WITH_EXTRAS.match(requirement)
        assert match is not None
        name, extras = normal(match[1]), set((match[2] or "").split(",")) - {""}
        found.add(name)
        if not ours:
            continue
        # What the SDKs are made of is part of them (mcp_types of mcp); one step is enough.
        for inner in requires(name) or []:
            condition = inner.partition(";")[2]
            of_extra = re.search(r"extra == ['\"]([\w.-]+)['\"]", condition)
            if of_extra is None or of_extra[1] in extras:
                todo.append((inner, False))
    return found


def imports(path: Path) -> Iterator[str]:
    """The top-level packages that a file imports, wherever in the file it does."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_no_module_imports_what_is_not_installed_with_it() -> None:
    allowed = granted()
    offered = {
        package: {normal(name) for name in names}
        for package, names in packages_distributions().items()
    }
    known = {*sys.stdlib_module_names, *NOT_HERE, "openclaw"}
    strangers = [
        f"{path.relative_to(SOURCE)}: {package}"
        for path in sorted(SOURCE.rglob("*.py"))
        for package in sorted({*imports(path)} - known)
        if not offered.get(package, set()) & allowed
    ]
    assert strangers == []
