"""Disarms images, links and HTML in an answer if the user didn't give their address.

For answers only. Text on its way to the model is never altered.

Renderers disagree about what a link is; they agree about what a link needs: `](`, `]:`, a tag, or an
address in the open. Each of these is either recognised as a whole and allowed, or taken apart where
it stands, whatever surrounds it. Only in code everything stays as it is, so only there does it matter
how a renderer reads the text: a CommonMark parser decides which lines are fenced code, and a code
span counts only if every renderer must see it.
"""

import html
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote

from openclaw.policy.dataflow.fenced_code import FencedCode, LineKind, closing_of
from openclaw.policy.dataflow.text_values import comparable_url, host_of

# No construct is longer; a longer one is taken apart.
_LONGEST = 4_000

_LINE_END = re.compile(r"\r\n|\n|\r(?!\Z)")
_END_OF_LINE = re.compile(r"[\r\n]")
_MARKERS = re.compile(r"[ \t>*+.)\d-]*")
_NO_MARKER = re.compile(r"[^ \t>*+.)\d-]")
_FENCE_MARKS = re.compile(r"`{3}|~{3}")
_UNFINISHED_MARKS = re.compile(r"(?:`{0,2}|~{0,2})\Z")
_OPENING = re.compile(r"(?P<head>[^`~]*(?:`+|~+))(?P<info>.*)", re.DOTALL)
_INFO = re.compile(r"\s*(?P<language>[\w+#-]*)")
_ACTIVE = re.compile(r"[<\[\]&\\(]|//|www\.|\.\w+[/?#]", re.IGNORECASE)
_WORDS = re.compile(r"(?:(?!~~~)(?:[^\s\\`\[\]<&/:$.!=]|[.!](?=[ \t]))*[ \t]+)+")
# Signs of ASCII up to one that has a token of its own, or anything else but spaces.
_RUN = re.compile(r"(?:[\"-;=-Z^_a-~]|!(?!\[)|\\[!-;=-Z^_a-~])+|[^\s!-~]+")
_END_OF_RUN = re.compile(r"[^\"-;=-Z^_a-~]")
_TICKS = re.compile(r"`+")
_NO_TICK = re.compile(r"[^`]")
_LABEL = r"(?:[^\[\]\\`\r\n]|\\[^\r\n]|`[^`\[\]\r\n]*`)"
_PLACE = r"(?:<[^<>\r\n]*>|(?:[^\s()<>\\]|\\[^\s]|\([^\s()]*\))*)"
_TITLE = r"""(?:[ \t]+(?:"[^"\r\n]*"|'[^'\r\n]*'|\([^()\r\n]*\)))?"""
_TARGET = rf"\([ \t]*(?P<target>{_PLACE})(?P<title>{_TITLE})[ \t]*\)"
_LINK = re.compile(rf"!?\[(?P<label>{_LABEL}*)\]{_TARGET}")
_LINK_BEGINS = re.compile(rf"!?\[{_LABEL}*(?:\\|`[^`\[\]\r\n]*|\](?:\([^\r\n]*)?)?\Z")
_LINK_ENDS = re.compile(rf"\]{_TARGET}")
_LINK_ENDS_LATER = re.compile(r"\]\([^)\r\n]*\Z")
_DEFINED = re.compile(r"\]:[ \t]*(?P<first>[^ \t]*)[ \t]*(?P<second>.?)")
_PLAIN_WORD = re.compile(r"(?!~~~)[^/\\:&%.@<`\[\]]+")
_PLAIN_TARGET = re.compile(r"[^\s()<>\\`|\[\]$]*(?:\([^\s()<>\\`|\[\]$]*\)[^\s()<>\\`|\[\]$]*)*")
_PLAIN_TITLE = re.compile(r"""[ \t]*(?:["'][^"'\\`|\[\]<>&$]*["'])?""")
_ENTITY = re.compile(r"&#?\w{1,32};")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_TAG_LIKE = re.compile(r"<[a-z!/?]", re.IGNORECASE)
_TAG_BEGINS = re.compile(r"<(?:[a-z!/?][^<>\r\n]*)?\Z", re.IGNORECASE)
_AUTOLINK = re.compile(r"<([a-z][a-z0-9+.-]{1,31}:[^\s<>]*|[\w.+-]+@[\w.-]+)>", re.IGNORECASE)
_SIMPLE_TAG = re.compile(
    r"</?(?P<name>[a-z][a-z0-9-]{0,30})"
    r"(?:[ \t]+(?:class|id|title|alt|align|width|height|lang|dir|open|start|type|colspan|rowspan|style)"
    r"(?:=(?:\"[\w .,;:#%+-]*\"|'[\w .,;:#%+-]*'|[\w.#%+-]+))?(?=[ \t/>]))*[ \t]*/?>",
    re.IGNORECASE,
)
# Their content is not Markdown, or they load something by themselves.
_RAW_TAGS = frozenset(
    [
        "applet",
        "audio",
        "base",
        "embed",
        "form",
        "frame",
        "frameset",
        "head",
        "iframe",
        "image",
        "img",
        "input",
        "link",
        "listing",
        "math",
        "meta",
        "noembed",
        "noframes",
        "noscript",
        "object",
        "plaintext",
        "portal",
        "pre",
        "script",
        "select",
        "source",
        "style",
        "svg",
        "template",
        "textarea",
        "title",
        "track",
        "video",
        "xmp",
    ]
)
# In braces, some renderers take them for attributes of the image, link or block before them.
_ATTRIBUTE = re.compile(
    r"(?<![\w-])(?:on[a-z]{2,30}|(?:xlink:)?href|src|srcset|srcdoc|(?:form)?action|background|data"
    r"|ping|poster|style)(?==)",
    re.IGNORECASE,
)
# With a path after them, renderers make links of these even without a scheme.
_DOMAINS = "com|net|org|edu|gov|info|biz|app|dev|xyz|site|shop|online|top|live|cloud|page|link|click|[a-z]{2}"
_ADDRESS = re.compile(
    r"(?:(?:https?|ftp)://|www\.|(?<![\w:/])//(?=[\w-]+[.:]|[^/@]{1,64}@|\Z)"
    rf"|(?<![\w@./-])(?:[\w-]{{1,63}}\.){{1,8}}(?:{_DOMAINS})(?=(?::\d+)?[/?#]\S))",
    re.IGNORECASE,
)
_REST_OF_ADDRESS = re.compile(r"[^\s<>\\`\"')\[\]]*")
_REST_OF_WORD = re.compile(r"[^ \t]*")
_END_OF_WORD = re.compile(r"[ \t\r\n]")
_SPACES = re.compile(r"\s+")
_ONLY_SIGNS = re.compile(
    r"(?:[.,;:!?*_'\")}>|]|\](?![(:])|~(?!~~))*(?:</?(?:b|br|em|i|li|p|strong|sub|sup|td|th)[ /]*>.*)?",
    re.IGNORECASE,
)
_DISGUISED = re.compile(r"(?:https?|ftp)://|\bwww\.|^//", re.IGNORECASE)
_USER_FIRST = re.compile(r"//[^\w\s/][^/@]{0,64}@")
_ACTIVE_SCHEME = re.compile(r"[\s\0]*(?:javascript|data|vbscript):", re.IGNORECASE)
_HARMLESS = re.compile(r"#[\w-]*|(?:mailto:)?(?!www\.)[\w.+-]+@[\w.-]+", re.IGNORECASE)
_EMBEDDED_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")
# Languages of fenced code that is drawn rather than shown.
_DRAWN = frozenset(["dot", "graphviz", "mermaid", "plantuml", "puml", "vega", "vega-lite"])
_NOT_IN_CODE = str.maketrans({sign: f"%{ord(sign):X}" for sign in "`|[]~"})
# Two characters that must not come together because something between them was left out.
_JOINS = re.compile(r"<[a-z!/?]|\][(:]|!\[|``", re.IGNORECASE)


@dataclass(slots=True)
class _Paragraph:
    """What was passed on since the last blank line, as far as it decides what follows."""

    unpaired_ticks: int = 0  # the longest run of backticks that a later one may close
    code: bool = False  # code that would be an image, a link or a tag
    formula: bool = False  # a sign that may begin a formula
    image: bool = False  # a `![` that a later `](` may complete
    tag: bool = False  # a tag that may begin a block of HTML
    tilde: bool = False  # a sign that a later one may close, even one in code


class AnswerStream:
    """Takes an answer in pieces. The joined output does not depend on where it was split.

    Plain words pass at once; what may become an image, a link or a tag waits until that is decided,
    at most to the end of its line. Everything stays readable as text.

    `known` are addresses that the user gave. An image must have exactly one of them; a link may
    lead to another page of such a host if nothing in it could carry data. Without `links`, only
    what loads by itself is disarmed.
    """

    def __init__(self, known: Collection[str], *, links: bool = True) -> None:
        self._known = {comparable_url(address) for address in known}
        self._links = links
        self._begin()

    def _begin(self) -> None:
        self._held: list[str] = []
        self._until: re.Pattern[str] | None = None  # nothing is decided before this comes
        self._output: list[str] = []
        self._fenced = FencedCode()
        self._closing = ""  # what would close the code that was opened last
        self._paragraph = _Paragraph()
        self._formulas = 0  # how many signs may have begun or ended a formula of several lines
        self._drawn = False
        self._begin_line()

    def _begin_line(self) -> None:
        self._kind: LineKind | None = None
        self._line: list[str] = []  # what was passed on of it
        self._last = ""  # its last character
        self._only_markers = True
        self._in_braces = False
        self._divided_ticks = 0  # of a code span that would be in two cells of a table

    def whole(self, answer: str) -> str:
        return self.feed(answer) + self.finish()

    def feed(self, piece: str) -> str:
        self._held.append(piece)
        if self._until is not None and self._until.search(piece) is None:
            return ""
        self._advance(ends=False)
        return self._take_output()

    def finish(self) -> str:
        self._advance(ends=True)
        rest = self._take_output()
        self._begin()
        return rest

    def _take_output(self) -> str:
        output = "".join(self._output)
        self._output.clear()
        return output

    def _advance(self, *, ends: bool) -> None:
        text = "".join(self._held)
        self._held.clear()
        self._until = None
        start = 0
        while end := _LINE_END.search(text, start):
            self._pass_on(text[start : end.start()], whole=True)
            self._end_line(end.group())
            start = end.end()
        rest = text[start:]
        rest = rest[self._pass_on(rest.removesuffix("\r"), whole=ends) :]
        if ends:
            self._output.append(rest)
            self._close_code()
        elif rest:
            self._held.append(rest)
            if rest.endswith("\r"):
                self._until = None

    def _close_code(self) -> None:
        """Close code that is still open: some renderers show it as text otherwise."""
        line = "".join(self._line)
        if self._kind == "opening" or (self._kind == "code" and self._fenced.contains(line)):
            self._output.append(f"\n{self._closing}" if line else self._closing)

    def _end_line(self, ending: str) -> None:
        self._output.append(ending)
        line = "".join(self._line)
        self._fenced.add(line, self._kind or "text")
        if not line or self._kind == "closing":
            self._paragraph = _Paragraph()
        self._begin_line()

    def _pass_on(self, line: str, *, whole: bool) -> int:
        """Pass on what is decided of a line's rest; returns how much that is."""
        if self._kind is None:
            self._kind = self._decide(line, whole)
            if self._kind is None:
                return 0
            if self._kind == "opening":
                self._push(self._opening(line))
                return len(line)
        if self._kind == "closing" or (self._kind == "code" and not self._drawn):
            self._output.append(line)
            self._line.append(line)
            return len(line)
        return self._disarm(line, whole)

    def _decide(self, line: str, whole: bool) -> LineKind | None:
        markers = _MARKERS.match(line)
        end = markers.end() if markers else 0
        fence = _FENCE_MARKS.match(line, end)
        if not whole:
            if fence:
                self._until = _END_OF_LINE
            elif end == len(line):
                self._until = _NO_MARKER
            if fence or _UNFINISHED_MARKS.match(line, end):
                return None
        if self._fenced.exhausted:
            return "text"
        kind = self._fenced.kind(line if fence else line[: end + 1])
        risky = self._paragraph.tag or self._formulas % 2 == 1 or self._fenced.is_ambiguous(line)
        return "text" if kind == "opening" and risky else kind

    def _opening(self, line: str) -> str:
        opening = _OPENING.match(line)
        info = _INFO.match(opening["info"]) if opening else None
        if opening is None or info is None:
            return line
        self._drawn = info["language"].lower() in _DRAWN
        self._closing = closing_of(line)
        return opening["head"] + info.group() if _ACTIVE.search(opening["info"]) else line

    def _push(self, text: str) -> None:
        if not text:
            return
        if _JOINS.match(self._last + text[0]):
            text = f" {text}"
        self._output.append(text)
        self._line.append(text)
        self._last = text[-1]
        self._paragraph.tilde |= "~" in text
        brace = max(text.rfind("{"), text.rfind("}"))
        if brace >= 0:
            self._in_braces = text[brace] == "{"
        self._only_markers = self._only_markers and _MARKERS.fullmatch(text) is not None

    def _disarm(self, text: str, whole: bool) -> int:
        start = 0
        while start < len(text):
            taken = self._take(text, start, whole)
            if not taken:
                break
            start += taken
        return start

    def _take(self, text: str, start: int, whole: bool) -> int:
        """Pass on what stands here; returns how long it is, or 0 if more must be known."""
        sign = text[start]
        if sign == "`":
            return self._take_code(text, start, whole)
        if sign == "\\" and not _RUN.match(text, start):
            return self._take_escape(text, start, whole)
        if sign == "[" or text.startswith("![", start):
            return self._take_link(text, start, whole)
        if sign == "]":
            return self._take_label_end(text, start, whole)
        if sign == "<":
            return self._take_tag(text, start, whole)
        if plain := _WORDS.match(text, start) or _SPACES.match(text, start):
            self._push(plain.group())
            return len(plain.group())
        return self._take_run(text, start, whole)

    def _take_code(self, text: str, start: int, whole: bool) -> int:
        paragraph = self._paragraph
        ticks = _TICKS.match(text, start)
        end = ticks.end() if ticks else start
        if end == len(text) and not whole:
            self._until = _NO_TICK
            return 0
        count = end - start
        if count > paragraph.unpaired_ticks:
            limit = min(len(text), end + _LONGEST)
            runs = _TICKS.finditer(text, end, limit)
            closing = next((run for run in runs if len(run.group()) == count), None)
            if closing is not None and closing.end() == limit and (limit < len(text) or not whole):
                closing = None  # it may be longer
            if closing is None and limit == len(text) and not whole:
                return 0
            if closing and self._is_code(text[end : closing.start()], count):
                tilde = paragraph.tilde
                self._push(text[start : closing.end()])
                paragraph.tilde = tilde
                return closing.end() - start
        self._push_unpaired(text[start:end] if count < 3 else f"\\{text[start:end]}", count)
        return count

    def _push_unpaired(self, ticks: str, count: int) -> None:
        paragraph = self._paragraph
        paragraph.unpaired_ticks = max(paragraph.unpaired_ticks, count)
        # markdown-it overlooks code if backticks that nothing closes come after it.
        self._push("&#96;" * count if paragraph.code else ticks)

    def _is_code(self, content: str, ticks: int) -> bool:
        """Whether every renderer sees code here, or it does not matter."""
        paragraph = self._paragraph
        if self._last == "~":
            return False  # marked takes both signs together for text
        active = _ACTIVE.search(content) is not None
        tag_like = re.search(r"[<\[\]]", content) is not None
        if active and ("|" in content or "~" in content):
            return False
        if paragraph.tilde and "~" in content:
            return False  # marked may see struck text that ends here
        if active and (ticks > 1 or "`" in content) and re.search("[*_]", content):
            return False  # marked may see emphasis that ends here
        if paragraph.formula and re.search(r"\$|\\[)\]]", content):
            return False
        if tag_like and (paragraph.tag or paragraph.unpaired_ticks or self._divided_ticks):
            return False
        if active and ticks <= self._divided_ticks:
            return False
        if "|" in content:
            self._divided_ticks = max(ticks, self._divided_ticks)
        paragraph.code |= active
        return True

    def _take_escape(self, text: str, start: int, whole: bool) -> int:
        following = text[start + 1 : start + 4]
        if not whole and following in ("", "<", "]", "]\\"):
            return 0
        if following.startswith("`"):
            ticks = _TICKS.match(text, start + 1)
            end = ticks.end() if ticks else start + 2
            if end == len(text) and not whole:
                self._until = _NO_TICK
                return 0
            self._push_unpaired(text[start:end], end - start - 1)
            return end - start
        if _TAG_LIKE.match(following):
            self._push("&lt;")
            return 2
        if following.startswith(("](", "]:")):
            self._push(f"\\]\\{following[1]}")
            return 3
        if following in ("]\\(", "]\\:"):
            self._push(f"\\{following}")
            return 4
        if following[:1] in ("[", "]"):
            self._paragraph.formula = True
            self._formulas += 1
        length = 2 if following[:1] in ("\\", "[", "]", "<") and following else 1
        self._push(text[start : start + length])
        return length

    def _take_link(self, text: str, start: int, whole: bool) -> int:
        limit = start + _LONGEST
        link = _LINK.match(text, start, limit)
        if link is None:
            if not whole and len(text) < limit and _LINK_BEGINS.match(text, start):
                return 0
            bang = text[start] == "!"
            self._paragraph.image |= bang
            self._push("![" if bang else "[")
            return 1 + bang
        is_image = text[start] == "!"
        allowed = self._is_allowed_target(link, image=is_image or self._paragraph.image)
        label = link["label"]
        if allowed:
            self._push("![" if is_image else "[")
            self._disarm(label, whole=True)
            self._push(text[link.end("label") : link.end()])
            return len(link.group())
        if self._last and not self._last.isspace() and self._last not in "([*_~\"'":
            self._push(" ")
        if label.strip():
            self._disarm(label, whole=True)
        else:
            self._push("image" if is_image else "link")
        if address := _clean(link["target"]):
            self._push(" (")
            self._push(self._as_code(address))
            self._push(")")
        return len(link.group())

    def _take_label_end(self, text: str, start: int, whole: bool) -> int:
        following = text[start + 1 : start + 3]
        near_end = not whole and len(text) < start + _LONGEST
        if near_end and following in ("", "\\"):
            return 0
        if following in ("\\(", "\\:"):
            self._push(f"]{following}")
            return 3
        if following.startswith("("):
            link = _LINK_ENDS.match(text, start, start + _LONGEST)
            if link is None and near_end and _LINK_ENDS_LATER.match(text, start):
                return 0
            after = _REST_OF_WORD.match(text, link.end()) if link else None
            if near_end and after and after.end() == len(text):
                return 0
            allowed = (
                link
                and after
                and _ONLY_SIGNS.fullmatch(after.group())
                and self._is_allowed_target(link, image=self._paragraph.image)
            )
            self._push(link.group() if link and allowed else "]\\(")
            return len(link.group()) if link and allowed else 2
        if not following.startswith(":"):
            self._push("]")
            return 1
        defined = _DEFINED.match(text, start, start + _LONGEST)
        if defined is None or (near_end and defined.end() == len(text)):
            return 0
        if self._is_allowed_definition(defined):
            self._push("]:")
        else:
            self._push("]\\:")
        return 2

    def _is_allowed_definition(self, defined: re.Match[str]) -> bool:
        """Whether it has an address that an image may have, or is no definition for any renderer."""
        first, second = defined["first"], defined["second"]
        if not second:
            return _is_plain(first) and self._may_follow(first, image=True)
        return second not in "\"'(" and _PLAIN_WORD.fullmatch(first) is not None

    def _take_tag(self, text: str, start: int, whole: bool) -> int:
        limit = start + _LONGEST
        automatic = _AUTOLINK.match(text, start, limit)
        if automatic is not None:
            allowed = self._may_follow(automatic[1], image=False)
            self._push(automatic.group() if allowed else self._as_code(automatic[1]))
            return len(automatic.group())
        tag = _SIMPLE_TAG.match(text, start, limit)
        if tag is not None and tag["name"].lower() not in _RAW_TAGS:
            only_markers = self._only_markers
            self._paragraph.tag |= only_markers
            self._push(tag.group())
            self._only_markers = only_markers
            return len(tag.group())
        if not whole and len(text) < limit and _TAG_BEGINS.match(text, start):
            return 0
        self._push("&lt;" if _TAG_LIKE.match(text, start) else "<")
        return 1

    def _take_run(self, text: str, start: int, whole: bool) -> int:
        """Pass on the signs up to the next that has a meaning, or the address in the open here."""
        match = _RUN.match(text, start)
        run = match.group() if match else text[start]
        end = start + len(run)
        if end == len(text) and not whole and run[0].isascii():
            self._until = _END_OF_RUN
            return 0
        if text[end:] == "\\" and len(run) < _LONGEST and not whole:
            return 0  # it may belong to the run
        begins = not self._last or self._last.isspace() or self._last in ":)>.*+-]"
        before = "\\" if begins and run.startswith("~~~") else ""
        if not self._links:
            self._push_run(before, run)
            return len(run)
        address = _ADDRESS.search(run)
        if address is None or address.start() or _USER_FIRST.match(run):
            if _is_disguised(run):
                self._push(self._as_code(_plain(run)))
                return len(run)
            run = run[: address.start()] if address else run
            self._push_run(before, run)
            return len(run)
        return self._take_address(text, start, address.end() + start, whole)

    def _push_run(self, before: str, run: str) -> None:
        self._paragraph.formula |= "$" in run or "\\(" in run
        self._formulas += run.count("$$")
        self._push(before)
        start = 0
        for attribute in _ATTRIBUTE.finditer(run):
            self._push(run[start : attribute.end()])
            start = attribute.end()
            if self._in_braces:
                self._push("&#61;")
                start += 1
        self._push(run[start:])

    def _take_address(self, text: str, start: int, end: int, whole: bool) -> int:
        word = _REST_OF_WORD.match(text, start)
        word_end = word.end() if word else end
        if word_end == len(text) and not whole:
            self._until = _END_OF_WORD
            return 0
        rest = _REST_OF_ADDRESS.match(text, start, word_end)
        address = (rest.group() if rest else text[start:end]).rstrip(".,;:!?*_~")
        after = text[start + len(address) : word_end]
        if len(address) <= end - start:  # nothing but its beginning
            # Renderers disagree about whether signs may follow in a host's name; browsers accept some.
            self._push(self._as_code(text[start:end]) if word_end > end else text[start:end])
            return end - start
        if _ONLY_SIGNS.fullmatch(after) and self._may_follow(address, image=False):
            self._push(address)
        else:
            self._push(self._as_code(address))
        return len(address)

    def _as_code(self, address: str) -> str:
        paragraph = self._paragraph
        address = address.strip().translate(_NOT_IN_CODE)
        if paragraph.formula:
            address = address.replace("$", "%24").replace("\\", "%5C")
        longest = max(paragraph.unpaired_ticks, self._divided_ticks)
        if longest:
            address = address.replace("*", "%2A").replace("_", "%5F")
        ticks = "`" * (longest + 1)
        paragraph.code = True
        space = " " if self._last in ("`", "\\", "~") else ""
        return f"{space}{ticks}{address}{ticks}"

    def _is_allowed_target(self, link: re.Match[str], *, image: bool) -> bool:
        target = link["target"]
        bare = target[1:-1] if target.startswith("<") else target
        if not (_is_plain(bare) and _PLAIN_TITLE.fullmatch(link["title"])):
            return False
        return self._may_follow(bare, image=image)

    def _may_follow(self, address: str, *, image: bool) -> bool:
        if comparable_url(address) in self._known:
            return True
        if image:
            return _EMBEDDED_IMAGE.fullmatch(address) is not None
        if not self._links:
            return _ACTIVE_SCHEME.match(address) is None
        plain = not re.search(
            r"[?@%=&\\]|:\D", re.sub(r"^https?://", "", address, flags=re.IGNORECASE)
        )
        return _HARMLESS.fullmatch(address) is not None or (
            plain and len(address) < 120 and host_of(address) in self._known
        )


def _is_plain(target: str) -> bool:
    """Whether no renderer reads it as anything but what it says."""
    return _PLAIN_TARGET.fullmatch(target) is not None and _ENTITY.search(target) is None


def _is_disguised(run: str) -> bool:
    if _USER_FIRST.search(run):
        return True
    if "&" not in run and "\\" not in run:
        return False
    return _DISGUISED.search(_plain(run)) is not None and _DISGUISED.search(run) is None


def _plain(run: str) -> str:
    return html.unescape(_ESCAPE.sub(r"\1", run))


def _clean(target: str) -> str:
    bare = html.unescape(target.strip().removeprefix("<").removesuffix(">"))
    return re.sub(r"\\(?=[^\w\s])", "", unquote(bare) if "%3a" in bare.lower() else bare)
