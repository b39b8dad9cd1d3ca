"""Arguments for a tool, read from a message by what the tool's parameters want.

Paths, addresses and the like come from the parts of the message that look like them, numbers go to
the parameter whose words are near, names to the ones that take names, and so on. Nothing is made
up: a value is copied from the message, or chosen from what the schema lists.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any

from openclaw.discovery.stems import stem
from openclaw.embedded.entities import Span, numbers, quoted, within, without
from openclaw.embedded.tool_doc import WITH_COUNTRY, WITH_STATE, Param, Role, ToolDoc
from openclaw.embedded.vocabulary import (
    STOP_WORDS,
    fold,
    synonyms,
    terms,
    vocabulary,
    word_set,
    words,
)

_WINDOW = 40
_SHORT, _LONG = 3, 5
_MESSAGES_KEPT = 32
_MOST_PARAMS = 40
_MOST_CANDIDATES = 60


@dataclass(slots=True)
class Reading:
    """What was found for one tool. `missing` are required parameters that nothing fits."""

    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    missing: list[str] = field(default_factory=list[str])
    used: set[Span] = field(default_factory=set[Span])  # of the typed parts of the message
    copied: int = 0  # values taken from the message rather than from what the schema lists
    loose: int = 0  # required texts that nothing in the message marks as such
    defaulted: int = 0
    seeks: bool = False  # plain words of the message are what a search is for
    # Stems of plain words that were copied because the message says that they are the argument.
    sought: set[str] = field(default_factory=set[str])


def read_arguments(doc: ToolDoc, message: str, spans: Sequence[Span]) -> Reading:
    return _Reader(doc, message.translate(_STRAIGHT), spans).read()


def path_role(path: str, message: str, start: int) -> Role:
    """What a path in a message is, as far as it or the word before it says."""
    if path.endswith(("/", "\\")):
        return "directory"
    for word in reversed(words(message[max(0, start - 30) : start])[-2:]):
        if word in _ROLE_WORDS:
            return _ROLE_WORDS[word]
    return "file" if _FILE_ENDING.search(path) else "any"


_ROLE_WORDS: dict[str, Role] = {
    "folder": "directory", "directory": "directory", "dir": "directory", "file": "file",
    "document": "file", "repo": "repository", "repository": "repository", "checkout": "repository",
}  # fmt: skip
_STRAIGHT = str.maketrans(dict(zip("\u2018\u2019\u201c\u201d", "''\"\"", strict=True)))
_FILE_ENDING = re.compile(r"[^/\\.]\.[A-Za-z][A-Za-z0-9]{0,5}$")
# The typed parts that such a parameter takes; if it is optional, the first kind alone.
_MARKS = {
    "url": ("url",),
    "email": ("email",),
    "zone": ("zone",),
    "path": ("path",),
    "ref": ("revision", "ref"),
    "glob": ("glob", "quoted", "named"),
    "query": ("quoted", "named"),
    "command": ("quoted",),
}
_SOUGHT = re.compile(
    r"\b(?:for|about|mentioning|mentions?|containing|contains?)\s+"
    r"(?:the\s+)?(?:(?:word|text|string|phrase|term)\s+)?"
    r"([^\s?!,][^?!,\n]*?)(?=\s+(?:in|on|under|inside|within|at|from)\b|[?!,.]?\s*$|[?!,])",
    re.IGNORECASE,
)
_SEARCH_FIRST = re.compile(r"\W*(?:please\s+)?(?:search|grep|look)\b", re.IGNORECASE)
_SEARCHING = frozenset(map(stem, ("search", "find", "look", "grep", "query", "fetch")))
_RUN = re.compile(
    r"^\W*(?:please\s+|(?:can|could|would) you\s+(?:please\s+)?)?(?:run|execute|exec)(?=[\s:])"
    r":?\s*(?:(?:the|this|following|shell|command)(?=[\s:])\s*)*:?\s*(.+?)[\s?!]*$",
    re.IGNORECASE | re.DOTALL,
)
_COUNTS = word_set("count limit max n num number top maximum")
_BESIDE_COUNTS = vocabulary("beside_counts")
_LATEST = re.compile(
    r"\b(?:last|latest|most recent|newest)\b(?!\s+(?:few|some|couple|several)\b|\s+\w+s\b)",
    re.IGNORECASE,
)
_RECORDS = frozenset(map(stem, ("log", "history", "commits", "entries")))
_SAME_END = {"final": "last", "bottom": "last", "initial": "first", "top": "first"}
_TEXTS = ("text", "place", "id", "time", "path", "query")
_FLAG_WORDS = word_set("include is has show use enable with only the get")
_OPTIONAL, _COUNTED, _OPTIONAL_CUE, _CUED = 0.6, 0.61, 0.9, 1.0
# How well each kind of candidate suits what a parameter wants.
_NAMES = {
    "listed": 3.0, "quoted": 2.6, "named": 2.6, "id": 2.2, "email": 2.2, "name": 2.0, "behind": 0.8,
}  # fmt: skip
_FITS = {
    "place": {"place": 3.0, "name": 1.6, "quoted": 1.2},
    "time": {"time": 4.0},
    "path": {"path": 3.0},
    "id": {**_NAMES, "quoted": 2.0, "name": 0.6},
    "query": _NAMES,
    "text": _NAMES,
}
_PLAIN_TO_SEE = word_set("listed quoted named place time")


# How well a value fits a parameter, and where both are: of equals, the first is taken.
_Pair = tuple[float, int, int, Param, Span]


class _Reader:
    def __init__(self, doc: ToolDoc, message: str, spans: Sequence[Span]) -> None:
        self.doc = doc
        self.params = sorted(doc.params, key=lambda one: not one.required)[:_MOST_PARAMS]
        self.message = message
        self.spans = spans
        self.out = Reading()
        self.taken: list[tuple[int, int]] = []
        self.typed = doc.typed

    def read(self) -> Reading:
        self.marked()
        self.choices()
        self.dates()
        self.lists()
        self.numbers()
        self.texts()
        self.flags()
        for param in self.params:
            if param.required and param.name not in self.out.arguments:
                self.default(param)
        self.out.used = set(self.spans).difference(self.free(self.spans))
        return self.out

    def default(self, param: Param) -> None:
        value = param.default
        if value is None and param.choices and not self.typed and self.doc.effect == "reads":
            value = param.choices[0]
        if value in (None, ""):
            self.out.missing.append(param.name)
        else:
            self.out.arguments[param.name] = value
            self.out.defaulted += 1

    def open(self, *wants: str, lists: bool = False) -> list[Param]:
        return [
            one
            for one in self.params
            if one.want in wants and one.is_list is lists and one.name not in self.out.arguments
        ]

    def put(self, param: Param, value: Any, *places: Span) -> None:
        self.out.arguments[param.name] = value
        self.taken += [(place.start, place.end) for place in places]
        self.out.copied += bool(places)

    def free(self, found: Iterable[Span]) -> list[Span]:
        return [
            one
            for one in found
            if not any(one.start < end and start < one.end for start, end in self.taken)
        ]

    def best_first(self, pairs: list[_Pair]) -> Iterator[tuple[Param, Span]]:
        """Each parameter with the value that fits it best, as long as both are still free."""
        for *_, param, one in sorted(pairs, key=lambda each: each[:3], reverse=True):
            if param.name not in self.out.arguments and self.free([one]):
                yield param, one

    def of(self, *kinds: str) -> list[Span]:
        return self.free(one for kind in kinds for one in self.spans if one.kind == kind)

    # ---- what can be recognised by its form: paths, addresses, zones, revisions

    def marked(self) -> None:
        for want in ("zone", "path"):
            self.pair([one for one in self.open(want) if one.required], self.of(want))
        for param in [*self.open(*_MARKS), *self.open(*_MARKS, lists=True)]:
            kinds = _MARKS[param.want]
            found = self.of(*(kinds if param.required else kinds[:1]))
            if param.want == "path":
                found = self.paths_for(param, found)
            if found and param.is_list:
                self.put(param, [one.value for one in found], *found)
            elif found:
                self.put(param, found[0].value, found[0])
            elif param.want == "command":
                self.command(param)
            elif param.want in ("query", "glob"):
                self.seek(param)

    def pair(self, params: list[Param], found: list[Span]) -> None:
        """Two parameters of one kind, such as source and destination, told apart by their cues."""
        sources = [one for one in params if one.name_words & _FIRST]
        targets = [one for one in params if one.name_words & _LAST]
        if not found or not len(sources) == len(targets) == 1:
            return
        if len(found) > 1:
            first = self.pick_source(found)
            second = next(one for one in found if one is not first)
            self.put(sources[0], first.value, first)
            self.put(targets[0], second.value, second)
        else:
            towards = self.word_before(found[0]) in ("to", "into")
            self.put(targets[0] if towards else sources[0], found[0].value, found[0])

    def word_before(self, one: Span) -> str:
        return (words(self.message[max(0, one.start - _WINDOW) : one.start]) or [""])[-1]

    def pick_source(self, found: list[Span]) -> Span:
        """The one after `from`, else one that is not after `to`; of zones, the one next to the time."""
        before = {one: self.word_before(one) for one in found}
        if sources := [one for one in found if before[one] == "from"]:
            return sources[0]
        rest = [one for one in found if before[one] not in ("to", "into")] or found
        times = self.of("time")
        if not times or rest[0].kind != "zone":
            return rest[0]
        at = times[0]
        return min(rest[:2], key=lambda s: min(abs(s.start - at.end), abs(at.start - s.end)))

    def paths_for(self, param: Param, found: list[Span]) -> list[Span]:
        """The paths that suit this parameter best come first; a list leaves a sibling its own."""
        rank = {param.role: 0, "any": 1}
        fits = {s: rank.get(path_role(s.text, self.message, s.start), 2) for s in found}
        if not param.is_list:
            return sorted(found, key=fits.__getitem__)
        others = [p for p in self.params if p.want == "path" and p.required and not p.is_list]
        return [span for span in found if not (others and fits[span])] or found

    def command(self, param: Param) -> None:
        if found := _RUN.match(self.message):
            self.put(param, found[1], Span("command", found[1], *found.span(1)))
            self.out.sought.update(terms(found[1]))

    def seek(self, param: Param) -> None:
        """The file that is named, or what a search is for: after `for`, or the longest run of words
        that neither name the tool nor are grammar."""
        names = self.of("path") if param.want == "glob" and param.required else []
        files = [s for s in names if "/" not in s.text and _FILE_ENDING.search(s.text)]
        if files:
            self.put(param, files[0].value, files[0])
            return
        if not self.doc.name_terms & _SEARCHING:
            return
        self.out.seeks = True
        sought = _SOUGHT.search(self.message)
        if sought and not any(span.start == sought.start(1) for span in self.spans):
            self.out.arguments[param.name] = sought[1]
            if _SEARCH_FIRST.match(self.message):
                self.out.sought.update(terms(self.message[sought.start(1) :]))
            return
        said = self.doc.name_terms.union(*map(synonyms, self.doc.name_terms))
        runs: list[list[str]] = [[]]
        for word in re.findall(r"[^\s,;?!\"]+|[,;?!]", without(self.message, tuple(self.spans))):
            plain = word.strip(".:")
            own = terms(plain)  # a stop word has none
            if own and said.isdisjoint(own) and plain.lower() not in STOP_WORDS:
                runs[-1].append(plain)
            else:
                runs.append([])
        if best := max(runs, key=lambda run: sum(map(len, run))):
            self.out.arguments[param.name] = " ".join(best)

    # ---- what the schema's type says: one kind after another

    def choices(self) -> None:
        params = [*self.open("choice"), *self.open("choice", lists=True)]
        if not params:
            return
        said = fold(self.message)
        stems = set(terms(self.message)) | {stem(word) for word in words(self.message)}
        for param in params:
            by_text = {str(one): one for one in param.choices}
            if {"True", "False"} <= by_text.keys():
                if self.mentioned(param):
                    self.put(param, by_text[str(not self.negated(param))])
                continue
            found = [(exact, one) for one in param.choices if (exact := _says(said, stems, one))]
            if not found:
                continue
            if param.is_list:
                value: Any = [one for _, one in found]
            else:
                _, value = max(
                    found, key=lambda one: (not _usual(one[1], param), one[0], len(str(one[1])))
                )
            named = not stems.isdisjoint(map(stem, param.name_words))
            if param.required or named or (self.typed and not str(value).isdigit()):
                self.put(param, value)
                self.out.copied += 1
                said_at = re.search(rf"\b{re.escape(str(value))}\b", self.message, re.IGNORECASE)
                self.taken += [said_at.span()] if said_at else []

    def dates(self) -> None:
        for param in self.open("date"):
            found = self.free(_dates(self.message))
            cued = [one for one in found if self.word_before(one) in _cues(param)]
            near = _nearest(param, self.message, found)
            for one in [*cued, *([near] if near else found)][:1]:
                self.put(param, _formatted(one.value, param), one)

    def lists(self) -> None:
        for param in self.open("number", "date", "text", "place", "id", "query", lists=True):
            of_numbers = param.want == "number"
            found = self.free(_lists(self.message, of_numbers=of_numbers))
            if not found and not of_numbers and param.required:
                single = self.free([*quoted(self.message), *_names(self.message)])
                found = _runs(self.message, single)
            if found:
                longest = max(found, key=lambda one: len(one.value))
                best = _nearest(param, self.message, found) or longest
                self.put(param, best.value, best)

    def numbers(self) -> None:
        params = self.open("number")
        found = self.free(numbers(self.message))
        if not self.typed:  # only numbers that are not part of something else
            plain = {one.start for one in self.of("number")}
            found = [one for one in found if one.start in plain]
        self.in_order([one for one in params if one.required], found)
        alike = Counter(one.name_words for one in params)  # side1 and side2 take them in order
        scored = [
            (near, -at, -index, param, one)
            for at, param in enumerate(params)
            for index, one in enumerate(found)
            if alike[param.name_words] == 1
            and (near := self.number_fit(param, params, one)) > (0 if param.required else _OPTIONAL)
        ]
        for param, one in self.best_first(scored):
            self.put(param, _number(one, param), one)
        rest = [one for one in self.open("number") if one.required]
        left = self.free(found)
        if len(left) >= len(rest):
            for param, one in zip(rest, left, strict=False):
                self.put(param, _number(one, param), one)
        latest = self.doc.name_terms & _RECORDS and not found and _LATEST.search(self.message)
        for param in self.open("number"):
            if latest and param.name_words & _COUNTS:
                self.out.arguments[param.name] = 1

    def in_order(self, params: list[Param], found: Sequence[Span]) -> None:
        """`the base and height as 6 and 10`: numbers in the order in which they were announced."""
        if 1 < len(params) == len(found):
            said = fold(self.message[: found[0].start])
            at = {said.find(max(one.name_words, key=len, default="\0")): one for one in params}
            if min(at) >= 0 and len(at) == len(params):
                for place, one in zip(sorted(at), found, strict=True):
                    self.put(at[place], _number(one, at[place]), one)

    def number_fit(self, param: Param, params: Sequence[Param], one: Span) -> float:
        """An optional number is used only if the message says its name, or asks for a count."""
        names_only = self.typed and not param.required
        near = _nearness(param, params, self.message, one, names_only=names_only)
        beside = {self.word_before(one), *words(self.message[one.end : one.end + _WINDOW])[:1]}
        counts = param.name_words & _COUNTS and beside & _BESIDE_COUNTS
        return max(near, _COUNTED) if counts else near

    def texts(self) -> None:
        pairs = [
            (fit, -at, -one.start, param, one)
            for at, param in enumerate(self.open(*_TEXTS))
            for one in self.candidates(param)
            if (fit := self.text_fit(param, one)) > 0
        ]
        for param, one in self.best_first(pairs):
            place = param.want == "place"
            self.put(param, _whole_place(one, self.message, param) if place else one.value, one)
            plain = one.kind in _PLAIN_TO_SEE and param.want != "path"
            self.out.loose += param.required and not plain

    def candidates(self, param: Param) -> list[Span]:
        if param.want in ("time", "path"):
            return self.of(param.want)
        found = [*quoted(self.message), *_names(self.message), *self.of("email", "named")]
        if param.want == "place":
            # New York, or New York City
            ends = {one.start: one.end for one in _names(self.message)}
            cities = [(one.start, max(one.end, ends.get(one.start, 0))) for one in self.of("zone")]
            found += [Span("place", self.message[start:end], start, end) for start, end in cities]
        else:
            found += [*_listed(param, self.message), *_behind(param, self.message)]
            found += [Span("named", at[0], *at.span()) for at in _FORMULA.finditer(self.message)]
        if param.want == "id":
            found += [Span("id", at[0], *at.span()) for at in _ID.finditer(self.message)]
        return self.free(found)[:_MOST_CANDIDATES]

    def text_fit(self, param: Param, one: Span) -> float:
        fit = _FITS[param.want].get(one.kind, 0.0)
        if not fit:
            return 0.0
        cue = _CUED * (self.word_before(one) in _cues(param))
        cue += _nearness(param, (), self.message, one, names_only=not param.required)
        if one.kind == "name":  # the Hilton Hotel suits `hotel_name`; but ESRB is no `esrb_rating`
            own = set(terms(one.text))
            both = own.intersection(map(stem, param.name_words))
            if own and own == both:
                return 0.0
            cue += _CUED * bool(both)
        return fit + cue if param.required or cue >= _OPTIONAL_CUE or one.kind == "listed" else 0.0

    def flags(self) -> None:
        for param in self.open("flag"):
            if self.mentioned(param):
                self.put(param, not self.negated(param))
            elif param.required and param.default is None:
                self.put(param, False)

    def mentioned(self, param: Param) -> bool:
        """Whether the message says half of the distinctive words of a flag's name."""
        said = terms(self.message)
        own = {stem(word) for word in param.name_words - _FLAG_WORDS - STOP_WORDS}
        found = [
            one
            for one in own
            if not synonyms(one).isdisjoint(said)
            or any(word == one or (len(one) > _LONG and word.startswith(one)) for word in said)
        ]
        return 2 * len(found) >= len(own) > 0

    def negated(self, param: Param) -> bool:
        name = re.escape(words(param.name)[-1])
        before = re.split(rf"\b{name}", fold(self.message), maxsplit=1)[0]
        return not {"no", "not", "without", "excluding"}.isdisjoint(words(before)[-4:])


# ---- choices


def _says(said: str, stems: set[str], option: Any) -> int:
    """How exactly the message says an option: 2 in these very words, 1 in other forms of them."""
    text = fold(str(option)).replace("_", " ").replace("-", " ")
    if re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said.replace("-", " ")) is not None:
        return 2
    own = {stem(word) for word in words(text)}
    return int(bool(own) and (own <= stems or (len(text) > _SHORT and text in said)))


def _usual(value: Any, param: Param) -> bool:
    """Whether an option is often said without being meant, such as `all`, or is the default."""
    return fold(str(value)) in STOP_WORDS or value == param.default


# ---- numbers


def _number(one: Span, param: Param) -> Any:
    whole = param.schema.get("type") == "integer"
    if one.kind == "percent" and not whole and "percentag" not in param.stems:
        return round(one.value / 100, 10)
    return int(one.value) if whole and float(one.value).is_integer() else one.value


# ---- dates

_MONTHS = "january february march april may june july august september october november december"
_MONTH = {name: at for at, full in enumerate(_MONTHS.split(), 1) for name in (full, full[:3])}
_MONTH_NAMES = "|".join(sorted(_MONTH, key=len, reverse=True))
_DATE = re.compile(
    r"\b(?:(?P<y1>\d{4})[-/.](?P<m1>\d{1,2})[-/.](?P<d1>\d{1,2})"
    r"|(?P<m2>\d{1,2})/(?P<d2>\d{1,2})/(?P<y2>\d{4})"
    rf"|(?P<m3>{_MONTH_NAMES})\.?\s*(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y3>\d{{4}})"
    rf"|(?P<d4>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m4>{_MONTH_NAMES})\.?,?\s+(?P<y4>\d{{4}}))\b",
    re.IGNORECASE,
)
_FORMAT = re.compile(r"\b([MDY][A-Z]*)([-/.])([MDY][A-Z]*)\2([MDY][A-Z]*)\b")


def _dates(message: str) -> list[Span]:
    found: list[Span] = []
    for match in _DATE.finditer(message):
        parts = {key[0]: text for key, text in match.groupdict().items() if text}
        month = _MONTH.get(parts["m"].lower()) or int(parts["m"])
        with suppress(ValueError):
            day = date(int(parts["y"]), month, int(parts["d"]))
            found.append(Span("date", day, *match.span()))
    return found


def _formatted(day: date, param: Param) -> str:
    """In the order that the description shows, such as `MM-DD-YYYY` or `month-day-year`."""
    shape = _FORMAT.search(param.description.upper())
    if shape is None:
        return day.isoformat()
    parts = {"Y": f"{day.year}", "M": f"{day.month:02}", "D": f"{day.day:02}"}
    return shape[2].join(parts[shape[at][0]] for at in (1, 3, 4))


# ---- texts and lists

_CAPITAL = r"(?:[A-Z](?:\.[A-Z])+\.?|[A-Z]\.(?=\s[A-Z])|(?:Mr|Mrs|Ms|Dr|St|Mt|Ft)\.|[A-Z][\w#&'-]*(?:\.\w+)*)"
_NAME = re.compile(
    rf"\b{_CAPITAL}(?:(?:\s+(?:(?:of|the|de|von|van|la|vs\.?)\s+)*|\s*&\s*)(?:{_CAPITAL}|\d{{1,3}}\b))*"
)
_EXAMPLES = re.compile(
    r"\b(?:such as|e\.g\.?|i\.e\.?|like|for example|options?(?: are)?|either)[,:]?\s([^.()]+)",
    re.IGNORECASE,
)
_ID = re.compile(r"(?<![\w.])(?=[\w/#.-]*\d)[A-Za-z0-9#][\w/#.-]*\w|(?<![\w.])\d(?!\w)")
# A function of x, such as `3x^2 + 2x - 1`.
_FORMULA = re.compile(r"(?<![\w.])[\d(]*x[\dx)]*\s?[-+*/^][\dx()+*/^ .-]*[\dx)](?!\w)")
_LINK = r"\s*(?:is|are|of|as|=|:|named|called|being|to|with)?\s+(?:the\s+|an?\s+)?"
_LIST = re.compile(r"[\[(]([^\[\]()]+)[\])]")
_NO_NAMES = STOP_WORDS | vocabulary("not_names")


def _lists(message: str, *, of_numbers: bool) -> list[Span]:
    found: list[Span] = []
    for match in _LIST.finditer(message):
        parts = [part.strip(" '\"") for part in re.split(r",|\band\b", match[1])]
        if of_numbers:
            values = [one.value for part in parts for one in numbers(part)]
            if len(values) == len(parts):
                found.append(Span("list", values, *match.span()))
        elif len(parts) > 1 or match[0][0] == "[":
            found.append(Span("list", parts, *match.span()))
    if of_numbers and not found:
        runs = re.finditer(r"-?\d[\d.]*(?:\s*(?:,|and|,\s*and)\s*-?\d[\d.]*)+", message)
        found = [Span("list", [one.value for one in numbers(m[0])], *m.span()) for m in runs]
    return found


@lru_cache(maxsize=_MESSAGES_KEPT)
def _names(message: str) -> list[Span]:
    """Runs of capitalised words; a single one that opens a sentence says nothing."""
    found: list[Span] = []
    for match in _NAME.finditer(message):
        text = match[0]
        while (first := text.split()[0]) != text:
            if fold(first.rstrip("'s")).strip(".") not in _NO_NAMES:
                break
            text = re.sub(r"^(?:of|the|and|in|for)\s+", "", text[len(first) :].lstrip())
        start = match.end() - len(text)
        text = re.sub(r"'s$", "", text.rstrip(".,'"))
        opens = start == 0 or message[:start].rstrip()[-1:] in ".?!"
        plain = opens and " " not in text and text[1:].islower()
        if text and not plain and fold(text) not in _NO_NAMES:
            found.append(Span("name", text, start, start + len(text)))
    return found


def _whole_place(one: Span, message: str, param: Param) -> str:
    """With its state or country if the message names it, or if the parameter asks for it."""
    text = str(one.value)
    more = re.match(rf",\s*({_CAPITAL}(?:\s{_CAPITAL})?)", message[one.end :])
    state = WITH_STATE.search(param.description) is not None
    country = WITH_COUNTRY.search(param.description) is not None
    if more and (state or country):
        return f"{text}, {more[1]}"
    return within(text, state=state, country=country)


def _listed(param: Param, message: str) -> list[Span]:
    """What the description quotes as possible values, if the message says one of them."""
    found: list[Span] = []
    options = [str(one.value) for one in quoted(param.description)]
    for some in _EXAMPLES.finditer(param.description):
        if "'" not in some[1] and '"' not in some[1]:
            options += [one.strip() for one in re.split(r",|\bor\b|\band\b|\betc\b", some[1])]
    for option in options:
        at = re.search(rf"\b{re.escape(option)}", message, re.IGNORECASE)
        if at is not None and len(option) > 1:
            found.append(Span("listed", option, *at.span()))
    return found


def _behind(param: Param, message: str) -> list[Span]:
    """A plain word after the parameter's own name, such as `the namespace blue`, or a number before
    it, such as `the 2022 season`."""
    name = r"[\s_-]+".join(words(param.name)) or r"\0"
    after = rf"\b{name}{_LINK}([\w./#-]*\w)(?![\w^*])"
    before = rf"(?<![\w.])([\w-]*\d[\w-]*)\s+{name}\b"
    return [
        Span("behind", at[1], *at.span(1))
        for pattern in (after, before)
        for at in re.finditer(pattern, message, re.IGNORECASE)
        if at[1].lower() not in STOP_WORDS and stem(at[1].lower()) not in param.stems
    ]


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


# ---- which value belongs to which parameter

_FIRST = word_set("start from origin source src old base departure begin beginning initial first")
_LAST = word_set("end to destination dest target new arrival final last")
# The words before a value that say whose it is, by the words in the parameter's name.
_CUES = (
    (_FIRST, word_set("from between starting leaving departing")),
    (_LAST, word_set("to and until ending arriving")),
    (
        word_set("cast actor actors actress starring stars performer"),
        word_set("with features featuring stars starring actor actress acted"),
    ),
    (
        word_set("artist author director directed composer writer painter maker brand by created"),
        word_set("by directed from"),
    ),
)
_PLACE_CUES = word_set("in at near around from of to")


def _cues(param: Param) -> frozenset[str]:
    for own, cues in _CUES:
        if param.name_words & own:
            return cues
    return _PLACE_CUES if param.want == "place" else frozenset()


def _nearest(param: Param, message: str, found: Sequence[Span]) -> Span | None:
    near = [(_nearness(param, (), message, one), -one.start, one) for one in found]
    best = max((each for each in near if each[0] > 0), key=lambda each: each[:2], default=None)
    return None if best is None else best[2]


def _nearness(
    param: Param, others: Sequence[Param], message: str, one: Span, *, names_only: bool = False
) -> float:
    """How close the parameter's own words are to a value; words that others share do not count."""
    shared = frozenset[str]().union(*(other.stems for other in others if other is not param))
    names = param.name_stems
    score = 0.0
    for term, weight, may_describe in _words_beside(message, one.start, one.end):
        if term in names and (term not in shared or len(names) == 1):
            score = max(score, 2 * weight)
        elif names_only and not may_describe:
            continue
        elif term in param.stems and term not in shared:
            score = max(score, weight)
    return score


@lru_cache(maxsize=_MESSAGES_KEPT * _MOST_CANDIDATES)
def _words_beside(message: str, start: int, end: int) -> list[tuple[str, float, bool]]:
    """The stems around a value, how much each counts, and whether it is the word right after it."""
    before = re.split(r"[.;?!,]\s|\band\b", message[max(0, start - _WINDOW) : start])[-1]
    after = re.split(r"[.;?!,]", message[end : end + _WINDOW // 2])[0]
    return [
        (stem(_SAME_END.get(word, word)), weight / (1 + distance), follows and not distance)
        for follows, said, weight in (
            (False, words(before)[::-1], 1.0),
            (True, words(after), 0.8),
        )
        for distance, word in enumerate(said)
    ]
