"""Skills from servers (SEP-2640): what they list, and whether a file matches the list.

They are untrusted: named in a frame, read through the server's reader, framed again.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import pybase64

from openclaw.core.tools import json_list, json_object
from openclaw.mcp_client.bridge.front_matter import parse_front_matter, same_fields

MOST_SKILLS = 64
_MOST_FILES = 512
_MOST_BYTES = 16 * 1024 * 1024
_FILE = "/SKILL.md"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DESCRIPTION = 300


class ServedSkill(NamedTuple):
    """A skill; `files` has each file's digest and size, or is None if they are made on demand.

    `front_matter` is what the head of its `SKILL.md` must say.
    """

    uri: str
    name: str
    description: str
    files: Mapping[str, tuple[str, int]] | None
    front_matter: Mapping[str, Any]

    @property
    def root(self) -> str:
        return self.uri.removesuffix("SKILL.md")


def served_skills(entries: object) -> list[ServedSkill]:
    """The entries that follow the extension; others are left out."""
    parsed = [_skill(json_object(skill)) for skill in json_list(entries)]
    return [skill for skill in parsed if skill is not None]


def _skill(entry: Mapping[str, Any]) -> ServedSkill | None:
    uri, matter = entry.get("uri"), entry.get("frontmatter")
    if not isinstance(uri, str) or not isinstance(matter, dict):
        return None
    fields = cast("Mapping[str, Any]", matter)
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not isinstance(description, str) or not _NAME.fullmatch(name):
        return None
    if not uri.endswith(f"/{name}{_FILE}"):
        return None
    resources = entry.get("resources")
    files = None if resources == "dynamic" else _files(resources, uri)
    if files is None and resources != "dynamic":
        return None
    short = " ".join(description.split())[:_DESCRIPTION]
    return ServedSkill(uri, name, short, files, fields)


def _files(resources: object, uri: str) -> dict[str, tuple[str, int]] | None:
    files: dict[str, tuple[str, int]] = {}
    for fields in map(json_object, json_list(resources)):
        file, digest, size = fields.get("uri"), fields.get("digest"), fields.get("size")
        if (
            not isinstance(file, str)
            or not isinstance(digest, str)
            or type(size) is not int
            or not file.startswith(uri.removesuffix("SKILL.md"))
            or not _DIGEST.fullmatch(digest)
        ):
            return None
        files[file] = (digest, size)
    fits = len(files) <= _MOST_FILES and sum(size for _, size in files.values()) <= _MOST_BYTES
    return files if uri in files and fits else None


def owner(skills: Iterable[ServedSkill], uri: str) -> ServedSkill | None:
    """The skill that this file belongs to: the innermost, as skills may be nested."""
    inside = [skill for skill in skills if uri.startswith(skill.root)]
    return max(inside, key=lambda skill: len(skill.root), default=None)


def mismatch(skills: Sequence[ServedSkill], uri: str, contents: Sequence[object]) -> str | None:
    """Why this file doesn't match the server's list; None if it does, or isn't part of a skill."""
    skill = owner(skills, uri)
    if skill is None:
        return None
    data = _bytes(contents)
    if skill.files is not None:
        listed = skill.files.get(uri)
        if listed is None:
            return f"the skill '{skill.name}' does not list this file"
        if data is None or len(data) != listed[1]:
            return f"its size is not the one that the skill '{skill.name}' lists"
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != listed[0]:
            return f"its digest is not the one that the skill '{skill.name}' lists"
    if uri == skill.uri and not _says_what_is_listed(skill, data):
        return f"its front matter is not the one that the skill '{skill.name}' lists"
    return None


def _says_what_is_listed(skill: ServedSkill, data: bytes | None) -> bool:
    front_matter = None if data is None else parse_front_matter(data)
    return front_matter is not None and same_fields(skill.front_matter, front_matter)


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
