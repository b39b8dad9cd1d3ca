"""What OpenAI's chat completions refuse."""

from typing import Any

from tests.support.vendors import openai_rules, rules
from tests.support.vendors.openai_rules import check_id, check_name
from tests.support.vendors.rules import Conversation, Json, refuse_openai

_MOST_CALLS = 128
_FIELDS = frozenset(
    [
        "model",
        "messages",
        "tools",
        "tool_choice",
        "stream",
        "stream_options",
        "n",
        "temperature",
        "top_p",
        "max_tokens",
        "stop",
        "seed",
        "max_completion_tokens",
        "presence_penalty",
        "frequency_penalty",
        "response_format",
        "reasoning_effort",
        "user",
        "parallel_tool_calls",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "metadata",
        "store",
        "modalities",
        "audio",
        "prediction",
        "service_tier",
        "verbosity",
        "web_search_options",
        "prompt_cache_key",
        "prompt_cache_options",
        "moderation",
        "safety_identifier",
    ]
)
_MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal", "audio", "function_call"}
    # Of servers with the same interface, which OpenAI itself ignores:
    | {"reasoning", "reasoning_content", "annotations"},
    "tool": {"role", "content", "tool_call_id"},
}


def check(given: Conversation) -> None:
    body = given.body
    openai_rules.check_model(given.model, responses=False)
    for name in body:
        if name not in _FIELDS:
            refuse_openai(f"Unrecognized request argument supplied: {name}", "unknown_parameter")
    tools = rules.listed(body.get("tools"))
    if "tools" in body and not tools:
        refuse_openai("Invalid 'tools': empty array.", "empty_array")
    openai_rules.check_tools(
        tools, body.get("tool_choice"), "tools[{}].function", openai_rules.CHAT_DESCRIPTION
    )
    _check_settings(body, given.model)
    messages = rules.listed(body.get("messages"))
    if not messages:
        refuse_openai("Invalid 'messages': empty array.", "empty_array")
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        open_calls = _check_message(message, f"messages[{number}]", open_calls, given.model)
    if open_calls:
        _refuse_unanswered(open_calls)


def _check_settings(body: Json, model: str) -> None:
    openai_rules.check_number(body, "temperature", 0, 2)
    openai_rules.check_number(body, "top_p", 0, 1)
    for name in ("max_tokens", "max_completion_tokens"):
        openai_rules.check_number(body, name, 1, 10**9)
    if len(rules.listed(body.get("stop"))) > 4:
        refuse_openai("Invalid 'stop': array too long.", "array_above_max_length")
    if openai_rules.is_reasoning(model):
        if "max_tokens" in body:
            refuse_openai(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead.",
                "unsupported_parameter",
            )
        for name in ("temperature", "top_p"):
            if body.get(name, 1) != 1 and body.get("reasoning_effort") != "none":
                refuse_openai(
                    f"Unsupported value: '{name}' does not support {body[name]} with this model. Only "
                    "the default (1) value is supported.",
                    "unsupported_value",
                )
    if "web_search_options" in body and "search" not in model:
        refuse_openai("Web search options not supported with this model.", "unsupported_parameter")


def _refuse_unanswered(calls: list[str]) -> None:
    refuse_openai(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(calls)}",
        "invalid_request_error",
    )


def _check_message(message: Json, where: str, open_calls: list[str], model: str) -> list[str]:
    """The calls that the next messages have to answer."""
    role = message.get("role")
    if role not in _MESSAGE_FIELDS:
        refuse_openai(f"Invalid value: '{role}'. Supported values are: {[*_MESSAGE_FIELDS]}.")
    if role in ("system", "developer") and model.startswith("o1-mini"):
        refuse_openai(
            f"Unsupported value: '{where}.role' does not support '{role}' with this model.",
            "unsupported_value",
        )
    for name in message:
        if name not in _MESSAGE_FIELDS[role]:
            refuse_openai(f"Unknown parameter: '{where}.{name}'.", "unknown_parameter")
    if role == "tool":
        return _check_result(message, where, open_calls)
    if open_calls:
        _refuse_unanswered(open_calls)
    content = message.get("content")
    if role == "assistant":
        return _check_answer(message, where)
    if type(content) not in (str, list) or not content:
        refuse_openai(f"Invalid value for '{where}.content': expected a string, got null.")
    for part in rules.listed(content):
        _check_part(part, where, model)
    return []


def _check_result(message: Json, where: str, open_calls: list[str]) -> list[str]:
    if message.get("tool_call_id") not in open_calls:
        refuse_openai(
            f"Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
            f"with 'tool_calls' ({where}).",
            "invalid_request_error",
        )
    content = message.get("content")
    if type(content) not in (str, list):
        refuse_openai(f"Invalid value for '{where}.content': expected a string, got null.")
    for part in rules.listed(content):
        if part.get("type") not in ("text", "image_url"):
            _refuse_part(where)
    return [call for call in open_calls if call != message["tool_call_id"]]


def _refuse_part(where: str) -> None:
    refuse_openai(
        f"Invalid '{where}'. Content blocks are expected to be either text or image_url type."
    )


def _check_answer(message: Json, where: str) -> list[str]:
    calls: list[Any] = rules.listed(message.get("tool_calls"))
    if "tool_calls" in message and not calls:
        refuse_openai(f"Invalid '{where}.tool_calls': empty array.", "empty_array")
    if len(calls) > _MOST_CALLS:
        refuse_openai(
            f"Invalid '{where}.tool_calls': array too long. Expected an array with maximum length 128, "
            f"but got an array with length {len(calls)} instead.",
            "array_above_max_length",
        )
    if not calls and not message.get("content"):
        refuse_openai(f"Invalid value for '{where}.content': expected a string, got null.")
    for number, call in enumerate(calls):
        inside = f"{where}.tool_calls[{number}]"
        check_id(call.get("id"), f"{inside}.id", 40)
        check_name(call["function"].get("name"), f"{inside}.function.name")
        if not rules.is_object(call["function"].get("arguments")):
            refuse_openai(f"Invalid '{inside}.function.arguments': not a JSON object.")
    names = [str(call["id"]) for call in calls]
    if again := rules.duplicates(names):
        refuse_openai(f"Duplicate value for 'tool_call_id' of '{again[0]}' in {where}")
    return names


def _check_part(part: Json, where: str, model: str) -> None:
    kind = part.get("type")
    if kind == "text":
        if not isinstance(part.get("text"), str):
            refuse_openai(f"Missing required parameter: '{where}.content[0].text'.")
    elif kind == "image_url":
        openai_rules.check_image(str(rules.mapped(part.get("image_url")).get("url")), where)
    elif kind == "input_audio" and "audio" not in model:
        _refuse_part(where)
    elif kind not in ("input_audio", "file"):
        refuse_openai(
            f"Invalid value: '{kind}'. Supported values are: 'text', 'image_url', 'input_audio', "
            "'refusal', 'audio', and 'file'."
        )
