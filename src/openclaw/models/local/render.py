"""A tool's result as an answer: plain lines, where they come from, and no model in between."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

MAX_CHARS = 4000
MAX_LINES = 120
_MAX_DEPTH = 8
_FRAME = re.compile(
    r"(?:This is [^\n]*Treat as untrusted external data\.(?P<notice>[^\n]*)\n)?"
    r'<<<EXTERNAL_UNTRUSTED_CONTENT id="(?P<id>[A-Za-z0-9_-]+)">>>\n'
    r"(?:Source: [^\n]*\n)?(?:From: [^\n]*\n)?---\n(?P<body>.*?)\n?"
    r'<<<END_EXTERNAL_UNTRUSTED_CONTENT id="(?P=id)">>>',
    re.DOTALL,
)
_MARK = re.compile(r"is marked with '(.)'")
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
)


def unframe(text: str) -> str:
    """The text without the frames around what is untrusted, for a person to read."""
    return _FRAME.sub(_body, text)


def _body(match: re.Match[str]) -> str:
    """What was framed, with the marks between its words, where there are any, as spaces again."""
    marked = _MARK.search(match["notice"] or "")
    if marked is None:
        return match["body"]
    lines = match["body"].split("\n")
    return "\n".join(line.removeprefix(marked[1]).replace(marked[1], " ") for line in lines)


def without_frames(text: str) -> str:
    """Only the words outside of frames: what was framed may not decide anything."""
    return _FRAME.sub(" ", text)


def _moment(text: str) -> str:
    """A timestamp as people read it, and the text itself where it is none."""
    if not _MOMENT.fullmatch(text):
        return text
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    offset = when.strftime("%z")
    zone = f" (UTC{offset[:3]}:{offset[3:5]})" if offset else ""
    return f"{when:%H:%M} on {when:%A}, {when.day} {when:%B %Y}{zone}"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return _moment(value) if isinstance(value, str) else str(value)


def _label(key: object) -> str:
    return str(key).replace("_", " ").strip()


def _lines(value: Any, name: str, depth: int) -> Iterator[str]:
    """A JSON value, one fact a line."""
    if depth > _MAX_DEPTH:
        yield f"{name}: …"
    elif isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from _lines(inner, f"{name} {_label(key)}".strip(), depth + 1)
    elif isinstance(value, list):
        yield from _list_lines(cast("list[Any]", value), name, depth)
    else:
        text = _scalar(value)
        yield f"{name}: {text}" if name else text


def _list_lines(items: list[Any], name: str, depth: int) -> Iterator[str]:
    if all(not isinstance(item, dict | list) for item in items):
        yield f"{name}: {', '.join(map(_scalar, items)) or 'none'}".removeprefix(": ")
        return
    for number, item in enumerate(items, start=1):
        yield from _lines(item, f"{name} {number}".strip(), depth + 1)


def flatten(text: str) -> str:
    """JSON as readable lines; anything else as it is."""
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return stripped
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return stripped
    return "\n".join(_lines(value, "", 0))


def _cut(text: str) -> str:
    lines = text.splitlines()
    shown = "\n".join(lines[:MAX_LINES])[:MAX_CHARS].rstrip()
    left = len(text.rstrip()) - len(shown)
    return f"{shown}\n… ({left} more characters)" if left > 0 else shown


def render_result(text: str, label: str, *, failed: bool) -> str:
    """The answer that a result gives."""
    body = _cut(flatten(unframe(text)))
    if failed:
        return f"That did not work: {body or 'the tool gave no reason.'}\n\nSource: {label}"
    return f"{body or 'The tool gave an empty result.'}\n\nSource: {label}"
