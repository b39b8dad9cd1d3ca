"""The gateway API's models, which validate bodies and define the OpenAPI document."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.alias_generators import to_camel, to_pascal
from starlette.requests import Request
from starlette.responses import JSONResponse

from openclaw.config.agent_schema import Effort
from openclaw.core.errors import InvalidRequest
from openclaw.gateway.owners import Reach
from openclaw.version import __version__

Json = dict[str, Any]


class _RequestBody(BaseModel):
    """What a client sends. Null is the same as leaving a field out; unknown fields are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, strict=True, extra="allow", frozen=True
    )


class _ResponseBody(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")


Known = TypeVar("Known", bound=BaseModel)


async def json_body(request: Request) -> Json:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Another site can post a form without a preflight, but not JSON.
        raise InvalidRequest("the body has to be application/json", field="Content-Type")
    raw = await request.body()
    try:
        body: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise InvalidRequest("the body is not a JSON object")
    return cast("Json", body)


def validated(model: type[Known], body: Json) -> Known:
    """Check a body; `InvalidRequest` names the first field that is wrong."""
    try:
        return model.model_validate({k: v for k, v in body.items() if v is not None})
    except ValidationError as error:
        problem: Any = error.errors(include_url=False)[0]
        message = _PROBLEMS.get(problem["type"]) or problem["msg"]
        if problem["type"] == "literal_error":
            message = f"has to be one of {problem['ctx']['expected']}"
        steps = (f"[{one}]" if isinstance(one, int) else f".{one}" for one in problem["loc"])
        raise InvalidRequest(message, field="".join(steps)[1:]) from None


_PROBLEMS = {
    "missing": "is missing",
    "string_type": "has to be a string",
    "bool_type": "has to be true or false",
    "dict_type": "has to be an object",
    "model_type": "has to be an object",
    "model_attributes_type": "has to be an object",
    "list_type": "has to be a list",
    "string_pattern_mismatch": "has to be at most 200 visible ASCII characters",
}


_OneOrMore = BeforeValidator(lambda value: [value] if isinstance(value, dict) else value)
_OwnServers = Annotated[
    str | None,
    Field(description="also use the MCP servers that this connection added; owner only"),
]


class Media(_RequestBody):
    mime_type: str
    name: str | None = None
    data: str | None = Field(None, json_schema_extra={"contentEncoding": "base64"})
    path: str | None = Field(None, description="a file in an order's own directory on this machine")


class Message(_RequestBody):
    text: str = ""
    agent: str | None = Field(None, description="the agent's id; default: the default agent")
    session_key: str | None = Field(None, description="default: a new conversation")
    media: Annotated[list[Media], _OneOrMore] = Field(default_factory=list[Media])
    origin: str | None = None
    idempotency_key: str | None = Field(
        None,
        pattern="^[!-~]{0,200}$",
        description="requests with the same key are carried out once; up to 200 visible ASCII characters",
    )
    stream: bool = True
    events: bool = True
    callbacks: bool = False
    prompt_calls: bool = Field(
        False, description="a text that is exactly /server:prompt key=value calls that prompt"
    )
    detached: bool = Field(
        False,
        description="the turn continues if the client disconnects; follow it with `turnEvents`",
    )
    questions: bool = Field(
        False, description="the client answers `question` events; without it they are declined"
    )
    model: str | None = Field(None, description="one of the configured models")
    thinking: Effort | None = Field(
        None, description="how long the model thinks, if that is adjustable"
    )
    workspace: str | None = Field(
        None, description="the directory to work in; needs the scope `admin`"
    )
    scope: _OwnServers = None


class Scope(_RequestBody):
    agent: str | None = None
    servers: dict[str, Any] = Field(default_factory=dict[str, Any])


class BegunArgument(_RequestBody):
    agent: str | None = None
    server: str
    prompt: str | None = Field(None, description="the name of a prompt; this or template")
    template: str | None = Field(None, description="a resource template; this or prompt")
    argument: str
    value: str = Field("", description="what has been typed so far")
    given: dict[str, str] = Field(default_factory=dict[str, str], description="other arguments")
    scope: _OwnServers = None


class QuestionAnswer(_RequestBody):
    action: Literal["accept", "decline", "cancel", "wait"] = Field(
        description="'wait' stores a permission question until somebody answers it"
    )
    content: dict[str, Any] | None = None
    choice: str | None = Field(default=None, description="one of a permission question's choices")
    reason: str | None = Field(
        default=None, max_length=2000, description="why not, for the agent to read"
    )
    continues: bool = Field(
        default=False,
        alias="continue",
        description="of a waiting question: carry on in its session now",
    )


class ConfigChange(_RequestBody):
    path: list[str | int] = Field(max_length=64)
    value: Any = None
    append: bool = Field(False, description="add the value to the list at path")
    remove: bool = False


class ErrorBody(_ResponseBody):
    type: str
    message: str
    hint: str | None = None
    field: str | None = None
    retry_after: float | None = None


class Error(_ResponseBody):
    error: ErrorBody


Fields = Mapping[str, Any]  # fields by name, each with its type
Handler = TypeVar("Handler", bound=Callable[..., Any])
Count = Annotated[int, Field(ge=0, le=1 << 53)]


@dataclass(frozen=True, slots=True)
class Operation:
    handler: Callable[..., Any]
    method: str
    path: str
    needs: str | None  # the scope that a token must have
    reach: Reach
    answer: Any  # a type, or the fields of an object
    parameters: Fields
    body: type[BaseModel] | None
    stream: bool

    @property
    def query(self) -> Fields:
        other = ("body", "request", "target", *re.findall(r"{(\w+)", self.path))
        return {name: kind for name, kind in self.parameters.items() if name not in other}

    async def answered(self, gateway: Any, request: Request) -> Any:
        values: Json = {**request.path_params, "request": request}
        if self.reach.find is not None:
            values["target"] = request.state.target
        for name, kind in self.query.items():
            if (text := request.query_params.get(name)) is not None:
                try:
                    values[name] = _adapter(kind).validate_strings(text)
                except ValidationError:
                    message = "has to be true or false" if kind is bool else "is not a number"
                    raise InvalidRequest(message, field=name) from None
        taken = {name: one for name, one in values.items() if name in self.parameters}
        if self.body is not None:
            body = validated(self.body, await json_body(request))
            fields = {name: getattr(body, name) for name in self.body.model_fields}
            taken |= {"body": body} if "body" in self.parameters else fields
        answer = await self.handler(gateway, **taken)
        return JSONResponse(answer) if isinstance(answer, dict) else answer


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


OPERATIONS: list[Operation] = []


def operation(
    route: str, reach: Reach, answer: Any = Json, *, stream: bool = False, needs: str | None = ""
) -> Callable[[Handler], Handler]:
    """Registers a handler as a route; by default GET needs the scope `read`, the rest `admin`.

    The handler gets the gateway and what it has a parameter for: `request`, `target` (what `reach`
    finds), parts of the path and of the query, and `body` as its model, or the body's fields as
    keyword-only parameters. It returns a dictionary or a response. Its docstring becomes its
    description in the document.
    """
    method, _, path = route.partition(" ")

    def describe(handler: Handler) -> Handler:
        parameters, fields = Json(), Json()
        for one in list(signature(handler).parameters.values())[1:]:
            kind = one.annotation
            if one.kind is one.KEYWORD_ONLY:
                fields[one.name] = (kind, ... if one.default is one.empty else one.default)
            else:
                parameters[one.name] = get_args(kind)[0] if isinstance(kind, UnionType) else kind
        body = parameters.get("body")
        if fields:
            body = create_model(to_pascal(handler.__name__), __base__=_RequestBody, **fields)
        scope = ("read" if method == "GET" else "admin") if needs == "" else needs
        OPERATIONS.append(
            Operation(handler, method, path, scope, reach, answer, parameters, body, stream)
        )
        return handler

    return describe


def _schema(kind: Any, components: Json) -> Json:
    """The schema of a type; those of models go into `components` and are referred to."""
    if isinstance(kind, Mapping):
        fields = {name: _schema(one, components) for name, one in cast("Fields", kind).items()}
        return {"type": "object", "properties": fields}
    schema = _adapter(kind).json_schema(ref_template="#/components/schemas/{model}")
    for name, inner in schema.pop("$defs", {}).items():
        components.setdefault(name, inner)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        components.setdefault(kind.__name__, schema)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    return schema


def document(url: str) -> Json:
    components: Json = {}
    error = _schema(Error, components)
    paths: dict[str, Json] = {}
    for one in sorted(OPERATIONS, key=lambda one: one.path):
        shown = one.path.replace(":path", "")
        paths.setdefault(shown, {})[one.method.lower()] = _entry(one, shown, components, error)
    return {
        "openapi": "3.1.0",
        "info": {"title": "OpenClaw gateway", "version": __version__},
        "servers": [{"url": url}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _entry(one: Operation, path: str, components: Json, error: Json) -> Json:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)", path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": _schema(kind, components)}
        for name, kind in one.query.items()
    ]
    fine = {"application/json": {"schema": _schema(one.answer, components)}}
    if one.stream:
        fine["text/event-stream"] = {"schema": {"type": "string"}}
    failed = {"application/json": {"schema": error}}
    entry: Json = {
        "operationId": to_camel(one.handler.__name__),
        "summary": (one.handler.__doc__ or "").partition("\n")[0].removesuffix("."),
        "parameters": parameters,
        "responses": {
            "200": {"description": "fine", "content": fine},
            "default": {"description": "failed", "content": failed},
        },
    }
    if one.body is not None:
        content = {"application/json": {"schema": _schema(one.body, components)}}
        entry["requestBody"] = {"required": True, "content": content}
    return entry
