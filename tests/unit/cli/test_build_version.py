"""The version that a person reports."""

import subprocess
from pathlib import Path

import pytest

from openclaw.cli.build_version import version_text
from openclaw.version import __version__


def test_the_version_tells_builds_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "src" / "openclaw" / "cli" / "build_version.py"
    module.parent.mkdir(parents=True)
    monkeypatch.setattr("openclaw.cli.build_version.__file__", str(module))
    assert version_text() == __version__
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.example", "-C", str(tmp_path)]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "One"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert version_text() == f"{__version__} ({commit.stdout[:9]})"
    (module.parents[1] / "commit.txt").write_text("0123abcde\n")  # as in a wheel
    assert version_text() == f"{__version__} (0123abcde)"
