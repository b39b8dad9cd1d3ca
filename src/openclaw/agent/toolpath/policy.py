"""Whether a tool may be used: decided here, for those who list tools and for every call."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from openclaw.agent.toolpath.audit import Refused
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSource, ToolSpec, failed
from openclaw.policy.decide import Decision, Outcome, Policy, covers, decide


@dataclass(slots=True)
class Policed:
    """Offers and calls what the policy allows, or leaves to a person if one `can_ask`."""

    source: ToolSource
    policy: Policy
    can_ask: bool
    refused: Refused
    _seen: Sequence[ToolSpec] | None = None
    _decided: dict[str, tuple[ToolSpec, Decision]] = field(
        default_factory=dict[str, tuple[ToolSpec, Decision]]
    )
    _usable: tuple[ToolSpec, ...] = ()

    def specs(self) -> Sequence[ToolSpec]:
        self._look()
        return self._usable

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        self._look()
        found = self._decided.get(name)
        if found is None:
            return failed(self._unknown(name))
        spec, decision = found
        if context.earlier is not None:  # it was allowed when it was made
            return await self.source.call(name, arguments, replace(context, spec=spec))
        asks = decision.asks and not self._approved(spec, arguments)
        context = replace(context, spec=spec, ask_reason=decision.reason if asks else None)
        if decision.outcome is Outcome.DENY or (asks and not self.can_ask):
            self.refused(arguments, context, decision.reason)
            return failed(
                f"The tool {name} is not allowed here ({decision.reason}). Do without it."
            )
        return await self.source.call(name, arguments, context)

    def _look(self) -> None:
        specs = self.source.specs()
        if specs is self._seen:
            return
        self._decided = {spec.name: (spec, _decide(self.policy, spec)) for spec in specs}
        self._usable = tuple(
            spec for spec, one in self._decided.values() if self._offers(spec, one)
        )
        self._seen = specs

    def _offers(self, spec: ToolSpec, decision: Decision) -> bool:
        if not decision.asks or self.can_ask:
            return decision.outcome is not Outcome.DENY
        commands = "exec(" if spec.name == "exec" else None
        return self._approved(spec, {}) or any(
            commands and rule.strip().casefold().startswith(commands) for rule in self._rules()
        )

    def _approved(self, spec: ToolSpec, arguments: JsonObject) -> bool:
        names = {spec.name} if spec.contested else {spec.name, spec.natural_name or spec.name}
        return any(covers(rule, name, arguments) for rule in self._rules() for name in names)

    def _rules(self) -> Iterator[str]:
        return (rule for layer in self.policy.layers for rule in layer.approved)

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, [spec.name for spec in self._usable], n=3)
        guess = f" Did you mean {', '.join(close)}?" if close else ""
        return f"There is no tool {name}.{guess} Use one of the tools that are listed."


def _decide(policy: Policy, spec: ToolSpec) -> Decision:
    return decide(policy, spec.name, spec.natural_name, contested=spec.contested)
