"""The settings in a request of OpenAI's clients: those that we honour, and a refusal for the rest.

Null means the default everywhere, as it does for OpenAI.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from openclaw.core.errors import InvalidRequest
from openclaw.gateway.api.bodies import Json, objects, text_field
from openclaw.models.options import ClientTool, ModelOptions

_MOST_STOPS = 4
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

# Read elsewhere, or without any effect on the answer.
_SHARED = frozenset(
    {
        "model",
        "stream",
        "stream_options",
        "user",
        "metadata",
        "temperature",
        "top_p",
        "parallel_tool_calls",
        "tools",
        "tool_choice",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
    }
)
_CHAT = _SHARED | {
    "messages",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "response_format",
    "store",
    "prediction",
}
_RESPONSES = _SHARED | {
    "input",
    "instructions",
    "previous_response_id",
    "max_output_tokens",
    "text",
}

# These may be sent with the one value that changes nothing.
_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "functions": ([],),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "service_tier": ("auto", "default"),
    "background": (False,),
    "truncation": ("auto", "disabled"),
    "include": ([],),
    "store": (True,),
    "verbosity": ("medium",),
    "reasoning": ({},),
}


def chat_options(body: Json) -> ModelOptions:
    """The settings of a chat completion; `InvalidRequest` names one that is not honoured."""
    _refuse_others(body, _CHAT)
    if body.get("n") not in (None, 1):
        raise InvalidRequest("only one choice is made for each request", field="n")
    most = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
    return ModelOptions(
        max_tokens=_whole(body, most, least=1),
        temperature=_number(body, "temperature", 0, 2),
        top_p=_number(body, "top_p", 0, 1),
        stop=_stops(body.get("stop")),
        seed=_whole(body, "seed"),
        presence_penalty=_number(body, "presence_penalty", -2, 2),
        frequency_penalty=_number(body, "frequency_penalty", -2, 2),
        **_chat_format(body.get("response_format")),
        **_tools(body),
    )


def response_options(body: Json) -> ModelOptions:
    """The settings of a response; `InvalidRequest` names one that is not honoured."""
    _refuse_others(body, _RESPONSES)
    text = _object(body.get("text"), "text")
    _refuse_others(text, frozenset({"format"}), "text.")
    return ModelOptions(
        max_tokens=_whole(body, "max_output_tokens", least=1),
        temperature=_number(body, "temperature", 0, 2),
        top_p=_number(body, "top_p", 0, 1),
        **_format(_object(text.get("format"), "text.format"), "text.format"),
        **_tools(body),
    )


def _refuse_others(body: Mapping[str, Any], honoured: frozenset[str], prefix: str = "") -> None:
    for name, value in body.items():
        if value is None or name in honoured or value in _DEFAULTS.get(name, ()):
            continue
        raise InvalidRequest("this gateway does not support it", field=f"{prefix}{name}")


def _number(body: Json, name: str, least: float, most: float) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidRequest(f"has to be a number from {least:g} to {most:g}", field=name)
    return float(value)


def _whole(body: Json, name: str, least: int | None = None) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest("has to be a whole number", field=name)
    if least is not None and value < least:
        raise InvalidRequest(f"has to be at least {least}", field=name)
    return value


def _stops(given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    listed: list[Any] = cast("list[Any]", given) if isinstance(given, list) else [given]
    if len(listed) > _MOST_STOPS or not all(isinstance(one, str) and one for one in listed):
        raise InvalidRequest(f"has to be a text, or up to {_MOST_STOPS} texts", field="stop")
    return tuple(listed)


def _chat_format(given: Any) -> dict[str, Any]:
    field = "response_format"
    form = _object(given, field)
    if form.get("type") != "json_schema":
        return _format(form, field)
    inner = _object(form.get("json_schema"), f"{field}.json_schema")
    return _format({"type": "json_schema", **inner}, f"{field}.json_schema")


def _format(form: Json, field: str) -> dict[str, Any]:
    kind = form.get("type", "text")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"json_output": True}
    if kind != "json_schema":
        raise InvalidRequest(f"the type {kind!r} is not supported", field=field)
    schema = _object(form.get("schema"), f"{field}.schema")
    if not schema:
        raise InvalidRequest("is missing", field=f"{field}.schema")
    strict = form.get("strict")
    return {
        "schema": schema,
        "schema_name": text_field(form, "name"),
        "schema_strict": strict if isinstance(strict, bool) else None,
    }


def _tools(body: Json) -> dict[str, Any]:
    """The client's own tools, and which of them the model has to call."""
    tools = [
        _tool(one, f"tools[{at}]") for at, one in enumerate(objects(body.get("tools"), "tools"))
    ]
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        raise InvalidRequest("two tools have the same name", field="tools")
    choice: Any = body.get("tool_choice") or "auto"
    if choice == "none":
        return {}
    if choice == "auto":
        return {"tools": tuple(tools)}
    if choice == "required" and names:
        return {"tools": tuple(tools), "must_call": tuple(names)}
    chosen = _object(choice, "tool_choice") if isinstance(choice, dict) else {}
    name = (chosen.get("function") or chosen).get("name")
    if chosen.get("type") != "function" or name not in names:
        raise InvalidRequest("names no tool of this request", field="tool_choice")
    return {"tools": tuple(tools), "must_call": (str(name),)}


def _tool(given: Json, field: str) -> ClientTool:
    if given.get("type") != "function":
        raise InvalidRequest("only tools of the type 'function' are supported", field=field)
    inner = _object(given.get("function"), f"{field}.function") or given
    name = text_field(inner, "name") or ""
    if not _TOOL_NAME.fullmatch(name):
        raise InvalidRequest("has to be 1 to 64 letters, digits, _ or -", field=f"{field}.name")
    schema = _object(inner.get("parameters"), f"{field}.parameters")
    return ClientTool(
        name, text_field(inner, "description") or "", schema or {"type": "object", "properties": {}}
    )


def _object(value: Any, field: str) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequest("has to be an object", field=field)
    return cast("Json", value)
