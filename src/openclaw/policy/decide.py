"""Decides by a policy whether a tool may be used, and names the rule that said so."""

import fnmatch
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any


@dataclass(frozen=True)
class Rules:
    """One layer: deny wins over allow, and an empty `allow` means all.

    `ask` makes a person decide about each call that is allowed otherwise, except those that a rule
    in `approved` covers (see `covers`).
    """

    layer: str = "tools"
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    ask: Sequence[str] = ()
    approved: Sequence[str] = ()


# Layers in the order in which they are checked. A tool must pass every one of them.
Policy = Sequence[Rules]


def glob_matches(pattern: str, name: str) -> bool:
    """Whether `name` matches `pattern` as in a shell, but ignoring case."""
    return _compiled(pattern.strip().casefold()).match(name.casefold()) is not None


@lru_cache(maxsize=1024)
def _compiled(glob: str) -> re.Pattern[str]:
    # Patterns from `fnmatch` never backtrack, so a hostile name or glob costs little.
    return re.compile(fnmatch.translate(glob.replace("[^", "[!")))


class PolicyOutcome(Enum):
    """What to do with a call. If nobody can be asked, `ASK` means `DENY`."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` names the layer and the rule that deny or ask."""

    outcome: PolicyOutcome
    reason: str = ""

    @property
    def allowed(self) -> bool:
        return self.outcome is PolicyOutcome.ALLOW

    @property
    def asks(self) -> bool:
        return self.outcome is PolicyOutcome.ASK


def decide(
    policy: Policy, name: str, natural: str | None = None, *, contested: bool = False
) -> Decision:
    """Whether the tool with this prefixed name may be used. Any layer's denial wins over asking.

    `natural` is the name that the tool would have if no other tool had it. A rule that matches it
    applies to the tool, so that a name that clashes with another evades no rule. If the natural
    name is `contested`, it allows nothing: it may mean somebody else's tool.
    """
    names = (name,) if natural is None or natural == name else (name, natural)
    ask_reason = ""
    for rules in policy:
        denied = _first_match(rules.deny, names)
        if denied is not None:
            return Decision(PolicyOutcome.DENY, f"{rules.layer}.deny has '{denied}'")
        if rules.allow and _first_match(rules.allow, (name,) if contested else names) is None:
            return Decision(PolicyOutcome.DENY, f"{rules.layer}.allow does not have it")
        asked = _first_match(rules.ask, names)
        if asked is not None and not ask_reason:
            ask_reason = f"{rules.layer}.ask has '{asked}', and nobody can be asked here"
    return Decision(PolicyOutcome.ASK, ask_reason) if ask_reason else Decision(PolicyOutcome.ALLOW)


def _first_match(patterns: Iterable[str], names: Sequence[str]) -> str | None:
    matching = (p for p in patterns if any(glob_matches(p, name) for name in names))
    return next(matching, None)


def server_wholly_denied(policy: Policy, prefix: str) -> bool:
    """Whether the globs prove that every tool a server of this prefix could offer is denied.

    One layer then denies `mcp_{prefix}_*` as a whole, or has an allow list in which nothing can match
    such a name. A name that had to be cut ends in a hash but keeps its beginning.
    """
    start = f"mcp_{prefix}_".casefold()
    for rules in policy:
        if any(one.strip().endswith("*") and glob_matches(one, start) for one in rules.deny):
            return True
        if rules.allow and not any(_may_match(one, start) for one in rules.allow):
            return True
    return False


def _may_match(pattern: str, start: str) -> bool:
    """Whether a longer name that begins with `start` may match: part of the glob matches `start`."""
    parts = _GLOB_PART.findall(pattern.strip().casefold())
    return any(
        (at < len(parts) or parts[-1:] == ["*"]) and glob_matches("".join(parts[:at]), start)
        for at in range(len(parts) + 1)
    )


_GLOB_PART = re.compile(r"\[[!^]?\]?[^\]]*\]|.", re.DOTALL)


# A rule is a tool's name or glob (`write`, `mcp_mail_*`), or commands of `exec`: `exec(make test)` is
# exactly that command, `exec(git status *)` every plain command that begins with these words. A
# command with operators, redirections or substitutions is never plain: what else it runs is not in
# its first words.

_COMMAND_RULE = re.compile(r"\s*exec\s*\((.*)\)\s*", re.DOTALL | re.IGNORECASE)
_SHELL_SYNTAX = re.compile(r"[;&|<>()`$\\\n\r{}!#]")
_WITH_SUBCOMMANDS = re.compile(
    r"apt|brew|bundle|cargo|composer|docker|dotnet|gh|git|go|gradle|kubectl|make|mvn|npm|pip|pnpm|poetry"
    r"|systemctl|terraform|uv|yarn"
)
# Those left out run or install whatever their next words say.
_SUBCOMMAND = re.compile(
    r"(?!(config|dlx|exec|filter-branch|install|rebase|remote|run|submodule|tool|x)$)[a-z][a-z0-9-]*"
)
# Options with which a program that only looks writes a file or runs another program.
_DOES_MORE = re.compile(
    r"--?(config|delete|exec|execdir|ext-diff|no-index|ok|okdir|open-files-in-pager|output|receive-pack"
    r"|textconv|toolexec|upload-pack|fprint\w*|fls)(=.*)?|-[coO]|-[oO][./~].*",
    re.DOTALL,
)
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
    more = any(_DOES_MORE.fullmatch(word) for word in words[len(first) :])
    return bool(first) and words[: len(first)] == first and not more


def is_rule(text: str) -> bool:
    wanted = _COMMAND_RULE.fullmatch(text)
    return bool(text.strip()) and (bool(wanted[1].strip()) if wanted else not set(text) & set("()"))


def rule_for(name: str, arguments: Mapping[str, Any]) -> str | None:
    """The rule to add if a person approves more than this one call; None if there is no such rule."""
    if name != "exec":
        return name
    command = arguments.get("command")
    if not isinstance(command, str) or command.strip().endswith(_MORE):
        return None  # as a rule, its end would mean something else
    words = _plain_words(command)
    if len(words) > 1 and _WITH_SUBCOMMANDS.fullmatch(words[0]) and _SUBCOMMAND.fullmatch(words[1]):
        rule = f"exec({words[0]} {words[1]}{_MORE})"
        if covers(rule, name, arguments):
            return rule
    return f"exec({command.strip()})"


def what_it_covers(rule: str) -> str:
    wanted = _COMMAND_RULE.fullmatch(rule)
    if wanted is None:
        return f"every call of {rule}"
    if wanted[1].endswith(_MORE):
        return f"commands that begin with `{wanted[1].removesuffix(_MORE)}`"
    return "exactly this command"


def _plain_words(command: str) -> list[str]:
    """The words of a command that runs one program and nothing else; empty for any other."""
    if _SHELL_SYNTAX.search(command):
        return []
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    return [] if not words or "=" in words[0] or not words[0].isprintable() else words
