"""Key paths: what a problem, an edit or a person calls a place in the configuration."""

import json
import re
from collections.abc import Sequence

KeyPath = tuple[str | int, ...]

_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_PIECE = re.compile(
    r"""\.?(?P<name>[A-Za-z_$][A-Za-z0-9_$-]*)|\[(?P<index>[0-9]{1,9})\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]"""
)


def format_path(path: Sequence[str | int]) -> str:
    """As in `agents.list[0].mcp.servers.time`; a name that is no plain word stands in `["…"]`."""
    pieces: list[str] = []
    for part in path:
        if isinstance(part, int):
            pieces.append(f"[{part}]")
        elif _PLAIN.fullmatch(part):
            pieces.append(f".{part}" if pieces else part)
        else:
            pieces.append(f"[{quoted(part)}]")
    return "".join(pieces)


def quoted(name: str) -> str:
    """In double quotes, with what a terminal would not show as itself written as `\\uXXXX`."""
    text = json.dumps(name, ensure_ascii=False)
    return "".join(
        character
        if character.isprintable() or ord(character) > 0xFFFF
        else f"\\u{ord(character):04x}"
        for character in text
    )


def parse_path(text: str) -> KeyPath:
    """The reverse of `format_path`; raises ValueError where it is none."""
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        match = _PIECE.match(text, position)
        if match is None or (position > 0 and match["name"] and text[position] != "."):
            raise ValueError(f"not a key path: {text!r}")
        if match["index"] is not None:
            parts.append(int(match["index"]))
        elif match["quoted"] is not None:
            parts.append(json.loads(match["quoted"]))
        else:
            parts.append(match["name"])
        position = match.end()
    return tuple(parts)
