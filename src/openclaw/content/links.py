"""Defanging links and images by which a reply could carry data away.

The rule, in short: an image with a remote address is defanged always, since showing it fetches
it; any other link only where its query is made to carry something; `javascript:`, `vbscript:` and
`data:` addresses always, but for `data:image/` of a raster type. Only the scheme changes
(`https` → `hxxps`, `javascript:` → `javascript[:]`), so that the address stays legible.
Addresses that are mere text are left alone.
"""

import re
from collections.abc import Iterator

from openclaw.content.edits import Edit
from openclaw.content.wordlist import alternation

_LABEL = r"(?:[^\[\]\\]|\\.|\[[^\[\]]*+\])*+"
_IMAGE = re.compile(
    rf"!\[{_LABEL}\](?:\(\s*+<?\s*+(?P<target>[^\s)>]*+)|\[(?P<ref>[^\[\]\n]*+)\])?", re.S
)
_DEFINITION = re.compile(r"^[ ]{0,3}\[([^\[\]\n]{1,200})\]:\s*<?([^\s>]+)", re.MULTILINE)
_IMAGE_TAG_NAMES = (
    "img image picture source input bgsound frame iframe embed object video audio track"
)
_IMAGE_TAG = re.compile(
    rf"<(?!<)\s*+{alternation(_IMAGE_TAG_NAMES.split())}\b[^<>]*+", re.IGNORECASE | re.ASCII
)
_IN_TAG = re.compile(r"\b(?:https?|ftp|wss?)(?=\s*:)|(?<=[\s\"'=,(])//(?=[\w\[])", re.IGNORECASE)
_REMOTE = re.compile(r"(?:https?|ftp|wss?):|[\\/]{2}", re.IGNORECASE)

# It matches without a query as well, so that no part of an address is read twice.
_ADDRESS = re.compile(r"://[^\s\"'<>)?#]*+(?:[?#](?P<query>[^\s\"'>)]*+))?")
_SCHEME_BEFORE = re.compile(r"(?:https?|ftp|wss?)$", re.IGNORECASE)
_CONTEXT = 48

_CARRIER_KEYS = (
    "data payload exfil exfiltrate leak leaked loot stolen steal dump secret secrets password "
    "passwd pwd credential credentials creds cookie cookies conversation history chat chatlog "
    "chat_history transcript context prompt system_prompt systemprompt memory memories env environ "
    "apikey api_key ssh_key private_key keys answer response output result results contents "
    "user_data userdata pii emails messages inbox files document body"
)
_SIGNED_KEYS = "sig|signature|hmac|hash|sha256|state|code|jwt|id_token|se|sv|x-[\\w-]+|utm_\\w+"
_LOADED = re.compile(
    # A slot to fill in.
    r"\{|%7b|\$\(|\$[A-Z_]|<[a-z_ ]|\[[A-Z_ ]|__[A-Z]|YOUR_|INSERT|REPLACE|%s\b|\.\.\.$|…"
    # A key that says what is carried, or a long load under a key that is no signature.
    rf"|(?:^|[&;])(?:{alternation(_CARRIER_KEYS.split())}=|(?!(?:{_SIGNED_KEYS})=)"
    r"[^=&]{1,64}+=[A-Za-z0-9+/_=%-]{80})",
    re.IGNORECASE,
)
_SCRIPT_COLON = re.compile(r":(?<=[TtAa\s]:)")
_SCRIPT_BEFORE = re.compile(
    r"(?:\]\(\s*<?|=\s*[\"']?|url\(\s*[\"']?|<|\]:\s*<?)\s*"
    r"(?P<scheme>j\s*a\s*v\s*a\s*s\s*c\s*r\s*i\s*p\s*t|vbscript|data)\s*$",
    re.IGNORECASE,
)
_RASTER = re.compile(r"image/(?:png|jpe?g|gif|webp|avif|bmp)[;,]", re.IGNORECASE)


def find_links(text: str) -> Iterator[Edit]:
    """An edit for each address by which showing or following `text` would carry data away."""
    if "](" in text or "![" in text:
        yield from _find_images(text)
    if "<" in text:
        for tag in _IMAGE_TAG.finditer(text):
            for url in _IN_TAG.finditer(text, tag.start(), tag.end()):
                yield Edit(url.start(), url.end(), _defanged(url[0]))
    if "://" in text:
        yield from _find_carriers(text)
    if ":" in text:
        yield from find_scripts(text)


def _defanged(scheme: str) -> str:
    if scheme.startswith("//"):
        return "hxxp://"
    harmless = {"http": "hxxp", "https": "hxxps", "ftp": "fxp", "ws": "wx", "wss": "wxs"}
    return harmless[scheme.lower()]


def _find_images(text: str) -> Iterator[Edit]:
    references: set[str] = set()
    for match in _IMAGE.finditer(text):
        target = match["target"]
        if target is None:
            label = match["ref"] or match[0][2:].partition("]")[0]
            references.add(" ".join(label.casefold().split()))
        else:
            yield from _defang_remote(target, match.start("target"))
    if references and "]:" in text:
        for match in _DEFINITION.finditer(text):
            if " ".join(match[1].casefold().split()) in references:
                yield from _defang_remote(match[2], match.start(2))


def _defang_remote(target: str, at: int) -> Iterator[Edit]:
    remote = _REMOTE.match(target)
    if remote is None:
        return
    scheme = remote[0].rstrip(":")
    if scheme.isalpha():
        yield Edit(at, at + len(scheme), _defanged(scheme))
    else:
        yield Edit(at, at + remote.end(), "hxxp://")


def _find_carriers(text: str) -> Iterator[Edit]:
    for match in _ADDRESS.finditer(text):
        if not match["query"]:
            continue
        scheme = _SCHEME_BEFORE.search(text, max(0, match.start() - 5), match.start())
        if scheme and _is_link_target(text, scheme.start()) and carries_data(match["query"]):
            yield Edit(scheme.start(), scheme.end(), _defanged(scheme[0]))


def _is_link_target(text: str, start: int) -> bool:
    """Whether what begins at `start` is the target of a link, a tag's attribute or an autolink."""
    before = text[max(0, start - _CONTEXT) : start].rstrip()
    if before.endswith(("'", '"')):
        return before[:-1].rstrip().endswith(("=", "url("))
    return before.endswith(("](", "<", "=", "url(", "]:"))


def carries_data(query: str) -> bool:
    """Whether a query is made to take something along: a slot to fill in, or a load already."""
    return _LOADED.search(query) is not None


def find_scripts(text: str) -> Iterator[Edit]:
    """An edit for each address that is a program, or a page of its own."""
    for colon in _SCRIPT_COLON.finditer(text):
        found = _SCRIPT_BEFORE.search(text, max(0, colon.start() - _CONTEXT), colon.start())
        if found is None or _RASTER.match(text, colon.end()):
            continue
        scheme = "".join(found["scheme"].split())
        # `x = data:1` is no address; one of these is quoted or bracketed.
        before = text[max(0, found.start("scheme") - 2) : found.start("scheme")].rstrip()
        if scheme.lower() == "data" and not before.endswith(("(", "<", "'", '"', ":")):
            continue
        yield Edit(found.start("scheme"), colon.end(), f"{scheme}[:]")
