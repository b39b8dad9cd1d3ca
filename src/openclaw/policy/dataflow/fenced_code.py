"""Which lines of a Markdown text are fenced code, decided line by line by a CommonMark parser."""

import re
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

LineKind = Literal["text", "opening", "code", "closing"]

# What may precede a fence on its line: quote marks, list markers, spaces.
PREFIX = r"(?:[ \t>]|[*+-](?=[ \t])|\d{1,9}[.)](?=[ \t]))*"
_FENCE = re.compile(rf"{PREFIX}(?:`{{3,}}[^`]*|~{{3,}}.*)\Z", re.DOTALL)
_MARKS = re.compile(rf"{PREFIX}(?:`{{3,}}|~{{3,}})")
_PREFIX = re.compile(PREFIX)
_BARE_MARKERS = re.compile(r"[ \t>]*(?:[*+-]|\d{1,9}[.)])[ \t>*+.)\d-]*")
_MOST_LINES = 8
_LONGEST_LINE = 500
_LONGEST_PREFIX = 200
# The parser may read a text this many times over before code in lists and quotes is not
# recognised any more, so that no text takes more than linear time.
_READ_AGAIN = 40
_READ_AT_LEAST = 200_000

_BLOCKS = (
    "code",
    "fence",
    "blockquote",
    "hr",
    "list",
    "heading",
    "lheading",
    "html_block",
    "table",
)


def looks_like_fence(line: str) -> bool:
    return _FENCE.match(line) is not None


def closing_of(opening: str) -> str:
    """The line that closes the code that this one opens, in the same quotes and list items."""
    marks = _MARKS.match(opening)
    return re.sub(r"[^\s>`~]", " ", marks.group()) if marks else ""


class FencedCode:
    """Follows a text. `kind` says what a line would be, `add` appends it.

    Only the lines that decide about the next one are remembered: those of the last block, without
    the code in it.
    """

    def __init__(self) -> None:
        parser = MarkdownIt("zero", {"html": True, "maxNesting": 60}).enable(list(_BLOCKS))
        self._blocks = parser.block
        self._parser = parser
        self._lines: list[str] = []
        self._blank_before = True
        self._seen = 0
        self._read = 0
        self.is_open = False
        self._level = 0  # of the fence that was last seen
        self._nested = False
        self.exhausted = False

    def kind(self, line: str) -> LineKind:
        """What this line is, given as far as its first character that is no marker, or whole."""
        if not self.is_open and not looks_like_fence(line):
            return "text"
        if self.is_open and (not line.strip(" \t") or not (self._nested or _MARKS.match(line))):
            return "code"
        if self._is_too_deep(line):
            return "text"
        if not line.strip(" \t>"):
            line += " x"  # the parser leaves blank lines at the end out
        fence = _covering_fence(self._parse(line), len(self._lines))
        if fence is None or fence.map is None:
            return "text"
        self._level = fence.level
        if fence.map[0] == len(self._lines):
            return "opening"
        return "closing" if _is_closed(fence) else "code"

    def is_ambiguous(self, line: str) -> bool:
        """Whether renderers disagree about what contains the fence that was last seen."""
        if self._level == 0:
            return bool(self._lines) and line[:1] in (" ", "\t")
        return any(_BARE_MARKERS.fullmatch(earlier) for earlier in self._lines)

    def contains(self, line: str) -> bool:
        """Whether the code that is open goes on after this line of it."""
        return self.is_open and (not self._nested or bool(line.strip(" \t")))

    def add(self, line: str, kind: LineKind) -> None:
        self._seen += len(line) + 1
        if self.exhausted:
            return
        if kind == "code":
            if self._nested and not line.strip(" \t") and self._lines[-1].strip(" \t"):
                self._lines.append("")  # it ends a quote, and with it the code in it
            return
        if kind == "text" and self._blank_before and line[:1] not in ("", " ", "\t", ">"):
            self._lines.clear()  # nothing that began earlier contains this line
            self._nested = False
        self._blank_before = not line.strip(" \t")
        self._nested = self._nested or (kind == "opening" and self._level > 0)
        self.is_open = kind == "opening"
        self._lines.append(self._remembered(line))
        if len(self._lines) > _MOST_LINES and not self._blank_before:
            self._forget()

    def _is_too_deep(self, line: str) -> bool:
        prefix = _PREFIX.match(line)
        self.exhausted = self.exhausted or (prefix is not None and prefix.end() > _LONGEST_PREFIX)
        return self.exhausted

    def _remembered(self, line: str) -> str:
        """Of a long line, no more than what decides about the next ones."""
        if len(line) <= _LONGEST_LINE or self._is_too_deep(line):
            return line[:_LONGEST_LINE]
        prefix = _MARKS.match(line) if looks_like_fence(line) else _PREFIX.match(line)
        return f"{prefix.group() if prefix else ''}x"

    def _parse(self, *line: str) -> list[Token]:
        source = "\n".join((*self._lines, *line, ""))
        self._read += len(source)
        self.exhausted |= self._read > _READ_AGAIN * self._seen + _READ_AT_LEAST
        tokens: list[Token] = []
        self._blocks.parse(source, self._parser, {}, tokens)
        return tokens

    def _forget(self) -> None:
        """Keep only where open containers and the last block begin, if nothing changes by that."""
        last = len(self._lines) - 1
        tokens = self._parse()
        begins = {token.map[0] for token in tokens if token.map and token.map[1] > last}
        kept = [self._lines[index] for index in sorted(begins - {last})]
        shortened = [re.sub(rf"\A({PREFIX}).+", r"\1x", line) for line in kept]
        before, whole = _last_block(tokens, last), self._lines
        for lines in (shortened, kept):
            self._lines = [*lines, whole[last]]
            if _last_block(self._parse(), len(lines)) == before:
                return
        self._lines = whole


def _covering_fence(tokens: list[Token], line: int) -> Token | None:
    for token in reversed(tokens):
        if token.type == "fence" and token.map is not None and token.map[1] > line:
            return token
    return None


def _is_closed(fence: Token) -> bool:
    begin, end = fence.map or (0, 0)
    return fence.content.count("\n") < end - begin - 1


def _last_block(tokens: list[Token], last: int) -> list[tuple[str, int]]:
    """The last line's block and what contains it."""
    covering = (token for token in tokens if token.map is not None and token.map[1] > last)
    return [(token.type, token.level) for token in covering]
