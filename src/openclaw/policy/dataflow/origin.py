"""Where a text came from. Pure: no I/O, no clock, no environment."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from openclaw.policy.dataflow.normalise import fold, number, squeeze, tokens


class Kind(StrEnum):
    PERSON = "person"
    OURSELVES = "ourselves"
    SERVER = "server"
    PAGE = "page"
    FILE = "file"
    ATTACHMENT = "attachment"
    SESSION = "session"


# What an outsider can write as a whole, so its structure proves nothing about who wrote a field.
FREE_FORM = frozenset({Kind.PAGE, Kind.FILE, Kind.ATTACHMENT, Kind.SESSION})


OURS = "native"  # what stands for a server's name in the names of our own tools


@dataclass(frozen=True, slots=True)
class Origin:
    """`name` is the server, address, path or session; `trusted` means the person said so."""

    kind: Kind
    name: str = ""
    tool: str = ""
    trusted: bool = False

    @property
    def untrusted(self) -> bool:
        return not self.trusted and self.kind not in (Kind.PERSON, Kind.OURSELVES)

    @property
    def label(self) -> str:
        if self.kind is Kind.SERVER:
            return f"{self.name}/{self.tool}" if self.tool else self.name
        return f"{self.kind.value} {self.name}".strip()

    @property
    def of_workspace(self) -> bool:
        """Whether it is a file, or what our own tools said of files and commands."""
        return self.kind is Kind.FILE or (self.kind is Kind.SERVER and self.name == OURS)


PERSON = Origin(Kind.PERSON)
OURSELVES = Origin(Kind.OURSELVES)


def server(name: str, tool: str = "", *, trusted: bool = False) -> Origin:
    return Origin(Kind.SERVER, name, tool, trusted)


def page(address: str) -> Origin:
    return Origin(Kind.PAGE, address)


@dataclass(frozen=True, slots=True)
class Text:
    """One text of the conversation.

    `structured` is the parsed form if the source sent one; `asked_with` are the arguments of
    the call that returned it. A summary of untrusted text keeps an untrusted origin. What the
    model wrote is never added: its words give a value no standing.
    """

    origin: Origin
    text: str
    structured: object = None
    asked_with: Mapping[str, object] = field(default_factory=dict[str, object])


MAX_LEAVES = 20_000
_LONGEST_JSON = 4_000_000


@dataclass(frozen=True, slots=True)
class Leaf:
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
                if _is_data(str(name)):
                    found, records, home = found + 1, records + 1, records + 1
                    yield Leaf("", str(name), home)
                stack.append((child, str(name), home, False))
        elif isinstance(value, list | tuple):
            items = cast("list[object]", value)
            stack.extend((child, key, record, True) for child in reversed(items))
        elif value is not None and not isinstance(value, bool):
            found += 1
            yield Leaf(key, str(value), record, in_list)


def _is_data(name: str) -> bool:
    """A key that is itself a value, as in `{"bob@example.com": "editor"}`: a record of its own."""
    return not name.isidentifier()


_LONGEST_LEAF = 200
_SHORTEST_SQUEEZED = 5
_LONG_NUMBER = 6
# Below this size a search costs less than looking its words up.
_LARGE = 20_000
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")


@dataclass(slots=True)
class Source:
    """`leaves` are the whole fields of structured output; `records` the fields of each object."""

    origin: Origin
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
        """The sentence in which the value stands, for showing to a person; at most 240 characters."""
        at = self.folded.find(fold(value))
        if at < 0:
            return ""
        begin, end = max(0, at - 160), at + len(value)
        before = _SENTENCE_END.split(self.text[begin:at])[-1]
        after = _SENTENCE_END.split(self.text[end : end + 160])[0]
        return f"{before}{self.text[at:end]}{after}".strip()[:240]

    def _may_hold(self, value: str) -> bool:
        return self.vocabulary is None or self.vocabulary.issuperset(tokens(value))


def prepare(text: Text) -> Source:
    structured = text.structured if text.structured is not None else parse(text.text)
    body = text.text or "\n".join(leaf.value for leaf in leaves(structured))
    words = frozenset(tokens(body)) if len(body) > _LARGE else None
    asked_with = [leaf.value for leaf in leaves(dict(text.asked_with))]
    source = Source(text.origin, body, fold(body), squeeze(body), words, asked_with)
    if text.origin.kind not in FREE_FORM:
        _file_leaves(source, structured)
    return source


def _file_leaves(source: Source, structured: object) -> None:
    by_value: defaultdict[bytes, list[Leaf]] = defaultdict(list)
    by_record: defaultdict[int, list[Leaf]] = defaultdict(list)
    for leaf in leaves(structured):
        if len(leaf.value) <= _LONGEST_LEAF:
            by_value[squeeze(leaf.value)].append(leaf)
            by_record[leaf.record].append(leaf)
    source.leaves, source.records = dict(by_value), dict(by_record)


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
