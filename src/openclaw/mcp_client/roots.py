"""Which directories a server is told it may work in.

Some servers, the reference filesystem server among them, take the client's roots instead of the
directories in their own arguments. Whoever typed a directory there wants it to count.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.config.paths import expand

if TYPE_CHECKING:
    from openclaw.config.schema import McpServerConfig


def server_roots(
    config: "McpServerConfig", agent: Sequence[Path], environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """What the configuration says; else the agent's own roots and the directories in `args`."""
    if config.roots is not None:
        base = agent[0] if agent else Path.cwd()
        return _each_once(base / expand(root, environ) for root in config.roots)
    return _each_once([*agent, *_named_directories(config.args, environ)])


def _named_directories(args: Iterable[str], environ: Mapping[str, str]) -> Iterable[Path]:
    for argument in args:
        # The value of an option may stand in the same word.
        for text in (argument, argument.partition("=")[2]):
            path = expand(text, environ)
            if text and path.is_absolute() and _is_directory(path):
                yield path


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # no permission to look, or no path at all
        return False


def _each_once(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(paths))
