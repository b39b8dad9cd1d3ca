"""The decision over a policy: whether a tool may be used, and which rule said so."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from openclaw.policy.rules import ANY_RUN, Element, Policy, Rules, accepts, glob_matches, parse_glob


class Outcome(Enum):
    """What is to be done with a call. Where no person can be asked, `ASK` is as good as `DENY`."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Decision:
    """An outcome, the layer and the rule that made it, and both in words."""

    outcome: Outcome
    reason: str
    layer: str | None = None
    rule: str | None = None

    @property
    def allowed(self) -> bool:
        """Whether the tool may be used without more ado."""
        return self.outcome is Outcome.ALLOW

    @property
    def asks(self) -> bool:
        """Whether it may be used once a person has agreed."""
        return self.outcome is Outcome.ASK


_ALLOWED = Decision(Outcome.ALLOW, "no layer restricts it")


def decide(policy: Policy, name: str) -> Decision:
    """Whether the tool of this prefixed name may be used. Any layer's denial wins over asking."""
    decision = _ALLOWED
    asking: Decision | None = None
    for rules in policy.layers:
        decision = _decide_layer(rules, name)
        if not decision.allowed:
            return decision
        asking = asking or _asking(rules, name)
    return asking or decision


def _asking(rules: Rules, name: str) -> Decision | None:
    asked = _first_match(rules.ask, name)
    if asked is None:
        return None
    reason = f"{rules.layer}.ask has '{asked}', and nobody can be asked here"
    return Decision(Outcome.ASK, reason, rules.layer, asked)


def _decide_layer(rules: Rules, name: str) -> Decision:
    denied = _first_match(rules.deny, name)
    if denied is not None:
        reason = f"{rules.layer}.deny has '{denied}'"
        return Decision(Outcome.DENY, reason, rules.layer, denied)
    if not rules.allow:
        return Decision(Outcome.ALLOW, f"{rules.layer} allows all", rules.layer)
    allowed = _first_match(rules.allow, name)
    if allowed is None:
        return Decision(Outcome.DENY, f"{rules.layer}.allow does not have it", rules.layer)
    return Decision(Outcome.ALLOW, f"{rules.layer}.allow has '{allowed}'", rules.layer, allowed)


def _first_match(patterns: Iterable[str], name: str) -> str | None:
    return next((pattern for pattern in patterns if glob_matches(pattern, name)), None)


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
    """Whether some name that begins with `start` and goes on matches the glob."""
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
