"""Takes the power out of images, links and forms in an answer if the person did not give their address.

For answers only. Text on its way to the model is never altered.
"""

import html
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from openclaw.policy.dataflow.atoms import comparable_url, host_of


class Shape(StrEnum):
    IMAGE = "image"
    LINK = "link"
    REFERENCE = "reference"
    HTML = "html"
    BARE = "bare address"


@dataclass(frozen=True, slots=True)
class Neutralised:
    shape: Shape
    address: str


_CODE = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^(?P=fence)[ \t]*$|(?P<tick>`+)(?!`).{1,4000}?(?<!`)(?P=tick)(?!`)",
    re.M | re.S,
)
_TARGET = r"\(\s*(?P<{0}><[^<>\n]*>|(?:[^\s()\\]|\\.|\([^\s()]*\))*)(?:\s[^)]{{0,300}})?\)"
_TEXT = r"\[(?P<text>(?:[^\[\]\\]|\\.|!?\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])?)*)\]"
_ACTIVE = re.compile(
    rf"(?P<definition>^[ \t>]{{0,8}}\[(?P<label>[^\]\n]+)\]:\s*(?P<defined><[^>\n]*>|\S+)[^\n]*$)"
    rf"|(?P<link>(?P<bang>!?){_TEXT}{_TARGET.format('target')})"
    r"|(?P<auto><(?P<automatic>[a-z][a-z0-9+.-]{1,20}:[^\s<>]*)>)"
    r"|(?P<tag><[a-z!/?][^<>]*>?)"
    r"|(?P<broken>\]\((?P<rest>\S*))"
    r"|(?P<bare>(?<![\w@])(?:(?:https?|ftp)://|www\.)[^\s<>`\"')\]]+)",
    re.IGNORECASE | re.MULTILINE,
)
_ADDRESS_IN_TAG = re.compile(
    r"(?:src|srcset|href|action|formaction|data|poster|background|content|ping|cite|manifest|style|url|icon|code)"
    r"\s*=|url\s*\(|//|\b(?:javascript|data|vbscript):",
    re.IGNORECASE,
)
_URL_IN_TAG = re.compile(
    r"(?:[a-z][a-z0-9+.-]*:)?//[^\s\"'<>),;]+|\bwww\.[^\s\"'<>),]+", re.IGNORECASE
)
_EMBEDDED_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")
_HARMLESS = re.compile(r"#[\w-]*|mailto:[\w.+-]+@[\w.-]+")
_RENDERED_TAGS = re.compile(
    r"</?(?:b|i|em|strong|p|br|hr|ul|ol|li|code|pre|h[1-6]|table|tr|t[dh]|sub|sup)\s*/?>", re.I
)


def neutralise(answer: str, known: Collection[str]) -> tuple[str, tuple[Neutralised, ...]]:
    """Returns the answer and what was neutralised in it. Everything stays readable as text.

    `known` are addresses that the person gave. An image needs exactly one of them; a link may
    lead to another page of a given host if nothing in it could carry data.
    """
    worker = _Neutraliser({comparable_url(address) for address in known})
    return worker.run(answer), tuple(worker.found)


class _Neutraliser:
    def __init__(self, known: set[str]) -> None:
        self._known = known
        self.found: list[Neutralised] = []

    def run(self, text: str) -> str:
        parts: list[str] = []
        at = 0
        for code in _CODE.finditer(text):
            parts += [self._outside_code(text[at : code.start()]), code.group()]
            at = code.end()
        return "".join([*parts, self._outside_code(text[at:])])

    def _outside_code(self, text: str) -> str:
        return _ACTIVE.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        if match["definition"]:
            return self._definition(match)
        if match["link"]:
            return self._link(match)
        if match["tag"]:
            return self._tag(match.group())
        if match["broken"]:
            return match.group().replace("](", "] (", 1)
        return self._bare(match.group(), match["automatic"] or match.group())

    def _definition(self, match: re.Match[str]) -> str:
        address = _clean(match["defined"])
        if self._may_follow(address, Shape.IMAGE):
            return match.group()
        return f"{match['label']} {self._note(Shape.REFERENCE, address)}"

    def _link(self, match: re.Match[str]) -> str:
        address = _clean(match["target"])
        shape = Shape.IMAGE if match["bang"] else Shape.LINK
        inner = self._outside_code(match["text"])
        if self._may_follow(address, shape):
            return (
                match.group()
                if inner == match["text"]
                else f"{match['bang']}[{inner}]({match['target']})"
            )
        return f"{inner.strip() or shape.value} ({self._note(shape, address)})"

    def _tag(self, tag: str) -> str:
        if _RENDERED_TAGS.fullmatch(tag) or not self._reaches_out(html.unescape(tag)):
            return tag
        return self._note(Shape.HTML, " ".join(tag.strip("<>").split()))

    def _reaches_out(self, tag: str) -> bool:
        if not tag.endswith(">"):
            return True
        if not _ADDRESS_IN_TAG.search(tag):
            return False
        found = _URL_IN_TAG.findall(tag)
        plain = tag.count("=") == len(found)
        return not (found and plain and all(self._may_follow(one, Shape.IMAGE) for one in found))

    def _bare(self, written: str, address: str) -> str:
        tail = written[len(written.rstrip(".,;:!?*_")) :] if written == address else ""
        address = address.removesuffix(tail) if tail else address
        if self._may_follow(address, Shape.LINK):
            return written
        return f"{self._note(Shape.BARE, address)}{tail}"

    def _may_follow(self, address: str, shape: Shape) -> bool:
        if comparable_url(address) in self._known:
            return True
        if shape is Shape.IMAGE:
            return _EMBEDDED_IMAGE.fullmatch(address) is not None
        plain = not re.search(
            r"[?@%=&\\]|:\D", re.sub(r"^https?://", "", address, flags=re.IGNORECASE)
        )
        return _HARMLESS.fullmatch(address) is not None or (
            plain and len(address) < 120 and host_of(address) in self._known
        )

    def _note(self, shape: Shape, address: str) -> str:
        self.found.append(Neutralised(shape, address))
        return f"`{address.replace('`', '%60')}`"


def _clean(target: str) -> str:
    bare = html.unescape(target.strip().removeprefix("<").removesuffix(">"))
    return re.sub(r"\\(?=[^\w\s])", "", unquote(bare) if "%3a" in bare.lower() else bare)
