"""How a call that needs a person's consent is shown, the same on every front end. Pure.

Nothing is rewritten and nothing is cut: what a person sees is what runs. Names stay on one line,
characters that a screen would swallow are spelled out, and only values that are known to be secrets
are hidden, each with its length.
"""

import difflib
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openclaw.core.tools import json_list
from openclaw.policy.question_text import headline

Hide = Callable[[str], str]  # replaces known secrets in a text by notes of their length

_BLANK_LETTERS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    "\U00013441\U00013442\U00016fe4\U0001d159"
)
_UNSEEN_STYLE = re.compile("(?<![^\x00-\x7f])\ufe0f")  # it belongs only after an emoji
_SPACES = frozenset(" \u3000")  # the ordinary one, and the one that Chinese and Japanese text has
_COMMANDS = {"exec": "command", "run_code": "code"}
_FIRST = {"path": 0, "url": 1, "to": 2}  # of the other arguments
_INDENT = "  "
_MOST_DIFF_LINES = 5000


@dataclass(frozen=True, slots=True)
class CallText:
    """`title` asks for consent in one line; `body` has all arguments, in as many as it takes."""

    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Change:
    """A file's text now and after the call. The arguments named in `instead_of` need not be shown."""

    before: str
    after: str
    instead_of: frozenset[str]


def describe_call(
    name: str,
    label: str,
    arguments: Mapping[str, Any],
    hide: Hide = str,
    change: Change | None = None,
) -> CallText:
    """The whole call: a command as a command, an edit as a diff, other arguments one to a line."""
    title = headline(name, label, arguments, overwrites=change is not None)
    diff = [] if change is None else list(diff_lines(hide(change.before), hide(change.after)))
    if change is not None and diff:
        arguments = {key: one for key, one in arguments.items() if key not in change.instead_of}
    return CallText(one_line(hide(title)), "\n".join([*_body(name, arguments, hide), *diff]))


def diff_lines(before: str, after: str) -> Iterator[str]:
    """A unified diff without its head; empty if the texts are equal, or too long to be compared."""
    if all(text.endswith("\n") for text in (before, after) if text):
        before, after = before.removesuffix("\n"), after.removesuffix("\n")
    old, new = (text.split("\n") if text else [] for text in (before, after))
    if max(len(old), len(new)) > _MOST_DIFF_LINES:
        return  # it could take minutes; the arguments say it too
    for line in itertools.islice(difflib.unified_diff(old, new, lineterm=""), 2, None):
        yield visible(line) if line.startswith("@@") else f"{line[0]} {visible(line[1:])}"


def one_line(text: str) -> str:
    """Text that cannot start a new line: line breaks are spelled out too."""
    return "".join(_spelled(c) if c in "\n\t" else c for c in visible(text))


def visible(text: str) -> str:
    """Text with everything spelled out that a reader would not see or that moves what they see."""
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(c if _is_visible(c) else _spelled(c) for c in text)
    return _UNSEEN_STYLE.sub(_spelled("\ufe0f"), shown)


def _is_visible(char: str) -> bool:
    if char in "\n\t":
        return True
    kind = unicodedata.category(char)
    if kind == "Zs":
        return char in _SPACES
    return kind[0] != "C" and kind not in ("Zl", "Zp") and char not in _BLANK_LETTERS and not (
        0xFE00 <= ord(char) <= 0xFE0E or 0xE0100 <= ord(char) <= 0xE01EF
    )  # fmt: skip


def _spelled(char: str) -> str:
    return f"<U+{ord(char):04X}>"


def _body(name: str, arguments: Mapping[str, Any], hide: Hide) -> Iterator[str]:
    rest = dict(arguments)
    command = rest.pop(_COMMANDS[name], None) if name in _COMMANDS else None
    if isinstance(command, str):
        yield from _lines(hide(command), "$ " if name == "exec" else _INDENT)
    elif command is not None:
        rest[_COMMANDS[name]] = command
    for key in sorted(rest, key=lambda key: (_FIRST.get(key, len(_FIRST)), key)):
        yield from _argument(key, rest[key], hide)


def _argument(key: str, value: Any, hide: Hide) -> Iterator[str]:
    shown = one_line(hide(key))
    mark = {"old_text": "- ", "oldText": "- ", "new_text": "+ ", "newText": "+ ", "content": "+ "}
    if isinstance(value, str) and ("\n" in value or key in mark):
        yield f"{shown}:"
        yield from _lines(hide(value), mark.get(key, _INDENT))
    elif (objects := json_list(value)) and all(isinstance(one, dict) for one in objects):
        for number, item in enumerate(objects, 1):
            yield f"{shown} {number}:"
            for name in item:
                yield from (f"{_INDENT}{line}" for line in _argument(str(name), item[name], hide))
    else:
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        )
        yield f"{shown}: {one_line(hide(text))}"


def _lines(text: str, mark: str) -> Iterator[str]:
    for line in visible(text).split("\n"):
        yield f"{mark}{line}"
