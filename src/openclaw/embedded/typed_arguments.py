"""Arguments for a tool of any kind, read from a message by the types of the tool's parameters.

Numbers go to the parameter whose words stand near them, names to the ones that take names, and so
on. Nothing is made up: a value is copied from the message, or chosen from what the schema lists.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any

from openclaw.core.tools import json_list, json_object
from openclaw.embedded.entities import Span, find_spans, state_code, within
from openclaw.embedded.tool_doc import plain_schema
from openclaw.embedded.words import (
    NUMBER_WORDS,
    STOP_WORDS,
    fold,
    stem,
    synonyms,
    terms,
    word_set,
    words,
)

_SCALES = {"k": 1e3, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12}
_NUMBER = re.compile(
    r"(?<![\w.:/^])(?P<digits>-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"(?![:/]\d|[xX](?:[\d^*+-]|\b))(?:(?P<percent>\s?%|\s+percent\b)|\s?(?P<scale>k|thousand|million|billion|trillion|dozen)\b)?"
    rf"|\b(?P<word>(?i:{'|'.join(NUMBER_WORDS)}))\b"
)
_MONTHS = "january february march april may june july august september october november december"
_MONTH = {name: at for at, full in enumerate(_MONTHS.split(), 1) for name in (full, full[:3])}
_NAMES = "|".join(sorted(_MONTH, key=len, reverse=True))
_DATE = re.compile(
    r"\b(?:(?P<y1>\d{4})[-/.](?P<m1>\d{1,2})[-/.](?P<d1>\d{1,2})"
    r"|(?P<m2>\d{1,2})/(?P<d2>\d{1,2})/(?P<y2>\d{4})"
    rf"|(?P<m3>{_NAMES})\.?\s*(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y3>\d{{4}})"
    rf"|(?P<d4>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m4>{_NAMES})\.?,?\s+(?P<y4>\d{{4}}))\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"(?<!\w)'((?:[^'\n]|(?<=\w)'(?=\w))+)'(?!\w)|\"([^\"\n]+)\"|`([^`\n]+)`")
_CAPITAL = r"(?:[A-Z](?:\.[A-Z])+\.?|[A-Z]\.(?=\s[A-Z])|(?:Mr|Mrs|Ms|Dr|St|Mt|Ft)\.|[A-Z][\w#&'-]*(?:\.\w+)*)"
_NAME = re.compile(
    rf"\b{_CAPITAL}(?:(?:\s+(?:(?:of|the|de|von|van|la|vs\.?)\s+)*|\s*&\s*)(?:{_CAPITAL}|\d{{1,3}}\b))*"
)
_EXAMPLES = re.compile(
    r"\b(?:such as|e\.g\.?|i\.e\.?|like|for example|options?(?: are)?|either)[,:]?\s([^.()]+)",
    re.IGNORECASE,
)
_ID = re.compile(r"(?<![\w.])(?=[\w/#.-]*\d)[A-Za-z0-9#][\w/#.-]*\w|(?<![\w.])\d(?!\w)")
_CLOCK_SHAPE = re.compile(r"\bHH\b|\b\d?\d:\d\d|\bhour", re.IGNORECASE)
_FORMAT = re.compile(r"\b([MDY]{1,4})([-/.])([MDY]{1,4})\2([MDY]{1,4})\b")
_FORMAT_IN_WORDS = re.compile(r"\b(YEAR|MONTH|DAY)([-/.])(YEAR|MONTH|DAY)\2(YEAR|MONTH|DAY)\b")
_HOST = re.compile(
    r"(?<![\w/.@])(?:[a-z]+://[^\s'\",]+|\d+(?:\.\d+){3}|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,5})(?![\w/])"
)
_WITH_STATE = re.compile(r"\b[Cc]ity,? (?:(?:and|or) )?(?:the )?[Ss]tate|[a-z], ?[A-Z]{2}\b")
_WITH_COUNTRY = re.compile(r"\b(?:city|location),? (?:and )?country", re.IGNORECASE)
_STREET = re.compile(
    r"\b\d+\s+(?:[A-Z][\w']*\s+){1,3}(?:St|Street|Ave|Avenue|Rd|Road|Blvd|Ln|Lane|Dr|Drive|Way|Ct|"
    r"Court|Plaza|Square)\b\.?(?:,\s[A-Z][a-z]+(?:\s[A-Z][a-z]+)?)?(?:,\s[A-Z]{2}\b)?(?:\s\d{5})?"
)
_LINK = r"s?\b,?\s*(?:is|are|of|as|=|:|named|called|being|to|with)?\s*(?:the\s+|a\s+|an\s+)?"
_STRAIGHT = str.maketrans(dict(zip("\u2018\u2019\u201c\u201d", "''\"\"", strict=True)))
_LIST = re.compile(r"[\[(]([^\[\]()]+)[\])]")
_PLACES = word_set(
    "city location loc place town country state region area address destination origin where venue"
)
_IDS = word_set("id ids identifier code number uuid key docket version sku isbn phone zip ticket")
_MAKERS = word_set("artist author director directed composer writer painter maker brand by created")
_PATHS = word_set("path file filename directory folder host hostname url uri link domain website")
_ACTORS = word_set("cast actor actors actress starring stars performer")
_LABELS = word_set("id ids uuid ip api url pin")
_EDGE = STOP_WORDS | _LABELS | word_set("current latest new using near around between during")
_VAGUE = word_set("name type number value date list info data") | STOP_WORDS
_DATES = word_set("date day dates datetime")
_FIRST = word_set("start from origin source departure begin beginning initial first")
_LAST = word_set("end to destination target arrival final last")
# Words with which requests begin: capitals that are no names.
_OPENERS = word_set(
    """find get what who which when where how calculate compute determine give show tell can could i
    please is are book order search list check create generate convert fetch retrieve estimate predict
    identify compare look help need want add update set write analyze analyse play start stop turn send
    the a an in for on my using if let do does did will would should provide locate return use make run
    assess evaluate solve simulate plan schedule translate rank track view you we it this that hey hi"""
)
_WINDOW = 40
_SHORT = 3
_MESSAGES_KEPT = 32
_MOST_SLOTS = 40
_MOST_CANDIDATES = 60


@dataclass(slots=True)
class _Slot:
    name: str
    schema: Mapping[str, Any]
    required: bool
    kind: str
    said: frozenset[str]
    stems: frozenset[str]
    wants: str = "text"


@dataclass(slots=True)
class Reading:
    """What was found for one tool. `missing` are required parameters that nothing fits."""

    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    missing: list[str] = field(default_factory=list[str])
    copied: int = 0  # values taken from the message rather than from what the schema lists
    guessed: int = 0  # those of them that are plain words after the parameter's name


def read_arguments(schema: Mapping[str, Any], message: str) -> Reading:
    return _Reader(schema, message.translate(_STRAIGHT)).read()


class _Reader:
    def __init__(self, schema: Mapping[str, Any], message: str) -> None:
        properties = json_object(schema.get("properties"))
        required = json_list(schema.get("required"))
        listing = sorted(properties.items(), key=lambda one: one[0] not in required)[:_MOST_SLOTS]
        self.slots = [_slot(name, one, name in required) for name, one in listing]
        self.message = message
        self.out = Reading()
        self.taken: list[tuple[int, int]] = []

    def read(self) -> Reading:
        self.choices()
        self.dates()
        self.lists()
        self.numbers()
        self.texts()
        self.flags()
        for slot in self.slots:
            if slot.required and slot.name not in self.out.arguments:
                if slot.schema.get("default") is not None:
                    self.out.arguments[slot.name] = slot.schema["default"]
                else:
                    self.out.missing.append(slot.name)
        return self.out

    def open(self, *kinds: str) -> list[_Slot]:
        found = [s for s in self.slots if s.kind in kinds and s.name not in self.out.arguments]
        return sorted(found, key=lambda slot: not slot.required)

    def put(self, slot: _Slot, value: Any, *places: Span) -> None:
        self.out.arguments[slot.name] = value
        self.taken += [(place.start, place.end) for place in places]
        self.out.copied += bool(places)

    def free(self, found: Iterable[Span]) -> list[Span]:
        return [
            one
            for one in found
            if not any(one.start < end and start < one.end for start, end in self.taken)
        ]

    # ---- one kind after another

    def choices(self) -> None:
        said = fold(self.message)
        stems = set(terms(self.message)) | {stem(word) for word in words(self.message)}
        for slot in self.open("choice"):
            by_text = {str(one): one for one in _options(slot.schema)}
            if {"True", "False"} <= by_text.keys():
                if self.mentioned(slot):
                    self.put(slot, by_text[str(not self.negated(slot))])
                continue
            found = [
                (exact, one) for one in _options(slot.schema) if (exact := _says(said, stems, one))
            ]
            if not found:
                continue
            if slot.schema.get("type") == "array":
                value: Any = [one for _, one in found]
            else:
                _, value = max(
                    found, key=lambda one: (not _usual(one[1], slot), one[0], len(str(one[1])))
                )
            named = not stems.isdisjoint(map(stem, slot.said))
            if slot.required or named or not str(value).isdigit():
                self.put(slot, value)
                self.out.copied += 1

    def dates(self) -> None:
        for slot in self.open("date"):
            cue = _cue(slot, self.message, self.free(_dates(self.message)))
            if cue is not None:
                self.put(slot, _formatted(cue.value, slot.schema), cue)

    def lists(self) -> None:
        for slot in self.open("numbers", "texts"):
            found = self.free(_lists(self.message, numbers=slot.kind == "numbers"))
            if not found and slot.kind == "texts" and slot.required:
                single = self.free([*_quoted(self.message), *_names(self.message)])
                found = _runs(self.message, single)
            if found:
                longest = max(found, key=lambda one: len(one.value))
                best = _nearest(slot, self.message, found) or longest
                self.put(slot, best.value, best)

    def numbers(self) -> None:
        slots = self.open("number", "integer")
        found = self.free(_numbers(self.message))
        self.in_order([slot for slot in slots if slot.required], found)
        alike = Counter(slot.said for slot in slots)  # side1 and side2 take numbers in their order
        scored = [
            (near, -at, -index, slot, one)
            for at, slot in enumerate(slots)
            for index, one in enumerate(found)
            if alike[slot.said] == 1
            and (near := _nearness(slot, slots, self.message, one, names_only=not slot.required))
            > (0 if slot.required else _OPTIONAL)
        ]
        for *_, slot, one in sorted(scored, key=lambda each: each[:3], reverse=True):
            if slot.name not in self.out.arguments and self.free([one]):
                self.put(slot, _number(one, slot), one)
        rest = [slot for slot in self.open("number", "integer") if slot.required]
        left = self.free(found)
        if rest and len(left) >= len(rest):
            for slot, one in zip(rest, left, strict=False):
                self.put(slot, _number(one, slot), one)

    def in_order(self, slots: list[_Slot], found: Sequence[Span]) -> None:
        """`the base and height as 6 and 10`: numbers in the order in which they were announced."""
        if 1 < len(slots) == len(found):
            said = fold(self.message[: found[0].start])
            at = {said.find(max(slot.said, key=len, default="\0")): slot for slot in slots}
            if min(at) >= 0 and len(at) == len(slots):
                for place, one in zip(sorted(at), found, strict=True):
                    self.put(at[place], _number(one, at[place]), one)

    def texts(self) -> None:
        slots = self.open("text")
        pairs = [
            (fit, -at, -one.start, slot, one)
            for at, slot in enumerate(slots)
            for one in self.candidates(slot)
            if (fit := self.text_fit(slot, one)) > 0
        ]
        for *_, slot, one in sorted(pairs, key=lambda each: each[:3], reverse=True):
            if slot.name not in self.out.arguments and self.free([one]):
                place = slot.wants == "place"
                self.put(slot, _whole_place(one, self.message, slot) if place else one.value, one)
                self.out.guessed += one.kind == "behind"

    def candidates(self, slot: _Slot) -> list[Span]:
        if slot.wants == "time":
            return self.free(_marked(self.message, "time"))
        if slot.wants == "path":
            hosts = [
                Span("path", match[0], *match.span()) for match in _HOST.finditer(self.message)
            ]
            found = [*_marked(self.message, "path"), *hosts, *_quoted(self.message)]
            others = [*found, *_names(self.message), *_marked(self.message, "email")]
            return self.free([*found, *_behind(slot, self.message, others)])
        found = [*_quoted(self.message), *_names(self.message), *_marked(self.message, "email")]
        found += _places(self.message) if slot.wants == "place" else _listed(slot, self.message)
        found += _behind(slot, self.message, found)
        if slot.said & _IDS:
            found += [Span("id", match[0], *match.span()) for match in _ID.finditer(self.message)]
        return self.free(found)[:_MOST_CANDIDATES]

    def text_fit(self, slot: _Slot, one: Span) -> float:
        fit = _FITS[slot.wants].get(one.kind, 0.0)
        if not fit:
            return 0.0
        before = words(self.message[max(0, one.start - _WINDOW) : one.start])
        cue = _CUED * bool(before and before[-1] in _cues(slot))
        if one.kind == "behind":
            cue += _CUED
        else:
            announced = _announced(slot, self.message, one)
            cue += _ANNOUNCED if announced else _nearness(slot, (), self.message, one)
        return fit + cue if slot.required or cue >= _OPTIONAL_CUE or one.kind == "listed" else 0.0

    def flags(self) -> None:
        for slot in self.open("flag"):
            if self.mentioned(slot):
                self.put(slot, not self.negated(slot))
            elif slot.required and slot.schema.get("default") is None:
                self.put(slot, False)

    def mentioned(self, slot: _Slot) -> bool:
        """Whether half of the telling words of a flag's name are said."""
        said = set(terms(self.message))
        own = {stem(word) for word in slot.said - _FLAG_WORDS - STOP_WORDS}
        return bool(own) and 2 * sum(bool({one, *synonyms(one)} & said) for one in own) >= len(own)

    def negated(self, slot: _Slot) -> bool:
        name = re.escape(words(slot.name)[-1])
        before = re.split(rf"\b{name}", fold(self.message), maxsplit=1)[0]
        return not {"no", "not", "without", "excluding"}.isdisjoint(words(before)[-4:])


_OPTIONAL = 0.6
_OPTIONAL_CUE = 0.9
_CUED, _ANNOUNCED = 1.0, 3.0
# How well each kind of candidate suits what a parameter wants.
_FITS = {
    "place": {"place": 3.0, "name": 1.6, "quoted": 1.2, "behind": 0.4},
    "time": {"time": 4.0},
    "path": {"path": 3.0, "quoted": 2.0, "behind": 0.3},
    "id": {"listed": 3.0, "id": 2.2, "email": 2.2, "quoted": 2.0, "name": 0.6, "behind": 0.5},
    "text": {"listed": 3.0, "quoted": 2.6, "id": 2.2, "email": 2.2, "name": 2.0, "behind": 0.8},
}
_FLAG_WORDS = word_set("include is has show use enable with only the get")


def _slot(name: str, raw: Any, required: bool) -> _Slot:
    schema = plain_schema(json_object(raw))
    described = str(schema.get("description") or "")
    said = frozenset(words(name))
    stems = frozenset(terms(f"{name} {described}"))
    wants = "id" if said & _IDS else "text"
    if said & _PLACES or _WITH_STATE.search(described) or _WITH_COUNTRY.search(described):
        wants = "place"
    elif said & _PATHS:
        wants = "path"
    elif "time" in said and _CLOCK_SHAPE.search(described):
        wants = "time"
    return _Slot(name, schema, required, _kind(said, schema), said, stems, wants)


_KINDS = {"integer": "integer", "number": "number", "boolean": "flag", "string": "text"}
_LISTS = {"integer": "numbers", "number": "numbers", "string": "texts"}


def _kind(said: frozenset[str], schema: Mapping[str, Any]) -> str:
    if _options(schema):
        return "choice"
    if schema.get("type") == "array":
        return _LISTS.get(str(json_object(schema.get("items")).get("type")), "other")
    kind = _KINDS.get(str(schema.get("type")), "other")
    return "date" if kind == "text" and said & _DATES else kind


def _options(schema: Mapping[str, Any]) -> list[Any]:
    items = json_object(schema.get("items"))
    return json_list(schema.get("enum") or items.get("enum"))


def _says(said: str, stems: set[str], option: Any) -> int:
    """How exactly the message says an option: 2 in these very words, 1 in other forms of them."""
    text = fold(str(option)).replace("_", " ").replace("-", " ")
    if re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said.replace("-", " ")) is not None:
        return 2
    own = {stem(word) for word in words(text)}
    return int(bool(own) and (own <= stems or (len(text) > _SHORT and text in said)))


def _usual(value: Any, slot: _Slot) -> bool:
    """Whether an option is often said without being meant, such as `all`, or is the default."""
    return fold(str(value)) in STOP_WORDS or value == slot.schema.get("default")


def _numbers(message: str) -> list[Span]:
    """Those in digits first: `two` is often no value, as in `two sides, 3 and 4`."""
    found: list[Span] = []
    written: list[Span] = []
    quoted = [one for one in _quoted(message) if " " in str(one.value)]
    for match in _NUMBER.finditer(message):
        if any(one.start < match.start() < one.end for one in quoted):
            continue
        if match["word"]:
            written.append(Span("number", NUMBER_WORDS[match["word"].lower()], *match.span()))
            continue
        value = float(match["digits"].replace(",", "")) * _SCALES.get(match["scale"] or "", 1)
        if math.isfinite(value):
            whole = value.is_integer() and "." not in match["digits"]
            number = int(value) if whole else value
            kind = "percent" if match["percent"] else "number"
            found.append(Span(kind, number, *match.span()))
    return [*found, *written]


def _number(one: Span, slot: _Slot) -> Any:
    if one.kind == "percent" and slot.kind == "number" and "percentag" not in slot.stems:
        return round(one.value / 100, 10)
    if slot.kind == "integer" and isinstance(one.value, float) and one.value.is_integer():
        return int(one.value)
    return one.value


def _dates(message: str) -> list[Span]:
    found: list[Span] = []
    for match in _DATE.finditer(message):
        parts = {key[0]: text for key, text in match.groupdict().items() if text}
        month = _MONTH.get(parts["m"].lower()) or int(parts["m"])
        with suppress(ValueError):
            day = date(int(parts["y"]), month, int(parts["d"]))
            found.append(Span("date", day, *match.span()))
    return found


def _formatted(day: date, schema: Mapping[str, Any]) -> str:
    """In the order that the description shows, such as `MM-DD-YYYY` or `month-day-year`."""
    described = str(schema.get("description") or "").upper()
    shape = _FORMAT.search(described) or _FORMAT_IN_WORDS.search(described)
    if shape is None:
        return day.isoformat()
    parts = {"Y": f"{day.year}", "M": f"{day.month:02}", "D": f"{day.day:02}"}
    return shape[2].join(parts[shape[at][0]] for at in (1, 3, 4))


def _lists(message: str, *, numbers: bool) -> list[Span]:
    found: list[Span] = []
    for match in _LIST.finditer(message):
        parts = [part.strip(" '\"") for part in re.split(r",|\band\b", match[1])]
        if numbers:
            values = [one.value for part in parts for one in _numbers(part)]
            if len(values) == len(parts):
                found.append(Span("list", values, *match.span()))
        elif len(parts) > 1 or match[0][0] == "[":
            found.append(Span("list", parts, *match.span()))
    if numbers and not found:
        runs = re.finditer(r"-?\d[\d.]*(?:\s*(?:,|and|,\s*and)\s*-?\d[\d.]*)+", message)
        found = [Span("list", [one.value for one in _numbers(m[0])], *m.span()) for m in runs]
    return found


@lru_cache(maxsize=_MESSAGES_KEPT)
def _marked(message: str, kind: str) -> list[Span]:
    return [one for one in find_spans(message) if one.kind == kind]


@lru_cache(maxsize=_MESSAGES_KEPT)
def _quoted(message: str) -> list[Span]:
    return [
        Span("quoted", next(filter(None, match.groups())), *match.span())
        for match in _QUOTED.finditer(message)
    ]


@lru_cache(maxsize=_MESSAGES_KEPT)
def _names(message: str) -> list[Span]:
    """Runs of capitalised words; a single one that opens a sentence says nothing."""
    found: list[Span] = []
    for match in _NAME.finditer(message):
        start, text = match.start(), match[0]
        while (first := text.split()[0]) and fold(first.rstrip("'s")).strip(
            "."
        ) in _OPENERS | STOP_WORDS | _LABELS:
            rest = text[len(first) :].lstrip()
            if not rest:
                break
            start, text = start + len(text) - len(rest), rest
            text = re.sub(r"^(?:of|the|and|in|for)\s+", "", text)
            start = match.end() - len(text)
        text = re.sub(r"'s$", "", text.rstrip(".,'"))
        if fold(text) not in _OPENERS | STOP_WORDS | _LABELS and text:
            opens = start == 0 or message[:start].rstrip()[-1:] in ".?!"
            plain = opens and " " not in text and text[1:].islower()
            if not plain:
                found.append(Span("name", text, start, start + len(text)))
    return found


@lru_cache(maxsize=_MESSAGES_KEPT)
def _places(message: str) -> list[Span]:
    """Streets with their number, and known cities and countries, these also in lower case."""
    found = [match.span() for match in _STREET.finditer(message)]
    found += [(one.start, one.end) for one in _marked(message, "zone")]
    places = [Span("place", message[start:end], start, end) for start, end in found]
    return [one for one in places if "/" not in one.text]


def _whole_place(one: Span, message: str, slot: _Slot) -> str:
    """With its state or country if the message names it, or if the parameter asks for it."""
    described = str(slot.schema.get("description") or "")
    text = str(one.value)
    more = re.match(rf",\s*({_CAPITAL}(?:\s{_CAPITAL})?)", message[one.end :])
    state, country = _WITH_STATE.search(described), _WITH_COUNTRY.search(described)
    home = state_code(message[one.end :]) if state else ""
    if home and not text[:1].isdigit():
        return f"{within(text, state=False, country=False, title=True)}, {home}"
    if more and (state or country) and not text[:1].isdigit():
        return f"{text}, {more[1]}"
    return within(text, state=bool(state), country=bool(country))


def _listed(slot: _Slot, message: str) -> list[Span]:
    """What the description quotes as possible values, if the message says one of them."""
    described = str(slot.schema.get("description") or "")
    found: list[Span] = []
    options = [str(one.value) for one in _quoted(described)]
    for some in _EXAMPLES.finditer(described):
        if "'" not in some[1] and '"' not in some[1]:
            options += [one.strip() for one in re.split(r",|\bor\b|\band\b|\betc\b", some[1])]
    for option in options:
        at = re.search(rf"\b{re.escape(option)}", message, re.IGNORECASE)
        if at is not None and len(option) > 1:
            found.append(Span("listed", option, *at.span()))
    return found


def _runs(message: str, found: Sequence[Span]) -> list[Span]:
    runs: list[list[Span]] = []
    for one in sorted(found, key=lambda each: each.start):
        gap = message[runs[-1][-1].end : one.start] if runs else ""
        if runs and one.start < runs[-1][-1].end:
            continue
        if runs and re.fullmatch(r"\s*(?:,|and|or|&|,\s*and|,\s*or)\s*(?:the\s+|a\s+)?", gap):
            runs[-1].append(one)
        else:
            runs.append([one])
    return [Span("list", [one.value for one in run], run[0].start, run[-1].end) for run in runs]


def _name_cues(slot: _Slot) -> list[str]:
    """The parameter's name as people write it: whole, and its telling words."""
    own = words(slot.name)
    return [r"[\s_-]+".join(own), *(word for word in own if word not in _VAGUE)] if own else []


def _behind(slot: _Slot, message: str, others: Sequence[Span]) -> list[Span]:
    """A plain word after the parameter's own name, such as `the species lion`."""
    return [
        Span("behind", at[1], *at.span(1))
        for cue in _name_cues(slot)
        for at in re.finditer(rf"\b{cue}{_LINK}([\w./#-]*\w)(?![\w^*])", message, re.IGNORECASE)
        if at[1].lower() not in _EDGE
        and stem(at[1].lower()) not in slot.stems
        and not any(one.start <= at.start(1) and at.end(1) <= one.end for one in others)
    ]


def _announced(slot: _Slot, message: str, one: Span) -> bool:
    """Whether the parameter's own name comes right before it: `color 'Red'`, `id is 7`."""
    before = message[max(0, one.start - _WINDOW) : one.start]
    return any(re.search(rf"\b{cue}{_LINK}$", before, re.I) for cue in _name_cues(slot))


def _cues(slot: _Slot) -> tuple[str, ...]:
    if slot.said & _FIRST:
        return ("from", "between", "starting", "leaving", "departing")
    if slot.said & _LAST:
        return ("to", "and", "until", "ending", "arriving")
    if slot.wants == "place":
        return ("in", "at", "near", "around", "from", "of", "to")
    if slot.said & _ACTORS:
        return ("with", "features", "featuring", "stars", "starring", "actor", "actress", "acted")
    return ("by", "directed", "from") if slot.said & _MAKERS else ()


def _cue(slot: _Slot, message: str, found: Sequence[Span]) -> Span | None:
    """The one that a preposition marks as this parameter's, else the first."""
    for cue in _cues(slot):
        for one in found:
            if words(message[: one.start])[-1:] == [cue]:
                return one
    return _nearest(slot, message, found) or next(iter(found), None)


def _nearest(slot: _Slot, message: str, found: Sequence[Span]) -> Span | None:
    near = [(_nearness(slot, (), message, one), -one.start, one) for one in found]
    best = max((each for each in near if each[0] > 0), key=lambda each: each[:2], default=None)
    return None if best is None else best[2]


def _nearness(
    slot: _Slot, others: Sequence[_Slot], message: str, one: Span, *, names_only: bool = False
) -> float:
    """How close the parameter's own words stand to a value; words that others share do not count."""
    shared = frozenset[str]().union(*(other.stems for other in others if other is not slot))
    names = {stem(word) for word in slot.said - STOP_WORDS}
    score = 0.0
    before = re.split(r"[.;?!,]\s|\band\b", message[max(0, one.start - _WINDOW) : one.start])[-1]
    after = re.split(r"[.;?!,]", message[one.end : one.end + _WINDOW // 2])[0]
    for side, weight in ((list(reversed(words(before))), 1.0), (words(after), 0.8)):
        for distance, word in enumerate(side):
            term = stem(word)
            if term in names and (term not in shared or len(names) == 1):
                score = max(score, weight * 2 / (1 + distance))
            elif names_only and (distance or weight == 1.0):
                continue
            elif term in slot.stems and term not in shared and word not in STOP_WORDS:
                score = max(score, weight / (1 + distance))
    return score
