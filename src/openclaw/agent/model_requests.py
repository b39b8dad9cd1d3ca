"""A turn's requests to models, each paid for, counted and reported."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic_ai import messages as library
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from openclaw.agent import transcript
from openclaw.agent.budget import check_day, spent_on
from openclaw.agent.conversation import Conversation
from openclaw.agent.model_messages import definition
from openclaw.agent.tool_calls import ToolCallRunner
from openclaw.agent.transcript import ResultItem
from openclaw.core import events
from openclaw.core.errors import OpenClawError
from openclaw.models.choose import ModelOptions
from openclaw.models.fallback import (
    Answered,
    ContextOverflow,
    FallbackModels,
    ImageRefused,
    Messages,
    StreamCallbacks,
)
from openclaw.policy.dataflow.intent import ALLOW_ACTIONS, Intent, IntentRequest
from openclaw.sessions.usage import UsageLedger

logger = logging.getLogger(__name__)

# How long a turn that has done something waits for providers that are overloaded.
PATIENCE_SECONDS = 600.0


@dataclass(slots=True)
class ModelRequests:
    models: FallbackModels
    runner: ToolCallRunner
    conversation: Conversation
    ledger: UsageLedger
    intent_models: Callable[[], Awaitable[FallbackModels]] | None = None  # if not the turn's own
    is_waiting: bool = False  # for a model

    async def respond(
        self,
        messages: Messages,
        parameters: ModelRequestParameters,
        callbacks: StreamCallbacks,
        options: ModelOptions | None = None,
        *,
        models: FallbackModels | None = None,
    ) -> Answered:
        models = models or self.models
        clock, budget = self.runner.clock, self.runner.budget
        session = self.runner.lane.session
        await check_day(self.ledger, session.agent, budget.limits.max_cost_per_day)
        started = clock.monotonic()
        self.is_waiting = True
        try:
            answered = await models.respond(
                messages,
                parameters,
                callbacks,
                options,
                patience=self._patience,
                most_bytes=budget.limits.max_answer_bytes,
            )
        except (OpenClawError, ContextOverflow, ImageRefused) as error:
            self.is_waiting = False
            first = models.choice.candidates[0].ref
            elapsed = (clock.monotonic() - started) * 1000
            self.runner.emit(events.ModelCalled(first, elapsed, error=type(error).__name__))
            raise
        self.is_waiting = False
        if answered.forgot:
            self.conversation.forget_native()
        response, model = answered.response, answered.built.candidate.ref
        self._note_searches(response)
        spent = spent_on(answered.built, response)
        budget.usage += spent
        await self.ledger.add(session, model, spent)
        self.runner.emit(
            events.ModelCalled(
                model,
                (clock.monotonic() - started) * 1000,
                response.usage.input_tokens,
                response.usage.output_tokens,
                response.finish_reason,
                response.model_name,
            )
        )
        return answered

    async def ask_alone(
        self,
        instructions: str,
        text: str,
        tools: list[ToolDefinition] | None = None,
        *,
        models: FallbackModels | None = None,
    ) -> library.ModelResponse:
        """Ask about a text, without the conversation."""
        request = library.ModelRequest(parts=[library.UserPromptPart(text)])
        parameters = ModelRequestParameters(
            function_tools=tools or [],
            instruction_parts=[library.InstructionPart(content=instructions)],
        )
        answered = await self.respond(
            lambda built, keep_native: [request], parameters, StreamCallbacks(), models=models
        )
        return answered.response

    async def read_intent(self, asked: IntentRequest) -> Intent | None:
        """What the user wants, by a model that sees their own words and nothing else."""
        models = self.models if self.intent_models is None else await self.intent_models()
        try:
            if (await models.primary()).reads_every_tool:  # it cannot read a request
                return None
            tool = definition(ALLOW_ACTIONS, "Say what the user wants.", asked.schema)
            response = await self.ask_alone(asked.instructions, asked.words, [tool], models=models)
        except (OpenClawError, ContextOverflow):
            logger.warning("no model read what the user wants; their words are searched for it")
            return None
        calls = (part for part in response.parts if isinstance(part, library.ToolCallPart))
        call = next((call for call in calls if call.tool_name == ALLOW_ACTIONS), None)
        intent = asked.read(call.args if call is not None else None)
        await self.runner.lane.append(self.runner.turn, [transcript.intent_entry(intent)])
        return intent

    @property
    def _patience(self) -> float:
        """Seconds to wait for overloaded models: a turn that has done something is worth it."""
        last = self.conversation.items[-1]
        has_worked = isinstance(last, ResultItem) and last.seq >= self.conversation.turn_start
        return PATIENCE_SECONDS if has_worked else 0.0

    def _note_searches(self, response: library.ModelResponse) -> None:
        """Treat results of a provider's own search as untrusted, like any result."""
        flow = self.runner.toolbox.flow
        for part in response.parts:
            if (
                isinstance(part, library.NativeToolReturnPart)
                and part.tool_name == events.WEB_SEARCH
            ):
                self.runner.emit(events.Notice("info", "the model's provider searched the web"))
                if flow is not None:
                    flow.searched(part.model_response_str())
