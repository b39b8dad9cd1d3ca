"""Every text of a conversation, indexed as it arrives, so that a check does not read it all again."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from openclaw.policy.dataflow import text_values
from openclaw.policy.dataflow.records import Field, fields_of, leaves
from openclaw.policy.dataflow.text_values import (
    QuotedValue,
    find,
    fold,
    number,
    split,
    squeeze,
    words,
)

Kind = Literal["person", "ourselves", "server", "page", "file", "attachment", "session"]
_DOCUMENTS = frozenset({"document", "doc", "page", "webpage", "attachment"})
OURS = "native"  # used in place of a server's name for our own tools


@dataclass(frozen=True, slots=True)
class TextOrigin:
    """`name` is the server, address, path or session; `trusted` means the user said so."""

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
        documents = not _DOCUMENTS.isdisjoint(split(self.tool))
        return documents or self.kind in ("page", "file", "attachment", "session")

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


_LONGEST_FIELD = 200
_LONGEST_NAME = 80
_SHORTEST_SQUEEZED = 5
_LONG_NUMBER = 9
_SENTENCE_END = re.compile("(?<=[.!?\u3002\uff01\uff1f])\\s|\n")
_SENTENCE = re.compile("[.!?]\\s+\\S|[\u3002\uff01\uff1f]")


@dataclass(slots=True)
class Source:
    """`by_value` are its fields by their squeezed value; `prose` is what stands in no short field.

    `named` means that the user said where to look: the call that returned it had their values.
    `steered` means that it was looked up by what a sentence from outside says.
    """

    origin: TextOrigin
    text: str
    folded: str
    squeezed: bytes
    prose: str  # folded
    asked_with: list[str]
    named: bool
    steered: bool
    addresses: dict[str, set[str]]  # what could be a destination, by kind, in comparable form
    by_value: dict[bytes, list[Field]] = field(default_factory=dict[bytes, list[Field]])
    records: dict[int, list[Field]] = field(default_factory=dict[int, list[Field]])
    _meant: tuple[int, list[list[Field]]] = (-1, [])

    def meant(self, index: "Index") -> list[list[Field]]:
        """The records that the user named by one of their fields, or by who wrote them."""
        version = index.person.version
        if self._meant[0] != version:
            chosen = [
                one for one in self.records.values() if len(one) > 1 and _is_meant(one, index)
            ]
            self._meant = version, chosen
        return self._meant[1]

    def quotes(self, value: str) -> bool:
        wanted = squeeze(value)
        least = _SHORTEST_SQUEEZED if number(value) is None else _LONG_NUMBER
        if len(wanted) >= least:
            return wanted in self.squeezed
        return any(stands_alone(form, self.folded) for form in _forms(value))

    def says(self, value: str) -> bool:
        """Whether a sentence or a long field contains it."""
        if value.isdigit():  # one that is no part of a date or of a longer number
            return (
                re.search(rf"(?<!\w)(?<!\d[-:/.,]){value}(?!\w)(?![-:/.,]\d)", self.prose)
                is not None
            )
        return any(stands_alone(form, self.prose) for form in _forms(value))

    def sentence_with(self, value: str) -> str:
        """The sentence with the value, to show to the user; at most 240 characters."""
        start = self.folded.find(fold(value))
        if start < 0:
            return ""
        begin, end = max(0, start - 160), start + len(value)
        before = _SENTENCE_END.split(self.text[begin:start])[-1]
        after = _SENTENCE_END.split(self.text[end : end + 160])[0]
        return f"{before}{self.text[start:end]}{after}".strip()[:240]


def prepare(text: SeenText, *, named: bool, steered: bool) -> Source:
    fields = fields_of(text.text, text.structured)
    body = text.text or "\n".join(one.value for one in fields)
    asked_with = [one.value for one in leaves(dict(text.asked_with))]
    short = [one for one in fields if len(one.value) <= _LONGEST_FIELD and not one.read_out]
    whole = [one for one in short if is_name(one.value)]
    rest = body
    if whole:
        # A text that consists of fields has only those as prose that could be sentences.
        covered = sum(len(one.value) for one in fields if not one.read_out)
        if text.structured is not None or covered * 4 > len(body):
            rest = "\n".join(one.value for one in fields if not is_name(one.value))
        else:  # the fields are lines of a letter or of a page
            rest = _without(body, whole)
    addresses: dict[str, set[str]] = {}
    for atom in find(body):
        addresses.setdefault(text_values.kind_of(atom), set()).add(text_values.comparable(atom))
    source = Source(
        text.origin,
        body,
        fold(body),
        squeeze(body),
        fold(rest),
        asked_with,
        named,
        steered,
        addresses,
    )
    for one in short:
        source.by_value.setdefault(_key(one.value), []).append(one)
    for one in fields:
        source.records.setdefault(one.record, []).append(one)
    return source


def _without(body: str, fields: Iterable[Field]) -> str:
    """The lines and sentences of the text that are no fields."""
    values = {one.value for one in fields}
    return "\n".join(
        part
        for part in re.split(r"\n|(?<=[.!?])\s+", body)
        if part.partition(":")[2].strip().strip("'\"*` ") not in values
        and not any(part.rstrip(".").endswith(f" {value}") and len(part) < 80 for value in values)
    )


def is_name(value: str) -> bool:
    """Whether a field is a name, an address or a number rather than sentences."""
    return len(value) <= _LONGEST_NAME and not _SENTENCE.search(value) and "\n" not in value


def _key(value: str) -> bytes:
    """The same for all ways of writing a number or a name."""
    plain = number(value)
    return squeeze(value) if plain is None else plain.encode()


def _forms(value: str) -> list[str]:
    """The ways of writing it, folded."""
    plain = number(value)
    if plain is None:
        return [fold(value).strip()]
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
        before, after = text[max(0, start - 1) : start], text[end : end + 1]
        if text_values.is_unspaced(value) or not (before.isalnum() or after.isalnum()):
            return True
        start = text.find(value, end)
    return False


@dataclass(frozen=True, slots=True)
class UserText:
    """Words that the user wrote themselves. `UserWords.add` alone makes one."""

    text: str


_PROPOSAL_END = 400  # characters; a question further up is not what the user answers
_SHORT_ANSWER = 60
_SHORT_QUESTION = 6  # words
_ASKS = re.compile("[?\u037e\u061f\uff1f]")  # also Greek, Arabic and full-width
# "see www.example.com.Then go on": a full stop without the space after it.
_GLUED = re.compile(r"(\b[\w-]+\.[a-z]{2,4})\.(?=[A-Z][a-z])")


class UserWords:
    """What the user wrote, and what follows from it: every method considers all of it.

    `values` are those of the intent; `proposal` is what the agent had asked when the user's
    last message was a short answer.
    """

    def __init__(self) -> None:
        self.messages: list[UserText] = []
        self.version = 0  # counts what was learnt
        self.proposal = ""
        self.addresses: set[str] = set()  # in comparable form
        self.hosts: set[str] = set()
        self.kinds: set[str] = set()  # of the addresses in the messages
        self._phrase = " "
        self._squeezed = b""
        self._numbers: set[str] = set()
        self._words: set[str] = set()
        self._verbatim: list[str] = []
        self._asked = ""
        self.question = ""  # the sentence of the proposal that asks

    def add(self, text: str) -> None:
        self.messages.append(UserText(text))
        short = len(text.strip()) <= _SHORT_ANSWER
        self.proposal = self._asked if short else ""
        self._asked = ""
        self.kinds |= {text_values.kind_of(atom) for atom in find(text)}
        self.learn(text)

    def hear(self, answer: str) -> None:
        """Take note of what the agent told the user: a short answer to a question accepts it.

        What counts is the question, or all that was said if the question is as short as "Which one?".
        """
        asked = [one for one in _SENTENCE_END.split(answer[-_PROPOSAL_END:]) if _ASKS.search(one)]
        short = bool(asked) and len(words(asked[-1])) <= _SHORT_QUESTION
        self.question = asked[-1] if asked else ""
        self._asked = "" if not asked else answer if short else asked[-1]

    def learn(self, text: str) -> None:
        """Take values from a text that asks for nothing: our own, a trusted source's, an intent's."""
        self.version += 1
        self._verbatim.append(text)
        self._phrase += f"\n {' '.join(words(text))} "
        self._squeezed += b"\n" + squeeze(text)
        self._numbers |= text_values.numbers(text)
        self._words |= set(words(text))
        for atom in find(_GLUED.sub(r"\1 ", text)):
            self.addresses.add(text_values.comparable(atom))
            if atom.kind == "url" and text_values.comparable(atom) == text_values.host_of(
                atom.text
            ):
                self.hosts.add(text_values.host_of(atom.text))

    def gave(self, value: str) -> bool:
        """Whether the words of the value stand together in what the user wrote, in any script."""
        wanted = " ".join(words(value))
        if not wanted:
            return False
        if text_values.is_unspaced(wanted):
            return squeeze(wanted) in self._squeezed
        return f" {wanted} " in self._phrase

    def inflected(self, value: str) -> bool:
        """Whether each longer word of the value is one of the user's with another ending."""
        parts = [word for word in words(value) if len(word) > 2]
        return bool(parts) and all(
            any(same_stem(part, word) for word in self._words) for part in parts
        )

    def gave_exactly(self, value: str) -> bool:
        alone = re.compile(rf"(?<![^\W_]){re.escape(value)}(?![^\W_])")
        return any(alone.search(text) for text in self._verbatim)

    def gave_place_of(self, path: str) -> bool:
        """Whether it is below a directory that the user named."""
        parent = path.rstrip("/").rpartition("/")[0]
        return "/" in parent.strip("/") and self.gave(parent)

    def gave_number(self, value: str) -> bool:
        return bool(text_values.numbers(value) & self._numbers)

    def gave_atom(self, atom: QuotedValue) -> bool:
        return text_values.comparable(atom) in self.addresses or self.gave_exactly(atom.text)

    def named_in(self, name: str) -> set[str]:
        """The words of a name that the user wrote, whatever their accents and endings."""
        said = text_values.without_accents(" ".join(one.text for one in self.messages))
        return {
            word
            for word in words(text_values.without_accents(name))
            if (len(word) > 2 and re.search(rf"(?<!\w){re.escape(word)}\w{{0,3}}(?!\w)", said))
            or (text_values.is_unspaced(word) and word in said)
        }

    def shares_a_name(self, name: str) -> bool:
        return bool(self.named_in(name))

    def proposed(self, value: str) -> bool:
        """Whether the agent named it when it asked what the user then agreed to."""
        return bool(self.proposal) and stands_alone(fold(value).strip(), fold(self.proposal))


def same_stem(one: str, other: str) -> bool:
    if one == other:
        return True
    if min(len(one), len(other)) < 3 or not (one.isalpha() and other.isalpha()):
        return False
    if text_values.is_unspaced(one):
        return one in other or other in one
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        shared += 1
    return shared >= 3 and max(len(one), len(other)) - shared <= 2


# The fields that say who wrote something: their choice.
WRITTEN_BY = frozenset({"author", "creator", "from", "reporter", "sender", "user"})


class Index:
    """One per conversation. Adding costs time in proportion to the text, checking hardly any."""

    def __init__(self) -> None:
        self.person = UserWords()
        self.sources: list[Source] = []
        self.outside = False  # whether anything was read from outside the user's own workspace
        self.opened: set[str] = set()  # addresses that were given to tools, in comparable form

    @property
    def exposed(self) -> bool:
        """Whether untrusted content is in the conversation."""
        return bool(self.sources)

    def add(self, text: SeenText) -> None:
        if text.origin.kind == "person":
            self.person.add(text.text)
            if self._names_something(self.person.question):
                self.person.proposal = self.person.proposal and self.person.question
        elif not text.origin.untrusted:
            self.person.learn(text.text)
        else:
            named = self._is_named(text)
            source = prepare(text, named=named, steered=not named and self._is_steered(text))
            self.sources.append(source)
            self.outside = self.outside or not source.origin.of_workspace
            for value in source.asked_with if source.origin.kind == "page" else ():
                self.opened |= {text_values.comparable(atom) for atom in find(value)}

    @property
    def has_pointed(self) -> bool:
        """Whether the user said where to look."""
        return any(source.named or source.meant(self) for source in self.sources)

    def fields_of(self, value: str) -> list[tuple[Source, Field]]:
        key = _key(value)
        return [(one, found) for one in self.sources for found in one.by_value.get(key, ())]

    def is_place(self, value: str, but: str = "") -> bool:
        """Whether the agent looked something up by it, with another tool than `but`."""
        wanted = squeeze(value)
        return bool(wanted) and any(
            squeeze(asked) == wanted or (len(wanted) > 2 and wanted in squeeze(asked))
            for source in self.sources
            if source.origin.tool != but
            for asked in source.asked_with
        )

    def quoting(self, value: str) -> Source | None:
        return next((one for one in reversed(self.sources) if one.quotes(value)), None)

    def is_said(self, value: str) -> bool:
        """Whether it occurs inside sentences of untrusted content, where an instruction could be."""
        return any(source.says(value) for source in self.sources)

    def is_only(self, atom: QuotedValue, *, sharing_a_name: bool = False) -> bool:
        """Whether untrusted content has no other address of this kind, or none with such a name."""
        kind = text_values.kind_of(atom)
        seen = set[str]().union(*(one.addresses.get(kind, set[str]()) for one in self.sources))
        if sharing_a_name:
            shared = self.person.named_in(atom.text.rpartition("@")[0])
            seen = {one for one in seen if shared & self.person.named_in(one.rpartition("@")[0])}
        return seen == {text_values.comparable(atom)}

    def is_told(self, atom: QuotedValue, *, by_all: bool = False) -> bool:
        """Whether a record that the user named has it and no other of its kind, or `by_all` of a text do."""
        told = text_values.comparable(atom)
        for source in self.sources:
            records = source.meant(self)
            texts = [[one for record in records for one in record]] if by_all else records
            if any(_of_kind(text, text_values.kind_of(atom)) == {told} for text in texts):
                return True
        return False

    def pointed_at(self, value: str) -> Source | None:
        """The source that says it and that the user named, or one of whose records they named."""
        wanted = fold(value).strip()
        quoting = [source for source in self.sources if source.quotes(value)]
        for source in quoting:
            records = () if source.named else source.meant(self)
            if source.named or any(
                wanted in fold(one.value) for record in records for one in record
            ):
                return source
        return None

    def _is_named(self, text: SeenText) -> bool:
        """Whether the user said where to look: by a value of theirs, or one from such a place.

        An address is not opened unless they did, or agreed.
        """
        if text.origin.kind in ("attachment", "page"):
            return True
        asked = [one.value for one in leaves(dict(text.asked_with))]
        return any(self.is_pointer(value) for value in asked)

    def is_pointer(self, value: str) -> bool:
        if len(squeeze(value)) < 2 or value.casefold() in ("true", "false"):
            return False
        return (
            self.person.gave(value)
            or self.person.proposed(value)
            or self.person.gave_place_of(value)
            or ("/" in value and self._is_on_named_page(value))
            or (not number(value) and self.person.inflected(value))
            or any(is_anchored(source, one, self) for source, one in self.fields_of(value))
        )

    def _is_steered(self, text: SeenText) -> bool:
        """Whether it was looked up by words of sentences, and the user did not point at those.

        Or they did, and had named what to look up with this tool.
        """
        named = any(one.named and one.origin == text.origin for one in self.sources)
        return any(
            len(squeeze(one.value)) > 3
            and self.is_said(one.value)
            and (named or not self.pointed_at(one.value))
            for one in leaves(dict(text.asked_with))
        )

    def _names_something(self, question: str) -> bool:
        """Whether a question names an entry of what was read."""
        asked = fold(question)
        return any(
            len(squeeze(one.value)) > 2
            and number(one.value) is None
            and stands_alone(fold(one.value).strip(), asked)
            for source in (self.sources if asked else ())
            for fields in source.by_value.values()
            for one in fields
        )

    def _is_on_named_page(self, path: str) -> bool:
        return any(one.origin.kind == "page" and one.quotes(path) for one in self.sources)


def _of_kind(fields: list[Field], kind: str) -> set[str]:
    return {
        text_values.comparable(atom)
        for one in fields
        for atom in find(one.value)
        if text_values.kind_of(atom) == kind
    }


def _is_meant(record: list[Field], index: Index) -> bool:
    for one in record:
        local, sign, _ = one.value.partition("@")
        written = bool(sign) and not WRITTEN_BY.isdisjoint(split(one.key))
        if is_anchor(one.value, index) or (written and index.person.shares_a_name(local)):
            return True
    return False


def is_anchored(source: Source, found: Field, index: Index) -> bool:
    """Whether another field of the same record is one that the user named."""
    return any(is_anchor(one.value, index) for one in others(source, found))


def others(source: Source, found: Field) -> list[Field]:
    """The other fields of the record; entries of the same list say nothing about each other."""
    return [
        one
        for one in source.records.get(found.record, ())
        if one is not found and not (one.in_list and one.key == found.key)
    ]


def is_anchor(value: str, index: Index) -> bool:
    """Whether a field holds what the user spoke of, or agreed to."""
    if number(value) is not None or len(squeeze(value)) < 3 or not is_name(value):
        return False
    person = index.person
    if person.gave(value) or person.proposed(value):
        return True
    parts = words(value)
    return (
        len(parts) > 1
        and all(len(part) > 2 or person.gave(part) for part in parts)
        and person.inflected(value)
    )
