"""Model completions for MCP servers (sampling): only if configured, and limited.

The request contains only the server's own text: none of our history, tools or secrets.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic_ai import messages as library
from pydantic_ai.models import ModelRequestParameters

from openclaw.agent.budget import LimitReached, check_day, spent_on
from openclaw.config.agent_schema import SamplingConfig
from openclaw.core.errors import InvalidRequest, ToolFailure
from openclaw.core.tools import json_object
from openclaw.models.choose import Candidate, ModelOptions
from openclaw.models.fallback import FallbackModels, StreamCallbacks
from openclaw.sessions.records import SessionRef
from openclaw.sessions.usage import UsageLedger

_LONGEST_TEXT = 400_000  # characters of one request; the budget bounds all of them together


@dataclass(slots=True)
class Sampler:
    model: Callable[[], Awaitable[FallbackModels]]
    rules_of: Callable[[str], SamplingConfig | None]
    # Who pays: the ledger, the agent, and that agent's limit in dollars a day.
    account: Callable[[], tuple[UsageLedger, str, float]]
    _used: Counter[str] = field(default_factory=Counter[str])

    async def __call__(self, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        rules = self.rules_of(server)
        if rules is None or not rules.enabled:
            raise ToolFailure(f"MCP server '{server}' may not use the model")
        left = rules.token_budget - self._used[server]
        if left <= 0:
            raise ToolFailure(f"MCP server '{server}' has used up its token budget")
        ledger, agent, most = self.account()
        try:
            await check_day(ledger, agent, most)
        except LimitReached as reached:
            raise ToolFailure(reached.message) from None
        messages = _messages(params)
        models = await self.model()
        candidate = (await models.primary()).candidate
        settings = _settings(params, candidate, min(rules.max_tokens, left))
        answered = await models.respond(
            lambda built, keep: messages, ModelRequestParameters(), StreamCallbacks(), settings
        )
        response, model = answered.response, answered.built.candidate.ref
        session = SessionRef(f"sampling {server}", agent, f"sampling:{server}")
        await ledger.add(session, model, spent_on(answered.built, response))
        usage = response.usage
        self._used[server] += usage.input_tokens + max(usage.output_tokens, 1)
        return {
            "role": "assistant",
            "content": {"type": "text", "text": response.text or ""},
            "model": model,
            "stopReason": "maxTokens" if response.finish_reason == "length" else "endTurn",
        }


def _settings(params: Mapping[str, Any], candidate: Candidate, most: int) -> ModelOptions:
    wanted, temperature = params.get("maxTokens"), params.get("temperature")
    if not isinstance(temperature, int | float) or candidate.api == "local":
        temperature = None
    return ModelOptions(
        max_tokens=min(wanted, most) if isinstance(wanted, int) and wanted > 0 else most,
        temperature=temperature,
    )


def _messages(params: Mapping[str, Any]) -> list[library.ModelMessage]:
    messages: list[library.ModelMessage] = []
    system = params.get("systemPrompt")
    if isinstance(system, str) and system:
        instructions = library.SystemPromptPart(system[:_LONGEST_TEXT])
        messages.append(library.ModelRequest(parts=[instructions]))
    size = 0
    for message in cast("Sequence[Mapping[str, Any]]", params.get("messages") or ()):
        text = _text(message.get("content"))
        size += len(text)
        if size > _LONGEST_TEXT:
            raise InvalidRequest(f"a sampling request has at most {_LONGEST_TEXT} characters")
        if message.get("role") == "assistant":
            messages.append(library.ModelResponse(parts=[library.TextPart(text)]))
        else:
            messages.append(library.ModelRequest(parts=[library.UserPromptPart(text)]))
    if not messages or not isinstance(messages[-1], library.ModelRequest):
        raise InvalidRequest("a sampling request must end with a user message")
    return messages


def _text(content: Any) -> str:
    blocks = cast("list[Any]", content) if isinstance(content, list) else [content]
    return "\n".join(
        str(block.get("text", ""))
        if block.get("type") == "text"
        else f"[{block.get('type', 'content')} left out]"
        for block in map(json_object, blocks)
    )
