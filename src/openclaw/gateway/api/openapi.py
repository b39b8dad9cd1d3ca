"""The OpenAPI document: written by hand where a client needs it, small where it does not."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from openclaw.gateway.state import Gateway
from openclaw.version import __version__

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_WHOLE: Json = {"type": "integer"}
_YES_NO: Json = {"type": "boolean"}
_ANY: Json = {"type": "object", "additionalProperties": True}


def _object(required: tuple[str, ...] = (), **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(item: str) -> Json:
    return {"type": "array", "items": _ref(item)}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _maybe(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


_MEDIA = _object(
    ("mimeType",),
    mimeType=_TEXT,
    name=_maybe(_TEXT),
    data={"type": "string", "contentEncoding": "base64"},
    path={"type": "string", "description": "a file in an order's own directory on this machine"},
)
_MESSAGE = _object(
    (),
    text=_TEXT,
    agent={"type": "string", "description": "the agent's id; left out: the default one"},
    sessionKey={"type": "string", "description": "left out: a conversation of its own"},
    media={"type": "array", "items": _ref("Media")},
    origin=_TEXT,
    idempotencyKey={"type": "string", "description": "the same twice is carried out once"},
    stream={"type": "boolean", "default": True},
    events={"type": "boolean", "default": True},
    callbacks={"type": "boolean", "default": False},
    promptCalls={
        "type": "boolean",
        "default": False,
        "description": "a text that is exactly /server:prompt key=value stands for that prompt",
    },
    detached={
        "type": "boolean",
        "default": False,
        "description": "the turn goes on when the client goes away; `turnEvents` follows it then",
    },
    questions={
        "type": "boolean",
        "default": False,
        "description": "the client answers `question` events; without it they are declined",
    },
    model={"type": "string", "description": "a model that the configuration names"},
    workspace={"type": "string", "description": "where file tools work; this account alone"},
    scope={"type": "string", "description": "servers that were brought along; this account alone"},
)
_REPLY = _object(
    ("text", "outcome", "sessionId", "turnId"),
    text=_TEXT,
    outcome={"enum": ["ok", "limit", "duplicate"]},
    sessionId=_TEXT,
    turnId=_TEXT,
    sessionKey=_TEXT,
    media={"type": "array", "items": _ref("Media")},
    usage=_ANY,
)
_SERVER = _object(
    ("name", "state", "transport"),
    name=_TEXT,
    agents={"type": "array", "items": _TEXT},
    sessions={"type": "array", "items": _TEXT},
    transport=_TEXT,
    state={
        "enum": [
            "disconnected",
            "connecting",
            "ready",
            "error",
            "failed",
            "needs_login",
            "disabled",
            "closed",
        ]
    },
    tools=_WHOLE,
    resources=_WHOLE,
    prompts=_WHOLE,
    protocol=_maybe(_TEXT),
    pid=_maybe(_WHOLE),
    since={"type": "integer", "description": "milliseconds since 1970"},
    uptimeMs=_maybe(_WHOLE),
    restarts=_WHOLE,
    lastError=_maybe(_TEXT),
    nextRetryIn=_maybe({"type": "number", "description": "seconds"}),
    pin=_maybe(_TEXT),
    crossings={
        "type": "array",
        "items": _TEXT,
        "description": "where it bears or speaks of another server's tool names",
    },
    suspicions={
        "type": "array",
        "items": _TEXT,
        "description": "which of its declarations look like orders to the agent, with the sentence",
    },
)
_SCHEMAS: Json = {
    "Error": _object(
        ("error",), error=_object(("type", "message"), type=_TEXT, message=_TEXT, hint=_TEXT)
    ),
    "Media": _MEDIA,
    "Message": _MESSAGE,
    "Reply": _REPLY,
    "Server": _SERVER,
    "Agent": _object(
        ("id", "default"),
        id=_TEXT,
        name=_TEXT,
        default=_YES_NO,
        model=_maybe(_TEXT),
        servers={"type": "array", "items": _TEXT},
    ),
    "Session": _object(("id", "agent", "key"), id=_TEXT, agent=_TEXT, key=_TEXT),
    "Entry": _object(("seq", "kind"), seq=_WHOLE, kind=_TEXT, text=_TEXT, data=_ANY),
    "Tool": _object(("name",), name=_TEXT, description=_TEXT, inputSchema=_ANY),
    "Turn": _object(("turn", "agent", "sessionKey"), turn=_TEXT, agent=_TEXT, sessionKey=_TEXT),
}

_AGENT = ("agent", _TEXT)
_LIMIT = ("limit", _WHOLE)


def _answer(schema: Json, kind: str = "application/json") -> Json:
    return {"description": "fine", "content": {kind: {"schema": schema}}}


def _operation(
    name: str,
    summary: str,
    answer: Json,
    *,
    path: tuple[str, ...] = (),
    query: tuple[tuple[str, Json], ...] = (),
    body: Json | None = None,
    stream: bool = False,
) -> Json:
    parameters = [{"name": p, "in": "path", "required": True, "schema": _TEXT} for p in path]
    parameters += [{"name": q, "in": "query", "required": False, "schema": s} for q, s in query]
    fine = _answer(answer)
    if stream:
        fine["content"]["text/event-stream"] = {"schema": _TEXT}
    operation: Json = {
        "operationId": name,
        "summary": summary,
        "parameters": parameters,
        "responses": {"200": fine, "default": _answer(_ref("Error"))},
    }
    if body is not None:
        content = {"application/json": {"schema": body}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


_KEYED = (_AGENT,)
_PATHS: Json = {
    "/api/status": {"get": _operation("status", "the gateway and its servers", _ANY)},
    "/api/agents": {
        "get": _operation("listAgents", "the agents", _object(agents=_list("Agent"))),
    },
    "/api/sessions": {
        "get": _operation(
            "listSessions",
            "sessions, the most recently used first",
            _object(sessions=_list("Session"), cursor=_maybe(_TEXT)),
            query=(_AGENT, _LIMIT, ("cursor", _TEXT), ("search", _TEXT)),
        )
    },
    "/api/sessions/{key}": {
        "get": _operation(
            "showSession",
            "a session and its entries",
            _object(session=_ref("Session"), entries=_list("Entry")),
            path=("key",),
            query=(_AGENT, _LIMIT, ("after", _WHOLE)),
        ),
        "delete": _operation(
            "deleteSession", "remove a session for good", _ANY, path=("key",), query=_KEYED
        ),
    },
    "/api/sessions/{key}/cancel": {
        "post": _operation(
            "cancelSession",
            "stop what runs in a session",
            _object(cancelled=_WHOLE),
            path=("key",),
            query=_KEYED,
        )
    },
    "/api/servers": {
        "get": _operation("listServers", "MCP servers", _object(servers=_list("Server")))
    },
    "/api/servers/{name}/restart": {
        "post": _operation("restartServer", "connect to a server afresh", _ANY, path=("name",))
    },
    "/api/tools": {
        "get": _operation(
            "listTools",
            "the MCP tools of an agent",
            _object(agent=_TEXT, tools=_list("Tool")),
            query=_KEYED,
        )
    },
    "/api/prompts": {
        "get": _operation(
            "listPrompts",
            "the prompts that a message with promptCalls may name",
            _ANY,
            query=_KEYED,
        )
    },
    "/api/models": {
        "get": _operation(
            "listModels",
            "the models that answer for an agent, the first one first",
            _object(agent=_TEXT, models={"type": "array", "items": _TEXT}),
            query=_KEYED,
        )
    },
    "/api/scopes": {
        "post": _operation(
            "openScope",
            "start MCP servers for one front end, until it closes the connection; this account alone",
            _TEXT,
            body=_object(agent=_TEXT, servers=_ANY),
            stream=True,
        )
    },
    "/api/messages": {
        "post": _operation(
            "postMessage",
            "run a turn; its events as they happen, or with stream: false its reply",
            _ref("Reply"),
            body=_ref("Message"),
            stream=True,
        )
    },
    "/api/turns": {"get": _operation("listTurns", "what runs", _object(turns=_list("Turn")))},
    "/api/turns/{turn}/cancel": {
        "post": _operation("cancelTurn", "stop a turn", _object(cancelled=_WHOLE), path=("turn",))
    },
    "/api/turns/{turn}/events": {
        "get": _operation(
            "turnEvents",
            "what happened in a running turn, from its beginning, and what happens, to its end",
            _TEXT,
            path=("turn",),
            query=(("questions", _YES_NO),),
            stream=True,
        )
    },
    "/api/questions/{id}": {
        "post": _operation(
            "answerQuestion",
            "answer a question event of a turn's stream",
            _object(answered=_TEXT),
            path=("id",),
            body=_object(
                ("action",), action={"enum": ["accept", "decline", "cancel"]}, content=_ANY
            ),
        )
    },
    "/api/events": {
        "get": _operation("events", "what happens, as it happens", _TEXT, stream=True),
    },
    "/api/logs": {
        "get": _operation(
            "logs",
            "the last lines of the log",
            _object(lines={"type": "array", "items": _TEXT}),
            query=(("lines", _WHOLE),),
        )
    },
    "/api/reload": {
        "post": _operation(
            "reload",
            "read the configuration again",
            _object(changed=_YES_NO, waiting={"type": "array", "items": _TEXT}),
        )
    },
    "/api/pins": {
        "get": _operation("listPins", "declarations of servers that wait to be accepted", _ANY)
    },
    "/api/servers/{name}/pins": {
        "post": _operation(
            "acceptPins",
            "accept what a server says of itself now, all of it or the names given",
            _object(accepted={"type": "array", "items": _TEXT}),
            path=("name",),
            body=_object(names={"type": "array", "items": _TEXT}),
        )
    },
    "/api/files": {
        "get": _operation(
            "showFile",
            "a file that the agent handed over, as it is",
            {"type": "string", "contentMediaType": "application/octet-stream"},
            query=(_AGENT, ("path", _TEXT)),
        )
    },
}


def document(url: str) -> Json:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "OpenClaw gateway", "version": __version__},
        "servers": [{"url": url}],
        "security": [{"bearer": []}],
        "paths": _PATHS,
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


async def openapi(gateway: Gateway, request: Request) -> Response:
    """This document."""
    return JSONResponse(document(gateway.url))
