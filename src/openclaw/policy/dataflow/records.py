"""Finds the fields and records of a text, whatever its format: JSON, YAML, headers, tables, HTML.

A field is a whole value under a name. What stands inside sentences is no field.
"""

import ast
import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

_MAX_FIELDS = 20_000
_LONGEST_JSON = 4_000_000
_LONGEST_LINE = 4_000


class Field(NamedTuple):
    """`record` numbers the object that it belongs to; `key` is the name it was found under.

    If it is only `read_out`, somebody may have written the sentence: it says what a record is about,
    and nothing more.
    """

    key: str
    value: str
    record: int
    in_list: bool = False
    read_out: bool = False


def parse_json(text: str) -> object:
    """The JSON value that a text consists of, else None."""
    bare = text.strip()
    if not bare or bare[0] not in "[{" or len(bare) > _LONGEST_JSON:
        return None
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        return _parse_repr(bare)


_LONGEST_REPR = 20_000


def _parse_repr(bare: str) -> object:
    """What Python prints for a value, as servers do that return `str(result)`."""
    if bare[-1] not in "]}" or len(bare) > _LONGEST_REPR:
        return None
    try:
        value: object = ast.literal_eval(bare)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return cast("object", value) if isinstance(value, dict | list) else None


def fields_of(text: str, structured: object = None) -> list[Field]:
    """At most 20,000; what lies beyond counts as prose."""
    value: object = structured if structured is not None else parse_json(text)
    # The text itself, wrapped so that the result is an object, has no structure of its own.
    if isinstance(value, dict):
        inner: list[object] = list(cast("dict[str, object]", value).values())
        if len(inner) == 1 and isinstance(inner[0], str):
            value, text = parse_json(inner[0]), inner[0]
    found: list[Field]
    if value is not None:
        found = list(leaves(value))  # pyright: ignore[reportUnknownArgumentType] - any JSON
    else:
        plain = _without_tags(text)[:_LONGEST_JSON]
        found = _Lines().read(plain) or list(_read_out(plain))
    return [*found, *_with_names(found)]


_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"(?<=[.!?\u3002])\s+|\n|(?<=[\u3002\uff01\uff1f])")
_VALUE = re.compile(r"[\w.+%-]{1,64}@[\w.-]+\w|[a-z]{1,20}://\S+|\b(?=\w*\d)[\w.:/-]*\w")
_LABEL_WORDS = 4
_SHORT_SENTENCE = 12


def _read_out(text: str) -> Iterator[Field]:
    """The fields of records that are read out: sentences that are a label and values, whatever the words."""
    for record, paragraph in enumerate(_PARAGRAPH.split(text), 1):
        for sentence in _SENTENCE.split(paragraph)[:_MAX_FIELDS]:
            label = [
                word for word in _VALUE.sub(" ", sentence).split() if any(map(str.isalnum, word))
            ]
            if len(label) <= _LABEL_WORDS:
                values = _VALUE.findall(sentence)
                key = " ".join(label)
                yield from (Field(key, one, record, len(values) > 1) for one in values)
            said = sentence.strip(" .").split()
            if len(said) <= _SHORT_SENTENCE:
                for begin in range(1, min(len(said), _LABEL_WORDS + 1)):
                    key, value = " ".join(said[:begin]), " ".join(said[begin:])
                    yield Field(key, value, record, read_out=True)


_WITH_NAME = re.compile(r"([^<>]{1,100})<([^<>\s]+@[^<>\s]+)>")


def _with_names(fields: list[Field]) -> Iterator[Field]:
    """Both parts of `Ana <ana@example.com>`."""
    for one in fields:
        both = _WITH_NAME.fullmatch(one.value.strip()) if "@" in one.value else None
        if both is not None:
            for part in both.groups() if "@" not in both[1] else ():
                yield one._replace(value=part.strip(' "'))


def leaves(structured: object) -> Iterator[Field]:
    records = found = 0
    stack: list[tuple[object, str, int, bool]] = [(structured, "", 0, False)]
    while stack and found < _MAX_FIELDS:
        value, key, record, in_list = stack.pop()
        if isinstance(value, dict):
            records += 1
            own = records
            for name, child in reversed(cast("dict[object, object]", value).items()):
                home = own
                # Such a key is itself data, as in `{"bob@example.com": "editor"}`.
                if not str(name).isidentifier():
                    found, records, home = found + 1, records + 1, records + 1
                    yield Field("", str(name), home)
                stack.append((child, str(name), home, False))
        elif isinstance(value, list | tuple):
            items = cast("list[object]", value)
            stack.extend((child, key, record, True) for child in reversed(items))
        elif value is not None and not isinstance(value, bool):
            found += 1
            yield Field(key, str(value), record, in_list)


_CELL_END = re.compile(r"</t[dh]>", re.I)
_ROW_END = re.compile(r"</(?:tr|li|p|div|h[1-6]|dt|dd)>|<br\s*/?>", re.I)
_TAG = re.compile(r"<[a-zA-Z/!][^<>]{0,2000}>")


def _without_tags(text: str) -> str:
    if not re.search(r"</(?:td|th|tr|li|p|div|dd)>", text, re.I):
        return text
    text = re.sub(r">\s+<", "><", text)
    return html.unescape(_TAG.sub("", _ROW_END.sub("\n", _CELL_END.sub(" | ", text))))


_NAMED = re.compile(
    r"(\s*)((?:[-*•+]\s+)?)[*_\"'`]{0,2}([^\s:=|,;.\"'`*{}<>][^:=|,;?\n\"`*{}<>]{0,40}?)[*_\"'`]{0,2}\s*(?::|=)(?:[*_]{2})?(?:\s+(.*))?$"
)
_ITEM = re.compile(r"(?<!\s)(\s*+)[-*•+]\s++(.*)$")
_WORDS_IN_A_NAME = 3


@dataclass(slots=True)
class _Open:
    """A record that is being read; its names begin at the column `indent`."""

    indent: int
    record: int
    key: str = ""
    keys: set[str] = field(default_factory=set[str])


class _Lines:
    """Reads a text line by line. A long or quoted value takes the deeper lines that follow it."""

    def __init__(self) -> None:
        self._fields: list[Field] = []
        self._records = 0
        self._open: list[_Open] = []

    def read(self, text: str) -> list[Field]:
        lines = text.split("\n")
        items = [_ITEM.sub(r"\2", line).strip() for line in lines if line.strip()]
        if items and all(_is_entry(item) for item in items):
            return [Field("", _bare(item), 0, True) for item in items]
        at = 0
        while at < len(lines) and len(self._fields) < _MAX_FIELDS:
            end = self._table(lines, at) or self._line(lines, at)
            at = end
        return self._fields

    def _line(self, lines: list[str], at: int) -> int:
        line = lines[at].rstrip()
        if not line.strip():
            self._open.clear()
            return at + 1
        named = _NAMED.match(line) if len(line) < _LONGEST_LINE else None
        if named is None or len(named[3].split()) > _WORDS_IN_A_NAME:
            item = _ITEM.match(line)
            if item and self._open and len(item[1]) >= self._open[-1].indent - 2:
                record = self._open[-1]
                self._fields.append(Field(record.key, _bare(item[2]), record.record, True))
            elif not item:
                self._open.clear()
            return at + 1
        indent = len(named[1]) + len(named[2])
        record = self._record(indent, named[3].strip(), new=bool(named[2]))
        record.key = named[3].strip()
        value, end = _whole(named[4] or "", lines, at + 1, indent)
        if value:
            self._fields.append(Field(record.key, value, record.record))
        return end

    def _record(self, indent: int, key: str, *, new: bool) -> _Open:
        while self._open and self._open[-1].indent > indent:
            self._open.pop()
        top = self._open[-1] if self._open else None
        if top is not None and top.indent == indent:
            if not new and key not in top.keys:
                top.keys.add(key)
                return top
            self._open.pop()
        self._records += 1
        self._open.append(_Open(indent, self._records, keys={key}))
        return self._open[-1]

    def _table(self, lines: list[str], at: int) -> int | None:
        """The line after the table that begins here, if one does: a head and rows of as many cells."""
        if len(lines[at]) > _LONGEST_LINE:
            return None
        for mark in ("|", "\t", ",", ";"):
            head = _cells(lines[at], mark)
            if len(head) < 2 or any(len(cell) > 40 or not cell for cell in head):
                continue
            end = at + 1
            while end < len(lines) and len(lines[end]) < _LONGEST_LINE:
                row = _cells(lines[end], mark)
                if len(row) != len(head):
                    break
                if any(cell.strip("-: ") for cell in row):
                    self._records += 1
                    self._fields += [
                        Field(key, cell, self._records)
                        for key, cell in zip(head, row, strict=True)
                        if cell
                    ]
                end += 1
            if end > at + 1:
                return end
        return None


def _is_entry(line: str) -> bool:
    """Whether a line is a name and nothing else, as in a list of names."""
    return (
        len(line) <= 40
        and len(line.split()) <= 4
        and not re.search(r"[,;|<>\t]|[.:=!?]\s|[.:!?]$", line)
    )


def _cells(line: str, mark: str) -> list[str]:
    if mark not in line:
        return []
    if mark == "|":
        return [cell.strip().strip("*`") for cell in line.strip().strip("|").split("|")]
    if '"' in line and mark in ",;":
        parts = re.findall(rf'(?:^|{mark})\s*(?:"((?:[^"]|"")*)"|([^{mark}"]*))', line)
        return [(quoted or plain).strip() for quoted, plain in parts]
    return [cell.strip() for cell in line.split(mark)]


def _whole(first: str, lines: list[str], at: int, indent: int) -> tuple[str, int]:
    """A value with the lines that belong to it, and the number of the line after those."""
    value = first.strip()
    block = re.fullmatch(r"[|>][+-]?\d?", value) is not None
    quote = value[:1] if value[:1] in ("'", '"') else ""
    parts = [] if block else [value]
    while at < len(lines):
        line = lines[at]
        if quote:
            if _closes(parts[-1], quote, first=len(parts) == 1):
                break
        elif (line.strip() and len(line) - len(line.lstrip()) <= indent) or (
            not block and (not value or not line.strip() or _NAMED.match(line) or _ITEM.match(line))
        ):
            break
        parts.append(line.strip())
        at += 1
    return _bare("\n".join(parts) if block else " ".join(parts)), at


def _closes(line: str, quote: str, *, first: bool) -> bool:
    inner = line[1:] if first else line
    return (inner.endswith(quote) and not inner.endswith(f"\\{quote}")) or (
        first and inner.endswith(",")
    )


def _bare(value: str) -> str:
    value = value.strip().rstrip(",").strip("*_`")
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1].replace("''", "'").replace('\\"', '"')
    return value.strip()
