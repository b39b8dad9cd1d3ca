"""Arguments for one tool, copied from the message and never invented."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openclaw.embedded.entities import Kind, Span, without
from openclaw.embedded.tool_doc import Param, Role, ToolDoc, Want
from openclaw.embedded.words import STOP_WORDS, stem, synonyms, terms, words

_KINDS: dict[Want, tuple[Kind, ...]] = {
    "url": ("url",),
    "email": ("email",),
    "date": ("date",),
    "time": ("time",),
    "zone": ("zone",),
    "path": ("path",),
    "ref": ("revision", "ref"),
    "glob": ("glob", "quoted", "named"),
    "number": ("number",),
    "query": ("quoted", "named"),
    "text": ("quoted", "named"),
    "place": ("quoted",),
    "command": ("quoted",),
}
_FROM = frozenset({"source", "from", "src", "origin", "old", "start", "base"})
_TO = frozenset({"target", "to", "dest", "destination", "new", "end"})
_SAME_END = {"final": "last", "bottom": "last", "initial": "first", "top": "first"}
_COUNTS = frozenset({"count", "limit", "max", "n", "num", "number", "top", "maximum"})
_FILE_ENDING = re.compile(r"[^/\\.]\.[A-Za-z][A-Za-z0-9]{0,5}$")
_SOUGHT = re.compile(
    r"\b(?:for|about|mentioning|mentions?|containing|contains?)\s+"
    r"(?:the\s+)?(?:(?:word|text|string|phrase|term)\s+)?"
    r"([^\s?!,][^?!,\n]*?)(?=\s+(?:in|on|under|inside|within|at|from)\b|[?!,.]?\s*$|[?!,])",
    re.IGNORECASE,
)
_SEARCH_FIRST = re.compile(r"\W*(?:please\s+)?(?:search|grep|look)\b", re.IGNORECASE)
_RUN = re.compile(
    r"^\W*(?:please\s+|(?:can|could|would) you\s+(?:please\s+)?)?(?:run|execute|exec)(?=[\s:])"
    r":?\s*(?:(?:the|this|following|shell|command)(?=[\s:])\s*)*:?\s*(.+?)[\s?!]*$",
    re.IGNORECASE | re.DOTALL,
)
_MEASURES = frozenset({"length", "index", "lines", "bytes"})
_LATEST = re.compile(
    r"\b(?:last|latest|most recent|newest)\b(?!\s+(?:few|some|couple|several)\b|\s+\w+s\b)",
    re.IGNORECASE,
)
_RECORDS = frozenset(map(stem, ("log", "history", "commits", "entries")))
_NEAR = 25  # characters around a number that say what it counts
_SEARCHING = frozenset(
    {stem(word) for word in ("search", "find", "look", "grep", "query", "fetch")}
)


@dataclass(slots=True)
class Filled:
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    missing: list[Param] = field(default_factory=list[Param])
    used: set[Span] = field(default_factory=set[Span])
    defaulted: int = 0
    # Stems of plain words that were copied because the message says that they are the argument.
    copied: set[str] = field(default_factory=set[str])


def path_role(path: str, message: str, start: int) -> Role:
    """What a path in a message is, as far as it or the word before it says."""
    if path.endswith(("/", "\\")):
        return "directory"
    before = words(message[max(0, start - 30) : start])[-2:]
    for word in reversed(before):
        if word in ("folder", "directory", "dir"):
            return "directory"
        if word in ("file", "document"):
            return "file"
        if word in ("repo", "repository", "checkout"):
            return "repository"
    return "file" if _FILE_ENDING.search(path) else "any"


class _Filler:
    def __init__(self, doc: ToolDoc, message: str, spans: Sequence[Span]) -> None:
        self.doc = doc
        self.message = message
        self.spans = spans
        self.out = Filled()

    def free(self, *kinds: Kind) -> list[Span]:
        return [
            s for kind in kinds for s in self.spans if s.kind == kind and s not in self.out.used
        ]

    def put(self, param: Param, span: Span, value: Any = None) -> None:
        taken = span.value if value is None else value
        self.out.arguments[param.name] = (
            [taken] if param.is_list and not isinstance(taken, list) else taken
        )
        self.out.used.add(span)

    def word_before(self, span: Span) -> str:
        return (words(self.message[: span.start]) or [""])[-1]

    def run(self) -> Filled:
        self.fill_pairs()
        for param in self.doc.params:
            if param.required and param.name not in self.out.arguments:
                self.fill_required(param)
        for param in self.doc.params:
            if not param.required and param.name not in self.out.arguments:
                self.fill_optional(param)
        return self.out

    def fill_pairs(self) -> None:
        """Two parameters of one kind, such as source and destination, told apart by their cues."""
        for want in ("zone", "path"):
            group = [p for p in self.doc.params if p.required and p.want == want and not p.is_list]
            sources = [p for p in group if p.name_words & _FROM]
            targets = [p for p in group if p.name_words & _TO]
            found = self.free(*_KINDS[want])
            if len(sources) == len(targets) == 1 and found:
                self.pair(sources[0], targets[0], found)

    def pair(self, source: Param, target: Param, found: list[Span]) -> None:
        if len(found) == 1:
            towards = self.word_before(found[0]) in ("to", "into")
            self.put(target if towards else source, found[0])
            return
        first = self.pick_source(found)
        second = next(span for span in found if span is not first)
        self.put(source, first)
        self.put(target, second)

    def pick_source(self, found: list[Span]) -> Span:
        """The one behind `from`, else one that is not behind `to`, and of zones the one at the time."""
        before = {span: self.word_before(span) for span in found}
        if sources := [span for span in found if before[span] == "from"]:
            return sources[0]
        rest = [span for span in found if before[span] not in ("to", "into")] or found
        times = [span for span in self.spans if span.kind == "time"]
        if not times or rest[0].kind != "zone":
            return rest[0]
        at = times[0]
        return min(rest[:2], key=lambda s: min(abs(s.start - at.end), abs(at.start - s.end)))

    def fill_required(self, param: Param) -> None:
        if self.from_span(param) or self.from_words(param):
            return
        if param.default not in (None, ""):
            if param.must_send_default:
                self.out.arguments[param.name] = param.default
            self.out.defaulted += 1
        else:
            self.out.missing.append(param)

    def from_span(self, param: Param) -> bool:
        found = self.free(*_KINDS.get(param.want, ()))
        if param.want == "path":
            found = self.paths_for(param, found)
        if param.want == "number":
            found = [s for s in found if self.number_fits(param, s) or len(found) == 1]
        if not found:
            return False
        if param.is_list:
            self.out.arguments[param.name] = [self.cast(param, span) for span in found]
            self.out.used.update(found)
        else:
            self.put(param, found[0], self.cast(param, found[0]))
        return True

    def cast(self, param: Param, span: Span) -> Any:
        if param.integer and isinstance(span.value, float):
            return int(span.value)
        return span.value

    def paths_for(self, param: Param, found: list[Span]) -> list[Span]:
        """The paths that suit this parameter best come first; a list leaves a sibling its own."""
        rank = {param.role: 0, "any": 1}
        fits = {s: rank.get(path_role(s.text, self.message, s.start), 2) for s in found}
        if not param.is_list:
            return sorted(found, key=fits.__getitem__)
        others = [p for p in self.doc.params if p.want == "path" and p.required and not p.is_list]
        return [span for span in found if not (others and fits[span])] or found

    def from_words(self, param: Param) -> bool:
        if param.want == "choice":
            return self.choose(param)
        if param.want == "place" and (zones := self.free("zone")):
            self.put(param, zones[0], self.message[zones[0].start : zones[0].end])
            return True
        if param.want == "command":
            return self.command(param)
        if param.want in ("query", "glob", "place"):
            names = self.free("path") if param.want == "glob" else []
            files = [s for s in names if "/" not in s.text and _FILE_ENDING.search(s.text)]
            if files:
                self.put(param, files[0])
                return True
            return self.rest_of_message(param)
        return False

    def command(self, param: Param) -> bool:
        found = _RUN.match(self.message)
        if found is None:
            return False
        self.out.arguments[param.name] = found[1]
        self.out.used.update(span for span in self.spans if span.start >= found.start(1))
        self.out.copied.update(terms(found[1]))
        return True

    def choose(self, param: Param) -> bool:
        stems = {stem(word) for word in words(self.message)}
        said = [one for one in param.choices if stem(str(one).lower()) in stems]
        if said:
            self.out.arguments[param.name] = said[0]
        elif (
            param.choices
            and param.required
            and param.default is None
            and self.doc.effect == "reads"
        ):
            self.out.arguments[param.name] = param.choices[0]
            self.out.defaulted += 1
        return param.name in self.out.arguments

    def rest_of_message(self, param: Param) -> bool:
        """The longest run of words that neither name the tool nor are grammar, for a search."""
        if not self.doc.name_terms & _SEARCHING:
            return False
        sought = _SOUGHT.search(self.message)
        if sought and not any(span.start == sought.start(1) for span in self.spans):
            self.out.arguments[param.name] = sought[1]
            if _SEARCH_FIRST.match(self.message):
                self.out.copied.update(terms(self.message[sought.start(1) :]))
            return True
        said = self.doc.name_terms.union(*map(synonyms, self.doc.name_terms))
        text = without(self.message, tuple(self.spans))
        runs: list[list[str]] = [[]]
        for word in re.findall(r"[^\s,;?!\"]+|[,;?!]", text):
            plain = word.strip(".:")
            own = terms(plain)  # a stop word has none
            if own and said.isdisjoint(own) and plain.lower() not in STOP_WORDS:
                runs[-1].append(plain)
            else:
                runs.append([])
        best = max(runs, key=lambda run: sum(map(len, run)))
        if not best:
            return False
        self.out.arguments[param.name] = " ".join(best)
        return True

    def fill_optional(self, param: Param) -> None:
        """An optional argument is filled only where the message speaks of it."""
        if param.want == "number":
            self.optional_number(param)
        elif param.want in ("url", "email", "path", "zone", "glob", "date"):
            kinds = ("glob",) if param.want == "glob" else _KINDS[param.want]
            if self.free(*kinds):
                self.from_span(param)
        elif param.want in ("place", "query") or (
            param.want == "choice" and set(map(stem, param.name_words)) & set(terms(self.message))
        ):
            self.from_words(param)

    def number_fits(self, param: Param, span: Span) -> bool:
        """Whether a word near the number sets this parameter apart from its siblings."""
        before = self.message[max(0, span.start - _NEAR) : span.start]
        after = self.message[span.end : span.end + _NEAR]
        near = {stem(_SAME_END.get(word, word)) for word in words(f"{before} {after}")}
        others = [p.stems for p in self.doc.params if p.want == "number" and p is not param]
        telling = param.stems.difference(*others) - {stem("number"), stem("max")}
        return not near.isdisjoint(telling)

    def optional_number(self, param: Param) -> None:
        found = self.free("number")
        counts = param.name_words & _COUNTS
        for span in found:
            if self.number_fits(param, span) or (counts and not param.name_words & _MEASURES):
                self.put(param, span, self.cast(param, span))
                return
        if counts and self.doc.name_terms & _RECORDS and not found and _LATEST.search(self.message):
            self.out.arguments[param.name] = 1


def fill(doc: ToolDoc, message: str, spans: Sequence[Span]) -> Filled:
    """Copy what the message offers into the tool's parameters."""
    return _Filler(doc, message, spans).run()
