"""The embedded model behind the same interface as any other."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage

from openclaw.core.ids import random_id
from openclaw.embedded.conversation import fitted, read_turn, routable, tidy
from openclaw.embedded.open import WeightsSource
from openclaw.embedded.planner import (
    AdapterPlanner,
    CallTools,
    Plan,
    Planner,
    RouterPlanner,
    Say,
    Write,
)
from openclaw.embedded.runner import Generation, Prompt
from openclaw.embedded.weights import ToolUse

logger = logging.getLogger(__name__)

DEFAULT_MAX_TOKENS = 512
# What the person says last is all that a turn needs, so that no length of history is too long.
_CONTEXT_WINDOW = 1_000_000


class LocalModel(Model[None]):
    """One more model: the agent's loop, policy, framing and transcripts do not know the difference.

    `reads_every_tool` says that showing it all tools costs nothing, since rules look through them.
    """

    def __init__(self, source: WeightsSource, *, max_tokens: int | None = None) -> None:
        super().__init__(
            profile={
                "context_window": _CONTEXT_WINDOW,
                "supports_image_input": False,
                "json_schema_transformer": None,
            }
        )
        self._source = source
        self._max_tokens = max_tokens or DEFAULT_MAX_TOKENS
        self._told = False
        routed = source.weights.tool_use is ToolUse.ROUTER
        self._planner: Planner = RouterPlanner() if routed else AdapterPlanner(self._ask)
        self.reads_every_tool = True

    @property
    def model_name(self) -> str:
        """The name of the weights."""
        return self._source.weights.name

    @property
    def system(self) -> str:
        """The provider."""
        return "local"

    async def _ask(self, prompt: Prompt) -> str:
        runner = await self._source.runner()
        return await runner.generate(fitted(prompt, runner.context)).text()

    async def _plan(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> Plan:
        tools = [routable(definition) for definition in parameters.declared_function_tools]
        limit = (settings or {}).get("max_tokens") or self._max_tokens
        told = [part.content for part in parameters.instruction_parts or ()]
        return await self._planner.plan(read_turn(messages, told), tools, limit)

    async def _start(self, plan: Write) -> tuple[Generation, str]:
        """What the model writes, and what is to be said before it."""
        if not self._told:
            self._told = True
            weights = self._source.weights
            # Whoever keeps the weights for long knows it after the first time.
            logger.log(
                logging.WARNING if self._source.first_answer() else logging.INFO,
                "the embedded model %s answers; it is good for: %s",
                weights.name,
                weights.good_for,
            )
        runner = await self._source.runner()
        sent = fitted(plan.prompt, runner.context)
        return runner.generate(sent), plan.heading(sent)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Answer at once."""
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        plan = await self._plan(messages, settings, parameters)
        usage = RequestUsage()
        parts: list[ModelResponsePart]
        match plan:
            case CallTools():
                parts = _call_parts(plan)
            case Say(text):
                parts = [TextPart(text)]
            case Write():
                generation, heading = await self._start(plan)
                text = await generation.text()
                said = tidy(text, cut_short=generation.cut_short) or "…"
                parts = [TextPart(f"{heading}{said}")]
                usage = _usage(generation)
        return ModelResponse(
            parts=parts,
            usage=usage,
            model_name=self.model_name,
            provider_name=self.system,
            finish_reason="tool_call" if isinstance(plan, CallTools) else "stop",
        )

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Answer piece by piece."""
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        plan = await self._plan(messages, settings, parameters)
        writing = isinstance(plan, Write)
        generation, heading = await self._start(plan) if writing else (None, "")
        streamed = LocalStream(
            model_request_parameters=parameters,
            plan=plan,
            generation=generation,
            heading=heading,
            name=self.model_name,
        )
        try:
            yield streamed
        finally:
            await streamed.close_stream()


def _call_parts(plan: CallTools) -> list[ModelResponsePart]:
    return [ToolCallPart(call.tool, call.arguments, f"local-{random_id()}") for call in plan.calls]


def _usage(generation: Generation) -> RequestUsage:
    return RequestUsage(
        input_tokens=generation.input_tokens, output_tokens=generation.output_tokens
    )


@dataclass
class LocalStream(StreamedResponse):
    """An answer as it is written."""

    plan: Plan
    generation: Generation | None
    heading: str
    name: str
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        if isinstance(self.plan, CallTools):
            self.finish_reason = "tool_call"
            for index, part in enumerate(_call_parts(self.plan)):
                assert isinstance(part, ToolCallPart)
                yield self._parts_manager.handle_tool_call_part(
                    vendor_part_id=index,
                    tool_name=part.tool_name,
                    args=part.args_as_dict(),
                    tool_call_id=part.tool_call_id,
                )
            return
        async for piece in self._pieces():
            for event in self._parts_manager.handle_text_delta(
                vendor_part_id="text", content=piece
            ):
                yield event
        self.finish_reason = "stop"

    async def _pieces(self) -> AsyncIterator[str]:
        if isinstance(self.plan, Say):
            yield self.plan.text
            return
        assert self.generation is not None
        if self.heading:
            yield self.heading
        empty = True
        async for piece in self.generation.pieces():
            fresh = piece.lstrip() if empty else piece
            empty = empty and not fresh
            if fresh:
                yield fresh
        self._usage += _usage(self.generation)
        if empty or self.generation.cut_short:
            yield "…"

    async def close_stream(self) -> None:
        """Write no further token."""
        if self.generation is not None:
            self.generation.stop()

    @property
    def model_name(self) -> str:
        """The name of the weights."""
        return self.name

    @property
    def provider_name(self) -> str:
        """The provider."""
        return "local"

    @property
    def provider_url(self) -> None:
        """There is none."""
        return

    @property
    def timestamp(self) -> datetime:
        """When the answer began."""
        return self.started
