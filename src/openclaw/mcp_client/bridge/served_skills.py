"""Skills that servers serve (SEP-2640): which they say there are, and whether a file is as they said.

They stay a server's words: named in a frame, read through the server's reader, framed again.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pybase64

EXTENSION = "io.modelcontextprotocol/skills"
MOST_SKILLS = 64
_MOST_FILES = 512
_MOST_BYTES = 16 * 1024 * 1024
_FILE = "/SKILL.md"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DESCRIPTION = 300


@dataclass(frozen=True, slots=True)
class ServedSkill:
    """A skill; `files` has the digest and size of each file, or is None where they are made on demand."""

    uri: str
    name: str
    description: str
    files: Mapping[str, tuple[str, int]] | None

    @property
    def root(self) -> str:
        return self.uri.removesuffix("SKILL.md")


def served_skills(entries: object) -> list[ServedSkill]:
    """The entries that are as the extension wants them; others are left out."""
    items = cast("list[object]", entries) if isinstance(entries, list) else []
    found = [_skill(cast("Mapping[str, Any]", one)) for one in items if isinstance(one, dict)]
    return [one for one in found if one is not None]


def _skill(entry: Mapping[str, Any]) -> ServedSkill | None:
    uri, matter = entry.get("uri"), entry.get("frontmatter")
    if not isinstance(uri, str) or not isinstance(matter, dict):
        return None
    fields = cast("Mapping[str, Any]", matter)
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not isinstance(description, str) or not _NAME.fullmatch(name):
        return None
    if not uri.endswith((f"/{name}{_FILE}", f"//{name}{_FILE}")):
        return None
    resources = entry.get("resources")
    files = None if resources == "dynamic" else _files(resources, uri)
    if files is None and resources != "dynamic":
        return None
    return ServedSkill(uri, name, " ".join(description.split())[:_DESCRIPTION], files)


def _files(resources: object, uri: str) -> dict[str, tuple[str, int]] | None:
    items = cast("list[object]", resources) if isinstance(resources, list) else []
    files: dict[str, tuple[str, int]] = {}
    for one in items:
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", one) if type(one) is dict else {}
        place, digest, size = fields.get("uri"), fields.get("digest"), fields.get("size")
        if (
            not isinstance(place, str)
            or not isinstance(digest, str)
            or type(size) is not int
            or not place.startswith(uri.removesuffix("SKILL.md"))
            or not _DIGEST.fullmatch(digest)
        ):
            return None
        files[place] = (digest, size)
    fits = len(files) <= _MOST_FILES and sum(size for _, size in files.values()) <= _MOST_BYTES
    return files if uri in files and fits else None


def owner(skills: Iterable[ServedSkill], uri: str) -> ServedSkill | None:
    """The skill that this is a file of: the innermost, as skills may be inside others."""
    inside = [one for one in skills if uri.startswith(one.root)]
    return max(inside, key=lambda one: len(one.root), default=None)


def mismatch(skills: Sequence[ServedSkill], uri: str, contents: Sequence[object]) -> str | None:
    """Why this is not the file that the server's list of skills names; None where it is, or is none."""
    skill = owner(skills, uri)
    if skill is None or skill.files is None:
        return None
    listed = skill.files.get(uri)
    if listed is None:
        return f"the skill '{skill.name}' does not list this file"
    data = _bytes(contents)
    if data is None or len(data) != listed[1]:
        return f"its size is not the one that the skill '{skill.name}' lists"
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != listed[0]:
        return f"its digest is not the one that the skill '{skill.name}' lists"
    return None


def _bytes(contents: Sequence[object]) -> bytes | None:
    if len(contents) != 1 or not isinstance(contents[0], dict):
        return None
    fields = cast("Mapping[str, Any]", contents[0])
    text, blob = fields.get("text"), fields.get("blob")
    if isinstance(text, str):
        return text.encode(errors="surrogatepass")
    try:
        return pybase64.b64decode(blob, validate=True) if isinstance(blob, str) else None
    except ValueError:
        return None
