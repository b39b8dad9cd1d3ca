"""Recognises requests that need a tool, because a small model would make the answer up."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from openclaw.discovery.stems import stem
from openclaw.embedded.entities import Span, find_spans, is_bare_name, without
from openclaw.embedded.vocabulary import STOP_WORDS, terms, vocabulary, word_set, words

_POLITE = re.compile(
    r"^(?:(?:please|hey|hi|hello|ok|okay|so|now|then|and|also|well|just|kindly|openclaw)\b[\s,!:]*"
    r"|(?:can|could|would|will|may|might)\s+(?:you|i|we)\s+(?:please\s+)?"
    r"|(?:i|we)\s+(?:want|need|would like|'d like|wish)\s+(?:you\s+)?(?:to\s+)?"
    r"|(?:i|we)'d\s+like\s+(?:you\s+)?(?:to\s+)?"
    r"|go ahead and\s+|let's\s+|let us\s+)+",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"(?:^|[.!;,]|\band)\s*(?:(?:i|we)(?:'d| would)?\s+(?:want|need|like|wish)\b"
    r"|(?:i'm|i am|we're|we are)\s+(?:looking|searching|trying|hoping|interested)\b)",
    re.IGNORECASE,
)
_SUBJECTS = vocabulary("subjects")
# Questions about a concept, and things to write: a tool that merely shares a word is not meant.
_EXPLAINS = re.compile(
    r"^\s*(?:please\s+)?(?:(?:can|could|would) you\s+(?:please\s+)?)?"
    r"(?:explain|define|describe|why\b|how (?:do|does|did|would|should|can|could|long|come)\b"
    r"|what(?:'s| is| are| does)\s+(?:the\s+)?(?:meaning|difference|point|purpose|idea)\b"
    r"|what(?:'s| is| are)\s+an?\b|(?:what|who)(?:'s| is| are)\s+\S+\s*\?*\s*$|(?:tell|teach) me (?:about|why|how|a)\b"
    r"|(?:write|compose|make up|invent|sing|draw)\s+(?:me\s+)?(?:a|an|some|the)?\s*(?:\w+\s+)?"
    r"(?:poem|haiku|story|joke|song|essay|limerick|letter|tale|riddle|rap|sonnet)\b"
    r"|should i\b|do you (?:like|think|believe|prefer|feel)\b)",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:do not|don't|dont|never|without|must not|mustn't|shouldn't|should not)\b", re.IGNORECASE
)
# Words that share a stem with a verb, but are not requests: "cancellations of order 7" cancels nothing.
_NOUN_ENDING = re.compile(r"(?:ions?|ments?|als?|ives?|ics?|able|ity|ful|ings?|ers)$")
_HEAD_TERMS = 3
_CLAUSE = re.compile(r"[.;!?\n]+\s*|,?\s+(?:and then|then|and)\s+|,\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AskReading:
    wants_something: bool
    explains: bool
    negated: bool
    verbs: frozenset[str]
    commands: frozenset[str]  # the verbs that may be meant as commands
    head: tuple[str, ...] = ()  # the first terms after the verb: what is asked for


def read_ask(message: str) -> AskReading:
    # Without politeness, the first word of each clause of a request is its verb.
    clauses = [words(_POLITE.sub("", clause.strip())) for clause in _CLAUSE.split(message)]
    first_words = [said[0] for said in clauses if said]
    verbs = frozenset(map(stem, first_words))
    head = terms(re.split(r"[.?!\n]\s", _POLITE.sub("", message.strip()), maxsplit=1)[0])
    if head[1:] and head[0] in verbs:
        head = head[1:]
    first = words(message.replace("'", ""))[:1]
    states = not ("?" in message or _WISH.search(message)) and _SUBJECTS.issuperset(first)
    return AskReading(
        wants_something=bool(words(message)) and not states,
        explains=_EXPLAINS.match(message) is not None,
        negated=_NEGATED.search(message) is not None,
        verbs=verbs,
        commands=frozenset(stem(word) for word in first_words if not _is_noun(word)),
        head=tuple(head[:_HEAD_TERMS]),
    )


def _is_noun(word: str) -> bool:
    return _NOUN_ENDING.search(word.removeprefix(stem(word))) is not None


_REMEMBER = re.compile(
    r"(?:remember|memori[sz]e|keep in mind|(?:do not|don['\u2019]t) forget)\b(?:\s+this)?"
    r"(?:\s*[:,]\s*|\s+that\s+|\s+(?!(?:what|when|where|who|whom|whose|which|how|why|if|me|us|it)\b))"
    r"(?P<fact>\S.*\w\W*)$",
    re.IGNORECASE | re.DOTALL,
)


def fact_to_remember(message: str) -> str | None:
    """Everything after "remember that", since a name in it says nothing by itself."""
    found = _REMEMBER.match(_POLITE.sub("", message.strip()))
    return None if found is None or found["fact"].endswith("?") else found["fact"]


_QUOTE = "[\"'`“”]"
_SAID = (
    r"(?:the\s+)?(?:exact\s+)?(?:text|words?|string|line|sentence|message|phrase|contents?)\b:?\s+"
)
_FILE = (
    r"(?:(?:an?|the|my)\s+)?(?:new\s+)?(?:text\s+)?(?:file\s+)?(?:(?:called|named)\s+)?"
    rf"{_QUOTE}?(?P<path>(?:[a-z]:)?[\w~./\\-]*(?:\.[a-z]\w{{0,4}}|/[\w.-]*\w)){_QUOTE}?"
)
_TO_WRITE = (
    re.compile(
        rf"(?:write|save|put|store)\s+(?P<said>{_SAID})?(?P<text>\S.*?)\s+(?:to|into|in|as)\s+"
        rf"{_FILE}\W*$",
        re.IGNORECASE | re.DOTALL,
    ),
    re.compile(
        rf"(?:create|make|write|save)\s+(?:me\s+)?{_FILE},?\s+"
        r"(?:with|containing|saying|(?:that|which)\s+(?:says|contains)):?\s+"
        rf"(?P<said>{_SAID})?(?P<text>\S.*?)(?:\s+(?:in|inside)(?:\s+(?:it|the\s+file))?)?[\s.]*$",
        re.IGNORECASE | re.DOTALL,
    ),
)
_NOT_THE_TEXT = re.compile(
    r"(?:an?|the|this|that|these|those|it|them|my|your|our|his|her|their|some|all|everything|what)\b"
    r"|.*\b(?:poems?|haikus?|stor(?:y|ies)|jokes?|songs?|essays?|letters?|summar(?:y|ies)|code|scripts?"
    r"|functions?|programs?|then)\b",
    re.IGNORECASE | re.DOTALL,
)


def text_to_write(message: str) -> tuple[str, str] | None:
    """The text and the file of a plain request to write, unless the text is yet to be found."""
    asked = _POLITE.sub("", message.strip())
    for found in filter(None, (pattern.match(asked) for pattern in _TO_WRITE)):
        text, path = found["text"], found["path"]
        if asked != message.strip():  # "Could you …?"
            text = text.rstrip("?")
        if re.fullmatch(rf"{_QUOTE}[^\"'`“”]+{_QUOTE}", text):
            return text[1:-1], path
        named = text[0] in "\"'`“" or any(
            span.kind in ("path", "quoted", "glob") for span in find_spans(text)
        )
        if not named and (found["said"] or not _NOT_THE_TEXT.match(text)):
            return text, path
    return None


class Need(StrEnum):
    """What is needed; the value says what cannot be done without a tool."""

    TIME = "tell the current time or date"
    WEATHER = "know the weather"
    FILES = "see or change files"
    WEB = "open web pages or search the web"
    MEDIA = "see images or hear sound"
    ACTION = "do that"


_ADDRESS = re.compile(r"(?:https?://|www\.)\w", re.IGNORECASE)
_CODE = re.compile(r"\b(?:function|script|program|code|class|method|snippet)\b", re.IGNORECASE)
_FILE_VERBS = frozenset(map(stem, vocabulary("file_verbs")))
_ENDINGS = vocabulary("file_endings")
_PRODUCTS = word_set("node vue react next nuxt three d express angular ember backbone chart p")


@lru_cache(maxsize=1)
def _phrasings() -> dict[str, re.Pattern[str]]:
    tables = tomllib.loads(Path(__file__).with_name("phrasings.toml").read_text("utf-8"))
    found: dict[str, re.Pattern[str]] = {}
    for name, alternatives in tables["phrasings"].items():
        text = "|".join(alternatives)
        for part, pattern in tables["parts"].items():
            text = text.replace(f"<{part}>", pattern)
        found[name] = re.compile(text, re.IGNORECASE)
    return found


def _asks(said: str, kind: str) -> bool:
    return _phrasings()[kind].search(said) is not None


def need_of(message: str) -> Need | None:
    """What the message asks for that only a tool can give; None if it is conversation."""
    ask = read_ask(message)
    said = message.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    if _asks(said, "time"):
        return Need.TIME
    if _asks(said, "media"):
        return Need.MEDIA
    if not ask.wants_something:
        return None
    spans = find_spans(message)
    if _ADDRESS.search(said):
        return Need.WEB
    paths = [span for span in spans if span.kind == "path"]
    if any(_asks(said[: span.start], "named_file") for span in paths):
        return Need.FILES
    return None if ask.explains else _plainly_asked(said, ask, spans)


def _plainly_asked(said: str, ask: AskReading, spans: tuple[Span, ...]) -> Need | None:
    kinds = {span.kind for span in spans if not is_bare_name(span)}
    tests: Iterable[tuple[Need, bool]] = (
        (Need.ACTION, _asks(said, "action")),
        (Need.WEATHER, _asks(said, "weather")),
        (Need.TIME, {"time", "zone"} <= kinds),
        (Need.WEB, "url" in kinds or _asks(said, "web")),
        (Need.FILES, "path" in kinds or any(map(_is_file, spans)) or _of_files(said, ask)),
    )
    return next((need for need, found in tests if found), None)


def _of_files(said: str, ask: AskReading) -> bool:
    if _asks(said, "about_place"):
        return True
    new = _asks(said, "new_place") and _CODE.search(said) is None
    return bool(ask.verbs & _FILE_VERBS) and (new or _asks(said, "known_place"))


def _is_file(span: Span) -> bool:
    name, _, ending = span.text.rpartition(".")
    if not is_bare_name(span) or ending.lower() not in _ENDINGS:
        return False
    return not (ending == "js" and name.lower().rstrip("0123456789") in _PRODUCTS)


def only_varies(message: str) -> bool:
    """Whether a message only varies what was said before, such as "and in Paris?"."""
    spans = find_spans(message)
    left = [word for word in words(without(message, spans)) if word not in STOP_WORDS]
    return bool(spans) and not left
