"""Skills: folders with a SKILL.md that tell the agent how to do something.

They are in `skills/` in the state directory, where add puts them, and in `skills/` in the
workspace, which the agent reads as untrusted text.
"""

import argparse
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from openclaw.agent.tools.skills import Skill, plugin_skills, read_skill
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_action, not_there, option
from openclaw.config.paths import private_directory
from openclaw.core.errors import InvalidRequest, ToolFailure

_MAX_BYTES = 64 * 1024 * 1024
_MOST_FILES = 2000


def register(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION")
    parser.set_defaults(action=_list, json=False)
    add_action(actions, "list", "list the skills with their digests (the default)", _list)
    added = add_action(actions, "add", "copy a skill from a folder or an archive", _add, json=False)
    option(added, "PATH", "a folder, .zip, .tar or .tar.gz", type=Path, dest="source")
    option(added, "--digest SHA256", "refuse it if its digest differs")
    summary = "remove a skill that you added"
    option(add_action(actions, "remove", summary, _remove, json=False), "NAME")


def _list(args: argparse.Namespace, env: Environment) -> None:
    found: list[Skill] = []
    for place in (Path.cwd() / "skills", env.paths.skills, *plugin_skills()):
        for folder in sorted(place.iterdir()) if place.is_dir() else ():
            try:
                found.append(read_skill(folder))
            except ToolFailure as wrong:
                env.warn(f"{env.program}: Warning: {wrong.message}")
    about = [(s.name, s.description, str(s.folder), s.digest()) for s in found]
    keys = ("name", "description", "path", "digest")
    facts = {"skills": [dict(zip(keys, one, strict=True)) for one in about]}
    lines = [f"{name}  {digest[:12]}  {path}\n    {text}" for name, text, path, digest in about]
    empty = f"No skills yet. Put one into skills/ here, or run: {env.program} skills add FOLDER"
    env.report(args, facts, *lines, empty=empty)


def _add(args: argparse.Namespace, env: Environment) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = unpacked(args.source, Path(temporary))
        try:
            skill = read_skill(folder)
        except ToolFailure as wrong:
            raise InvalidRequest(wrong.message, field="PATH") from None
        digest = skill.digest()
        if args.digest is not None and args.digest.lower() != digest:
            raise InvalidRequest(f"the skill's digest is {digest}", field="--digest")
        target = env.paths.skills / skill.name
        if target.exists():
            hint = f"remove it first: {env.program} skills remove {skill.name}"
            raise InvalidRequest(f"a skill '{skill.name}' already exists", hint=hint)
        private_directory(env.paths.skills)
        shutil.copytree(folder, target, symlinks=False, ignore=_links)
    env.say(f"Added {skill.name}, digest {digest}.")


def _links(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(directory) / name).is_symlink()]


# What the libraries raise for archives that are damaged or encrypted.
_DAMAGED = (
    *(OSError, EOFError, ValueError, RuntimeError, struct.error, zlib.error),
    *(tarfile.TarError, zipfile.BadZipFile),
)


def unpacked(source: Path, into: Path) -> Path:
    """The folder of a skill, or of an archive of one, which is unpacked; raises `InvalidRequest`."""
    if not source.exists():
        raise InvalidRequest(f"{source} does not exist", field="PATH")
    if not source.is_dir():
        try:
            _extract(source, into)
        except _DAMAGED as error:
            raise InvalidRequest(f"{source} cannot be unpacked: {error}", field="PATH") from None
        source = into
    inside = [one for one in source.iterdir() if one.is_dir()]
    lone = not (source / "SKILL.md").exists() and len(inside) == 1
    return inside[0] if lone else source


def _extract(archive: Path, into: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            _bound(one.file_size for one in packed.infolist())
            packed.extractall(into)  # noqa: S202 - it strips absolute paths and `..`
        return
    with tarfile.open(archive) as packed:
        _bound(one.size for one in packed)
        packed.extractall(into, filter="data")


def _bound(sizes: Iterable[int]) -> None:
    total = 0
    for count, size in enumerate(sizes, 1):
        total += size
        if count > _MOST_FILES or total > _MAX_BYTES:
            raise InvalidRequest("it is too large for a skill", field="PATH")


def _remove(args: argparse.Namespace, env: Environment) -> None:
    folder = env.paths.skills / args.name
    known = [one.name for one in env.paths.skills.iterdir()] if env.paths.skills.is_dir() else []
    if args.name not in known:
        raise not_there(f"you have not added a skill '{args.name}'", args.name, known)
    shutil.rmtree(folder)
    env.say(f"Removed {args.name}.")
