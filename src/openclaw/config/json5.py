"""A JSON5 reader that takes linear time and knows the position of every key and value.

After an error it continues if it is clear what follows, to show as many errors as possible at once.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, NoReturn

from openclaw.core.errors import InvalidConfig, Problem

KeyPath = tuple[str | int, ...]

_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_PIECE = re.compile(
    r"""\.?(?P<name>[A-Za-z_$][A-Za-z0-9_$-]*)|\[(?P<index>0|[1-9][0-9]{0,8})\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]"""
)


def format_path(path: Sequence[str | int]) -> str:
    """As in `agents.list[0].mcp.servers.time`; a name that isn't a plain word is written as `["…"]`."""
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
    """In double quotes, with unprintable characters written as `\\uXXXX`."""
    text = json.dumps(name, ensure_ascii=False)
    return "".join(
        character
        if character.isprintable() or ord(character) > 0xFFFF
        else f"\\u{ord(character):04x}"
        for character in text
    )


def parse_path(text: str) -> KeyPath:
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        match = _PIECE.match(text, position)
        if match is None or (position > 0 and match["name"] and text[position] != "."):
            raise ValueError(f"not a key path: {text!r}")
        literal = match["index"] or match["quoted"]
        parts.append(json.loads(literal) if literal else match["name"])
        position = match.end()
    return tuple(parts)


MAX_DEPTH = 200
MAX_CHARACTERS = 10 * 1024 * 1024
MAX_NUMBER_LENGTH = 1000
BYTE_ORDER_MARK = "\ufeff"

Kind = Literal["object", "array", "string", "number", "boolean", "null"]

_BLANK = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_SKIP = re.compile(rf"(?:[{_BLANK}]+|//[^\n\r\u2028\u2029]*|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/)*")
_NAME = re.compile(r"(?![0-9])(?:[\w$\u200c\u200d]|\\u[0-9a-fA-F]{4})+")
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|Infinity|NaN)"
)
_AFTER_NUMBER = re.compile(r"[\w$.:+-]")
_BARE_TEXT = re.compile(r"[^\s,\]}]*")
_TEXT = {quote: re.compile(rf"(?:[^{quote}\\\n\r]++|\\(?:\r\n|[\s\S]))*+") for quote in "\"'"}
_ESCAPE = re.compile(
    r"\\(?:(?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|x(?P<byte>[0-9a-fA-F]{2})|u(?P<unit>[0-9a-fA-F]{4})|(?P<other>\r\n|[\s\S]))"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_WORDS: dict[str, tuple[Kind, bool | None]] = {
    "true": ("boolean", True),
    "false": ("boolean", False),
    "null": ("null", None),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(slots=True)
class Node:
    """A value and where it is. `key_start` is where its key is; negative if it has none."""

    kind: Kind
    start: int
    end: int = 0
    scalar: str | int | float | bool | None = None
    members: "dict[str, Node]" = field(default_factory=dict[str, "Node"])
    items: "list[Node]" = field(default_factory=list["Node"])
    key_start: int = -1

    def plain(self, change: "Callable[[str, KeyPath], str] | None" = None, at: KeyPath = ()) -> Any:
        """The value, with `change` applied to each text in it."""
        if self.kind == "object":
            return {key: one.plain(change, (*at, key)) for key, one in self.members.items()}
        if self.kind == "array":
            return [one.plain(change, (*at, index)) for index, one in enumerate(self.items)]
        if change is not None and isinstance(self.scalar, str):
            return change(self.scalar, at)
        return self.scalar

    def child(self, part: str | int) -> "Node | None":
        if isinstance(part, int):
            return self.items[part] if 0 <= part < len(self.items) else None
        return self.members.get(part)


class Lines:
    """Offsets into a text as line and column, both counted from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        self._mark = len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0

    def position(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        column = offset - self._starts[line - 1] + 1
        return line, column - self._mark if line == 1 and offset >= self._mark else column


@dataclass(frozen=True, slots=True)
class Document:
    text: str
    root: Node
    lines: Lines

    def find(self, path: Sequence[str | int]) -> Node | None:
        node: Node | None = self.root
        for part in path:
            node = node.child(part) if node else None
        return node

    def position(self, path: Sequence[str | int], *, of_key: bool = False) -> tuple[int, int]:
        """Where the value (or the key) at this path is, or else the nearest thing around it."""
        node = self.root
        for part in path:
            child = node.child(part)
            if child is None:
                return self.lines.position(node.start)
            node = child
        has_key = node.key_start >= 0
        return self.lines.position(node.key_start if of_key and has_key else node.start)


def parse(text: str) -> Document:
    """Read a JSON5 text. Raises InvalidConfig with every problem that could be found."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidConfig([Problem("", f"is larger than {MAX_CHARACTERS} characters")])
    parser = _Parser(text)
    with suppress(_StopReading):
        root = parser.document()
        if not parser.problems:
            return Document(text, root, parser.lines)
    raise InvalidConfig(parser.problems)


def skip_blank(text: str, offset: int) -> int:
    """The offset of the next character outside whitespace and comments."""
    match = _SKIP.match(text, offset)
    return match.end() if match else offset


class _StopReading(Exception):
    """Raised when what follows an error cannot be understood."""


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines = Lines(text)
        self.problems: list[Problem] = []
        self._path: list[str | int] = []

    def document(self) -> Node:
        self._skip()
        if self.at == len(self.text):  # nothing but comments: nothing is configured
            return Node("object", 0, 0)
        root = self._value()
        self._skip()
        if self.at < len(self.text):
            self._stop("expected the end of the file", self.at)
        return root

    def _report(self, message: str, offset: int) -> None:
        line, column = self.lines.position(offset)
        self.problems.append(Problem(format_path(self._path), message, line, column))

    def _stop(self, message: str, offset: int) -> NoReturn:
        self._report(message, offset)
        raise _StopReading

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self) -> None:
        self.at = skip_blank(self.text, self.at)
        if self.text.startswith("/*", self.at):
            self._stop("the comment that starts here is not closed with */", self.at)

    def _value(self) -> Node:
        start = self.at
        character = self._peek()
        if character == "{":
            return self._object(start)
        if character == "[":
            return self._array(start)
        if character and character in "\"'":
            return Node("string", start, scalar=self._string(), end=self.at)
        if character and character in "+-.0123456789IN":
            return self._number(start)
        return self._word(start)

    def _word(self, start: int) -> Node:
        match = _NAME.match(self.text, start)
        if match is None:
            what = "the end of the file" if start >= len(self.text) else repr(self._peek())
            self._stop(f"expected a value, not {what}", start)
        self.at = match.end()
        if match[0] in _WORDS:
            kind, scalar = _WORDS[match[0]]
            return Node(kind, start, self.at, scalar)
        self._bare_text("expected a value; text needs quotes", start)
        return Node("null", start, self.at)

    def _bare_text(self, message: str, start: int) -> None:
        """Report text without quotes, never showing it: it may be a credential."""
        self._report(message, start)
        rest = _BARE_TEXT.match(self.text, self.at)
        self.at = rest.end() if rest else self.at

    def _number(self, start: int) -> Node:
        match = _NUMBER.match(self.text, start)
        if match is None:
            return self._word(start)
        self.at = match.end()
        if _AFTER_NUMBER.match(self.text, self.at):
            self._bare_text("this is not a number; text needs quotes", start)
            return Node("number", start, self.at, 0)
        return Node("number", start, self.at, self._number_value(match[0], start))

    def _number_value(self, literal: str, start: int) -> int | float:
        if len(literal) > MAX_NUMBER_LENGTH:
            self._report(f"a number has at most {MAX_NUMBER_LENGTH} characters", start)
            return 0
        try:
            return int(literal, 0)
        except ValueError:  # it has a point or an exponent, or is a word
            value = float(literal)
        if isfinite(value):
            return value
        named = f"{literal} cannot be used in a configuration"
        self._report(named if literal[-1].isalpha() else "this number is too large", start)
        return 0

    def _string(self) -> str:
        quote, start = self._peek(), self.at
        match = _TEXT[quote].match(self.text, start + 1)
        assert match is not None  # it may be empty
        text = _ESCAPE.sub(lambda escape: self._unescaped(escape, start + 1), match[0])
        if not self.text.startswith(quote, match.end()):
            self._stop(f"the text that starts here is not closed with {quote}", start)
        self.at = match.end() + 1
        return text

    def _unescaped(self, escape: re.Match[str], offset: int) -> str:
        start = offset + escape.start()
        if escape["pair"]:
            return json.loads(f'"{escape[0]}"')
        digits, letter = escape["byte"] or escape["unit"], escape["other"]
        if digits:
            if 0xD800 <= int(digits, 16) < 0xE000:
                self._report("unpaired surrogate", start)
                return ""
            return chr(int(digits, 16))
        if letter in ("x", "u"):
            self._report(f"\\{letter} needs {2 if letter == 'x' else 4} hexadecimal digits", start)
            return ""
        if letter in ("\r\n", "\n", "\r", "\u2028", "\u2029"):
            return ""
        if letter.isascii() and letter.isdigit():
            if letter != "0" or escape.string[escape.end() : escape.end() + 1].isdigit():
                self._report("a backslash before a digit means nothing here", start)
            return "\0"
        return _ESCAPES.get(letter, letter)

    def _array(self, start: int) -> Node:
        node = Node("array", start)
        for _ in self._entries(start, "list", "]"):
            self._path.append(len(node.items))
            node.items.append(self._value())
            self._path.pop()
        node.end = self.at
        return node

    def _object(self, start: int) -> Node:
        node = Node("object", start)
        for key_start in self._entries(start, "object", "}"):
            key = self._key()
            self._path.append(key)
            self._skip()
            if self._peek() != ":":
                self._stop("expected ':' after the key", self.at)
            self.at += 1
            self._skip()
            value = self._value()
            value.key_start = key_start
            first = node.members.get(key)
            if first:
                line, column = self.lines.position(first.key_start)
                where = f"line {line}, column {column}"
                self._report(f"this key is given twice; the first is at {where}", key_start)
            node.members[key] = value
            self._path.pop()
        node.end = self.at
        return node

    def _key(self) -> str:
        character = self._peek()
        if character and character in "\"'":
            return self._string()
        match = _NAME.match(self.text, self.at)
        if match is None:
            self._stop(f"expected a key or '}}', not {character!r}", self.at)
        self.at = match.end()
        if self._peek() == "-":
            self._stop("a key with '-' in it needs quotes", match.start())
        name = re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), match[0])
        if _SURROGATE.search(name):
            self._stop("a key may not contain an unpaired surrogate", match.start())
        return name

    def _entries(self, opened: int, what: str, close: str) -> Iterator[int]:
        """The start of each entry, which the caller reads; afterwards `at` is past the bracket."""
        self.at = opened + 1
        if len(self._path) >= MAX_DEPTH:
            self._path.clear()
            self._stop(f"is nested more than {MAX_DEPTH} levels deep", opened)
        self._skip()
        while (character := self._peek()) != close:
            if not character:
                self._stop(f"the {what} that starts here is not closed with '{close}'", opened)
            yield self.at
            end_of_value = self.at
            self._skip()
            character = self._peek()
            if character == ",":
                self.at += 1
                self._skip()
            # This can only be the next entry: a comma is missing, and the rest is clear.
            elif character and (character in "\"'{[" or _NAME.match(self.text, self.at)):
                self._report("expected ',' after this", end_of_value)
            elif character and character != close:
                self._stop(f"expected ',' or '{close}', not {character!r}", self.at)
        self.at += 1
