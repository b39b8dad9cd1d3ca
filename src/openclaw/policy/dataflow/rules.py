"""Data-flow rules: what the person configured and answered before."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from openclaw.core.tools import ALWAYS, NO, ONCE
from openclaw.policy.dataflow.effects import EffectClass


class Why(StrEnum):
    ACTION = "you did not ask for this kind of action"
    HANDED_OVER = "you told me to follow a text, and the text asks for this"
    DESTINATION = "you did not give this destination"
    SENDER = "you mentioned this only as a source"
    OBJECT = "you did not name what this acts on"
    CREDENTIAL = "you did not give this credential or permission"
    COMMAND = "you did not give this command"
    PLACE = "you did not name this place"
    QUOTED = "it appears only in text that came from outside"
    LEAVES = "it comes from a private source and would be sent out"


@dataclass(frozen=True, slots=True)
class Doubt:
    tool: str
    why: Why
    parameter: str = ""
    value: str = ""
    source: str = ""
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Pass:
    """`logged` holds what would have been asked, in mode `log`."""

    logged: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    doubts: tuple[Doubt, ...]

    @property
    def key(self) -> frozenset[tuple[str, str, str]]:
        return frozenset((doubt.tool, doubt.why, doubt.value) for doubt in self.doubts)


@dataclass(frozen=True, slots=True)
class Refuse:
    doubts: tuple[Doubt, ...]


Decision = Pass | Ask | Refuse


Mode = Literal["ask", "refuse", "log", "off"]


@dataclass(frozen=True, slots=True)
class Allowance:
    """One remembered answer. Without `value` it holds for everything from this source."""

    tool: str
    source: str = ""
    value: str = ""
    parameter: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """`modes` and `effects` are keyed by `server/tool`, `modes` by `server` as well."""

    mode: Mode = "ask"
    modes: Mapping[str, Mode] = field(default_factory=dict[str, Mode])
    effects: Mapping[str, EffectClass] = field(default_factory=dict[str, EffectClass])
    trusted_servers: frozenset[str] = frozenset()
    allowed: frozenset[Allowance] = frozenset()

    def mode_of(self, server: str, tool: str) -> Mode:
        return self.modes.get(f"{server}/{tool}", self.modes.get(server, self.mode))

    def allows(self, doubt: Doubt) -> bool:
        exact = Allowance(doubt.tool, doubt.source, doubt.value, doubt.parameter)
        if exact in self.allowed:
            return True
        return bool(doubt.source) and Allowance(doubt.tool, doubt.source) in self.allowed


def remember(rules: Rules, asked: Ask, answer: str) -> Rules:
    """The rules after the answer; `always` covers source and tool only if the source is known."""
    if answer in (ONCE, NO):
        return rules
    wide = answer == ALWAYS
    new = {
        Allowance(doubt.tool, doubt.source)
        if wide and doubt.source
        else Allowance(doubt.tool, doubt.source, doubt.value, doubt.parameter)
        for doubt in asked.doubts
    }
    return replace(rules, allowed=rules.allowed | new)


def question(asked: Ask, suspicious: Callable[[str], bool]) -> str:
    """Names each value in doubt, its source and its sentence, and what the detector thinks of it."""
    return "\n".join(_line(doubt, suspicious) for doubt in asked.doubts)


def not_done(refused: Ask | Refuse) -> str:
    reasons = "; ".join(
        f"{_short(doubt.value)}{_from(doubt)}: {doubt.why.value}" for doubt in refused.doubts
    )
    return f"{refused.doubts[0].tool} was not called. {reasons}."


def refusal(refused: Ask | Refuse) -> str:
    return (
        f"{not_done(refused)} Finish what the person asked without this, say what was left out, and "
        "do not try to reach the same end another way."
    )


_BRIEF = 120


def _from(doubt: Doubt) -> str:
    return f" (from {doubt.source})" if doubt.source else ""


def _short(value: str) -> str:
    """The value on one line; the call itself is shown or known in full."""
    line = " ".join(value.split())
    return line if len(line) <= _BRIEF else f"{line[: _BRIEF - 1]}…"


def _line(doubt: Doubt, suspicious: Callable[[str], bool]) -> str:
    name = f"{doubt.parameter}: " if doubt.parameter else ""
    line = f"- {name}{_short(doubt.value)}{_from(doubt)}: {doubt.why.value}"
    if not doubt.sentence:
        return line
    mark = "  [looks like an injected instruction]" if suspicious(doubt.sentence) else ""
    return f"{line}\n    “{doubt.sentence}”{mark}"
