"""Events, results and replies to JSON and back, for front ends in other processes.

A record becomes an object with its fields in camel case; blocks also say their type.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import pybase64

from openclaw.agent.port import AgentSettings, CallItem, MessageContext, Reply, TurnListener
from openclaw.core import errors
from openclaw.core.content import Block, InboundMedia, Media, ResourceLink, Text
from openclaw.core.events import Event, ToolFinished, Usage
from openclaw.core.outcome import Outcome
from openclaw.core.tools import ToolResult

Json = dict[str, Any]
Record = TypeVar("Record")

_EVENTS: tuple[type[Any], ...] = get_args(Event)
_BY_NAME = {re.sub(r"(?<!^)(?=[A-Z])", "_", one.__name__).lower(): one for one in _EVENTS}
_NAMES = {kind: name for name, kind in _BY_NAME.items()}
_BLOCKS: Mapping[str, type[Block]] = {"text": Text, "media": Media, "resource_link": ResourceLink}
_TYPES = {kind: name for name, kind in _BLOCKS.items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_FIELDS = {
    kind: [(f.name, _camel(f.name)) for f in fields(kind)]
    for kind in (*_EVENTS, Text, ResourceLink, Reply, Usage)
}
_SOME: Mapping[type[Any], str] = {  # only these fields go to other processes
    CallItem: "id name arguments",
    ToolResult: "blocks outputs is_error details",
    MessageContext: "text session_key origin idempotency_key prompt_calls workspace model thinking "
    "scope",
    AgentSettings: "all_tool_text temp_root directories audio model_choices config_digest "
    "order_workspace timezone",
}
_FIELDS.update({kind: [(n, _camel(n)) for n in names.split()] for kind, names in _SOME.items()})
# The name that earlier clients and gateways use.
_FIELDS[Usage] = [(n, "cachedTokens" if n == "cache_read_tokens" else k) for n, k in _FIELDS[Usage]]

_ERRORS: dict[str, type[errors.OpenClawError]] = {
    kind.__name__: kind
    for kind in (errors.NotFound, errors.Cancelled, errors.ModelUnavailable, errors.UserFacing)
}


def event_name(event: Event) -> str:
    return _NAMES[type(event)]


def record_json(record: object) -> Json:
    """An event, a result or any other record with `_FIELDS`."""
    return {key: _encoded(getattr(record, name)) for name, key in _FIELDS[type(record)]}


def _encoded(value: Any) -> Any:
    if isinstance(value, Text | Media | ResourceLink):
        return block_json(value)
    if isinstance(value, tuple):
        return [_encoded(one) for one in value]  # pyright: ignore[reportUnknownVariableType] - any of ours
    if isinstance(value, Path):
        return str(value)
    return record_json(value) if type(value) in _FIELDS else value


def _record_from(kind: type[Record], body: Mapping[str, Any]) -> Record:
    values = {name: body[key] for name, key in _FIELDS[kind] if key in body}
    decoded = {name: decode(values[name]) for name, decode in _DECODED.items() if name in values}
    return kind(**{**values, **decoded})


def event_from(name: str, body: Mapping[str, Any]) -> Event | None:
    """The decoded event; None if its name is unknown."""
    kind = _BY_NAME.get(name)
    return None if kind is None else _record_from(kind, body)


def block_json(block: Block) -> Json:
    fields = media_json(block) if isinstance(block, Media) else record_json(block)
    return {"type": _TYPES[type(block)], **fields}


def blocks_from(items: Sequence[Mapping[str, Any]]) -> tuple[Block, ...]:
    kinds = [_BLOCKS[item["type"]] for item in items]
    return tuple(
        media_from(item) if kind is Media else _record_from(kind, item)
        for kind, item in zip(kinds, items, strict=True)
    )


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


def result_from(body: Mapping[str, Any]) -> ToolResult:
    return _record_from(ToolResult, body)


def reply_json(reply: Reply) -> Json:
    return {**record_json(reply), "media": [media_json(one) for one in reply.media]}


def reply_from(body: Mapping[str, Any]) -> Reply:
    return _record_from(Reply, body)


# How fields with these names are decoded, in any record.
_DECODED: Mapping[str, Callable[[Any], Any]] = {
    "blocks": blocks_from,
    "outputs": blocks_from,
    "result": result_from,
    "signals": tuple,
    "questions": tuple,
    "outcome": Outcome,
    "workspace": lambda path: None if path is None else Path(path),
    "media": lambda items: tuple(map(media_from, items)),
    "usage": lambda body: _record_from(Usage, body),
    "calls": lambda items: tuple(_record_from(CallItem, one) for one in items),
}


def listener_to(
    put: Callable[[str, Json], None],
    *,
    events: bool,
    callbacks: bool,
    carried: Callable[[tuple[Block, ...]], tuple[Block, ...]] = tuple,
) -> TurnListener:
    """A listener that passes everything to `put` as named events, which `tell` replays elsewhere.

    `carried` makes blocks ready to leave this machine.
    """

    def portable(result: ToolResult) -> ToolResult:
        return replace(result, blocks=carried(result.blocks), outputs=carried(result.outputs))

    def on_event(event: Event) -> None:
        if isinstance(event, ToolFinished):
            event = replace(event, result=portable(event.result))
        put(event_name(event), record_json(event))

    def on_block_reply(blocks: tuple[Block, ...]) -> None:
        put("on_block_reply", {"blocks": _encoded(carried(blocks))})

    def on_tool_result(name: str, result: ToolResult) -> None:
        put("on_tool_result", {"name": name, "result": record_json(portable(result))})

    return TurnListener(
        on_event=on_event if events else None,
        on_block_reply=on_block_reply if callbacks else None,
        on_tool_result=on_tool_result if callbacks else None,
    )


def tell(listener: TurnListener, name: str, body: Mapping[str, Any]) -> None:
    if name == "on_block_reply":
        if listener.on_block_reply is not None:
            listener.on_block_reply(blocks_from(body["blocks"]))
    elif name == "on_tool_result":
        if listener.on_tool_result is not None:
            listener.on_tool_result(body["name"], result_from(body["result"]))
    elif listener.on_event is not None and (event := event_from(name, body)) is not None:
        listener.on_event(event)


def message_json(context: MessageContext) -> Json:
    media = [{**media_json(one.media), "text": one.text, "note": one.note} for one in context.media]
    return {**record_json(context), "agent": context.agent_id, "media": media}


def message_from(body: Mapping[str, Any]) -> MessageContext:
    media = tuple(map(inbound_from, body["media"]))
    return replace(_record_from(MessageContext, body), agent_id=body["agent"], media=media)


def inbound_from(item: Mapping[str, Any]) -> InboundMedia:
    return InboundMedia(media_from(item), item.get("text"), item.get("note"))


def settings_json(settings: AgentSettings) -> Json:
    return {"agent": settings.id, **record_json(settings)}


def error_json(error: BaseException) -> Json:
    """An error for our own front ends; an unexpected one reveals no details."""
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
    """The decoded error, of the same type if callers distinguish it."""
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
