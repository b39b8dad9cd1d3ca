"""Calls that a person must agree to."""

import hashlib
import json
from dataclasses import dataclass, replace

from openclaw.agent.redaction import Redact, clean_json
from openclaw.agent.toolpath.audit import Refused
from openclaw.agent.toolpath.sources import Wrapper
from openclaw.core.events import ToolFinished
from openclaw.core.tools import (
    CallContext,
    JsonObject,
    PermissionRequest,
    ToolResult,
    ToolSpec,
    failed,
)
from openclaw.policy.approval_text import describe_call, one_line, visible


@dataclass(frozen=True, slots=True)
class Approval(Wrapper):
    """Asks the person before a call that the policy leaves to them; a call knows that it is approved.

    `hide` takes out the secrets that are known and nothing else: the person must see what runs.
    """

    hide: Redact
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
        shown = describe_call(name, label, arguments, self.hide)
        request = PermissionRequest(
            call_id=context.call_id,
            name=one_line(name),
            label=one_line(self.hide(label)),
            arguments=clean_json(arguments, lambda text: visible(self.hide(text))),
            title=shown.title,
            body=shown.body,
            definition=_definition(name, context.spec),
        )
        return await context.ask(request)


def _definition(name: str, spec: ToolSpec | None) -> str:
    """A digest that changes with whatever the tool's server says of it."""
    parts: list[object] = [name]
    if spec is not None:
        parts += [spec.origin.server, spec.origin.tool, spec.description, spec.input_schema]
    written = json.dumps(parts, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(written.encode()).hexdigest()
