"""Rules about calls, not only tools: which calls a person agreed to for more than once. Pure.

A rule is a tool's name or glob (`write`, `mcp_mail_*`), or commands of `exec`: `exec(make test)` is
exactly that command, `exec(git status *)` every plain command that begins with these words. A
command with operators, redirections or substitutions is never plain: what else it runs is not in
its first words.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from openclaw.policy.decide import glob_matches

_COMMAND_RULE = re.compile(r"\s*exec\s*\((.*)\)\s*", re.DOTALL | re.IGNORECASE)
_SHELL_SYNTAX = re.compile(r"[;&|<>()`$\\\n\r{}!#]")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*")
_RUN_OTHERS = re.compile(
    r"(.*/)?(bash|builtin|busybox|chroot|command|dash|doas|env|eval|exec|fish|ksh|nice|node|nohup|perl"
    r"|python[\d.]*|ruby|setsid|sh|source|ssh|su|sudo|time|timeout|watch|xargs|zsh)"
)
"""Programs whose next word says too little about what they do."""
_MORE = " *"


def covers(rule: str, name: str, arguments: Mapping[str, Any]) -> bool:
    wanted = _COMMAND_RULE.fullmatch(rule)
    if wanted is None:
        return glob_matches(rule, name)
    command = arguments.get("command")
    if name != "exec" or not isinstance(command, str):
        return False
    text = wanted[1].strip()
    if not text.endswith(_MORE):
        return command.strip() == text
    first, words = text.removesuffix(_MORE).split(), _plain_words(command)
    return bool(first) and words[: len(first)] == first


def rule_for(name: str, arguments: Mapping[str, Any]) -> str | None:
    """The rule that a person who agrees to this call for longer agrees to; None if there is none."""
    if name != "exec":
        return name
    command = arguments.get("command")
    if not isinstance(command, str) or command.strip().endswith(_MORE):
        return None  # as a rule, its end would mean something else
    words = _plain_words(command)
    if len(words) > 1 and _SUBCOMMAND.fullmatch(words[1]) and not _RUN_OTHERS.fullmatch(words[0]):
        return f"exec({words[0]} {words[1]}{_MORE})"
    return f"exec({command.strip()})"


def what_it_covers(rule: str) -> str:
    wanted = _COMMAND_RULE.fullmatch(rule)
    if wanted is None:
        return f"every call of {rule}"
    if wanted[1].endswith(_MORE):
        return f"commands that begin with `{wanted[1].removesuffix(_MORE)}`"
    return "exactly this command"


def _plain_words(command: str) -> list[str]:
    """The words of a command that runs one program and nothing else; none for any other."""
    if _SHELL_SYNTAX.search(command):
        return []
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    return [] if not words or "=" in words[0] or not words[0].isprintable() else words
