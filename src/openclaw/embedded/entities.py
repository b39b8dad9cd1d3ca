"""Finds what an argument can be copied from: typed spans of the user's own words."""

import re
import zoneinfo
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from openclaw.embedded.vocabulary import NUMBER_WORDS, fold, vocabulary, word_set

_REGIONS = (
    "Africa/", "America/", "Antarctica/", "Arctic/", "Asia/", "Atlantic/", "Australia/", "Europe/",
    "Indian/", "Pacific/",
)  # fmt: skip
_NOT_PLACES = vocabulary("not_places")
# Short names that are also everyday words count only in capitals, as people write them.
_ONLY_IN_CAPITALS = frozenset({"la", "uk"})
MAX_PLACE_WORDS = 4
_MESSAGES_KEPT = 32  # one message is read for several tools and several kinds of arguments


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _table(name: str) -> list[list[str]]:
    try:
        text = (resources.files("tzdata") / "zoneinfo" / name).read_text("utf-8")
    except (OSError, ModuleNotFoundError):
        return []
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]


def _rows(name: str) -> list[tuple[str, list[str]]]:
    text = resources.files("openclaw.embedded").joinpath(name).read_text("utf-8")
    lines = [line.split(": ") for line in text.splitlines() if not line.startswith("#")]
    return [(head, entries.split(", ")) for head, entries in lines]


@lru_cache(maxsize=1)
def _countries() -> dict[str, str]:
    """The country of each zone."""
    names = {code: "UK" if code == "GB" else name for code, name, *_ in _table("iso3166.tab")}
    return {row[2]: names[row[0]] for row in _table("zone.tab") if row[0] in names}


@lru_cache(maxsize=1)
def places() -> dict[str, str]:
    found: dict[str, str] = {}
    for zone in sorted(zone_names()):
        if zone.startswith(_REGIONS):
            city = fold(zone.rsplit("/", 1)[1].replace("_", " "))
            if city not in _NOT_PLACES:
                found.setdefault(city, zone)
    zones = Counter(_countries().values())
    for zone, country in _countries().items():
        if zones[country] == 1:
            found.setdefault(fold(country), zone)
    return found | {name: zone for zone, names in _rows("place_zones.txt") for name in names}


def zone_of(place: str) -> str | None:
    key = re.sub(r"[\s.]+", " ", fold(place)).strip()
    if key in _ONLY_IN_CAPITALS and not place.isupper():
        return None
    return places().get(key)


Kind = Literal[
    "url", "email", "quoted", "date", "time", "zone", "glob", "path", "revision", "ref", "number", "named",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a message that can be an argument. `kind` is a `Kind` if `find_spans` found it."""

    kind: str
    value: Any
    start: int
    end: int

    @property
    def text(self) -> str:
        return str(self.value)


_TRAILING = ".,;:!?)*"
_COUNTING = range(2, 13)  # "one" is seldom a number in a request
_QUOTES = re.compile(
    r"\"([^\"\n]+)\"|`([^`\n]+)`|“([^”\n]+)”|«([^»\n]+)»|(?<!\w)'((?:[^'\n]|(?<=\w)'(?=\w))+)'(?!\w)"
)
_LOOKS_LIKE_PATH = re.compile(
    r"(?:~|\.{1,2})?/.*|[\w.-]+(?:/[\w. -]+)+|[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,4}"
)
_LOOKS_LIKE_GLOB = re.compile(r"\S*\*\S*")
_URL = re.compile(r"(?:https?://|www\.)[^\s\"'<>\0]+", re.IGNORECASE)
_HOST = re.compile(
    r"(?<![\w@./-])(?:[\w-]+\.)+(?:com|org|net|edu|gov|io|dev)\b(?![\w.]*\w)", re.IGNORECASE
)
_DIRECTORY = (
    re.compile(r"\b(?:folder|directory)\s+(?:called\s+|named\s+)?([\w][\w.-]*)", re.IGNORECASE),
    re.compile(r"\b([\w][\w.-]*)\s+(?:folder|directory)\b", re.IGNORECASE),
)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?\b")
_CLOCK = re.compile(
    r"(?<![\w/.:-])(\d{1,2})(?::(\d\d))?\s*([ap]\.?m\b\.?|o'clock\b|uhr\b)?(?![\w/:])",
    re.IGNORECASE,
)
_NOON = re.compile(r"\b(?:noon|midday|(midnight))\b", re.IGNORECASE)
_IANA = re.compile(r"\b[A-Z][A-Za-z]+(?:/[A-Za-z0-9_+-]+)+")
_GLOB = re.compile(r"(?<!\S)(?:[\w./-]*\*[\w./*{},-]*)")
# Emphasis in Markdown, and lone stars. If the message speaks of files, single stars may be part of
# a glob.
_STRESSED = re.compile(
    r"(?<![\w*/.])(\*{2,3})(?=[^\s*/])[^*\n]*(?<=[^\s/])\1(?![\w*/]|\.\w)"
    r"|(?<![\w*/.])(\*)(?=[^\s*/])[^*\n./]*(?<=[^\s/])\2(?![\w*/]|\.\w)"
    r"|(?<!\S)\*+(?!\S)"
)
_SPEAKS_OF_FILES = re.compile(
    r"\b(?:files?|folders?|director(?:y|ies)|match\w*|globs?|patterns?|named|called|ls|find|search)\b",
    re.IGNORECASE,
)
_PATH = re.compile(
    r"(?<![\w/])(?:~|\.{1,2})?/[\w.@+/~-]*"
    r"|[A-Za-z]:\\[^\s\"?*<>|]+"
    r"|(?<![\w/.])[\w.-]+(?:/[\w.-]+)+/?"
    r"|(?<![\w/.@])[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,4}\b(?![\w/])"
    r"|(?<!\S)\.{1,2}(?=\s|$)"
    r"|(?<!\S)~(?=[\s?!]|$)"
)
_REVISION = re.compile(r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b|\bHEAD(?:[~^]\d*)*(?!\w)")
# What a branch or tag may be called; one plain word needs the word "branch" or "tag" beside it.
_REF_NAME = r"[\w][\w./-]*[\w]"
_REFS = (
    re.compile(rf"\b(?:branch|tag|revision)\s+(?:called\s+|named\s+)?({_REF_NAME})", re.IGNORECASE),
    re.compile(rf"\b({_REF_NAME})\s+(?:branch|tag)\b", re.IGNORECASE),
)
_NOT_A_REF = vocabulary("not_refs")
_NOT_A_DIRECTORY = _NOT_A_REF | vocabulary("not_directories")
_NAMED = re.compile(r"\b(?:called|named|titled)\s+([\w][\w.-]*)", re.IGNORECASE)
_PLACE_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*\.?")  # noqa: RUF001 a typographic apostrophe is how people write it
_PLACE_CUES = word_set("in at from to for of into and between")


_NUMBER = re.compile(
    r"(?<![\w.:/^])(?P<digits>-?\d{1,15}(?:\.\d{1,15})?)(?![:/]\d|\w)"
    rf"|\b(?P<word>(?i:{'|'.join(NUMBER_WORDS)}))\b"
)


def _numbers(reader: "_Reader") -> None:
    for match in list(_NUMBER.finditer(reader.rest)):
        if match["digits"]:
            number = float(match["digits"]) if "." in match["digits"] else int(match["digits"])
        else:
            number = NUMBER_WORDS[match["word"].lower()]
        if match["digits"] or number in _COUNTING:
            reader.take("number", match.start(), match.end(), number)


class _Reader:
    """Takes spans kind by kind; what one kind took is hidden from the next."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.rest = message
        self.found: list[Span] = []

    def take(self, kind: Kind, start: int, end: int, value: str | int | float) -> None:
        self.found.append(Span(kind, value, start, end))
        self.rest = self.rest[:start] + "\0" * (end - start) + self.rest[end:]

    def each(
        self,
        kind: Kind,
        pattern: re.Pattern[str],
        value: Callable[[re.Match[str]], str | None] = re.Match[str].group,
    ) -> None:
        for match in list(pattern.finditer(self.rest)):
            taken = value(match)
            if taken is not None and "\0" not in match.group():
                text = _trimmed(match) if kind in ("url", "path") else match.group()
                self.take(kind, match.start(), match.start() + len(text), taken)


def _quoted(reader: _Reader) -> None:
    for match in list(_QUOTES.finditer(reader.rest)):
        # Not from the rest, in which an address in quotes is hidden.
        value = reader.message[slice(*match.span(match.lastindex or 0))]
        kind = "quoted"
        stressed = _STRESSED.fullmatch(value)
        bold = stressed is not None and stressed[1] is not None
        if "\0" not in match[0] and _LOOKS_LIKE_GLOB.fullmatch(value) and not bold:
            kind = "glob"
        elif _LOOKS_LIKE_PATH.fullmatch(value):
            kind = "path"
        reader.take(kind, match.start(), match.end(), value)


def _clock(match: re.Match[str]) -> str | None:
    hour, minute = int(match[1]), int(match[2] or 0)
    half = (match[3] or "").lower().replace(".", "")
    if hour > 23 or minute > 59 or not (match[2] or half):
        return None
    if half == "pm" and hour < 12:
        hour += 12
    elif half == "am" and hour == 12:
        hour = 0
    return f"{hour:02d}:{minute:02d}"


def _trimmed(match: re.Match[str]) -> str:
    return match.group().rstrip(_TRAILING) or match.group()


def _named_things(
    reader: _Reader, kind: Kind, patterns: Sequence[re.Pattern[str]], never: frozenset[str]
) -> None:
    for match in [match for pattern in patterns for match in pattern.finditer(reader.rest)]:
        name = match[1].rstrip(_TRAILING)
        if name.lower() not in never and "\0" not in name:
            reader.take(kind, match.start(1), match.start(1) + len(name), name)


def _places(reader: _Reader) -> None:
    for count in range(MAX_PLACE_WORDS, 0, -1):
        words = [match.span() for match in _PLACE_WORD.finditer(reader.rest)]
        for (start, _), (_, end) in zip(words, words[count - 1 :], strict=False):
            text = reader.rest[start:end].rstrip(".")
            zone = None if any(mark in text for mark in "\0,;:!?\n") else zone_of(text)
            if zone is None:
                continue
            before = re.findall(r"\w+", reader.message[:start].lower())[-1:]
            if text[0].isupper() or _PLACE_CUES.intersection(before):
                reader.take("zone", start, start + len(text), zone)


def _unstressed(reader: _Reader) -> None:
    """Hide the stars that are not part of a glob; the text between them stays."""
    globs = _SPEAKS_OF_FILES.search(reader.message) is not None

    def bare(match: re.Match[str]) -> str:
        if globs and match[1] is None:
            return match.group()
        return match.group().replace("*", " ")

    reader.rest = _STRESSED.sub(bare, reader.rest)


@lru_cache(maxsize=_MESSAGES_KEPT)
def find_spans(message: str) -> tuple[Span, ...]:
    reader = _Reader(message)
    reader.each("url", _URL, _trimmed)
    _quoted(reader)
    _unstressed(reader)
    reader.each("email", _EMAIL)
    reader.each("url", _HOST, lambda match: f"https://{match.group()}")
    reader.each("date", _DATE)
    reader.each("time", _CLOCK, _clock)
    reader.each("time", _NOON, lambda match: "00:00" if match[1] else "12:00")
    reader.each(
        "zone", _IANA, lambda match: match.group() if match.group() in zone_names() else None
    )
    reader.each("glob", _GLOB)
    reader.each("path", _PATH, _trimmed)
    reader.each("revision", _REVISION)
    _named_things(reader, "ref", _REFS, _NOT_A_REF)
    _named_things(reader, "path", _DIRECTORY, _NOT_A_DIRECTORY)
    _places(reader)
    _named_things(reader, "named", (_NAMED,), _NOT_A_REF)
    _numbers(reader)
    return tuple(sorted(reader.found, key=lambda span: span.start))


def without(message: str, spans: tuple[Span, ...]) -> str:
    for span in spans:
        message = message[: span.start] + " " * (span.end - span.start) + message[span.end :]
    return message


def is_bare_name(span: Span) -> bool:
    """A name with a dot, such as Node.js, which need not be a file."""
    return span.kind == "path" and "/" not in span.text and "\\" not in span.text
