"""Questions about calls as one readable line: what will happen, and what did not come from the user.

Pure. The whole call is shown below that line, so a long value may be cut here.
"""

import re
from collections.abc import Mapping
from typing import Any

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
    """What a call would do, as a question: "Send email to bob@x.com, with mail/send_email?"."""
    if label.startswith(_MCP_LABEL):
        tool = label.removeprefix(_MCP_LABEL)
        return f"{_phrase(tool.rpartition('/')[2])}{_object(arguments)}, with {tool}?"
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
