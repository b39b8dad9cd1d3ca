"""Events, results and replies to JSON and back, for front ends in other processes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

import pybase64

from openclaw.agent.port import AgentSettings, ClientCall, MessageContext, Reply, Usage
from openclaw.core import errors
from openclaw.core.content import Block, InboundMedia, Media, ResourceLink, Text
from openclaw.core.events import BlockReply, Event, SuspiciousContent, ToolFinished
from openclaw.core.tools import ToolResult

Json = dict[str, Any]

_EVENTS: tuple[type[Any], ...] = get_args(Event)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_BY_NAME = {re.sub(r"(?<!^)(?=[A-Z])", "_", one.__name__).lower(): one for one in _EVENTS}
_NAMES = {kind: name for name, kind in _BY_NAME.items()}
_FIELDS = {kind: [(f.name, _camel(f.name)) for f in fields(kind)] for kind in _EVENTS}

_ERRORS: dict[str, type[errors.OpenClawError]] = {
    "NotFound": errors.NotFound,
    "Cancelled": errors.Cancelled,
    "ModelUnavailable": errors.ModelUnavailable,
    "UserFacing": errors.UserFacing,
}


def event_name(event: Event) -> str:
    return _NAMES[type(event)]


def event_json(event: Event) -> Json:
    return {key: _encoded(getattr(event, name)) for name, key in _FIELDS[type(event)]}


def _encoded(value: Any) -> Any:
    if isinstance(value, ToolResult):
        return result_json(value)
    if isinstance(value, Text | Media | ResourceLink):
        return block_json(value)
    if isinstance(value, tuple):
        return [_encoded(one) for one in value]  # pyright: ignore[reportUnknownVariableType] - any of ours
    return value


def event_from(name: str, body: Mapping[str, Any]) -> Event | None:
    """The event back; None if we do not know it."""
    kind = _BY_NAME.get(name)
    if kind is None:
        return None
    given = {name: body[key] for name, key in _FIELDS[kind]}
    if kind is BlockReply:
        given["blocks"] = blocks_from(given["blocks"])
    elif kind is ToolFinished:
        given["result"] = result_from(given["result"])
    elif kind is SuspiciousContent:
        given["signals"] = tuple(given["signals"])
    return kind(**given)


def block_json(block: Block) -> Json:
    match block:
        case Text():
            return {"type": "text", "text": block.text, "addressed": block.addressed}
        case Media():
            return {"type": "media", **media_json(block)}
        case ResourceLink():
            return {
                "type": "resource_link",
                "uri": block.uri,
                "name": block.name,
                "mimeType": block.mime_type,
                "description": block.description,
            }


def blocks_from(items: Sequence[Mapping[str, Any]]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for item in items:
        match item["type"]:
            case "text":
                blocks.append(Text(item["text"], bool(item["addressed"])))
            case "media":
                blocks.append(media_from(item))
            case _:
                about = item["mimeType"], item["description"]
                blocks.append(ResourceLink(item["uri"], item["name"], *about))
    return tuple(blocks)


def media_json(media: Media) -> Json:
    body: Json = {"mimeType": media.mime_type, "name": media.name}
    if media.data is not None:
        body["data"] = pybase64.b64encode_as_string(media.data)
    elif media.path is not None:
        body["path"] = str(media.path)
    else:
        body["url"] = media.url
    return body


def media_from(item: Mapping[str, Any]) -> Media:
    data, path = item.get("data"), item.get("path")
    return Media(
        item["mimeType"],
        data=pybase64.b64decode(data, validate=True) if data is not None else None,
        path=Path(path) if path is not None else None,
        url=item.get("url"),
        name=item.get("name"),
    )


def result_json(result: ToolResult) -> Json:
    return {
        "blocks": [block_json(block) for block in result.blocks],
        "outputs": [block_json(block) for block in result.outputs],
        "isError": result.is_error,
        "details": result.details,
    }


def result_from(body: Mapping[str, Any]) -> ToolResult:
    return ToolResult(
        blocks=blocks_from(body["blocks"]),
        outputs=blocks_from(body["outputs"]),
        is_error=body["isError"],
        details=body["details"],
    )


def reply_json(reply: Reply) -> Json:
    return {
        "text": reply.text,
        "outcome": reply.outcome,
        "finishReason": reply.finish_reason,
        "calls": [asdict(call) for call in reply.calls],
        "sessionId": reply.session_id,
        "turnId": reply.turn_id,
        "media": [media_json(one) for one in reply.media],
        "usage": {_camel(name): value for name, value in asdict(reply.usage).items()},
    }


def reply_from(body: Mapping[str, Any]) -> Reply:
    usage = body["usage"]
    return Reply(
        text=body["text"],
        session_id=body["sessionId"],
        turn_id=body["turnId"],
        media=tuple(media_from(one) for one in body["media"]),
        usage=Usage(**{f.name: usage.get(_camel(f.name), 0) for f in fields(Usage)}),
        outcome=body["outcome"],
        finish_reason=body.get("finishReason", "stop"),
        calls=tuple(ClientCall(**call) for call in body.get("calls", ())),
    )


def message_json(context: MessageContext) -> Json:
    return {
        "text": context.text,
        "sessionKey": context.session_key,
        "agent": context.agent_id,
        "origin": context.origin,
        "idempotencyKey": context.idempotency_key,
        "promptCalls": context.prompt_calls,
        "workspace": str(context.workspace) if context.workspace is not None else None,
        "model": context.model,
        "thinking": context.thinking,
        "scope": context.scope,
        "media": [
            {**media_json(one.media), "text": one.text, "note": one.note} for one in context.media
        ],
    }


def inbound_from(item: Mapping[str, Any]) -> InboundMedia:
    return InboundMedia(media_from(item), item.get("text"), item.get("note"))


def settings_json(settings: AgentSettings) -> Json:
    return {
        "agent": settings.id,
        "allToolText": settings.all_tool_text,
        "tempRoot": str(settings.temp_root),
        "directories": [str(one) for one in settings.directories],
        "audio": settings.audio,
        "modelChoices": settings.model_choices,
        "configDigest": settings.config_digest,
        "orderWorkspace": settings.order_workspace,
        "timezone": settings.timezone,
    }


def error_json(error: BaseException) -> Json:
    """An error for our own front ends; an unexpected one gives no details."""
    if not isinstance(error, errors.OpenClawError):
        return {"type": "Unexpected", "message": f"unexpected {type(error).__name__}; see the log"}
    body: Json = {"type": type(error).__name__, "message": error.message}
    if error.hint:
        body["hint"] = error.hint
    if isinstance(error, errors.InvalidRequest):
        body["field"] = error.field
    if isinstance(error, errors.Busy):
        body["retryAfter"] = error.retry_after
    if isinstance(error, errors.InvalidConfig):
        body["source"] = error.source
        body["problems"] = [asdict(one) for one in error.problems]
    return body


def error_from(body: Mapping[str, Any]) -> errors.OpenClawError:
    """The error back, as the same kind if callers tell that kind apart."""
    message, hint, kind = str(body.get("message")), body.get("hint"), body.get("type")
    if kind == "InvalidRequest":
        found = errors.InvalidRequest(message, hint=hint)
        found.field = body.get("field")
        return found
    if kind == "InvalidConfig":
        problems = [errors.Problem(**problem) for problem in body.get("problems", ())]
        return errors.InvalidConfig(problems, source=body.get("source"))
    if kind == "Busy":
        return errors.Busy(message, retry_after=float(body.get("retryAfter") or 1))
    return _ERRORS.get(str(kind), errors.OperatorFacing)(message, hint=hint)
