"""No secret leaves a tool: neither for the model nor for anybody else."""

from dataclasses import dataclass, replace

import anyio.to_thread

from openclaw.agent.redaction import clean_result, without_secrets
from openclaw.agent.toolpath.sources import Wrapper
from openclaw.core.content import Media, Text
from openclaw.core.tools import CallContext, JsonObject, ToolResult
from openclaw.secrets.redactor import Redactor

LARGE = 100_000
"""Characters or bytes from which a result is worked on in a thread, so that it holds up nobody."""


@dataclass(frozen=True, slots=True)
class Redaction(Wrapper):
    """Takes secrets out of results and of what a tool says while it works."""

    redactor: Redactor

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        def progress(message: str) -> None:
            context.progress(self.redactor.redact(message))

        result = await self.source.call(name, arguments, replace(context, progress=progress))
        result = await without_secrets(result, self.redactor)
        if is_large(result):
            return await anyio.to_thread.run_sync(clean_result, result, self.redactor)
        return clean_result(result, self.redactor)


def is_large(result: ToolResult) -> bool:
    """Whether working through it takes long enough to hold up others."""
    size = 0
    for block in (*result.blocks, *result.outputs):
        if isinstance(block, Text):
            size += len(block.text)
        elif isinstance(block, Media):
            size += len(block.data or b"")
    return size > LARGE
