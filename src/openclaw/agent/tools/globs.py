"""Globs over paths: `*`, `?` and `[abc]` within a name, `**` across directories."""

import fnmatch
import re

from openclaw.core.errors import ToolFailure

_MOST_CHARS = 500


class PathGlob:
    """A glob over whole paths; one without a slash matches names in every directory.

    Matching takes time in proportion to the path and the glob, whatever they are: names are
    matched by patterns that do not backtrack (as `fnmatch` makes them), directories by a set of
    states.
    """

    def __init__(self, glob: str) -> None:
        if len(glob) > _MOST_CHARS:
            raise ToolFailure(f"A glob has at most {_MOST_CHARS} characters.")
        parts = [part for part in glob.split("/") if part not in ("", ".")]
        anchored = parts if "/" in glob else ["**", *parts]
        # None stands for `**`.
        self._parts = [
            None if part == "**" else re.compile(fnmatch.translate(part)) for part in anchored
        ]

    def matches(self, path: str) -> bool:
        """True where the whole path fits."""
        states = self._past_any_depth({0})
        for name in path.split("/"):
            states = self._past_any_depth(self._after(name, states))
        return len(self._parts) in states

    def _after(self, name: str, states: set[int]) -> set[int]:
        reached: set[int] = set()
        for state in states:
            if state == len(self._parts):
                continue
            part = self._parts[state]
            if part is None:
                reached.add(state)
            elif part.match(name):
                reached.add(state + 1)
        return reached

    def _past_any_depth(self, states: set[int]) -> set[int]:
        """`**` stands for no directory as well."""
        reached = set(states)
        for state in range(len(self._parts)):
            if state in reached and self._parts[state] is None:
                reached.add(state + 1)
        return reached
