"""The file search process: a JSON request on stdin, a JSON answer on stdout.

It is a separate process so that it can be killed if a pattern never ends.
"""

import contextlib
import fnmatch
import io
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from openclaw.agent.tools.workspace import Workspace
from openclaw.config.paths import CLOEXEC, NOFOLLOW, NONBLOCK
from openclaw.core.errors import OpenClawError, ToolFailure

MAX_LINE_CHARS = 4000


def folded(lines: Iterable[str]) -> Iterator[str]:
    """Every line; long ones in pieces, each with a line ending."""
    for line in lines:
        for at in range(0, len(line), MAX_LINE_CHARS):
            piece = line[at : at + MAX_LINE_CHARS]
            yield piece if piece.endswith(("\n", "\r")) else piece + "\n"


_MOST_CHARS = 500


class PathGlob:
    """A glob over whole paths; one without a slash matches names in every directory.

    Matching takes linear time: `fnmatch` makes patterns that do not backtrack, and directories are
    matched by a set of states.
    """

    def __init__(self, glob: str) -> None:
        if len(glob) > _MOST_CHARS:
            raise ToolFailure(f"A glob can have at most {_MOST_CHARS} characters.")
        parts = [part for part in glob.split("/") if part not in ("", ".")]
        anchored = parts if "/" in glob else ["**", *parts]
        # None stands for `**`.
        self._parts = [
            None if part == "**" else re.compile(fnmatch.translate(part)) for part in anchored
        ]

    def matches(self, path: str) -> bool:
        states = self._past_any_depth({0})
        for name in path.split("/"):
            reached: set[int] = set()
            for state, part in enumerate(self._parts):
                if state in states and (part is None or part.match(name)):
                    reached.add(state if part is None else state + 1)
            states = self._past_any_depth(reached)
        return len(self._parts) in states

    def _past_any_depth(self, states: set[int]) -> set[int]:
        """`**` also matches no directory at all."""
        for state, part in enumerate(self._parts):
            if state in states and part is None:
                states.add(state + 1)
        return states


MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_FILES = 50_000
MAX_FOLDED_BYTES = 64 * 1024 * 1024
MAX_HIT_CHARS = 300
MEMORY_BYTES = 1024 * 1024 * 1024
_SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        with contextlib.suppress(ValueError, OSError):  # not every system has this limit
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def main() -> None:
    _limit_memory()
    try:
        text, note = search(json.load(sys.stdin))
        answer = {"text": text, "note": note}
    except OpenClawError as error:
        answer = {"error": error.message}
    sys.stdout.write(json.dumps(answer))


def search(request: dict[str, Any]) -> tuple[str, str]:
    """The lines that match, and a note if there may be more."""
    pattern, path = _compiled(request), request["path"]
    workspace = Workspace(
        Path(request["root"]), [Path(path) for path in request.get("private", ())]
    )
    if request.get("fold"):
        files = _folded_file(workspace, path)
    else:
        files = _files(workspace, path, PathGlob(request["glob"]) if request["glob"] else None)
    most, note = request["most"], ""
    found = list(islice(_hits(pattern, islice(files, MAX_FILES)), most + 1))
    if len(found) > most:
        note = "[there are more; narrow the search]"
    elif next(files, None) is not None:
        note = f"[stopped after {MAX_FILES} files; give a narrower path]"
    return "\n".join(found[:most]) or "(no line matches)", note


def _hits(pattern: re.Pattern[str], files: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    """The lines that match; of a long one, the part around the match."""
    for place, lines in files:
        for number, line in enumerate(lines, 1):
            if match := pattern.search(line):
                start = max(0, min(match.start() - MAX_HIT_CHARS // 3, len(line) - MAX_HIT_CHARS))
                shown = line[start : start + MAX_HIT_CHARS].rstrip("\r\n")
                more = "[…]" if len(line) > start + MAX_HIT_CHARS else ""
                yield f"{place}{number}: {'[…]' if start else ''}{shown}{more}"


def _folded_file(workspace: Workspace, path: str) -> Iterator[tuple[str, Iterable[str]]]:
    """A file that may be one long line, split into lines as `read` does it."""
    with workspace.open_file(path) as (file, _, _):
        text = file.read(MAX_FOLDED_BYTES).decode("utf-8", "replace")
    yield "", folded(io.StringIO(text, newline=""))


def _compiled(request: dict[str, Any]) -> re.Pattern[str]:
    flags = re.IGNORECASE if request["ignore_case"] else 0
    text = re.escape(request["pattern"]) if request["literal"] else request["pattern"]
    try:
        return re.compile(text, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolFailure(
            f"The pattern is not a regular expression: {error}; set `literal` to search for it "
            "as plain text."
        ) from None


def _files(
    workspace: Workspace, path: str, wanted: PathGlob | None
) -> Iterator[tuple[str, Iterable[str]]]:
    with workspace.locate(path) as spot:
        status = spot.status()
        if status is not None and stat.S_ISREG(status.st_mode):
            if (lines := _lines(spot.directory, spot.name)) is not None:
                yield f"{spot.relative}:", lines
            return
        for one in workspace.walk(spot, skipped=_SKIPPED):
            regular = stat.S_ISREG(one.status.st_mode) and not one.private
            if regular and (wanted is None or wanted.matches(one.path)):
                with contextlib.suppress(OSError):  # gone or changed meanwhile, or not readable
                    if (lines := _lines(one.directory, one.name)) is not None:
                        yield f"{one.path}:", lines


def _lines(directory: int, name: str) -> list[str] | None:
    flags = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=directory), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        content = file.read(MAX_FILE_BYTES)
    return None if b"\0" in content[:8192] else content.decode("utf-8", "replace").splitlines()


if __name__ == "__main__":
    main()
