"""Arguments for a tool, read from a message by what the tool's parameters want.

Nothing is made up: a value is copied from the message, or chosen from what the schema lists. Plain
words are copied only if they are quoted, called something, or what a search is for.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openclaw.discovery.stems import stem
from openclaw.embedded.entities import Span, without
from openclaw.embedded.tool_doc import Param, Role, ToolDoc
from openclaw.embedded.vocabulary import (
    STOP_WORDS,
    fold,
    synonyms,
    terms,
    vocabulary,
    word_set,
    words,
)

_MOST_PARAMS = 40
_NEAR = 40  # characters before a value in which its parameter may be named


@dataclass(slots=True)
class Reading:
    """What was found for one tool. `missing` are required parameters that nothing fits."""

    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    missing: list[str] = field(default_factory=list[str])
    used: set[Span] = field(default_factory=set[Span])  # of the typed parts of the message
    defaulted: int = 0
    # Stems of plain words that were copied because the message says that they are the argument.
    sought: set[str] = field(default_factory=set[str])


def read_arguments(doc: ToolDoc, message: str, spans: Sequence[Span]) -> Reading:
    return _Reader(doc, message, spans).read()


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
_FILE_ENDING = re.compile(r"[^/\\.]\.[A-Za-z][A-Za-z0-9]{0,5}$")
# The typed parts that such a parameter takes; if it is optional, the first kind alone.
_KINDS = {
    "url": ("url",),
    "email": ("email",),
    "zone": ("zone",),
    "path": ("path",),
    "time": ("time",),
    "date": ("date",),
    "ref": ("revision", "ref"),
    "glob": ("glob", "quoted", "named"),
    "query": ("quoted", "named"),
    "command": ("quoted",),
    "text": ("quoted", "named", "email"),
    "id": ("quoted", "named"),
}
_SOUGHT = re.compile(
    r"\b(?:for|about|mentioning|mentions?|containing|contains?)\s+"
    r"(?:the\s+)?(?:(?:word|text|string|phrase|term)\s+)?"
    r"([^\s?!,][^?!,\n]*?)(?=\s+(?:in|on|under|inside|within|at|from)\b|[?!,.]?\s*$|[?!,])",
    re.IGNORECASE,
)
_IN_PLACE = re.compile(r"\b(?i:in|for|at|near|of)\s+([A-Z][\w'-]*(?:\s+[A-Z][\w'-]*)*)")
_SEARCH_FIRST = re.compile(r"\W*(?:please\s+)?(?:search|grep|look)\b", re.IGNORECASE)
_SEARCHING = frozenset(map(stem, ("search", "find", "look", "grep", "query")))
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
_CLAUSE_END = re.compile(r"[.;?!,]")
_SAME_END = {"final": "last", "bottom": "last", "initial": "first", "top": "first"}
_FROM = word_set("start from origin source src since old base after")
_TO = word_set("end to until destination dest target new before")
_FLAG_WORDS = word_set("include is has show use enable with only the get")


class _Reader:
    def __init__(self, doc: ToolDoc, message: str, spans: Sequence[Span]) -> None:
        self.doc = doc
        self.params = sorted(doc.params, key=lambda param: not param.required)[:_MOST_PARAMS]
        self.message = message
        self.spans = spans
        self.reading = Reading()

    def read(self) -> Reading:
        for kind in ("zone", "path"):
            self.source_and_target([p for p in self.params if p.want == kind and p.required])
        for param in self.params:
            if param.name not in self.reading.arguments:
                self.fill(param)
        for param in self.params:
            if param.required and param.name not in self.reading.arguments:
                self.default(param)
        return self.reading

    def fill(self, param: Param) -> None:
        if param.choices:
            self.choice(param)
            return
        match param.want:
            case "number":
                self.number(param)
            case "flag":
                if self.mentions(param):
                    self.reading.arguments[param.name] = not self.negates(param)
            case "place":
                self.place(param)
            case "choice" | "other":
                pass
            case _:
                self.copy(param)

    def default(self, param: Param) -> None:
        value = param.default
        if value is None and param.choices and self.doc.effect == "reads" and self.reading.used:
            value = param.choices[0]
        if value in (None, ""):
            self.reading.missing.append(param.name)
        else:
            self.reading.arguments[param.name] = value
            self.reading.defaulted += 1

    def put(self, param: Param, span: Span) -> None:
        self.reading.arguments[param.name] = span.value
        self.reading.used.add(span)

    def free(self, *kinds: str) -> list[Span]:
        return [
            span
            for kind in kinds
            for span in self.spans
            if span.kind == kind and span not in self.reading.used
        ]

    def word_before(self, span: Span) -> str:
        return (words(self.message[max(0, span.start - _NEAR) : span.start]) or [""])[-1]

    def source_and_target(self, params: list[Param]) -> None:
        """Two parameters of one kind, such as source and destination, told apart by their cues."""
        sources = [param for param in params if param.name_words & _FROM]
        targets = [param for param in params if param.name_words & _TO]
        if not len(sources) == len(targets) == 1:
            return
        spans = self.free(sources[0].want)
        if len(spans) > 1:
            first = self.source_among(spans)
            self.put(sources[0], first)
            self.put(targets[0], next(span for span in spans if span is not first))
        elif spans:
            towards = self.word_before(spans[0]) in ("to", "into")
            self.put(targets[0] if towards else sources[0], spans[0])

    def source_among(self, spans: list[Span]) -> Span:
        """The one after `from`, or one that is not after `to`; of zones, the one next to the time."""
        before = {span: self.word_before(span) for span in spans}
        if sources := [span for span in spans if before[span] == "from"]:
            return sources[0]
        rest = [span for span in spans if before[span] not in ("to", "into")] or spans
        times = self.free("time")
        if not times or rest[0].kind != "zone":
            return rest[0]
        clock = times[0]
        return min(
            rest[:2], key=lambda span: min(abs(span.start - clock.end), abs(clock.start - span.end))
        )

    def copy(self, param: Param) -> None:
        kinds = _KINDS[param.want]
        if param.want in ("text", "id", "date") and not param.required:
            spans = [span for span in self.free(*kinds) if self.is_announced(param, span)]
        else:
            spans = self.free(*(kinds if param.required else kinds[:1]))
        if param.want == "path":
            spans = self.paths_for(param, spans)
        if spans and param.is_list:
            self.reading.arguments[param.name] = [span.value for span in spans]
            self.reading.used.update(spans)
        elif spans:
            self.put(param, max(spans, key=lambda span: self.is_announced(param, span)))
        elif param.want == "command":
            self.command(param)
        elif param.want in ("query", "glob"):
            self.seek(param)

    def place(self, param: Param) -> None:
        if quotes := self.free("quoted"):
            self.put(param, quotes[0])
        elif zones := self.free("zone"):
            zone = zones[0]
            self.reading.arguments[param.name] = self.message[zone.start : zone.end]
            self.reading.used.add(zone)
        elif match := _IN_PLACE.search(self.message):
            self.reading.arguments[param.name] = match[1]
            self.reading.sought.update(terms(match[1]))

    def is_announced(self, param: Param, span: Span) -> bool:
        """Whether the words before a value say that it is for this parameter."""
        before = words(self.message[max(0, span.start - _NEAR) : span.start])[-3:]
        cues = _FROM if param.name_words & _FROM else _TO if param.name_words & _TO else set[str]()
        return bool(cues.intersection(before[-1:]) or param.name_stems & set(map(stem, before)))

    def paths_for(self, param: Param, spans: list[Span]) -> list[Span]:
        """The paths that suit this parameter best come first; a list leaves a sibling its own."""
        rank = {param.role: 0, "any": 1}
        fits = {s: rank.get(path_role(s.text, self.message, s.start), 2) for s in spans}
        if not param.is_list:
            return sorted(spans, key=fits.__getitem__)
        others = [p for p in self.params if p.want == "path" and p.required and not p.is_list]
        return [span for span in spans if not (others and fits[span])] or spans

    def command(self, param: Param) -> None:
        if match := _RUN.match(self.message):
            self.reading.arguments[param.name] = match[1]
            self.reading.sought.update(terms(match[1]))
            inside = [span for span in self.spans if span.start >= match.start(1)]
            self.reading.used.update(inside)

    def seek(self, param: Param) -> None:
        """The file that is named, or what a search is for: after `for`, or the longest run of words
        that neither name the tool nor are grammar."""
        names = self.free("path") if param.want == "glob" and param.required else []
        files = [s for s in names if "/" not in s.text and _FILE_ENDING.search(s.text)]
        if files:
            self.put(param, files[0])
            return
        if not self.doc.name_terms & _SEARCHING:
            return
        sought = _SOUGHT.search(self.message)
        if sought and not any(span.start == sought.start(1) for span in self.spans):
            self.reading.arguments[param.name] = sought[1]
            if _SEARCH_FIRST.match(self.message):
                self.reading.sought.update(terms(self.message[sought.start(1) :]))
            return
        known = self.doc.name_terms.union(*map(synonyms, self.doc.name_terms))
        runs: list[list[str]] = [[]]
        for word in re.findall(r"[^\s,;?!\"]+|[,;?!]", without(self.message, tuple(self.spans))):
            plain = word.strip(".:")
            stems = terms(plain)  # a stop word has none
            if stems and known.isdisjoint(stems) and plain.lower() not in STOP_WORDS:
                runs[-1].append(plain)
            else:
                runs.append([])
        if longest := max(runs, key=lambda run: sum(map(len, run))):
            self.reading.arguments[param.name] = " ".join(longest)

    def choice(self, param: Param) -> None:
        said = fold(self.message).replace("-", " ")
        stems = {*terms(self.message), *map(stem, words(self.message))}
        named = not stems.isdisjoint(map(stem, param.name_words))
        if not (param.required or named):
            return
        for option in param.choices:
            text = fold(str(option)).replace("_", " ").replace("-", " ")
            own = set(map(stem, words(text)))
            if re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said) or (own and own <= stems):
                self.reading.arguments[param.name] = option
                return

    def number(self, param: Param) -> None:
        for span in self.free("number"):
            if self.is_meant(param, span):
                whole = param.schema.get("type") == "integer"
                value = int(span.value) if whole and float(span.value).is_integer() else span.value
                self.reading.arguments[param.name] = value
                self.reading.used.add(span)
                return
        of_records = self.doc.name_terms & _RECORDS and param.name_words & _COUNTS
        if of_records and not self.free("number") and _LATEST.search(self.message):
            self.reading.arguments[param.name] = 1

    def is_meant(self, param: Param, span: Span) -> bool:
        """Whether the parameter is named beside the number, or a count is asked for."""
        said_before = self.message[max(0, span.start - _NEAR) : span.start]
        said_after = self.message[span.end : span.end + _NEAR]
        before = words(_CLAUSE_END.split(said_before)[-1])[-3:]
        after = words(_CLAUSE_END.split(said_after)[0])[:2]
        beside = {stem(_SAME_END.get(word, word)) for word in (*before, *after)}
        others = frozenset[str]().union(*(p.stems for p in self.params if p is not param))
        if beside & (param.name_stems | (param.stems - others)):
            return True
        counts = {*before[-1:], *after[:1]} & _BESIDE_COUNTS
        return bool(param.name_words & _COUNTS and counts)

    def mentions(self, param: Param) -> bool:
        """Whether the message says the distinctive words of a flag's name."""
        said = set(terms(self.message))
        own = {stem(word) for word in param.name_words - _FLAG_WORDS - STOP_WORDS}
        return bool(own) and all(term in said or synonyms(term) & said for term in own)

    def negates(self, param: Param) -> bool:
        name = re.escape(words(param.name)[-1])
        before = re.split(rf"\b{name}", fold(self.message), maxsplit=1)[0]
        return not {"no", "not", "without", "excluding"}.isdisjoint(words(before)[-4:])
