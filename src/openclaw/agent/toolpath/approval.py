"""Calls that a person must agree to."""

import re
from dataclasses import dataclass, replace

from openclaw.agent.redaction import Redact, clean_json
from openclaw.agent.toolpath.audit import Refused
from openclaw.agent.toolpath.sources import Wrapper
from openclaw.core.events import ToolFinished
from openclaw.core.tools import CallContext, JsonObject, PermissionRequest, ToolResult, failed

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Approval(Wrapper):
    """Asks the person before a call that the policy leaves to them; a call knows that it is approved."""

    redact: Redact
    refused: Refused

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        if context.ask_reason is None:
            return await self.source.call(name, arguments, context)
        if context.approved or await self._agreed(name, arguments, context):
            return await self.source.call(name, arguments, replace(context, approved=True))
        self.refused(arguments, context, "the person did not allow it")
        result = failed(f"The person did not allow this call of {name}. Do without it.")
        context.emit(ToolFinished(context.call_id, name, result, 0.0))
        return result

    async def _agreed(self, name: str, arguments: JsonObject, context: CallContext) -> bool:
        if context.ask is None:
            return False
        label = context.spec.label if context.spec is not None else name
        shown = clean_json(arguments, lambda text: _visible(self.redact(text)))
        return await context.ask(PermissionRequest(context.call_id, name, label, shown))


def _visible(text: str) -> str:
    """Control characters written out: the person is to see them, and no terminal to obey them."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
