"""Edits the configuration's text and keeps the comments and style around the change."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from openclaw.config.json5 import Document, KeyPath, Node, format_path, parse, skip_blank
from openclaw.config.load import parse_config, read_text
from openclaw.config.paths import (
    locked,
    private_directory,
    state_dir,
    target_of,
    write_atomically,
)
from openclaw.core.errors import InvalidRequest

if TYPE_CHECKING:
    from openclaw.config.load import LoadedConfig

_BARE_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_INDENT = re.compile(r"[ \t]*")
_REST_OF_LINE = re.compile(r"(?:[ \t]|/\*[^\n\r]*?\*/)*(?://[^\n\r]*)?")
_LINE_END = re.compile(r"\r\n|\n|\r")


def set_value(text: str, path: KeyPath, value: Any) -> str:
    """The text with `value` at `path`; missing objects on the way are created."""
    document = parse(text)
    if document.root.end == 0:  # an empty file, or nothing but comments
        text = f"{text.rstrip()}\n{{}}\n" if text.strip() else "{}\n"
        document = parse(text)
    existing = document.find(path)
    style = _Style.of(document, path)
    if existing is not None:
        indent = _indent_at(text, existing.start)
        return _splice(text, existing.start, existing.end, style.render(value, indent))
    depth = next(n for n in range(len(path), -1, -1) if document.find(path[:n]) is not None)
    container = cast("Node", document.find(path[:depth]))
    for part in reversed(path[depth + 1 :]):
        if not isinstance(part, str):
            raise InvalidRequest("there is no such list", field=format_path(path))
        value = {part: value}
    return _insert(text, container, path[: depth + 1], value, style)


def append_value(text: str, path: KeyPath, value: Any) -> str:
    found = parse(text).find(path)
    if found is None or found.kind != "array":
        return set_value(text, path, [value])
    if value in found.plain():
        return text
    return set_value(text, (*path, len(found.items)), value)


def delete_value(text: str, path: KeyPath) -> str:
    document = parse(text)
    container = document.find(path[:-1]) if path else None
    if container is None or document.find(path) is None:
        return text
    entries = _entries(container)
    last = path[-1]
    index = last if isinstance(last, int) else list(container.members).index(last)
    start, end = entries[index]
    comma = skip_blank(text, end)
    if text.startswith(",", comma):
        return _cut(text, start, comma + 1)
    if index > 0:  # the last one, without a trailing comma: the one before it loses its comma
        before = skip_blank(text, entries[index - 1][1])
        return _cut(text, start, end, comma=before)
    return _cut(text, start, end)


@dataclass(frozen=True, slots=True)
class _Style:
    step: str
    quoted: bool
    newline: str

    @classmethod
    def of(cls, document: Document, path: KeyPath) -> "_Style":
        text = document.text
        nearest = next(
            (
                node
                for length in range(len(path), -1, -1)
                if (node := document.find(path[:length])) is not None and node.members
            ),
            None,
        )
        quoted = True
        if nearest is not None:
            first = next(iter(nearest.members.values()))
            quoted = text[first.key_start] in "\"'"
        newline = _LINE_END.search(text)
        return cls(_step(document), quoted, newline[0] if newline else "\n")

    def key(self, name: str) -> str:
        if self.quoted or not _BARE_KEY.fullmatch(name):
            return json.dumps(name, ensure_ascii=False)
        return name

    def render(self, value: Any, indent: str | None = None) -> str:
        """The value as text, on one line without an `indent`."""
        inner = None if indent is None else indent + self.step
        if isinstance(value, Mapping) and value:
            members = cast("Mapping[str, Any]", value)
            pieces = [f"{self.key(k)}: {self.render(child, inner)}" for k, child in members.items()]
            return (
                self._block(pieces, indent) if indent is not None else f"{{ {', '.join(pieces)} }}"
            )
        if isinstance(value, list | tuple):
            items = cast("Sequence[Any]", value)
            plain = not any(isinstance(item, Mapping | list | tuple) for item in items)
            pieces = [self.render(item, None if plain else inner) for item in items]
            if indent is None or plain:
                return f"[{', '.join(pieces)}]"
            return self._block(pieces, indent, "[]")
        return json.dumps(value, ensure_ascii=False, allow_nan=False)

    def _block(self, lines: list[str], indent: str, brackets: str = "{}") -> str:
        inner = self.newline + indent + self.step
        return brackets[0] + inner + f",{inner}".join(lines) + self.newline + indent + brackets[1]


def _step(document: Document) -> str:
    for member in document.root.members.values():
        indent = _indent_at(document.text, member.key_start)
        line_start = member.key_start - len(indent)
        if indent and document.text[line_start : member.key_start] == indent:
            return indent
    return "  "


def _indent_at(text: str, offset: int) -> str:
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    match = _INDENT.match(text, start)
    return match[0] if match else ""


def _splice(text: str, start: int, end: int, piece: str) -> str:
    return text[:start] + piece + text[end:]


def _entries(container: Node) -> list[tuple[int, int]]:
    if container.kind == "array":
        return [(item.start, item.end) for item in container.items]
    return [(member.key_start, member.end) for member in container.members.values()]


def _insert(text: str, container: Node, path: KeyPath, value: Any, style: _Style) -> str:
    part = path[-1]
    if isinstance(part, str) and container.kind == "object":
        prefix = f"{style.key(part)}: "
    elif part == len(container.items) and container.kind == "array":
        prefix = ""
    else:
        raise InvalidRequest(
            f"is {'a list' if container.kind == 'array' else 'not an object'}; nothing can be added",
            field=format_path(path[:-1]),
        )
    entries = _entries(container)
    if not entries:
        return _insert_first(text, container, prefix, value, style)
    first, last_end = entries[0][0], entries[-1][1]
    own_line = _LINE_END.search(text, container.start, first) is not None
    indent = _indent_at(text, first) if own_line else None
    gap = " " if indent is None else style.newline + indent
    comma = skip_blank(text, last_end)
    trailing = text.startswith(",", comma)
    if not trailing:
        text = _splice(text, last_end, last_end, ",")
    after = comma + 1 if trailing else last_end + 1
    place = _end_of_line(text, after) if own_line else after
    piece = gap + prefix + style.render(value, indent) + ("," if trailing else "")
    return _splice(text, place, place, piece)


def _end_of_line(text: str, after: int) -> int:
    """After a comment on this line, unless something else is there."""
    rest = _REST_OF_LINE.match(text, after)
    end = rest.end() if rest else after
    return end if _LINE_END.match(text, end) else after


def _insert_first(text: str, container: Node, prefix: str, value: Any, style: _Style) -> str:
    outer = _indent_at(text, container.start)
    inner = outer + style.step
    close = container.end - 1
    comments = text[container.start + 1 : close].rstrip()
    piece = style.newline + inner + prefix + style.render(value, inner) + style.newline + outer
    return _splice(text, container.start + 1, close, comments + piece)


def _cut(text: str, start: int, end: int, *, comma: int | None = None) -> str:
    """Remove a range, and the whole line if nothing but a comment is left on it."""
    line_start = start - len(_indent_at(text, start))
    own_line = line_start == 0 or text[line_start - 1] in "\n\r"
    rest = _REST_OF_LINE.match(text, end)
    end_of_line = _LINE_END.match(text, rest.end() if rest else end)
    if own_line and end_of_line and text[line_start:start].strip() == "":
        start, end = line_start, end_of_line.end()
    else:
        blanks = _INDENT.match(text, end)
        end = blanks.end() if blanks and comma is None else end
    before = text[:start]
    if comma is not None:
        before = before[:comma] + before[comma + 1 :]
        before = before if own_line else before.rstrip(" \t")
    return before + text[end:]


def edit_config(
    path: Path, environ: Mapping[str, str], change: Callable[[str], str]
) -> "LoadedConfig":
    """Write the file's text as changed by `change`; if it is invalid, only raise InvalidConfig."""
    if path.parent == state_dir(environ):
        private_directory(path.parent)
    target = target_of(path)
    with locked(target):
        before = read_text(target) or ""
        after = change(before)
        after += "" if after.endswith("\n") or after == before else "\n"
        loaded = parse_config(after, environ, source=path)
        if after != before:
            write_atomically(target, after)
    return loaded
