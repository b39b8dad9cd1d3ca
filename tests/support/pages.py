"""The documentation as tests read it: pages, their fenced blocks, links and anchors.

A block's language says what is done with it; a comment on the line above it, `<!-- doc: … -->`, says
what is particular about it. CONTRIBUTING.md has the table.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,}|~{3,})(?P<language>[\w+-]*)[^`]*$")
_DIRECTIVES = re.compile(r"^ *<!-- doc: (?P<said>.+?) -->\s*$")
_HEADING = re.compile(r"^#{1,6} +(?P<title>.+?)\s*#*$")
_LINK = re.compile(
    r"(?<!\\)\]\((?P<target>[^)\s]+)(?: \"[^\"]*\")?\)|(?:src|href)=\"(?P<raw>[^\"]+)\""
)
_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
KNOWN_DIRECTIVES = frozenset({"skip", "file", "at", "serve", "exit", "needs", "checkout"})


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it starts, its language, its text, and what is particular about it."""

    line: int
    language: str
    text: str
    directives: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Page:
    """A Markdown file in its parts; `prose` is what stands outside blocks and code spans."""

    path: Path
    blocks: tuple[Block, ...]
    prose: str
    anchors: frozenset[str]

    def links(self) -> Iterator[str]:
        """What the page links to, as it is written."""
        for found in _LINK.finditer(self.prose):
            yield found["target"] or found["raw"]


def read_page(path: Path) -> Page:
    """Take a page apart. Raises ValueError for a directive that means nothing, or an open fence."""
    blocks: list[Block] = []
    prose: list[str] = []
    lines = iter(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    directives: dict[str, str] = {}
    for number, line in lines:
        if fence := _FENCE.match(line):
            text = _body(lines, fence, f"{path}:{number}")
            blocks.append(Block(number, fence["language"], text, directives))
            directives = {}
        elif said := _DIRECTIVES.match(line):
            directives = _read_directives(said["said"], f"{path}:{number}")
        else:
            prose.append(line)
    return Page(path, tuple(blocks), _CODE_SPAN.sub("", "\n".join(prose)), _anchors(prose))


def _body(lines: Iterator[tuple[int, str]], fence: re.Match[str], where: str) -> str:
    body: list[str] = []
    for _, line in lines:
        if line.strip().startswith(fence["marks"]) and not line.strip(" `~"):
            return "\n".join(body)
        body.append(line.removeprefix(fence["indent"]))
    raise ValueError(f"{where}: the block is not closed")


def _read_directives(said: str, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for directive in said.split(";"):
        name, _, argument = directive.strip().partition(" ")
        if name not in KNOWN_DIRECTIVES:
            raise ValueError(f"{where}: there is no directive {name!r}")
        found[name] = argument.strip()
    return found


def _anchors(prose: list[str]) -> frozenset[str]:
    anchors: set[str] = set()
    for line in prose:
        if heading := _HEADING.match(line):
            anchor = _anchor(heading["title"])
            number = 0
            while (name := f"{anchor}-{number}" if number else anchor) in anchors:
                number += 1
            anchors.add(name)
        anchors.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
    return frozenset(anchors)


def _anchor(title: str) -> str:
    """The anchor that a heading gets: lower case, no punctuation, hyphens for spaces."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).casefold()
    kept = (c for c in plain if c in "-_ " or unicodedata.category(c)[0] in "LMN")
    return "".join(kept).strip().replace(" ", "-")


def matches(expected: str, actual: str) -> bool:
    """Whether this is the output that a page shows.

    `…` stands for anything within a line, and alone on its line for any number of lines. Spaces at
    the ends of lines do not count.
    """
    pattern = ""
    for line in expected.strip().splitlines():
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += r"[^\n]*".join(re.escape(part) for part in line.rstrip().split("…")) + r"\n"
    plain = "".join(f"{line.rstrip()}\n" for line in actual.strip().splitlines())
    return re.fullmatch(pattern, plain) is not None
