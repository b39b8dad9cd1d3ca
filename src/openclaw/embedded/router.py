"""Which tool a message asks for, with which arguments; decided by rules, the same every time."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from openclaw.discovery.stems import stem
from openclaw.embedded.arguments import Reading, path_role, read_arguments
from openclaw.embedded.entities import Span, find_spans, is_bare_name, without
from openclaw.embedded.tool_doc import (
    CHANGING_STEMS,
    Param,
    RoutableTool,
    ToolDoc,
    describe_tool,
)
from openclaw.embedded.tool_intent import (
    AskReading,
    fact_to_remember,
    only_varies,
    read_ask,
    text_to_write,
)
from openclaw.embedded.vocabulary import synonyms, terms, vocabulary, word_set

_REMEMBER = stem("remember")
_SYNONYM_WEIGHT = 0.5
_BM25_K1 = 1.2
# What a tool gains by using something of this kind in the message, and loses by ignoring it.
_USED_LEFT = {
    "url": (2.5, 3.0), "email": (2.0, 1.5), "time": (1.5, 2.0), "zone": (1.5, 1.5),
    "quoted": (1.5, 0.7), "glob": (1.5, 2.0), "revision": (1.5, 1.5), "ref": (1.2, 1.0),
    "path": (1.0, 2.0), "place": (1.0, 0.5), "date": (1.0, 0.5), "named": (0.8, 0.3),
    "number": (0.7, 0.3),
}  # fmt: skip
_UNSPOKEN_NAME_WORD = 0.4
_DEFAULTED = 0.3
_DEPRECATED = 1.0
_ROLE_FITS, _ROLE_CLASHES = 0.8, 1.2
_MIN_SCORE = 0.8
_MIN_COVERAGE = 0.5
_MIN_COVERAGE_WHEN_STRONG = 0.3
_CANDIDATES = 60  # how many tools get arguments; the rest cannot win
_MAX_CALLS = 4
MAX_MESSAGE = 2000  # a request is short; what is longer is a text with a request before it
_GIT_WORDS = frozenset(map(stem, vocabulary("of_git")))
_FILE = stem("file")
_MAKING = frozenset({stem("create"), stem("make")})
# Words that say that a path without an extension is a file.
_READING = frozenset(stem(word) for word in word_set("read open cat print"))
_HINT = 0.3
_WHICH_FILES = re.compile(
    r"\b(?:what|which|how many) (?:\w+ )?(?:files|folders|directories|documents)\b", re.IGNORECASE
)

_MEDIA_ENDING = re.compile(
    r"\.(?:png|jpe?g|gif|webp|bmp|svg|mp3|wav|ogg|flac|m4a|mp4)$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Previous:
    """What the last turn asked and called, for a follow-up such as "and in Paris?"."""

    message: str
    tool: str


class _Request:
    """A message as the rules read it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans = find_spans(text)
        self.said = list(dict.fromkeys(terms(without(text, self.spans))))
        self.ask = read_ask(text)


class _Scored(NamedTuple):
    score: float
    lexical: float
    coverage: float
    doc: ToolDoc
    filled: Reading


class Router:
    """Knows one set of tools. Building it reads them once; each message then costs little."""

    def __init__(self, tools: Sequence[RoutableTool]) -> None:
        docs = [describe_tool(tool) for tool in tools]
        self._by_name = {doc.tool.name: doc for doc in docs}
        # It gets a whole sentence or is not called: the other rules would pick a name out of it.
        self._remember = next((doc for doc in docs if _remembers(doc)), None)
        self._docs = [doc for doc in docs if doc is not self._remember]
        counts: dict[str, int] = {}
        for doc in self._docs:
            for term in doc.weights:
                counts[term] = counts.get(term, 0) + 1
        total = len(self._docs)
        rarity = {t: math.log(2 + (total - n + 0.5) / (n + 0.5)) for t, n in counts.items()}
        # For each word, the tools that use it and how much each gains by it (BM25).
        self._gains: dict[str, list[tuple[int, float]]] = {}
        for at, doc in enumerate(self._docs):
            for term, weight in doc.weights.items():
                gain = rarity[term] * weight * (_BM25_K1 + 1) / (weight + _BM25_K1)
                self._gains.setdefault(term, []).append((at, gain))

    def route(self, message: str, previous: Previous | None = None) -> tuple[Call, ...]:
        if self._remember is not None and (fact := fact_to_remember(message)) is not None:
            text = next(param for param in self._remember.params if param.required)
            return (Call(self._remember.tool.name, {text.name: fact}),)
        if len(message) <= MAX_MESSAGE and (written := text_to_write(message)) is not None:
            text, path = written
            if calls := self._route(f'Write "text" to {path}', None):
                filled = calls[0].arguments.items()
                return (Call(calls[0].tool, {k: text if v == "text" else v for k, v in filled}),)
        return self._route(message[:MAX_MESSAGE], previous)

    def _route(self, message: str, previous: Previous | None) -> tuple[Call, ...]:
        request = _Request(message)
        if not request.ask.wants_something:
            return ()
        best = self._best(request)
        if best is not None:
            return _calls(best.doc, best.filled, request.spans)
        return self._follow_up(request, previous)

    def shortlist(self, message: str, count: int) -> list[RoutableTool]:
        ranked = self._by_words(_Request(message[:MAX_MESSAGE]))
        return [doc.tool for score, doc in ranked[:count] if score > 0]

    def _best(self, request: _Request) -> _Scored | None:
        scored = [
            found
            for words_score, doc in self._by_words(request)[:_CANDIDATES]
            if (found := self._score(doc, words_score, request)) is not None
        ]
        best = min(scored, key=lambda one: (-one.score, one.doc.tool.name), default=None)
        return best if best is not None and _convinces(best, request.ask) else None

    def _by_words(self, request: _Request) -> list[tuple[float, ToolDoc]]:
        scores = [0.0] * len(self._docs)
        hints = dict.fromkeys(_hints(request), _HINT)
        for term, weight in (hints | dict.fromkeys(request.said, 1.0)).items():
            best: dict[int, float] = {}
            for mate in synonyms(term) if term in request.said else ():
                for at, gain in self._gains.get(mate, ()):
                    best[at] = max(best.get(at, 0.0), _SYNONYM_WEIGHT * gain)
            for at, gain in self._gains.get(term, ()):
                best[at] = max(best.get(at, 0.0), gain)
            for at, gain in best.items():
                scores[at] += weight * gain
        return sorted(zip(scores, self._docs, strict=True), key=lambda item: -item[0])

    def _score(self, doc: ToolDoc, lexical: float, request: _Request) -> _Scored | None:
        if not _may_run(doc, request.ask):
            return None
        filled = read_arguments(doc, request.text, request.spans)
        if filled.missing:
            return None
        score = lexical + sum(_USED_LEFT[span.kind][0] for span in filled.used)
        again = _single_typed(doc, filled) if doc.effect == "reads" else None
        left = [span.kind for span in request.spans if span not in filled.used]
        score -= sum(_USED_LEFT[kind][1] for kind in left if again is None or kind != again.want)
        score += sum(_path_fit(param, filled, request) for param in doc.params)
        spoken = set(request.said).union(*map(synonyms, request.said))
        score -= _UNSPOKEN_NAME_WORD * len(doc.name_terms - spoken)
        score -= _DEFAULTED * filled.defaulted + _DEPRECATED * doc.deprecated
        return _Scored(score, lexical, self._coverage(doc, request, filled), doc, filled)

    def _coverage(self, doc: ToolDoc, request: _Request, filled: Reading) -> float:
        telling = [s for s in request.spans if s.kind != "number" or s not in filled.used]
        known = sum(
            1.0 if term in filled.sought else self._knows(doc, term) for term in request.said
        )
        total = len(request.said) + len(telling)
        return (known + sum(span in filled.used for span in telling)) / total if total else 0.0

    def _knows(self, doc: ToolDoc, term: str) -> float:
        if term in doc.weights:
            return 1.0
        return 0.0 if synonyms(term).isdisjoint(doc.weights) else _SYNONYM_WEIGHT

    def _follow_up(self, request: _Request, previous: Previous | None) -> tuple[Call, ...]:
        doc = self._by_name.get(previous.tool) if previous else None
        if (
            previous is None
            or doc is None
            or doc.effect != "reads"
            or not only_varies(request.text)
        ):
            return ()
        kinds = {span.kind for span in request.spans}
        kept = [span for span in find_spans(previous.message) if span.kind not in kinds]
        offset = len(request.text) + 1
        moved = (replace(s, start=s.start + offset, end=s.end + offset) for s in kept)
        both = f"{request.text} {previous.message}"
        filled = read_arguments(doc, both, (*request.spans, *moved))
        used = set(request.spans) & filled.used
        if filled.missing or not used:
            return ()
        calls = _calls(doc, filled, request.spans)
        return calls if len(used) + len(calls) - 1 == len(request.spans) else ()


def _remembers(doc: ToolDoc) -> bool:
    required = [param.want for param in doc.params if param.required]
    return _REMEMBER in doc.name_terms and required == ["text"]


def _convinces(best: _Scored, ask: AskReading) -> bool:
    used = best.filled.used
    kinds = {span.kind for span in used}
    strong = bool(kinds & {"url", "path", "glob"}) or {"time", "zone"} <= kinds
    strong = strong and not (ask.explains and all(map(is_bare_name, used)))
    names = best.doc.name_terms.union(*map(synonyms, best.doc.name_terms))
    asked_by_name = bool(ask.verbs & names) and not ask.explains
    enough = _MIN_COVERAGE
    if strong or (asked_by_name and kinds - {"number"}):
        enough = _MIN_COVERAGE_WHEN_STRONG
    elif ask.explains or best.lexical <= 0:
        return False
    return best.score >= (0 if strong else _MIN_SCORE) and best.coverage > enough


def _calls(doc: ToolDoc, filled: Reading, spans: tuple[Span, ...]) -> tuple[Call, ...]:
    """One call, or one for each of several things of a kind if the tool only reads."""
    first = Call(doc.tool.name, filled.arguments)
    single = _single_typed(doc, filled)
    if single is None or doc.effect != "reads":
        return (first,)
    kind = next(s.kind for s in filled.used if s.value == first.arguments[single.name])
    more = [span for span in spans if span.kind == kind and span not in filled.used]
    further = ({**first.arguments, single.name: span.value} for span in more[: _MAX_CALLS - 1])
    return (first, *(Call(first.tool, arguments) for arguments in further))


def _hints(request: _Request) -> list[str]:
    """What a bare path or address suggests: a file is read, a directory listed, a page fetched."""
    hints = terms("list directory") if _WHICH_FILES.search(request.text) else []
    for span in request.spans:
        if span.kind == "path":
            hints += terms(_suggested(span, request))
        elif span.kind == "url":
            hints += terms("fetch url")
    return hints


def _suggested(span: Span, request: _Request) -> str:
    if _MEDIA_ENDING.search(span.text):
        return "read media file"
    role = path_role(span.text, request.text, span.start)
    is_file = role == "file" or (role == "any" and not _READING.isdisjoint(request.said))
    return "read text file" if is_file else "list directory"


def _may_run(doc: ToolDoc, ask: AskReading) -> bool:
    """Whether the kind of request fits: a tool that may change something is never run on a guess."""
    # A file to be created is neither read nor a directory.
    makes_file = bool(ask.verbs & _MAKING) and _FILE in ask.head[:2]
    if makes_file and not (doc.says(_FILE) and any(map(doc.says, _MAKING))):
        return False
    if doc.effect == "reads":
        changes = ask.verbs & CHANGING_STEMS
        return not changes or any(verb in doc.verbs or doc.says(verb) for verb in changes)
    if ask.negated or ask.explains:
        return False
    if doc.effect == "changes":
        return bool(ask.commands & doc.verbs)
    return bool(ask.verbs & (doc.verbs | doc.name_terms))


def _path_fit(param: Param, filled: Reading, request: _Request) -> float:
    score = 0.0
    if param.want != "path" or param.name not in filled.arguments:
        return score
    speaks_of_git = not _GIT_WORDS.isdisjoint(request.said)
    value = filled.arguments[param.name]
    for span in filled.used:
        if span.kind != "path" or not (span.value == value or isinstance(value, list)):
            continue
        role = path_role(span.text, request.text, span.start)
        # A tool whose paths are relative to a workspace is for relative paths, the others are not.
        absolute = span.text.startswith(("/", "~")) or span.text[1:2] == ":"
        if param.relative:
            score += -_ROLE_CLASHES if absolute else _ROLE_FITS
        if param.role == "repository":
            score += _ROLE_FITS if role == "repository" or speaks_of_git else -_ROLE_CLASHES
            score -= _ROLE_CLASHES * (role == "file")
        elif "any" not in (role, param.role):
            score += _ROLE_FITS if role == param.role else -_ROLE_CLASHES
    return score


def _single_typed(doc: ToolDoc, filled: Reading) -> Param | None:
    typed = [
        param
        for param in doc.params
        if param.name in filled.arguments
        and param.want in ("zone", "path", "url")
        and not param.is_list
        and any(span.value == filled.arguments[param.name] for span in filled.used)
    ]
    return typed[0] if len(typed) == 1 else None
