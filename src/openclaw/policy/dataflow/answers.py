"""Disarms images, links and forms in an answer if the person didn't give their address.

For answers only. Text on its way to the model is never altered.
"""

import html
import re
from collections.abc import Collection
from urllib.parse import unquote

from openclaw.policy.dataflow.text_values import comparable_url, host_of

_FENCE = re.compile(r" {0,3}(?:(?P<ticks>`{3,})[^`\n]*|(?P<tildes>~{3,})[^\n]*)\n")
# A code span must end on its line: a list or a heading may cut a longer one, which is then not code.
_SPAN = r"(?P<code>(?<![`\\])(?P<tick>`+)(?!`)[^\n]{1,4000}?(?<!`)(?P=tick)(?!`))"
_TARGET = r"\(\s*(?P<{0}><[^<>\n]*>|(?:[^\s()\\]|\\.|\([^\s()]*\))*)(?:\s[^)]{{0,300}})?\)"
_TEXT = r"\[(?P<text>(?:[^\[\]\\]|\\.|!?\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])?)*)\]"
_ACTIVE = re.compile(
    rf"{_SPAN}|(?P<definition>^[ \t>]{{0,8}}\[(?P<label>[^\]\n]+)\]:\s*(?P<defined><[^>\n]*>|\S+)[^\n]*$)"
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
    r"</?(?:b|i|em|strong|p|br|hr|ul|ol|li|code|h[1-6]|table|tr|t[dh]|sub|sup)\s*/?>", re.I
)
# Markdown is not parsed inside these, so what looks like code there is not.
_RAW_TAG = re.compile(r"<(?:pre|script|style|textarea|[!?])", re.I)
_RAW_LINE = re.compile(r"^[ \t>*+\d.)-]*<", re.M)
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_BEGINS = re.compile(r"[\[\]<`]|~~~|//|\bwww\.", re.I)
_OPEN = re.compile(r"\]\([^)]*$|<[a-z!/?][^>]*$|\]:\s*$", re.I)
_LINE_HEAD = re.compile(r"(?:^|(?<=\n))[ \t>]*\Z")


class AnswerStream:
    """Takes an answer in pieces. The joined output does not depend on where it was split.

    Plain words pass at once. What may be the beginning of an address waits for the end of its
    line, or for as many lines as it takes until nothing is open. Everything stays readable as text.

    `known` are addresses that the person gave. An image must have exactly one of them; a link may
    lead to another page of such a host if nothing in it could carry data. Without `links`, only
    what loads by itself is neutralised.
    """

    def __init__(self, known: Collection[str], *, links: bool = True) -> None:
        self._known = {comparable_url(address) for address in known}
        self._links = links
        self._held = ""
        self._paragraph = ""  # what was passed on since the last blank line, unaltered
        self._fence: re.Pattern[str] | None = None

    def whole(self, answer: str) -> str:
        return self.feed(answer) + self.finish()

    def feed(self, piece: str) -> str:
        self._held += piece
        parts: list[str] = []
        while (part := self._next()) is not None:
            parts.append(part)
        return "".join(parts)

    def finish(self) -> str:
        rest = self.feed("")
        rest += self._held if self._fence else self._neutral(len(self._held))
        self._held, self._paragraph, self._fence = "", "", None
        return rest

    def _next(self) -> str | None:
        if self._fence is not None:
            end = self._held.find("\n") + 1
            if end and self._fence.match(self._held[: end - 1]):
                self._fence = None
            return self._plain(end)
        begins = _BEGINS.search(self._held)
        if begins is None:
            return self._plain(self._without_line_head(_word_start(self._held)))
        start = self._without_line_head(_word_start(self._held[: begins.start()]))
        if start:
            return self._plain(start)
        if self._opens_fence():
            return self._plain(self._held.index("\n") + 1)
        end = self._held.find("\n", begins.start())
        while end >= 0 and not self._is_closed(self._held[: end + 1]):
            end = self._held.find("\n", end + 1)
        return self._neutral(end + 1) if end >= 0 else None

    def _without_line_head(self, end: int) -> int:
        """Spaces and quote marks at the beginning of a line belong to what follows."""
        head = _LINE_HEAD.search(self._held[:end])
        return head.start() if head and (head.start() or self._at_line_start) else end

    @property
    def _at_line_start(self) -> bool:
        return not self._paragraph or self._paragraph.endswith("\n")

    def _opens_fence(self) -> bool:
        fence = _FENCE.match(self._held) if self._at_line_start else None
        if fence is None or _RAW_LINE.search(self._paragraph):
            return False
        mark = fence["ticks"] or fence["tildes"]
        self._fence = re.compile(rf" {{0,3}}{mark[0]}{{{len(mark)},}}[ \t]*$")
        return True

    @staticmethod
    def _is_closed(text: str) -> bool:
        if text.endswith("\n\n") or _BLANK_LINE.search(text):
            return True
        return text.count("[") <= text.count("]") and _OPEN.search(text) is None

    def _plain(self, end: int) -> str | None:
        return self._take(end) if end else None

    def _neutral(self, end: int) -> str:
        # What does not begin its line must not look as if it did.
        before = "" if self._at_line_start else "."
        return self._disarmed(before + self._take(end)).removeprefix(before)

    def _take(self, end: int) -> str:
        taken, self._held = self._held[:end], self._held[end:]
        self._paragraph = _BLANK_LINE.split(self._paragraph + taken)[-1]
        return taken

    def _disarmed(self, text: str) -> str:
        return _ACTIVE.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        if match["code"]:
            return match.group()
        if match["definition"]:
            address = _clean(match["defined"])
            known = self._may_follow(address, image=True)
            return match.group() if known else f"{match['label']} {_as_code(address)}"
        if match["link"]:
            return self._link(match)
        if match["tag"]:
            return self._tag(match.group())
        if match["broken"]:
            return f"] ({self._disarmed(match['rest'])}"
        return self._bare(match.group(), match["automatic"] or match.group())

    def _link(self, match: re.Match[str]) -> str:
        address = _clean(match["target"])
        bang, inner = match["bang"], self._disarmed(match["text"])
        if self._may_follow(address, image=bool(bang)):
            same = inner == match["text"]
            return match.group() if same else f"{bang}[{inner}]({match['target']})"
        return f"{inner.strip() or ('image' if bang else 'link')} ({_as_code(address)})"

    def _tag(self, tag: str) -> str:
        if not _RAW_TAG.match(tag) and (
            _RENDERED_TAGS.fullmatch(tag) or not self._reaches_out(html.unescape(tag))
        ):
            return tag
        return _as_code(" ".join(tag.strip("<>").split()))

    def _reaches_out(self, tag: str) -> bool:
        if not tag.endswith(">"):
            return True
        if not _ADDRESS_IN_TAG.search(tag):
            return False
        found = _URL_IN_TAG.findall(tag)
        plain = tag.count("=") == len(found)
        return not (found and plain and all(self._may_follow(one, image=True) for one in found))

    def _bare(self, written: str, address: str) -> str:
        tail = written[len(written.rstrip(".,;:!?*_")) :] if written == address else ""
        address = address.removesuffix(tail) if tail else address
        if self._may_follow(address, image=False):
            return written
        return f"{_as_code(address)}{tail}"

    def _may_follow(self, address: str, *, image: bool) -> bool:
        if comparable_url(address) in self._known:
            return True
        if image:
            return _EMBEDDED_IMAGE.fullmatch(address) is not None
        if not self._links:
            return re.match(r"\s*(?:javascript|data|vbscript):", address, re.IGNORECASE) is None
        plain = not re.search(
            r"[?@%=&\\]|:\D", re.sub(r"^https?://", "", address, flags=re.IGNORECASE)
        )
        return _HARMLESS.fullmatch(address) is not None or (
            plain and len(address) < 120 and host_of(address) in self._known
        )


def _word_start(text: str) -> int:
    """Where the last word begins; the end if the text ends with a blank."""
    return len(text) - (len(text.rsplit(None, 1)[-1]) if text and not text[-1].isspace() else 0)


def _as_code(address: str) -> str:
    return f"`{address.replace('`', '%60')}`"


def _clean(target: str) -> str:
    bare = html.unescape(target.strip().removeprefix("<").removesuffix(">"))
    return re.sub(r"\\(?=[^\w\s])", "", unquote(bare) if "%3a" in bare.lower() else bare)
