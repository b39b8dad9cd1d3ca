"""Has a built package say which commit it was built from; `openclaw --version` shows it."""

import subprocess
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        git = ("git", "-C", self.root, "rev-parse", "--short=9", "HEAD")
        if version == "editable" or not Path(self.root, ".git").exists():
            return
        try:
            commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):  # no git: the version has to do
            return
        file = Path(mkdtemp(prefix="openclaw-build-")) / "commit.txt"
        file.write_text(commit, "utf-8")
        package = "src/openclaw" if self.target_name == "sdist" else "openclaw"
        build_data["force_include"][str(file)] = f"{package}/commit.txt"
