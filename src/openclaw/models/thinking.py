"""What a model may be sent of its earlier thoughts, and how much it may think."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from pydantic_ai import messages as m
from pydantic_ai.profiles.anthropic import ANTHROPIC_THINKING_BUDGET_MAP
from pydantic_ai.settings import ModelSettings

from openclaw.models.build import BuiltModel

LEAST_BUDGET = 1024  # Anthropic's; its models refuse less
_ANSWER_SHARE = 0.25  # of `max_tokens`, which counts both thoughts and answer, for the answer


def with_thinking_that_fits(built: BuiltModel, messages: Sequence[m.ModelMessage]) -> BuiltModel:
    """The model with a budget for thinking that its interface accepts, or without thinking.

    Claude up to 4.5 thinks within a budget, which has to be smaller than the limit on the answer. In
    a turn with calls that it made without thinking, or that another model made, it refuses to think.
    """
    effort = built.settings.get("thinking")
    if built.candidate.api != "anthropic-messages" or not effort:
        return built
    if built.model.profile.get("anthropic_supports_adaptive_thinking", False):
        return built
    if _called_without_thinking(messages):
        return without_thinking(built)
    most = built.settings.get("max_tokens")
    budget = ANTHROPIC_THINKING_BUDGET_MAP[effort]
    if most is None or budget < most * (1 - _ANSWER_SHARE):
        return built
    budget = int(most * (1 - _ANSWER_SHARE))
    if budget < LEAST_BUDGET:
        return without_thinking(built)
    thinking = {"anthropic_thinking": {"type": "enabled", "budget_tokens": budget}}
    return replace(built, settings=cast(ModelSettings, {**built.settings, **thinking}))


def without_thinking(built: BuiltModel) -> BuiltModel:
    return replace(built, settings=cast(ModelSettings, {**built.settings, "thinking": False}))


def _called_without_thinking(messages: Sequence[m.ModelMessage]) -> bool:
    for message in reversed(messages):
        if isinstance(message, m.ModelResponse):
            first = message.parts[0] if message.parts else None
            if not isinstance(first, m.ThinkingPart) or not first.signature:
                return True
        elif not any(isinstance(part, m.ToolReturnPart) for part in message.parts):
            return False
    return False
