"""Renders Markdown as clients do, and collects the addresses that the result loads or links to."""

import json
import re
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import commonmark
import markdown
import mistune
from markdown_it import MarkdownIt

_ADDRESS_IN_TEXT = re.compile(r"(?:https?:)?//[^\s\"')]+|url\(", re.IGNORECASE)
_GFM = MarkdownIt("gfm-like", {"html": True, "linkify": False})
_MISTUNE = mistune.create_markdown(
    escape=False, plugins=["strikethrough", "footnotes", "table", "url", "task_lists", "math"]
)
_EXTENSIONS = ("extra", "sane_lists")

PYTHON: dict[str, Callable[[str], str]] = {
    "markdown-it-py": lambda text: str(_GFM.render(text)),
    "commonmark.py": lambda text: str(commonmark.commonmark(text)),
    "mistune": lambda text: str(_MISTUNE(text)),
    "python-markdown": lambda text: markdown.markdown(text, extensions=_EXTENSIONS),
}


@dataclass(frozen=True)
class Use:
    renderer: str
    tag: str
    address: str

    @property
    def loads(self) -> bool:
        return self.tag != "a"


class _Collector(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.uses: list[tuple[str, str]] = []
        self.code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href", "srcset", "data", "action", "formaction", "poster"):
                self.uses.append((tag, value or ""))
            elif value and name != "alt" and name != "title" and _ADDRESS_IN_TEXT.search(value):
                self.uses.append((f"{tag} {name}", value))
            elif re.fullmatch("on[a-z]+", name):
                self.uses.append((f"{tag} {name}", value or ""))


def uses_in(renderer: str, page: str) -> Iterator[Use]:
    collector = _Collector()
    collector.feed(page.replace("<![", "&lt;!["))  # a comment to browsers, an error to the parser
    collector.close()
    for tag, address in collector.uses:
        yield Use(renderer, tag, address)


@dataclass
class Renderers:
    node: "subprocess.Popen[str] | None"

    def uses(self, text: str) -> list[Use]:
        pages = {name: render(text) for name, render in PYTHON.items()}
        if self.node is not None and self.node.stdin and self.node.stdout:
            self.node.stdin.write(f"{json.dumps(text)}\n")
            self.node.stdin.flush()
            pages |= json.loads(self.node.stdout.readline())
        return [use for name, page in pages.items() for use in uses_in(name, page)]


@contextmanager
def renderers(node: Path | None = None, packages: Path | None = None) -> Generator[Renderers]:
    """All of them; without `packages`, those of Python alone."""
    if node is None or packages is None:
        yield Renderers(None)
        return
    script = Path(__file__).with_suffix(".mjs")
    with subprocess.Popen(
        [str(node), str(script)],
        cwd=packages,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Renderers(process)
        finally:
            process.kill()
