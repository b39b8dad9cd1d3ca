"""The rules of Streamable HTTP that hold for both sides: headers, content types and statuses.

A request of 2026-07-28 repeats parts of its body in headers, for what stands between client and
server to route by (section "Request Headers"); they must agree.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from openclaw.mcp import jsonrpc, names
from openclaw.mcp.jsonrpc import HEADER_MISMATCH, ErrorData, JsonObject

VERSION_HEADER, SESSION_HEADER = "mcp-protocol-version", "mcp-session-id"
LAST_EVENT_HEADER = "last-event-id"
METHOD_HEADER, NAME_HEADER, PARAM_PREFIX = "mcp-method", "mcp-name", "mcp-param-"
ANNOTATION = "x-mcp-header"  # of a property in a tool's input schema

JSON, EVENT_STREAM = "application/json", "text/event-stream"
ACCEPT_BOTH = f"{JSON}, {EVENT_STREAM}"

# The parameter of a method that Mcp-Name repeats.
NAMED_BY = {
    names.TOOLS_CALL: "name",
    names.PROMPTS_GET: "name",
    names.RESOURCES_READ: "uri",
    names.TASKS_GET: "taskId",
    names.TASKS_UPDATE: "taskId",
    names.TASKS_CANCEL: "taskId",
}

# What an error is as an HTTP status at 2026-07-28, if it is the whole answer; otherwise it is 200.
STATUS_OF_ERROR = {
    jsonrpc.PARSE_ERROR: 400,
    jsonrpc.INVALID_REQUEST: 400,
    jsonrpc.INVALID_PARAMS: 400,
    jsonrpc.HEADER_MISMATCH: 400,
    jsonrpc.MISSING_CAPABILITY: 400,
    jsonrpc.UNSUPPORTED_VERSION: 400,
    jsonrpc.METHOD_NOT_FOUND: 404,
}

_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_SAFE = re.compile(r"[\x20-\x7e]*")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, section 5.6.2
_DECIMAL = re.compile(r"-?[0-9]{1,4000}(\.0+)?")
_HEADER_TYPES = ("string", "integer", "boolean")


def status_of(error: ErrorData) -> int:
    return STATUS_OF_ERROR.get(error.code, 200)


def media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Accepts:
    json: bool
    event_stream: bool


def accepts(header: str | None) -> Accepts:
    """What an Accept header accepts; without one, anything (RFC 9110, section 12.5.1)."""
    if header is None:
        return Accepts(json=True, event_stream=True)
    offered = {media_type(part) for part in header.split(",") if not _is_excluded(part)}

    def has(kind: str) -> bool:
        return bool(offered & {kind, f"{kind.partition('/')[0]}/*", "*/*"})

    return Accepts(json=has(JSON), event_stream=has(EVENT_STREAM))


def _is_excluded(part: str) -> bool:
    return re.search(r";\s*q=0(\.0*)?\s*(;|$)", part) is not None


# ---- values in headers


def encode_value(value: str) -> str:
    """The value if a header can hold it as it is, otherwise as `=?base64?…?=`."""
    plain = _SAFE.fullmatch(value) and value == value.strip() and not _ENCODED.fullmatch(value)
    if plain:
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def decode_value(value: str) -> str | None:
    """The inverse; None if it is encoded, but not well."""
    encoded = _ENCODED.fullmatch(value)
    if encoded is None:
        return value
    try:
        data = base64.b64decode(encoded[1], validate=True)
        if base64.b64encode(data).decode() != encoded[1]:  # bits that were left over
            return None
        return data.decode("utf-8")
    except ValueError:  # not base64, or not UTF-8
        return None


# ---- routing headers: written by a client, checked by a server


def routing_headers(
    method: str, params: Mapping[str, Any] | None, schema: Any = None
) -> dict[str, str]:
    """The headers of a request at 2026-07-28; `schema` is the input schema of the tool it calls."""
    headers = {METHOD_HEADER: method}
    fields = params or {}
    name = fields.get(NAMED_BY.get(method, ""))
    if isinstance(name, str):
        headers[NAME_HEADER] = encode_value(name)
    if method == names.TOOLS_CALL and problem_of_annotations(schema) is None:
        for annotated in annotated_properties(schema):
            value = _as_text(annotated.value_in(fields.get("arguments")))
            if value is not None:
                headers[PARAM_PREFIX + annotated.header.lower()] = encode_value(value)
    return headers


def header_mismatch(
    headers: Iterable[tuple[str, str]], method: str, params: Mapping[str, Any] | None
) -> ErrorData | None:
    """What disagrees between a request's headers and its body, apart from Mcp-Param-*.

    `headers` are pairs with lower-case names, as they came: duplicates are refused, because readers of
    the first and of the last would disagree.
    """
    named: dict[str, str] = {}
    for name, value in headers:
        if name in (VERSION_HEADER, METHOD_HEADER, NAME_HEADER):
            if name in named:
                return _mismatch(f"the {name} header appears more than once")
            named[name] = value
    fields = params or {}
    meta = fields.get("_meta")
    known = cast("JsonObject", meta) if isinstance(meta, dict) else {}
    version = known.get(names.META_VERSION)
    if VERSION_HEADER not in named or named[VERSION_HEADER] != version:
        return _mismatch(f"the {VERSION_HEADER} header does not match the body's protocol version")
    if named.get(METHOD_HEADER) != method:
        return _mismatch(f"the {METHOD_HEADER} header does not match the body's method")
    key = NAMED_BY.get(method)
    expected = fields.get(key) if key is not None else None
    if key is None or expected is None:
        return None
    task = key == "taskId" and NAME_HEADER not in named  # SEP-2663 only recommends it
    if not task and decode_value(named.get(NAME_HEADER, "")) != expected:
        return _mismatch(f"the {NAME_HEADER} header does not match the body's {key!r}")
    return None


def param_mismatch(
    headers: Iterable[tuple[str, str]], schema: Any, arguments: Any
) -> ErrorData | None:
    """What disagrees between the Mcp-Param-* headers of a tool call and its arguments.

    A schema with bad annotations is not checked: clients drop such a tool.
    """
    if problem_of_annotations(schema) is not None:
        return None
    received: dict[str, list[str]] = {}
    for name, value in headers:
        received.setdefault(name.lower(), []).append(value)
    for annotated in annotated_properties(schema):
        values = received.get(PARAM_PREFIX + annotated.header.lower(), [])
        problem = annotated.problem_with(values, annotated.value_in(arguments))
        if problem is not None:
            return _mismatch(f"the Mcp-Param-{annotated.header} header {problem}")
    return None


def _mismatch(problem: str) -> ErrorData:
    return ErrorData(HEADER_MISMATCH, problem)


@dataclass(frozen=True, slots=True)
class AnnotatedProperty:
    path: tuple[str, ...]
    header: str
    type: Any

    def value_in(self, arguments: Any) -> Any:
        for key in self.path:
            if not isinstance(arguments, Mapping):
                return None
            arguments = cast("JsonObject", arguments).get(key)
        return arguments

    def problem_with(self, values: list[str], argument: Any) -> str | None:
        if len(values) > 1:
            return "appears more than once"
        text = None if argument is None else _as_text(argument)
        if text is None:
            return "is there, but its argument is not" if values else None
        if not values:
            return "is missing"
        decoded = decode_value(values[0])
        if decoded is None:
            return "is not encoded correctly"
        return None if self._matches(decoded, argument, text) else "does not match its argument"

    def _matches(self, decoded: str, argument: Any, text: str) -> bool:
        # "42" and 42.0 are the same number; compared without rounding.
        whole = isinstance(argument, int) or (isinstance(argument, float) and argument.is_integer())
        if self.type == "integer" and whole and not isinstance(argument, bool):
            return _DECIMAL.fullmatch(decoded) is not None and (
                int(decoded.partition(".")[0]) == int(argument)
            )
        return decoded == text


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    try:
        return str(value)
    except ValueError:  # an integer with thousands of digits
        return None


# The keywords of JSON Schema 2020-12 whose values are schemas, except `properties`.
_ONE_SCHEMA = frozenset(
    [
        "items",
        "contains",
        "unevaluatedItems",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    ]
)
_LIST_OF_SCHEMAS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAP_OF_SCHEMAS = frozenset(("patternProperties", "dependentSchemas", "$defs", "definitions"))


def _schemas(root: Any) -> Iterator[tuple[tuple[str, ...] | None, JsonObject]]:
    """Every schema within this one, and its path of `properties`, if nothing else leads to it."""
    pending: list[tuple[tuple[str, ...] | None, Any]] = [((), root)]
    while pending:
        path, node = pending.pop()
        if not isinstance(node, dict):
            continue
        schema = cast("JsonObject", node)
        yield path, schema
        for keyword, value in schema.items():
            if keyword == "properties" and isinstance(value, dict):
                inside = cast("JsonObject", value)
                pending += [
                    (None if path is None else (*path, name), sub) for name, sub in inside.items()
                ]
            else:
                pending += [(None, sub) for sub in _subschemas(keyword, value)]


def _subschemas(keyword: str, value: Any) -> list[Any]:
    if keyword in _ONE_SCHEMA:
        return [value]
    if keyword in _LIST_OF_SCHEMAS and isinstance(value, list):
        return cast("list[Any]", value)
    if keyword in _MAP_OF_SCHEMAS and isinstance(value, dict):
        return list(cast("JsonObject", value).values())
    return []


def annotated_properties(schema: Any) -> Iterator[AnnotatedProperty]:
    for path, inner in _schemas(schema):
        header = inner.get(ANNOTATION)
        if path and isinstance(header, str):
            yield AnnotatedProperty(path, header, inner.get("type"))


def problem_of_annotations(schema: Any) -> str | None:
    """Why this schema's `x-mcp-header` annotations are invalid; a client then drops the tool."""
    seen: set[str] = set()
    for path, inner in _schemas(schema):
        if ANNOTATION not in inner:
            continue
        if not path:
            return f"{ANNOTATION} is only allowed on properties within properties"
        place, header = ".".join(path), inner[ANNOTATION]
        if not isinstance(header, str) or not _TOKEN.fullmatch(header):
            return f"{place}: {ANNOTATION} is not the name of a header"
        if inner.get("type") not in _HEADER_TYPES:
            return f"{place}: {ANNOTATION} needs the type string, integer or boolean"
        if header.lower() in seen:
            return f"{place}: {ANNOTATION} {header!r} is used twice"
        seen.add(header.lower())
    return None
