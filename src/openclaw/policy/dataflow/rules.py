"""Data-flow rules: what the user configured and answered before."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from openclaw.core.questions import ALWAYS, SESSION
from openclaw.policy.dataflow.effects import EffectClass


class Reason(StrEnum):
    """What is in doubt about a call."""

    ACTION = "action"  # the user did not ask for this kind of action
    DESTINATION = "destination"  # it goes to somebody or somewhere that the user did not name
    OBJECT = "object"  # it acts on something that the user did not name
    CREDENTIAL = "credential"  # a password or a permission that the user did not give
    COMMAND = "command"  # a command that is quoted from somewhere
    PLACE = "place"  # a file that decides what programs do
    QUOTED = "quoted"  # a value that only outside text named
    LEAVES = "leaves"  # private text of one source goes to another


_SAID = {
    Reason.ACTION: "you did not ask for this kind of action",
    Reason.DESTINATION: "you did not give this destination",
    Reason.OBJECT: "you did not name what this acts on",
    Reason.CREDENTIAL: "you did not give this credential or permission",
    Reason.COMMAND: "you did not give this command",
    Reason.PLACE: "you did not name this place",
    Reason.QUOTED: "it appears only in text that came from outside",
    Reason.LEAVES: "it comes from a private source and would be sent out",
}


@dataclass(frozen=True, slots=True)
class Concern:
    """One thing in doubt about a call.

    `tool` is `server/tool`, and `happens` what it does at worst: `change`, `send`, `destroy`, `run` or
    `open an address`. `value` stands in the argument `parameter`; `source` says where it came from,
    `sentence` how it stood there, and `source_field` its name there if it was a whole field.
    `kind` is what kind of value it is, as in `email`.
    """

    tool: str
    reason: Reason
    happens: str = ""
    parameter: str = ""
    value: str = ""
    kind: str = ""
    source: str = ""
    source_field: str = ""
    sentence: str = ""

    @property
    def lasting(self) -> "Allowance | None":
        """What "always" would cover: this kind of value from this field of this source."""
        if not (self.source and self.source_field):
            return None
        return Allowance(self.tool, self.parameter, "", self.source, self.source_field, self.kind)

    @property
    def exact(self) -> "Allowance":
        return Allowance(self.tool, self.parameter, self.value, kind=self.reason)


Mode = Literal["ask", "refuse", "log", "off"]


@dataclass(frozen=True, slots=True)
class FlowDecision:
    """What is in doubt about a call; in mode `log`, it passes anyway."""

    mode: Mode
    concerns: tuple[Concern, ...] = ()

    @property
    def passes(self) -> bool:
        return not self.concerns or self.mode == "log"

    @property
    def asks(self) -> bool:
        return not self.passes and self.mode == "ask"

    def not_done(self) -> str:
        reasons = "; ".join(
            f"{_short(concern.value)}{_from(concern)}: {_SAID[concern.reason]}"
            for concern in self.concerns
        )
        return f"{self.concerns[0].tool} was not called. {reasons}."

    def refusal(self) -> str:
        return (
            f"{self.not_done()} Finish what the user asked without this, say what was left out, "
            "and do not try to reach the same end another way."
        )


@dataclass(frozen=True, slots=True)
class Allowance:
    """One remembered answer: about this very value, or about a kind of value from one field."""

    tool: str
    parameter: str = ""
    value: str = ""
    source: str = ""
    source_field: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class FlowRules:
    """`modes` and `effects` are keyed by `server/tool`, `modes` by `server` as well.

    `model` reads the user's intent; without one, the session's does.
    """

    mode: Mode = "ask"
    modes: Mapping[str, Mode] = field(default_factory=dict[str, Mode])
    effects: Mapping[str, EffectClass] = field(default_factory=dict[str, EffectClass])
    trusted_servers: frozenset[str] = frozenset()
    allowed: frozenset[Allowance] = frozenset()
    model: str | None = None

    def mode_of(self, server: str, tool: str) -> Mode:
        return self.modes.get(f"{server}/{tool}", self.modes.get(server, self.mode))

    def allows(self, concern: Concern) -> bool:
        return concern.exact in self.allowed or concern.lasting in self.allowed


def allowances(asked: FlowDecision, answer: str) -> frozenset[Allowance]:
    """What an answer allows from now on."""
    if answer not in (SESSION, ALWAYS):
        return frozenset()
    exact = {concern.exact for concern in asked.concerns}
    lasting = {concern.lasting for concern in asked.concerns} if answer == ALWAYS else set[None]()
    return frozenset(exact | {one for one in lasting if one is not None})


_BRIEF = 120


def _from(concern: Concern) -> str:
    return f" (from {concern.source})" if concern.source else ""


def _short(value: str) -> str:
    """The value on one line; the call itself is shown or known in full."""
    line = " ".join(value.split())
    return line if len(line) <= _BRIEF else f"{line[: _BRIEF - 1]}…"
