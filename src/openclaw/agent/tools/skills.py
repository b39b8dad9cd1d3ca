"""`skill`: instructions in folders with a `SKILL.md`, read when they are needed."""

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from openclaw.agent.tools import base
from openclaw.agent.tools.base import Arguments, FunctionTool, quoted, said
from openclaw.agent.tools.workspace import Workspace
from openclaw.content.frame import WORKSPACE_FILE, frame
from openclaw.content.labels import single_line
from openclaw.core.errors import ToolFailure
from openclaw.core.tools import CallContext, ToolResult

logger = logging.getLogger(__name__)

GROUP = "openclaw.skills"  # an entry point names a package whose directory has skills
FILE = "SKILL.md"
MAX_BYTES = 256 * 1024
MOST_SKILLS = 64
_DESCRIPTION_CHARS = 300
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME_CHARS = 64
_FIELD = re.compile(r"([A-Za-z_-]+):\s*(.*)")


class Skill(NamedTuple):
    """A folder with a `SKILL.md`. A `foreign` one is in a place where others can write too."""

    name: str
    description: str
    folder: Path
    foreign: bool = False

    def digest(self) -> str:
        whole = hashlib.sha256()
        for path in sorted(p for p in self.folder.rglob("*") if p.is_file() and not p.is_symlink()):
            inner = hashlib.sha256(path.read_bytes()).hexdigest()
            whole.update(f"{path.relative_to(self.folder).as_posix()} {inner}\n".encode())
        return whole.hexdigest()


def read_skill(folder: Path) -> Skill:
    """The skill in this folder; raises `ToolFailure` that says what is wrong with it."""
    file = folder / FILE
    if file.is_symlink() or not file.is_file():
        raise ToolFailure(f"{folder} has no {FILE}")
    with file.open("rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ToolFailure(f"{file} is larger than {MAX_BYTES // 1024} KB")
    fields = _front_matter(data.decode(errors="replace"))
    name, description = fields.get("name", ""), fields.get("description", "")
    if not _NAME.fullmatch(name) or len(name) > _NAME_CHARS:
        raise ToolFailure(f"{file}: `name` must be lower-case letters, digits and hyphens")
    if not description:
        raise ToolFailure(f"{file}: `description` is missing")
    return Skill(name, single_line(description, _DESCRIPTION_CHARS), folder)


def _front_matter(text: str) -> dict[str, str]:
    """The plain fields between two lines of hyphens; indented lines continue a field."""
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    fields: dict[str, list[str]] = {}
    last = ""
    for line in lines[1:]:
        if line.strip() == "---":
            return {name: " ".join(filter(None, parts)) for name, parts in fields.items()}
        if line[:1].isspace() and last:
            fields[last].append(line.strip())
        elif found := _FIELD.fullmatch(line.strip()):
            last, value = found[1].lower(), found[2].strip()
            fields[last] = [] if value in (">", "|", ">-", "|-") else [value.strip("\"'")]
    return {}


def plugin_skills() -> list[Path]:
    """The directories of skills that installed packages offer."""
    places: list[Path] = []
    for point in base.plugins(GROUP):
        try:
            found = find_spec(point.value)
        except (ImportError, ValueError):
            found = None
        if found is not None and found.submodule_search_locations:
            places += map(Path, found.submodule_search_locations)
        else:
            problem = "the skills of plugin '%s' could not be found: %s"
            logger.warning(problem, point.name, point.value)
    return places


_SKILL = base.spec("skill", "Read a skill, or one of its files.", "name", name="", file="")


@dataclass(frozen=True, slots=True)
class Skills:
    """The `usable` skills in these places, then the `foreign` ones; the first with a name wins."""

    places: Sequence[Path]
    usable: Callable[[str], bool] = lambda name: True
    foreign: Path | None = None

    def found(self) -> Iterator[Skill]:
        seen: set[str] = set()
        for place in (*self.places, *([self.foreign] if self.foreign is not None else ())):
            for folder in sorted(place.iterdir()) if place.is_dir() else ():
                try:
                    skill = read_skill(folder)
                except (ToolFailure, OSError):
                    continue  # `openclaw skills list` says what is wrong with it
                if self.usable(skill.name) and skill.name not in seen and len(seen) < MOST_SKILLS:
                    seen.add(skill.name)
                    yield skill._replace(foreign=place not in self.places)

    def prompt(self) -> str:
        lines = [(one.foreign, f"- {one.name}: {one.description}") for one in self.found()]
        own = [line for foreign, line in lines if not foreign]
        theirs = [line for foreign, line in lines if foreign]
        if not own and not theirs:
            return ""
        head = "# Skills\n\nBefore you do something that one of these is about, read it with skill."
        if theirs:
            text = "\n".join(theirs)
            # The same at every turn, so that a provider's cache stays valid.
            ident = hashlib.sha256(text.encode()).hexdigest()
            own.append(frame(text, source=WORKSPACE_FILE, sender="skills", new_id=lambda: ident))
        return "\n".join([head, "", *own])

    def tool(self) -> FunctionTool:
        return FunctionTool(_SKILL, base.in_thread(self._read))

    def _read(self, arguments: Arguments, context: CallContext) -> ToolResult:
        name, file = arguments.text("name"), arguments.text("file", "")
        known = {one.name: one for one in self.found()}
        skill = known.get(name)
        if skill is None:
            names = ", ".join(known) or "none"
            raise ToolFailure(f"There is no skill '{name}'. There are: {names}.")
        with Workspace(skill.folder).open_file(file or FILE) as (opened, _, _):
            text = opened.read(MAX_BYTES).decode(errors="replace")
        if not file:
            others = [p for p in sorted(skill.folder.rglob("*")) if p.is_file() and p.name != FILE]
            names = [f"- {p.relative_to(skill.folder).as_posix()}" for p in others[:200]]
            listed = "\n".join(["", f"Its folder is {skill.folder}. Its other files:", *names])
            text += listed if names else ""
        if skill.foreign:
            return quoted(text, WORKSPACE_FILE, f"skills/{name}/{file or FILE}")
        return said(text)
