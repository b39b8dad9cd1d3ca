"""What a program itself is made of: its file, its interpreter, and the libraries that belong to it.

Never what lies beside it: `~/.cargo/bin/server` is one file, and `~/.cargo/credentials.toml` is not
part of it.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from openclaw.mcp_client.transport.child_process import Program, located

_MAX_LINKS = 16
_MAX_INTERPRETERS = 4
_MAX_FIRST_LINE = 512

_LIBRARIES = ("lib", "lib64", "libexec", "share", "ssl", "jmods", "conf")
"""What an installation with a `lib` directory runs on, besides its `bin`."""

VERSION_MANAGERS = (".asdf", ".pyenv", ".rbenv", ".volta", "mise")
"""Directories that are whole trees of programs, whose commands look each other up."""


def own_files(program: Program, home: Path, guarded: Iterable[Path]) -> Iterator[Path]:
    """The files and directories that the program consists of, and files that it is given to run.

    A `guarded` directory, or one above it, is never among them.
    """
    holders = {parent for path in (home, *guarded) for parent in (path, *path.parents)}
    command: str | None = located(program) or program.command
    for _ in range(_MAX_INTERPRETERS):
        if command is None:
            break
        for path in _steps_to(Path(command).absolute()):
            yield from _parts(path, holders)
        command = _interpreter(Path(command), program)
    for word in program.arguments:
        given = Path(word)
        if given.is_absolute() and given.is_file():
            yield given


def _parts(path: Path, holders: set[Path]) -> Iterator[Path]:
    modules = [parent for parent in path.parents if parent.name == "node_modules"]
    managers = [parent for parent in path.parents if parent.name in VERSION_MANAGERS]
    trees = [place for place in (*managers[-1:], *modules[-1:]) if place not in holders]
    if not trees and path.parent.name == "bin":
        prefix = path.parent.parent
        trees = [*_installation(prefix, guarded=prefix in holders)]
        trees += [place for place in _linked(prefix) if place not in holders]
    yield from trees
    if not any(map(path.is_relative_to, trees)):
        yield path


def _installation(prefix: Path, *, guarded: bool) -> Iterator[Path]:
    if guarded:
        # `pip install --user` puts libraries beside everything else that a person has there.
        yield from (one for one in prefix.glob("lib/python3*/site-packages") if one.is_dir())
    elif (prefix / "pyvenv.cfg").is_file():
        yield prefix
    elif (prefix / "lib").is_dir():
        yield prefix / "bin"
        yield from (prefix / name for name in _LIBRARIES if (prefix / name).is_dir())


def _linked(prefix: Path) -> Iterator[Path]:
    """Libraries that an installation of Python takes from elsewhere, as `pip install -e` leaves them."""
    for file in prefix.glob("lib/python3*/site-packages/*.pth"):
        try:
            lines = file.read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        yield from (Path(line) for line in lines if line.startswith("/") and Path(line).is_dir())


def _steps_to(path: Path) -> Iterator[Path]:
    """The path, every link on the way, and the file in the end."""
    for _ in range(_MAX_LINKS):
        yield path
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
    yield path.resolve()


def _interpreter(script: Path, program: Program) -> str | None:
    """What runs a script, by its first line; `env` names a program that is looked up."""
    try:
        with script.open("rb") as file:
            first = file.readline(_MAX_FIRST_LINE)
    except OSError:
        return None
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    if not words:
        return None
    if Path(words[0]).name != "env":
        return words[0]
    named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return located(replace(program, command=named[0])) if named else None
