"""Arguments for a tool of any kind, read from a message by the types of the tool's parameters.

Numbers go to the parameter whose words stand near them, names to the ones that take names, and so
on. Nothing is made up: a value is copied from the message, or chosen from what the schema lists.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, cast

from openclaw.embedded.words import NUMBER_WORDS, STOP_WORDS, fold, stem, terms, word_set, words

_SCALES = {"k": 1e3, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12}
_NUMBER = re.compile(
    r"(?<![\w.])(?P<digits>-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"(?:(?P<percent>\s?%|\s+percent\b)|\s?(?P<scale>k|thousand|million|billion|trillion|dozen)\b)?"
    rf"|\b(?P<word>(?i:{'|'.join(NUMBER_WORDS)}))\b"
)
_MONTHS = "january february march april may june july august september october november december"
_MONTH = {name: at for at, full in enumerate(_MONTHS.split(), 1) for name in (full, full[:3])}
_NAMES = "|".join(sorted(_MONTH, key=len, reverse=True))
_DATE = re.compile(
    r"\b(?:(?P<y1>\d{4})-(?P<m1>\d{1,2})-(?P<d1>\d{1,2})"
    r"|(?P<m2>\d{1,2})/(?P<d2>\d{1,2})/(?P<y2>\d{4})"
    rf"|(?P<m3>{_NAMES})\.?\s+(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y3>\d{{4}})"
    rf"|(?P<d4>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m4>{_NAMES})\.?,?\s+(?P<y4>\d{{4}}))\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"(?<!\w)'([^'\n]+)'(?!\w)|\"([^\"\n]+)\"|`([^`\n]+)`")
_NAME = re.compile(
    r"\b[A-Z][\w&.'-]*(?:(?:\s+(?:(?:of|the|and|de|von|van|for|in)\s+)?|\s*&\s*)(?:[A-Z][\w&.'-]*|\d+\b))*"
)
_STRAIGHT = str.maketrans(dict(zip("\u2018\u2019\u201c\u201d", "''\"\"", strict=True)))
_LIST = re.compile(r"[\[(]([^\[\]()]+)[\])]")
_IN_FORMULA = re.compile(r"(?:[-+*/^=().\d]|(?<![a-z])[a-z](?![a-z])|sin|cos|exp|log)+")
_LONGEST_FORMULA = 60
_PLACES = word_set("city location place town country state region area address destination origin")
_DATES = word_set("date day dates datetime")
_FIRST = word_set("start from origin source departure begin beginning initial first")
_LAST = word_set("end to destination target arrival final last")
_FORMULAS = word_set("function expression equation formula")
# Words with which requests begin: capitals that are no names.
_OPENERS = word_set(
    """find get what who which when where how calculate compute determine give show tell can could i
    please is are book order search list check create generate convert fetch retrieve estimate predict
    identify compare look help need want add update set write analyze analyse play start stop turn send
    the a an in for on my using if let do does did will would should provide locate return use make run
    assess evaluate solve simulate plan schedule translate rank track view you we it this that hey hi"""
)
_EDGE = STOP_WORDS | word_set("current latest new latitude using near around between during")
_WINDOW = 40
_MOST_PHRASE_WORDS = 5
_SHORT = 3


@dataclass(frozen=True, slots=True)
class Value:
    """Something in the message that can be an argument."""

    start: int
    end: int
    value: Any
    percent: bool = False


@dataclass(slots=True)
class _Slot:
    name: str
    schema: Mapping[str, Any]
    required: bool
    kind: str
    said: frozenset[str]
    stems: frozenset[str]


@dataclass(slots=True)
class Reading:
    """What was found for one tool. `missing` are required parameters that nothing fits."""

    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    missing: list[str] = field(default_factory=list[str])
    copied: int = 0
    """How many values were taken from the message, rather than from what the schema lists."""


def read_arguments(schema: Mapping[str, Any], message: str) -> Reading:
    """The arguments that the message gives a tool with this schema."""
    return _Reader(schema, message.translate(_STRAIGHT)).read()


class _Reader:
    def __init__(self, schema: Mapping[str, Any], message: str) -> None:
        properties = _mapping(schema.get("properties"))
        listed = schema.get("required")
        required = cast("list[Any]", listed) if isinstance(listed, list) else []
        self.slots = [_slot(name, one, name in required) for name, one in properties.items()]
        self.message = message
        self.out = Reading()
        self.taken: list[tuple[int, int]] = []

    def read(self) -> Reading:
        for fill in (self.choices, self.dates, self.lists, self.numbers, self.texts, self.flags):
            fill()
        for slot in self.slots:
            if slot.required and slot.name not in self.out.arguments:
                self.out.missing.append(slot.name)
        return self.out

    def open(self, *kinds: str) -> list[_Slot]:
        """Parameters of these kinds without a value, required ones first."""
        found = [s for s in self.slots if s.kind in kinds and s.name not in self.out.arguments]
        return sorted(found, key=lambda slot: not slot.required)

    def put(self, slot: _Slot, value: Any, *places: Value) -> None:
        self.out.arguments[slot.name] = value
        self.taken += [(place.start, place.end) for place in places]
        self.out.copied += bool(places)

    def free(self, found: Iterable[Value]) -> list[Value]:
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
            options = _options(slot.schema)
            found = [one for one in options if _says(said, stems, one)]
            if found:
                best = max(found, key=lambda one: len(str(one)))
                self.put(slot, [best] if slot.schema.get("type") == "array" else best)
                self.out.copied += 1

    def dates(self) -> None:
        for slot in self.open("date"):
            found = self.free(_dates(self.message))
            cue = _cue(slot, self.message, found)
            if cue is not None:
                self.put(slot, _formatted(cue.value, slot.schema), cue)

    def lists(self) -> None:
        for slot in self.open("numbers", "texts"):
            found = self.free(_lists(self.message, numbers=slot.kind == "numbers"))
            if found:
                best = _nearest(slot, self.message, found) or found[0]
                self.put(slot, best.value, best)
            elif slot.kind == "texts" and slot.required:
                names = self.free([*_quoted(self.message), *_names(self.message)])
                if names:
                    self.put(slot, [one.value for one in names], *names)

    def numbers(self) -> None:
        slots = self.open("number", "integer")
        found = self.free(_numbers(self.message))
        alike = Counter(slot.said for slot in slots)  # side1 and side2 take numbers in their order
        scored = [
            (near, -at, -index, slot, one)
            for at, slot in enumerate(slots)
            for index, one in enumerate(found)
            if alike[slot.said] == 1 and (near := _nearness(slot, slots, self.message, one)) > 0
        ]
        for *_, slot, one in sorted(scored, key=lambda each: each[:3], reverse=True):
            if slot.name not in self.out.arguments and self.free([one]):
                self.put(slot, _number(one, slot), one)
        rest = [slot for slot in self.open("number", "integer") if slot.required]
        left = self.free(found)
        if rest and len(left) >= len(rest):
            for slot, one in zip(rest, left, strict=False):
                self.put(slot, _number(one, slot), one)

    def texts(self) -> None:
        for slot in self.open("text"):
            value = self.named(slot) or (self.by_kind(slot) if slot.required else None)
            if value is not None:
                self.put(slot, value.value, value)

    def named(self, slot: _Slot) -> Value | None:
        """What stands right behind the parameter's own name: `color 'Red'`, `the species lion`."""
        name = r"[\s_-]+".join(map(re.escape, words(slot.name)[-2:]))
        cue = rf"\b{name}s?\b\s*(?:is|of|as|=|:|named|called|being|to)?\s*(?:the\s+|a\s+)?"
        for at in re.finditer(cue, self.message, re.IGNORECASE):
            for one in self.free([*_quoted(self.message), *_names(self.message)]):
                if one.start - 1 <= at.end() <= one.start + 1:
                    return one
        return None

    def by_kind(self, slot: _Slot) -> Value | None:
        if slot.said & _FORMULAS:
            return next(iter(self.free(_formulas(self.message))), None)
        quoted = self.free(_quoted(self.message))
        if quoted and not slot.said & _PLACES:
            return _nearest(slot, self.message, quoted) or quoted[0]
        names = self.free(_names(self.message))
        cue = _cue(slot, self.message, names)
        if cue is not None:
            return cue
        return next(iter(self.free(_phrases(self.message))), None)

    def flags(self) -> None:
        said = set(terms(self.message))
        for slot in self.open("flag"):
            own = {stem(word) for word in words(slot.name) if word not in _FLAG_WORDS}
            mentioned = bool(own) and own <= said
            if mentioned:
                self.put(slot, not self.negated(words(slot.name)[-1]))
            elif slot.required:
                self.put(slot, False)

    def negated(self, word: str) -> bool:
        before = re.split(rf"\b{re.escape(word)}", fold(self.message), maxsplit=1)[0]
        return bool({"no", "not", "without", "excluding"} & set(words(before)[-_NEGATING_WORDS:]))


_NEGATING_WORDS = 4
_FLAG_WORDS = word_set("include is has show use enable with only the get")


def _slot(name: str, raw: Any, required: bool) -> _Slot:
    schema = _plain(_mapping(raw))
    described = str(schema.get("description") or "")
    said = frozenset(words(name))
    return _Slot(
        name, schema, required, _kind(said, schema), said, frozenset(terms(f"{name} {described}"))
    )


def _kind(said: frozenset[str], schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if _options(schema):
        return "choice"
    if kind in ("integer", "number"):
        return str(kind)
    if kind == "boolean":
        return "flag"
    if kind == "array":
        inner = _mapping(schema.get("items")).get("type")
        return {"integer": "numbers", "number": "numbers", "string": "texts"}.get(
            str(inner), "other"
        )
    if kind != "string":
        return "other"
    return "date" if said & _DATES else "text"


def _plain(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list):
            some = [_mapping(one) for one in cast("list[Any]", options)]
            named = [one for one in some if one.get("type") != "null"]
            if named:
                return {**schema, **named[0]}
    kind = schema.get("type")
    if isinstance(kind, list):
        named = [one for one in cast("list[Any]", kind) if one != "null"]
        return {**schema, "type": named[0] if named else None}
    return schema


def _options(schema: Mapping[str, Any]) -> list[Any]:
    items = _mapping(schema.get("items"))
    listed = schema.get("enum") or items.get("enum")
    return cast("list[Any]", listed) if isinstance(listed, list) else []


def _says(said: str, stems: set[str], option: Any) -> bool:
    text = fold(str(option)).replace("_", " ").replace("-", " ")
    own = [stem(word) for word in words(text)]
    if not own:
        return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said) is not None
    if len(text) > _SHORT and text in said:
        return True
    return re.search(rf"\b{re.escape(text)}\b", said) is not None or set(own) <= stems


def _numbers(message: str) -> list[Value]:
    """Those in digits first: `two` is often no value, as in `two sides, 3 and 4`."""
    found: list[Value] = []
    written: list[Value] = []
    for match in _NUMBER.finditer(message):
        if match["word"]:
            value: float = NUMBER_WORDS[match["word"].lower()]
            written.append(Value(match.start(), match.end(), value))
            continue
        value = float(match["digits"].replace(",", "")) * _SCALES.get(match["scale"] or "", 1)
        if math.isfinite(value):
            whole = value.is_integer() and "." not in match["digits"]
            found.append(
                Value(
                    match.start(),
                    match.end(),
                    int(value) if whole else value,
                    bool(match["percent"]),
                )
            )
    return [*found, *written]


def _number(one: Value, slot: _Slot) -> Any:
    if one.percent and slot.kind == "number":
        return round(one.value / 100, 10)
    if slot.kind == "integer" and isinstance(one.value, float) and one.value.is_integer():
        return int(one.value)
    return one.value


def _dates(message: str) -> list[Value]:
    found: list[Value] = []
    for match in _DATE.finditer(message):
        parts = {key[0]: text for key, text in match.groupdict().items() if text}
        month = _MONTH.get(parts["m"].lower()) or int(parts["m"])
        try:
            found.append(
                Value(match.start(), match.end(), date(int(parts["y"]), month, int(parts["d"])))
            )
        except ValueError:
            continue
    return found


def _formatted(day: date, schema: Mapping[str, Any]) -> str:
    described = str(schema.get("description") or "").upper()
    for shape, form in (
        ("MM/DD/YYYY", "%m/%d/%Y"),
        ("DD/MM/YYYY", "%d/%m/%Y"),
        ("MM-DD-YYYY", "%m-%d-%Y"),
        ("DD-MM-YYYY", "%d-%m-%Y"),
    ):
        if shape in described:
            return day.strftime(form)
    return day.isoformat()


def _lists(message: str, *, numbers: bool) -> list[Value]:
    found: list[Value] = []
    for match in _LIST.finditer(message):
        parts = [part.strip(" '\"") for part in re.split(r",|\band\b", match[1])]
        if numbers:
            values = [one.value for part in parts for one in _numbers(part)]
            if len(values) == len(parts):
                found.append(Value(match.start(), match.end(), values))
        elif len(parts) > 1 or match[0][0] == "[":
            found.append(Value(match.start(), match.end(), parts))
    if numbers and not found:
        run = re.search(r"-?\d[\d.]*(?:\s*(?:,|and|,\s*and)\s*-?\d[\d.]*)+", message)
        if run:
            found.append(Value(run.start(), run.end(), [one.value for one in _numbers(run[0])]))
    return found


def _quoted(message: str) -> list[Value]:
    return [
        Value(match.start(), match.end(), next(filter(None, match.groups())))
        for match in _QUOTED.finditer(message)
    ]


def _names(message: str) -> list[Value]:
    """Runs of capitalised words; what opens a sentence counts only if it is no ordinary opener."""
    found: list[Value] = []
    for match in _NAME.finditer(message):
        start, text = match.start(), match[0]
        while (first := text.split()[0]) and fold(first.rstrip("'s")).strip(
            "."
        ) in _OPENERS | STOP_WORDS:
            rest = text[len(first) :].lstrip()
            if not rest:
                break
            start, text = start + len(text) - len(rest), rest
            text = re.sub(r"^(?:of|the|and|in|for)\s+", "", text)
            start = match.end() - len(text)
        text = text.rstrip(".,'")
        text = re.sub(r"'s$", "", text)
        if fold(text) not in _OPENERS | STOP_WORDS and text:
            found.append(Value(start, start + len(text), text))
    return found


def _formulas(message: str) -> list[Value]:
    """Runs of words that are made of digits, operators and single letters: `3x^2 + 2x - 1`."""
    found: list[Value] = []
    run: list[re.Match[str]] = []
    for token in [*re.finditer(r"\S+", message), None]:
        text = token[0].rstrip(",.?;:") if token is not None else ""
        if token is not None and len(text) < _LONGEST_FORMULA and _IN_FORMULA.fullmatch(text):
            run.append(token)
            continue
        whole = message[run[0].start() : run[-1].end()].strip(" ,.?;:") if run else ""
        if re.search(r"[\^*=+]|\d[a-z]", whole):
            found.append(Value(run[0].start(), run[-1].end(), whole))
        run = []
    return found


def _phrases(message: str) -> list[Value]:
    """Plain words behind a preposition: `recipes for chocolate cake`."""
    cue = r"\b(?:for|about|of|on|with|in|from|to|by)\s+(?:the\s+|a\s+|an\s+|my\s+)?([a-z][\w-]*(?:\s+[a-z][\w-]*)*)"
    found: list[Value] = []
    for match in re.finditer(cue, message):
        run = match[1].split()
        kept: list[str] = []
        for word in run[:_MOST_PHRASE_WORDS]:
            if word in _EDGE:
                break
            kept.append(word)
        if kept:
            text = " ".join(kept)
            found.append(Value(match.start(1), match.start(1) + len(text), text))
    return found


def _cue(slot: _Slot, message: str, found: Sequence[Value]) -> Value | None:
    """The one that a preposition marks as this parameter's, else the first."""
    if not found:
        return None
    cues: tuple[str, ...] = ()
    if slot.said & _FIRST:
        cues = ("from", "between", "starting", "leaving", "departing")
    elif slot.said & _LAST:
        cues = ("to", "and", "until", "ending", "arriving")
    elif slot.said & _PLACES:
        cues = ("in", "at", "near", "around", "from", "of")
    for cue in cues:
        for one in found:
            if (words(message[: one.start]) or [""])[-1] == cue:
                return one
    return _nearest(slot, message, found) or found[0]


def _nearest(slot: _Slot, message: str, found: Sequence[Value]) -> Value | None:
    scored = [(_nearness(slot, (), message, one), -one.start, one) for one in found]
    best = max(scored, key=lambda each: each[:2], default=None)
    return best[2] if best is not None and best[0] > 0 else None


def _nearness(slot: _Slot, others: Sequence[_Slot], message: str, one: Value) -> float:
    """How close the parameter's own words stand to a value; words that others share do not count."""
    shared = frozenset[str]().union(*(other.stems for other in others if other is not slot))
    names = {stem(word) for word in slot.said}
    score = 0.0
    before = re.split(r"[.;?!]\s", message[max(0, one.start - _WINDOW) : one.start])[-1]
    after = re.split(r"[.;?!,]", message[one.end : one.end + _WINDOW // 2])[0]
    for side, weight in ((list(reversed(words(before))), 1.0), (words(after), 0.8)):
        for distance, word in enumerate(side):
            term = stem(word)
            if term in names and (term not in shared or len(names) == 1):
                score = max(score, weight * 2 / (1 + distance))
            elif term in slot.stems and term not in shared and word not in STOP_WORDS:
                score = max(score, weight / (1 + distance))
    return score


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
