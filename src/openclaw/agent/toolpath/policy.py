"""Whether a tool may be used: decided here, for those who list tools and for every call."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from openclaw.agent.toolpath.audit import Refused
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSource, ToolSpec, failed
from openclaw.policy import Decision, Policy, decide


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
        context = replace(context, spec=spec, ask_reason=decision.reason if decision.asks else None)
        if not self._allows(decision):
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
        self._usable = tuple(spec for spec, one in self._decided.values() if self._allows(one))
        self._seen = specs

    def _allows(self, decision: Decision) -> bool:
        return decision.allowed or (decision.asks and self.can_ask)

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, [spec.name for spec in self._usable], n=3)
        guess = f" Did you mean {', '.join(close)}?" if close else ""
        return f"There is no tool {name}.{guess} Use one of the tools that are listed."


def _decide(policy: Policy, spec: ToolSpec) -> Decision:
    return decide(policy, spec.name, spec.natural_name, contested=spec.contested)
