"""Questions about calls as one readable line: what will happen, and what did not come from the user.

Pure. The whole call is shown below that line, so a long value may be cut here.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from openclaw.core.tools import json_list

_MCP_LABEL = "MCP: "
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_MOST_CHARS = 80
_MOST_VALUES = 3
# Arguments that say what a call acts on, the most telling first, with the word before their value.
_OBJECTS = {
    **dict.fromkeys(("to", "recipient", "recipients", "attendees", "participants"), " to"),
    **dict.fromkeys(("email", "user", "username", "channel"), " to"),
    **dict.fromkeys(("url", "uri", "address", "path", "file", "filename"), ":"),
    **dict.fromkeys(("title", "subject", "name", "id", "command", "query"), ":"),
}


def headline(
    name: str, label: str, arguments: Mapping[str, Any], *, overwrites: bool = False
) -> str:
    """What a call would do, as a question: "Send email to bob@x.com (mail/send_email)?"."""
    if label.startswith(_MCP_LABEL):
        tool = label.removeprefix(_MCP_LABEL)
        return f"{_phrase(tool.rpartition('/')[2])}{_object(arguments)} ({tool})?"
    path, url = arguments.get("path"), arguments.get("url")
    fixed = {
        "exec": "Run this command?",
        "run_code": "Run this script?",
        "write": f"{'Overwrite' if overwrites else 'Write'} {brief(path)}?",
        "edit": f"Edit {brief(path)}?",
        "web_fetch": f"Open {brief(url)}?",
        "delegate": "Give these tasks to subagents?",
        "cron": _CRON.get(str(arguments.get("action")), "Change the schedules?"),
    }
    return fixed.get(name) or f"{_phrase(name)}{_object(arguments)}?"


_CRON = {
    "add": "Add this schedule?",
    "remove": "Remove this schedule?",
    "list": "List the schedules?",
}


def brief(value: object) -> str:
    """A value on one short line."""
    values = [str(one) for one in json_list(value)] or [str(value)]
    more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    line = " ".join(", ".join(values[:_MOST_VALUES]).split())
    return (line if len(line) <= _MOST_CHARS else f"{line[: _MOST_CHARS - 1]}…") + more


def _phrase(name: str) -> str:
    words = " ".join(_WORDS.findall(name)).lower() or name
    return words[:1].upper() + words[1:]


def _object(arguments: Mapping[str, Any]) -> str:
    for key, before in _OBJECTS.items():
        if arguments.get(key) not in (None, "", [], {}):
            return f"{before} {brief(arguments[key])}"
    return ""


def plan_title(titles: Sequence[str]) -> str:
    """One question about several calls."""
    if len(titles) == 1:
        return titles[0]
    steps = " ".join(f"({number}) {title}" for number, title in enumerate(titles, 1))
    return f"Allow these {len(titles)} steps? {steps}"


# ---- what did not come from the user


class Doubt(Protocol):
    """One thing in doubt about a call: a value of an argument, or with reason "action" all of it.

    `kind` says what the value is, if known; `source` where it came from, if anywhere, and
    `sentence` how it stood there.
    """

    @property
    def reason(self) -> str: ...
    @property
    def parameter(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def sentence(self) -> str: ...


_NOUNS = {
    **dict.fromkeys(("email", "url", "address"), "address"),
    "account": "account number",
    "handle": "recipient",
    "path": "file",
    "command": "command",
    "secret": "password or key",
    "quantity": "amount",
}
_ARTICLED = ("page", "file", "attachment", "session")  # kinds of sources, as labels begin
_MOST_SAID = 40  # characters of a value that a sentence repeats


def explained(title: str, doubts: Sequence[Doubt]) -> str:
    """The question with a sentence on each thing in doubt, those from one source together."""
    sentences = (_sentence(title, group) for group in _grouped(doubts))
    return " ".join([title, *dict.fromkeys(sentences)])


def details(doubts: Iterable[Doubt], suspicious: Callable[[str], bool]) -> list[str]:
    """One entry for each thing in doubt: its value, and how it stood in its source."""
    return [_detail(one, suspicious) for one in doubts]


def _grouped(doubts: Sequence[Doubt]) -> list[list[Doubt]]:
    groups: dict[tuple[str, str], list[Doubt]] = {}
    for one in doubts:
        reason = one.reason if one.reason in ("action", "leaves") else ""
        groups.setdefault((reason, one.source), []).append(one)
    return list(groups.values())


def _sentence(title: str, doubts: Sequence[Doubt]) -> str:
    reason, source = doubts[0].reason, doubts[0].source
    if reason == "action":
        return "You did not ask for this kind of action."
    nouns = list(dict.fromkeys(_noun(one, title) for one in doubts))
    *most, last = nouns
    what = f"{', '.join(most)} and {last}" if most else last
    several = len(nouns) > 1
    if reason == "leaves":
        verb = "are" if several else "is"
        return f"{_capital(what)} {verb} private text of {_place(source)} and would be sent out."
    if source:
        return f"{_capital(what)} {'come' if several else 'comes'} from {_place(source)}, not from you."
    return f"You did not give {what}."


def _noun(doubt: Doubt, title: str) -> str:
    named = f"“{doubt.parameter}”" if doubt.parameter else "part of it"
    noun = _NOUNS.get(doubt.kind)
    shown = " ".join(doubt.value.split())
    said = f" {shown}" if shown and shown not in title and len(shown) <= _MOST_SAID else ""
    return f"the {noun}{said}" if noun else f"{named}{said and f' ({shown})'}"


def _place(source: str) -> str:
    """The source in words: "page https://x.com/a" is the page x.com/a."""
    kind, _, name = source.partition(" ")
    if kind in _ARTICLED:
        return f"the {kind} {re.sub(r'^https?://', '', name)}".rstrip()
    return f"the result of {source}" if "/" in source else f"the server {source}"


def _detail(doubt: Doubt, suspicious: Callable[[str], bool]) -> str:
    shown = brief(doubt.value)
    line = f"- {doubt.parameter}: {shown}" if doubt.parameter else f"- {shown}"
    line = f"{line} (from {doubt.source})" if doubt.source else line
    if not doubt.sentence:
        return line
    mark = "  [looks like an injected instruction]" if suspicious(doubt.sentence) else ""
    return f"{line}\n    “{doubt.sentence}”{mark}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
