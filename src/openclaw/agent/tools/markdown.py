"""HTML to Markdown, within bounds that hold for any page.

The converter holds the interpreter's lock while it recurses, so a page that is deeper or larger
than a sensible one is first cut down to its words.
"""

import re
from html.parser import HTMLParser

import anyio.to_thread

MAX_HTML_CHARS = 1_000_000
MAX_DEPTH = 200
_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "head")
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "br",
        "dd",
        "div",
        "dl",
        "dt",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "td",
        "th",
        "tr",
        "ul",
    ]
)
_VOID = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "track",
        "wbr",
    ]
)
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")


async def as_markdown(html: str) -> str:
    """The page's content as Markdown, made in a thread."""
    return await anyio.to_thread.run_sync(convert, html, abandon_on_cancel=True)


def convert(html: str) -> str:
    """The page's content as Markdown, or as plain words where its structure is out of bounds."""
    words = _Words()
    words.feed(html[:MAX_HTML_CHARS])
    words.close()
    title = f"# {words.title}\n\n" if words.title else ""
    if words.deepest > MAX_DEPTH or len(html) > MAX_HTML_CHARS:
        return title + _tidy(words.text)
    from markdownify import markdownify

    try:
        body: str = markdownify(html, heading_style="ATX", strip=["img"], bullets="-")
    except RecursionError:
        body = words.text
    return title + _tidy(body)


def _tidy(text: str) -> str:
    return _BLANK_LINES.sub("\n\n", text).strip()


class _Words(HTMLParser):
    """The words, the title, and how deep the elements nest."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.deepest = 0
        self._depth = 0
        self._dropped = 0
        self._in_title = False
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """All words outside scripts and the like."""
        return "".join(self._pieces)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            self._pieces.append("\n" if tag in _BLOCKS else "")
            return
        self._depth += 1
        self.deepest = max(self.deepest, self._depth)
        self._in_title = tag == "title" and not self.title
        self._dropped += tag in _DROPPED
        if tag in _BLOCKS:
            self._pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._depth = max(0, self._depth - 1)
        self._in_title = False
        if tag in _DROPPED:
            self._dropped = max(0, self._dropped - 1)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = " ".join(data.split())[:300]
        elif not self._dropped:
            self._pieces.append(data)
