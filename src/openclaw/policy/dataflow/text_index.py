"""Every text of a conversation, indexed as it arrives, so that a check does not read it all again."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

from openclaw.policy.dataflow import text_values
from openclaw.policy.dataflow.text_values import QuotedValue, find, fold, number, squeeze, words

# Where a text came from. Pure: no I/O, no clock, no environment.


Kind = Literal["person", "ourselves", "server", "page", "file", "attachment", "session"]
OURS = "native"  # used in place of a server's name for our own tools


@dataclass(frozen=True, slots=True)
class TextOrigin:
    """`name` is the server, address, path or session; `trusted` means the person said so."""

    kind: Kind
    name: str = ""
    tool: str = ""
    trusted: bool = False

    @property
    def untrusted(self) -> bool:
        return not self.trusted and self.kind not in ("person", "ourselves")

    @property
    def label(self) -> str:
        if self.kind == "server":
            return f"{self.name}/{self.tool}" if self.tool else self.name
        return f"{self.kind} {self.name}".strip()

    @property
    def free_form(self) -> bool:
        """Whether an outsider can write all of it, so that its structure proves nothing."""
        return self.kind in ("page", "file", "attachment", "session")

    @property
    def of_workspace(self) -> bool:
        """Whether it is a file, or what our own tools said of files and commands."""
        return self.kind == "file" or (self.kind == "server" and self.name == OURS)


PERSON = TextOrigin("person")


@dataclass(frozen=True, slots=True)
class SeenText:
    """One text of the conversation.

    `structured` is the parsed form if the source sent one; `asked_with` are the arguments of
    the call that returned it. A summary of untrusted text keeps an untrusted origin. What the
    model wrote is never added: its words do not vouch for a value.
    """

    origin: TextOrigin
    text: str
    structured: object = None
    asked_with: Mapping[str, object] = field(default_factory=dict[str, object])


MAX_LEAVES = 20_000
_LONGEST_JSON = 4_000_000


class Leaf(NamedTuple):
    """`record` numbers the object it belongs to; `key` is the field it was found under."""

    key: str
    value: str
    record: int
    in_list: bool = False


def parse(text: str) -> object:
    """The JSON value that a text consists of, else None. Text with words around it is prose."""
    bare = text.strip()
    if not bare or bare[0] not in "[{" or len(bare) > _LONGEST_JSON:
        return None
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        return None


def leaves(structured: object) -> Iterator[Leaf]:
    """At most MAX_LEAVES; what lies beyond counts as prose."""
    records = 0
    found = 0
    stack: list[tuple[object, str, int, bool]] = [(structured, "", 0, False)]
    while stack and found < MAX_LEAVES:
        value, key, record, in_list = stack.pop()
        if isinstance(value, dict):
            records += 1
            own = records
            for name, child in reversed(cast("dict[object, object]", value).items()):
                home = own
                # Such a key is itself data, as in `{"bob@example.com": "editor"}`.
                if not str(name).isidentifier():
                    found, records, home = found + 1, records + 1, records + 1
                    yield Leaf("", str(name), home)
                stack.append((child, str(name), home, False))
        elif isinstance(value, list | tuple):
            items = cast("list[object]", value)
            stack.extend((child, key, record, True) for child in reversed(items))
        elif value is not None and not isinstance(value, bool):
            found += 1
            yield Leaf(key, str(value), record, in_list)


_LONGEST_LEAF = 200
_SHORTEST_SQUEEZED = 5
_LONG_NUMBER = 6
# Below this size a search costs less than looking its words up.
_LARGE = 20_000
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")


@dataclass(slots=True)
class Source:
    """`leaves` are the whole fields of structured output; `records` the fields of each object."""

    origin: TextOrigin
    text: str
    folded: str
    squeezed: bytes
    vocabulary: frozenset[bytes] | None
    asked_with: list[str]
    leaves: dict[bytes, list[Leaf]] = field(default_factory=dict[bytes, list[Leaf]])
    records: dict[int, list[Leaf]] = field(default_factory=dict[int, list[Leaf]])

    def quotes(self, value: str) -> bool:
        wanted = squeeze(value)
        numeric = number(value) is not None
        if len(wanted) >= (_LONG_NUMBER if numeric else _SHORTEST_SQUEEZED):
            return self._may_hold(value) and wanted in self.squeezed
        forms = _number_forms(value) if numeric else [fold(value)]
        return any(self._may_hold(form) and stands_alone(form, self.folded) for form in forms)

    def sentence_with(self, value: str) -> str:
        """The sentence with the value, to show to a person; at most 240 characters."""
        at = self.folded.find(fold(value))
        if at < 0:
            return ""
        begin, end = max(0, at - 160), at + len(value)
        before = _SENTENCE_END.split(self.text[begin:at])[-1]
        after = _SENTENCE_END.split(self.text[end : end + 160])[0]
        return f"{before}{self.text[at:end]}{after}".strip()[:240]

    def _may_hold(self, value: str) -> bool:
        return self.vocabulary is None or self.vocabulary.issuperset(text_values.tokens(value))


def prepare(text: SeenText) -> Source:
    structured = text.structured if text.structured is not None else parse(text.text)
    body = text.text or "\n".join(leaf.value for leaf in leaves(structured))
    words = frozenset(text_values.tokens(body)) if len(body) > _LARGE else None
    asked_with = [leaf.value for leaf in leaves(dict(text.asked_with))]
    source = Source(text.origin, body, fold(body), squeeze(body), words, asked_with)
    if not text.origin.free_form:
        for leaf in leaves(structured):
            if len(leaf.value) <= _LONGEST_LEAF:
                source.leaves.setdefault(squeeze(leaf.value), []).append(leaf)
                source.records.setdefault(leaf.record, []).append(leaf)
    return source


def _number_forms(value: str) -> list[str]:
    plain = number(value) or value
    whole, _, fraction = plain.partition(".")
    grouped = f"{int(whole):,}" if whole.lstrip("-").isdigit() else whole
    cents = (fraction or "00").ljust(2, "0")
    swapped = grouped.replace(",", ".")
    forms = {f"{whole}.{cents}", f"{whole},{cents}", f"{grouped}.{cents}", f"{swapped},{cents}"}
    return sorted(forms | {plain} if fraction else forms | {plain, grouped, swapped})


def stands_alone(value: str, text: str) -> bool:
    """Whether the value occurs in the text with no letter or digit next to it. Both are folded."""
    start = text.find(value) if value else -1
    while start >= 0:
        end = start + len(value)
        if not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
            return True
        start = text.find(value, end)
    return False


_QUOTED = re.compile(
    r"```.*?```|^\s*>.*?$|\"[^\"\n]{3,}\"|“[^”]{3,}”|«[^»]{3,}»|(?<!\w)'[^'\n]{3,}'(?!\w)",
    re.DOTALL | re.MULTILINE,
)
_LONGEST_SPAN = 6
_MONTHS = "january february march april may june july august september october november december"
_ISO_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_NUMBERED = (
    "issue|pr|ticket|file|event|mail|email|message|task|row|item|order|invoice|transaction|case|bug"
)
# "see www.example.com.Then go on": a full stop without the space after it.
_GLUED = re.compile(r"(\b[\w-]+\.[a-z]{2,4})\.(?=[A-Z][a-z])")
_SHORT_ANSWER = 8
_REQUEST = text_values.patterns("request")


class PersonMessages:
    """All messages of the person so far; every method considers all of them."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._phrase = " "
        self._numbers: set[str] = set()
        self.addresses: set[str] = set()  # in comparable form
        self.hosts: set[str] = set()
        self.vocabulary: set[str] = set()
        self.spans: set[bytes] = set()

    def add(self, text: str) -> None:
        self._messages.append(text)
        self.learn(text)

    def learn(self, text: str) -> None:
        """Our own words or a trusted source: its values count, but it asks for nothing."""
        self._phrase += f"\n{text_values.phrase(text)}"
        self._numbers |= text_values.numbers(text)
        self.vocabulary |= set(words(text))
        self.spans |= _spans(words(text))
        for atom in find(_GLUED.sub(r"\1 ", text)):
            self.addresses.add(text_values.comparable(atom))
            if atom.kind == "url" and text_values.comparable(atom) == text_values.host_of(
                atom.text
            ):
                self.hosts.add(text_values.host_of(atom.text))

    @property
    def request(self) -> str:
        """The latest message without quotations; a short follow-up includes the one before."""
        parts: list[str] = []
        for message in reversed(self._messages):
            own = _QUOTED.sub(" … ", fold(message))
            parts.append(own)
            if len(words(own)) >= _SHORT_ANSWER:
                break
        return "\n".join(reversed(parts))

    def gave_words(self, value: str) -> bool:
        wanted = text_values.phrase(value)
        return len(wanted) > 2 and wanted in self._phrase

    def gave_atom(self, atom: QuotedValue) -> bool:
        return text_values.comparable(atom) in self.addresses or self.gave_exactly(atom.text)

    def gave_exactly(self, value: str) -> bool:
        alone = re.compile(rf"(?<![^\W_]){re.escape(value)}(?![^\W_])")
        return any(alone.search(message) for message in self._messages)

    def gave_number(self, value: str) -> bool:
        return bool(text_values.numbers(value) & self._numbers)

    def gave_id(self, value: str) -> bool:
        """A short number is an identifier only if the person called it one ("issue 13", "#13")."""
        if len(value) > 3 or not value.isdigit():
            return self.gave_words(value)
        labelled = re.compile(rf"(?:#|\b(?:id|number|no|nr|{_NUMBERED})s?)\W{{0,3}}0*{value}\b")
        return any(labelled.search(fold(message)) for message in self._messages)

    def gave_day(self, value: str) -> bool:
        match = _ISO_DAY.search(value)
        return match is not None and any(f" {form} " in self._phrase for form in _forms(match))

    def named_as_destination(self, value: str) -> bool:
        """Whether some mention reads like "to X", rather than "from X", "about X" or "never to X"."""
        if _REQUEST["back"].search(self.request):
            return True
        if not text_values.address(value) and _REQUEST["them"].search(self.request):
            return True
        before = [context for message in self._messages for context in _before(value, message)]
        return not before or any(
            _REQUEST["towards"].search(one) and not _REQUEST["against"].search(one)
            for one in before
        )


def _spans(said: list[str]) -> set[bytes]:
    """Each run of a few words, squeezed: what the person may have picked from a list."""
    runs = ("".join(said[at : at + n]) for at in range(len(said)) for n in range(1, _LONGEST_SPAN))
    return {run.encode() for run in runs if len(run) > 2 and number(run) is None}


def _before(value: str, message: str) -> list[str]:
    folded = fold(message)
    found = re.finditer(rf"(?<!\w){re.escape(fold(value))}(?!\w)", folded)
    return [folded[max(0, match.start() - 40) : match.start()] for match in found]


def _forms(match: re.Match[str]) -> list[str]:
    year, month, day = (int(part) for part in match.groups())
    if not 1 <= month <= 12:
        return []
    name = _MONTHS.split()[month - 1]
    ordinal = f"{day}{'th' if 10 < day < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"
    days = (str(day), ordinal, f"{day:02}")
    spoken = [f"{n} {d}" for n in (name, name[:3]) for d in days]
    spoken += [f"{d} {of}{n}" for n in (name, name[:3]) for d in days for of in ("", "of ")]
    return [
        *spoken,
        f"{year} {month:02} {day:02}",
        f"{day} {month} {year}",
        f"{month} {day} {year}",
    ]


_DOCUMENT = re.compile(r"\.\w{2,5}$|/|^www\.")
_DOCUMENT_NOUNS = text_values.word_set("document_nouns")
_POINTING = (
    r"\b(?:based on|according to|from|in|on|per|using|mentioned|described|listed|inside|forward|copy"
    r"|translate|quote|aus|laut|dans|en)\s+(?:\S+\s+){{0,3}}?{noun}s?\b"
)


class Index:
    """One per conversation. Adding costs time in proportion to the text, checking hardly any."""

    def __init__(self) -> None:
        self.person = PersonMessages()
        self.sources: list[Source] = []
        self.outside = False  # whether anything was read from outside the person's own workspace
        # By each part of a name, the e-mail addresses in fields of some output that contain it.
        self.addresses: defaultdict[str, set[bytes]] = defaultdict(set)

    def add(self, text: SeenText) -> None:
        if text.origin.kind == "person":
            self.person.add(text.text)
        elif not text.origin.untrusted:
            self.person.learn(text.text)
        else:
            self._add_source(prepare(text))

    def leaves_of(self, value: str) -> list[tuple[Source, Leaf]]:
        key = squeeze(value)
        return [(one, leaf) for one in self.sources for leaf in one.leaves.get(key, ())]

    def quoting(self, value: str) -> Source | None:
        return next((one for one in self.sources if one.quotes(value)), None)

    def pointed_at(self, source: Source) -> bool:
        given = [value for value in source.asked_with if self.person.gave_words(value)]
        if any(_DOCUMENT.search(value) for value in given):
            return True
        if source.origin.free_form:
            return any(" " in value.strip() for value in given)
        nouns = (
            _DOCUMENT_NOUNS.intersection(text_values.nouns_of(source.origin.tool)) if given else ()
        )
        return any(
            re.search(_POINTING.format(noun=noun.replace("email", "e?-?mail")), self.person.request)
            for noun in nouns
        )

    def _add_source(self, source: Source) -> None:
        self.sources.append(source)
        self.outside = self.outside or not source.origin.of_workspace
        for key, found in source.leaves.items():
            if "@" in found[0].value:
                for word in text_values.name_words(found[0].value):
                    self.addresses[word].add(key)
