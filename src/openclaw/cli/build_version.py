"""Which version this is, and of which commit, so that two builds can be told apart."""

import subprocess
from contextlib import suppress
from pathlib import Path

from openclaw.version import __version__


def build_commit() -> str:
    """The commit that this program was built from, or that its working copy is at; or empty."""
    package = Path(__file__).parents[1]
    with suppress(OSError):
        return (package / "commit.txt").read_text("utf-8").strip()
    checkout = package.parents[1]
    if not (checkout / ".git").exists():
        return ""
    words = ("git", "-C", str(checkout), "rev-parse", "--short=9", "HEAD")
    with suppress(OSError):
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        return done.stdout.strip()
    return ""


def version_text() -> str:
    """The version, with the commit if that is known."""
    commit = build_commit()
    return f"{__version__} ({commit})" if commit else __version__
