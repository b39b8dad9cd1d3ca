"""The decision over a policy: whether a tool may be used, and which rule said so."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, Literal, Self

# A glob knows `*` (any run), `?` (one character) and `[abc]`, `[a-z]`, `[!a]` (one of, none of).
# Names and globs are compared case-folded: no change of case gets a tool past a rule.

ANY_RUN = "*"
ANY_ONE = "?"
Element = Literal["*", "?"] | tuple[bool, tuple[tuple[str, str], ...]]
"""One element of a glob: any run, any one character, or (negated, ranges of characters)."""


@dataclass(frozen=True)
class Rules:
    """One layer: deny wins over allow, and an empty `allow` means all.

    `ask` makes a person decide over each call that is allowed otherwise, except those that a rule
    in `approved` covers (see `covers`).
    """

    layer: str = "tools"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    approved: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        layer: str,
        *,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        ask: Iterable[str] = (),
        approved: Iterable[str] = (),
    ) -> Self:
        return cls(layer, tuple(allow), tuple(deny), tuple(ask), tuple(approved))

    @cached_property
    def says_nothing(self) -> bool:
        return not self.allow and not self.deny and not self.ask and not self.approved


@dataclass(frozen=True)
class Policy:
    """Layers in the order in which they are asked. A tool must pass every one of them."""

    layers: tuple[Rules, ...] = field(default=())

    @classmethod
    def from_layers(cls, layers: Sequence[Rules]) -> Self:
        return cls(tuple(rules for rules in layers if not rules.says_nothing))


def glob_matches(pattern: str, name: str) -> bool:
    """Whether `name` matches `pattern`, case-folded, in time bounded by the product of their lengths."""
    return _matches(parse_glob(pattern), name.casefold())


@lru_cache(maxsize=1024)
def parse_glob(pattern: str) -> tuple[Element, ...]:
    """The elements of a glob; an unclosed `[` stands for itself, and `**` is `*`."""
    folded = pattern.strip().casefold()
    elements: list[Element] = []
    at = 0
    while at < len(folded):
        element, at = _next_element(folded, at)
        if not (element == ANY_RUN and elements and elements[-1] == ANY_RUN):
            elements.append(element)
    return tuple(elements)


def accepts(element: Element, char: str) -> bool:
    if isinstance(element, str):
        return element == ANY_ONE
    negated, ranges = element
    return any(low <= char <= high for low, high in ranges) is not negated


def _next_element(pattern: str, at: int) -> tuple[Element, int]:
    char = pattern[at]
    if char == "*" or char == "?":
        return char, at + 1
    end = _closing_bracket(pattern, at) if char == "[" else -1
    if end < 0:
        return (False, ((char, char),)), at + 1
    return _character_set(pattern[at + 1 : end]), end + 1


def _closing_bracket(pattern: str, at: int) -> int:
    first = at + 1
    if pattern[first : first + 1] in {"!", "^"}:
        first += 1
    # As in a shell, a bracket that comes first belongs to the set.
    return pattern.find("]", first + 1)


def _character_set(body: str) -> Element:
    negated = body[:1] in {"!", "^"}
    members = body[1:] if negated else body
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(members):
        if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
            ranges.append((members[at], members[at + 2]))
            at += 3
        else:
            ranges.append((members[at], members[at]))
            at += 1
    return negated, tuple(ranges)


def _matches(glob: tuple[Element, ...], name: str) -> bool:
    """Greedy, and back to the last `*` alone: at worst the product of the two lengths."""
    element = char = 0
    star = resume = -1
    while char < len(name):
        if element < len(glob) and glob[element] == ANY_RUN:
            star, resume = element, char
            element += 1
        elif element < len(glob) and accepts(glob[element], name[char]):
            element += 1
            char += 1
        elif star >= 0:
            resume += 1
            element, char = star + 1, resume
        else:
            return False
    return all(rest == ANY_RUN for rest in glob[element:])


class Outcome(Enum):
    """What is to be done with a call. Where no person can be asked, `ASK` is as good as `DENY`."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Decision:
    outcome: Outcome
    reason: str
    layer: str | None = None
    rule: str | None = None

    @property
    def allowed(self) -> bool:
        return self.outcome is Outcome.ALLOW

    @property
    def asks(self) -> bool:
        return self.outcome is Outcome.ASK


_ALLOWED = Decision(Outcome.ALLOW, "no layer restricts it")


def decide(
    policy: Policy, name: str, natural: str | None = None, *, contested: bool = False
) -> Decision:
    """Whether the tool of this prefixed name may be used. Any layer's denial wins over asking.

    `natural` is the name that the tool would have if no other tool had it. A rule that matches it
    holds for the tool, so that nobody gets out of a rule by a name that falls together with
    another. If the natural name is `contested`, it allows nothing: it may mean somebody else's tool.
    """
    names = (name,) if natural is None or natural == name else (name, natural)
    allowing = (name,) if contested else names
    decision = _ALLOWED
    asking: Decision | None = None
    for rules in policy.layers:
        decision = _decide_layer(rules, names, allowing)
        if not decision.allowed:
            return decision
        asking = asking or _asking(rules, names)
    return asking or decision


def _asking(rules: Rules, names: Sequence[str]) -> Decision | None:
    asked = _first_match(rules.ask, names)
    if asked is None:
        return None
    reason = f"{rules.layer}.ask has '{asked}', and nobody can be asked here"
    return Decision(Outcome.ASK, reason, rules.layer, asked)


def _decide_layer(rules: Rules, names: Sequence[str], allowing: Sequence[str]) -> Decision:
    denied = _first_match(rules.deny, names)
    if denied is not None:
        reason = f"{rules.layer}.deny has '{denied}'"
        return Decision(Outcome.DENY, reason, rules.layer, denied)
    if not rules.allow:
        return Decision(Outcome.ALLOW, f"{rules.layer} allows all", rules.layer)
    allowed = _first_match(rules.allow, allowing)
    if allowed is None:
        return Decision(Outcome.DENY, f"{rules.layer}.allow does not have it", rules.layer)
    return Decision(Outcome.ALLOW, f"{rules.layer}.allow has '{allowed}'", rules.layer, allowed)


def _first_match(patterns: Iterable[str], names: Sequence[str]) -> str | None:
    matching = (p for p in patterns if any(glob_matches(p, name) for name in names))
    return next(matching, None)


def server_wholly_denied(
    policy: Policy, prefix: str, known_tools: Iterable[str] | None = None
) -> bool:
    """Whether every tool that a server of this prefix could offer is denied.

    Without `known_tools` (prefixed names) it is true only where the globs prove it: one layer
    denies `mcp_{prefix}_*` as a whole, or has an allow list of which nothing can match such a name.
    A name that had to be cut ends in a hash but keeps its beginning, so the proof covers it.
    """
    if known_tools is not None:
        return all(decide(policy, name).outcome is Outcome.DENY for name in known_tools)
    start = f"mcp_{prefix}_".casefold()
    return any(_denies_all_under(rules, start) for rules in policy.layers)


def _denies_all_under(rules: Rules, start: str) -> bool:
    if any(_covers(parse_glob(pattern), start) for pattern in rules.deny):
        return True
    return bool(rules.allow) and not any(_may_match(parse_glob(p), start) for p in rules.allow)


def _covers(glob: tuple[Element, ...], start: str) -> bool:
    """Whether the glob matches every name that begins with `start`: it ends in `*` and matches it."""
    return glob[-1:] == (ANY_RUN,) and any(
        state == len(glob) for state in _states_after(glob, start)
    )


def _may_match(glob: tuple[Element, ...], start: str) -> bool:
    return any(state < len(glob) or glob[-1:] == (ANY_RUN,) for state in _states_after(glob, start))


def _states_after(glob: tuple[Element, ...], text: str) -> set[int]:
    """Positions in the glob that reading all of `text` can lead to (a set, so never exponential)."""
    states = _skip_stars(glob, {0})
    for char in text:
        states = _skip_stars(glob, _step(glob, states, char))
    return states


def _step(glob: tuple[Element, ...], states: set[int], char: str) -> set[int]:
    after: set[int] = set()
    for state in states:
        if state >= len(glob):
            continue
        if glob[state] == ANY_RUN:
            after.add(state)
        elif accepts(glob[state], char):
            after.add(state + 1)
    return after


def _skip_stars(glob: tuple[Element, ...], states: set[int]) -> set[int]:
    reached = set(states)
    pending = list(states)
    while pending:
        state = pending.pop()
        if state < len(glob) and glob[state] == ANY_RUN and state + 1 not in reached:
            reached.add(state + 1)
            pending.append(state + 1)
    return reached


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
_SUBCOMMAND = re.compile(
    r"(?!(config|dlx|exec|filter-branch|install|rebase|remote|run|submodule|tool|x)$)[a-z][a-z0-9-]*"
)
"""What says by itself what is done; those left out run or install whatever their next words say."""
_DOES_MORE = re.compile(
    r"--?(config|delete|exec|execdir|ext-diff|no-index|ok|okdir|open-files-in-pager|output|receive-pack"
    r"|textconv|toolexec|upload-pack|fprint\w*|fls)(=.*)?|-[coO]|-[oO][./~].*",
    re.DOTALL,
)
"""Options with which a program that only looks writes a file or runs another program."""
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


def rule_for(name: str, arguments: Mapping[str, Any]) -> str | None:
    """The rule that a person who agrees to this call for longer agrees to; None if there is none."""
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
    """The words of a command that runs one program and nothing else; none for any other."""
    if _SHELL_SYNTAX.search(command):
        return []
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    return [] if not words or "=" in words[0] or not words[0].isprintable() else words
