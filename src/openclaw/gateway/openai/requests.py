"""Converts requests of OpenAI's clients to one message for an agent.

A header names the session. Without it, each request is a separate conversation, and its text contains
the earlier messages.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, cast

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt
from starlette.requests import Request
from starlette.responses import JSONResponse

from openclaw.agent.port import ClientResult
from openclaw.core.errors import (
    Busy,
    InvalidRequest,
    NotFound,
    OpenClawError,
    UserFacing,
    describe,
    http_status,
)
from openclaw.gateway.api.openapi import Json, validated
from openclaw.gateway.api.routes import Attachments
from openclaw.gateway.auth import own_session
from openclaw.models.choose import ClientTool, ModelOptions

T = TypeVar("T")
NonEmpty = Annotated[str, Field(min_length=1)]

SESSION_HEADER = "x-openclaw-session-key"
MODEL = "openclaw"
_INSTRUCTING = ("system", "developer")
_SPEAKING = ("user", "assistant", "tool")
_ROLES = {"message": "user", "function_call": "assistant", "function_call_output": "tool"}
_CALL_ID = re.compile(r"call_([0-9A-Za-z-]+)_(.+)")
_IMAGES = ("image_url", "input_image")
_FILES = ("file", "input_file")
_TEXTS = ("text", "input_text", "output_text", "refusal")


def agent_of(model: Any) -> str | None:
    """The agent that `model` names; None is the default one."""
    if not isinstance(model, str) or not model:
        raise InvalidRequest("has to be 'openclaw' or 'openclaw/AGENT'", field="model")
    name, _, agent = model.partition("/")
    if name != MODEL:
        raise unknown_model(model)
    return agent or None


def unknown_model(name: str) -> NotFound:
    hint = "GET /v1/models lists the available models"
    return NotFound(f"there is no model '{name}'", hint=hint)


def session_of(request: Request) -> str | None:
    """The session that the client names, if any. (`user` names a person, who has many chats.)"""
    named = request.headers.get(SESSION_HEADER)
    return own_session(request.scope, named) if named else None


_KINDS: Mapping[type, str] = {
    str: "a string",
    bool: "true or false",
    dict: "an object",
}


def typed(value: Any, kind: type[T], field: str) -> T | None:
    """A value of this type; null means the default everywhere, as it does for OpenAI."""
    if value is not None and type(value) is not kind:
        raise InvalidRequest(f"has to be {_KINDS[kind]}", field=field)
    return value


def text_field(body: Mapping[str, Any], name: str) -> str | None:
    return typed(body.get(name), str, name)


def _object(value: Any, field: str) -> Json:
    return cast("Json", typed(value, dict, field) or {})


def objects(value: Any, name: str) -> list[Json]:
    items = cast("list[Any]", value if isinstance(value, list) else [value])
    if value is None:
        return []
    if not all(isinstance(item, dict) for item in items):
        raise InvalidRequest("has to be a list of objects", field=name)
    return items


class OrderText(NamedTuple):
    """`typed` is what of the text the user wrote, if that is not all of it."""

    text: str
    typed: str | None = None


async def order_text(
    messages: Sequence[Json], field: str, attachments: Attachments, *, continued: bool
) -> OrderText:
    """The text of the order; `continued` if the session knows the messages before it."""
    last = order_index(messages, field)
    if _role(messages[last]) == "tool":
        return OrderText("")
    said = [(_role(m), _said(m, field)) for m in messages]
    order = said[last][1]
    for at in range(last if continued else 0, last + 1):
        role, text = said[at]
        if role in ("user", "assistant"):
            first = len(attachments.taken) + 1
            await _take_media(messages[at].get("content"), f"{field}[{at}].content", attachments)
            numbers = range(first, len(attachments.taken) + 1)
            names = " ".join(f"[attachment {number}]" for number in numbers)
            said[at] = (role, f"{text} {names}".strip() if names else text)
    if not order.strip() and not attachments.taken:
        raise InvalidRequest("the last user message is empty", field=field)
    instructions = [text for role, text in said if role in _INSTRUCTING and text.strip()]
    before = [(role, text) for role, text in said[:last] if role in _SPEAKING and text]
    before = [] if continued else before
    parts: list[str] = []
    if instructions:
        parts.append("[Instructions for this request]\n" + "\n\n".join(instructions))
    if before:
        lines = [f"{role}: {text}" for role, text in before]
        parts.append("[Conversation so far]\n" + "\n\n".join(lines))
    text = "\n\n".join([*parts, f"[Message]\n{order}"]) if parts else order
    # What a client says that the agent, a tool or itself said before could be anybody's words.
    if not instructions and all(role == "user" for role, _ in before):
        return OrderText(text)
    own = [text for role, text in before if role == "user"]
    return OrderText(text, "\n\n".join([*own, said[last][1]]))


def order_index(messages: Sequence[Json], field: str) -> int:
    """Which message is the order: the last one that isn't an instruction.

    If that is the assistant's, the order was answered, and must not be carried out again.
    """
    for at, message in enumerate(messages):
        if _role(message) not in (*_INSTRUCTING, *_SPEAKING):
            kind = message.get("role") or message.get("type")
            raise InvalidRequest(f"messages of {kind!r} are not supported", field=f"{field}[{at}]")
    spoken = [at for at, m in enumerate(messages) if _role(m) not in _INSTRUCTING]
    if not any(_role(messages[at]) in ("user", "tool") for at in spoken):
        raise InvalidRequest("has no user message", field=field)
    if _role(messages[spoken[-1]]) == "assistant":
        raise InvalidRequest(
            "the last message has to be the user's, or a tool's result", field=field
        )
    return spoken[-1]


def call_id(session: str, call: str) -> str:
    return f"call_{session}_{call}"


def results_of(messages: Sequence[Json], field: str) -> tuple[str | None, list[ClientResult]]:
    """The id of the session that waits for the results at the end of the messages, and the results.

    If a user's message follows them, calls that are not ours are history.
    """
    spoken = [m for m in messages if _role(m) not in _INSTRUCTING]
    with_order = _role(spoken[-1]) == "user"
    results: list[ClientResult] = []
    sessions: set[str] = set()
    for message in reversed(spoken[:-1] if with_order else spoken):
        if _role(message) != "tool":
            break
        given = message.get("tool_call_id") or message.get("call_id")
        found = _CALL_ID.fullmatch(given) if isinstance(given, str) else None
        if found is None:
            if with_order:
                return None, []
            raise InvalidRequest(
                "no call with this id is waiting for a result", field="tool_call_id"
            )
        sessions.add(found[1])
        results.insert(0, ClientResult(found[2], _said(message, field)))
    if len(sessions) > 1:
        raise InvalidRequest("the calls belong to more than one conversation", field=field)
    return next(iter(sessions), None), results


def _said(message: Json, field: str) -> str:
    if message.get("type") == "function_call":
        return f"[called {message.get('name')} with {message.get('arguments')}]"
    content = message.get("output" if message.get("type") == "function_call_output" else "content")
    lines = [_text(content, field)]
    for call in objects(message.get("tool_calls"), f"{field}.tool_calls"):
        function: Any = call.get("function") or {}
        lines.append(f"[called {function.get('name')} with {function.get('arguments')}]")
    return "\n".join(line for line in lines if line)


def _role(message: Mapping[str, Any]) -> str:
    of_type = _ROLES.get(message.get("type") or "message", "")
    role = message.get("role", of_type)
    return role if isinstance(role, str) else ""


def _text(content: Any, field: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part for part in objects(content, field) if part.get("type") in _TEXTS]
    return "\n".join(str(part.get("text") or part.get("refusal") or "") for part in parts)


async def _take_media(content: Any, field: str, attachments: Attachments) -> None:
    if content is None or isinstance(content, str):
        return
    for number, part in enumerate(objects(content, field)):
        await _take_part(part, f"{field}[{number}]", attachments)


async def _take_part(part: Json, field: str, attachments: Attachments) -> None:
    kind = part.get("type")
    if kind in _TEXTS:
        return
    if kind in _IMAGES:
        url: Any = part.get("image_url")
        url = url.get("url") if isinstance(url, dict) else url  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - checked where it is taken
        await attachments.take_url(url, f"{field}.image_url")
    elif kind in _FILES:
        file: Any = part.get("file") or part
        name: Any = file.get("filename")
        await attachments.take_url(
            file.get("file_data"), f"{field}.file_data", name if isinstance(name, str) else None
        )
    elif kind == "input_audio":
        audio: Any = part.get("input_audio") or {}
        await attachments.take(
            f"audio/{audio.get('format')}".replace("audio/mp3", "audio/mpeg"),
            str(audio.get("data") or ""),
            f"{field}.input_audio",
        )
    else:
        raise InvalidRequest(f"content of type {kind!r} is not supported", field=field)


logger = logging.getLogger(__name__)


def error_body(error: BaseException) -> dict[str, Any]:
    """The body of an answer; an unexpected error is described only in the log."""
    if isinstance(error, OpenClawError):
        message = describe(error)
    else:
        logger.error("a request failed", exc_info=error)
        message = f"unexpected {type(error).__name__}; see the gateway's log"
    kind = "invalid_request_error" if isinstance(error, UserFacing) else "server_error"
    return {
        "error": {
            "message": message,
            "type": "rate_limit_error" if isinstance(error, Busy) else kind,
            "param": error.field if isinstance(error, InvalidRequest) else None,
            "code": "not_found" if isinstance(error, NotFound) else None,
        }
    }


def error_response(error: BaseException) -> JSONResponse:
    headers = {"retry-after": str(int(error.retry_after) + 1)} if isinstance(error, Busy) else None
    return JSONResponse(error_body(error), http_status(error), headers)


_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

# Read elsewhere, or no effect on the answer.
_SHARED = """
    model stream stream_options user metadata temperature top_p parallel_tool_calls tools tool_choice
    safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options store
"""
_CHAT = f"""
    {_SHARED} messages n max_tokens max_completion_tokens stop seed presence_penalty
    frequency_penalty response_format prediction reasoning_effort verbosity
"""
_RESPONSES = f"""
    {_SHARED} input instructions previous_response_id max_output_tokens text reasoning include
"""
_INCLUDED = frozenset({"reasoning.encrypted_content"})  # there is none here
_EFFORTS = {"none": "off", **{e: e for e in ("minimal", "low", "medium", "high", "xhigh", "max")}}
_VERBOSITIES = ("low", "medium", "high")

# These are accepted with the one value that changes nothing.
_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "functions": ([],),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "service_tier": ("auto", "default"),
    "background": (False,),
    "truncation": ("auto", "disabled"),
}


def chat_options(body: Json) -> ModelOptions:
    _refuse_others(body, _CHAT)
    if body.get("n") not in (None, 1):
        raise InvalidRequest("only one choice per request is supported", field="n")
    place = "response_format"
    form = _object(body.get(place), place)
    if form.get("type") == "json_schema":
        place = f"{place}.json_schema"
        form = {"type": "json_schema", **_object(form.get("json_schema"), place)}
    return _options(body, form, place)


def response_options(body: Json) -> ModelOptions:
    _refuse_others(body, _RESPONSES)
    text = _object(body.get("text"), "text")
    _refuse_others(text, "format verbosity", "text.")
    _refuse_others(_object(body.get("reasoning"), "reasoning"), _REASONING, "reasoning.")
    included: Any = body.get("include") or []
    if not isinstance(included, list) or set(map(str, cast("list[Any]", included))) - _INCLUDED:
        raise InvalidRequest("this gateway does not support it", field="include")
    place = "text.format"
    return _options(body, _object(text.get("format"), place), place)


_REASONING = "effort summary generate_summary"


def effort_of(body: Json) -> str | None:
    """How much the model may think; None leaves it to the configuration."""
    reasoning = _object(body.get("reasoning"), "reasoning")
    place = "reasoning.effort" if reasoning else "reasoning_effort"
    asked = reasoning.get("effort") if reasoning else body.get("reasoning_effort")
    if asked is None:
        return None
    if asked not in _EFFORTS:
        raise InvalidRequest(f"has to be one of {', '.join(_EFFORTS)}", field=place)
    return _EFFORTS[asked]


def _verbosity(body: Json) -> str | None:
    asked = body.get("verbosity") or _object(body.get("text"), "text").get("verbosity")
    if asked is not None and asked not in _VERBOSITIES:
        raise InvalidRequest(f"has to be one of {', '.join(_VERBOSITIES)}", field="verbosity")
    return asked


def _refuse_others(body: Mapping[str, Any], honoured: str, prefix: str = "") -> None:
    known = honoured.split()
    for name, value in body.items():
        if value is None or name in known or value in _DEFAULTS.get(name, ()):
            continue
        raise InvalidRequest("this gateway does not support it", field=f"{prefix}{name}")


def _one_or_more(value: Any) -> tuple[Any, ...]:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else (value,)


class _Settings(BaseModel):
    """The settings that go to the model as they are."""

    model_config = ConfigDict(strict=True)

    max_tokens: PositiveInt | None = Field(
        None,
        validation_alias=AliasChoices("max_completion_tokens", "max_tokens", "max_output_tokens"),
    )
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    stop: Annotated[tuple[NonEmpty, ...], BeforeValidator(_one_or_more), Field(max_length=4)] = ()
    seed: int | None = None
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)


def _options(body: Json, form: Json, place: str) -> ModelOptions:
    settings = validated(_Settings, body).model_dump()
    effort_of(body)  # refused now, rather than once the answer has begun
    verbosity = _verbosity(body)
    return ModelOptions(**settings, **_format(form, place), **_tools(body), verbosity=verbosity)


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
        raise InvalidRequest("does not name a tool of this request", field="tool_choice")
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
