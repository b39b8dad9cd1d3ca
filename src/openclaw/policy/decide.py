"""Decides by a policy whether a tool may be used, and names the rule that said so."""

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from openclaw.policy.command_forms import FORMS, form_of, form_of_rule


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
    """What to do with a call."""

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
            ask_reason = f"{rules.layer}.ask has '{asked}'"
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
# exactly that command, `exec(git status *)` every command of that reviewed form.

_COMMAND_RULE = re.compile(r"\s*exec\s*\((.*)\)\s*", re.DOTALL | re.IGNORECASE)
_MORE = " *"


def covers(rule: str, name: str, arguments: Mapping[str, Any]) -> bool:
    wanted = _COMMAND_RULE.fullmatch(rule)
    if wanted is None:
        return glob_matches(rule, name)
    command = arguments.get("command")
    if name != "exec" or not isinstance(command, str):
        return False
    text = wanted[1].strip()
    form = form_of_rule(text)
    if form is not None:
        return form_of(command) is form
    return command.strip() == text and not text.endswith(_MORE)


def problem_of_rule(text: str) -> str | None:
    """Why this rule covers nothing, or not what it seems to; None if it is fine."""
    wanted = _COMMAND_RULE.fullmatch(text)
    if wanted is None:
        return None if text.strip() and not set(text) & set("()") else "is not a rule"
    command = wanted[1].strip()
    if not command:
        return "names no command"
    if f" {command}".endswith(_MORE) and form_of_rule(command) is None:
        forms = ", ".join(form.rule for form in FORMS)
        return f"covers nothing: write the exact command, or one of these forms: {forms}"
    return None


def rule_for(name: str, arguments: Mapping[str, Any]) -> str | None:
    """The rule to add if a person approves more than this one call; None if there is no such rule."""
    if name != "exec":
        return name
    command = arguments.get("command")
    if not isinstance(command, str) or command.strip().endswith(_MORE):
        return None  # as a rule, its end would mean something else
    form = form_of(command)
    return f"exec({form.rule if form is not None else command.strip()})"


def what_it_covers(rule: str) -> str:
    wanted = _COMMAND_RULE.fullmatch(rule)
    if wanted is None:
        return f"every call of {rule}"
    form = form_of_rule(wanted[1])
    return form.does if form is not None else "exactly this command, in any directory here"
