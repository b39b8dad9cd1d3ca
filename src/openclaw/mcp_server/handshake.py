"""Answers the static part of an MCP conversation without the SDK. Pure: lines in, bytes out.

Only exact, ordinary requests are answered, with answers recorded from the SDK's own server.
Anything else is queued, in order, with the messages that bring the SDK to the connection's state.
"""

from _json import encode_basestring, make_scanner, scanstring

from openclaw.mcp_server.recorded_handshake import LATEST
from openclaw.stdio.lines import TooLong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_META = "io.modelcontextprotocol/"
VERSION_KEY = _META + "protocolVersion"
_CAPABILITIES_KEY = _META + "clientCapabilities"
_CLIENT_KEY = _META + "clientInfo"
TASKS = _META + "tasks"
_LOG_LEVEL_KEY = _META + "logLevel"
_LONGEST = 1 << 20  # nothing answered here is longer; parsing it would hold everything up


class _ScannerContext:
    """What json.JSONDecoder hands to the C scanner; importing json itself would import re."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_string = staticmethod(scanstring)
    memo: "dict[str, str]" = {}  # noqa: RUF012 (the scanner asks for this attribute by name)

    @staticmethod
    def parse_constant(name: str) -> "Any":
        raise ValueError(name)


_context: "Any" = _ScannerContext
scan: "Any" = make_scanner(_context)  # takes a text and a position; returns a value and its end


def parsed(line: bytes) -> "Any":
    """The JSON value in a line; None if it isn't exactly one."""
    try:
        text = line.decode("utf-8").strip(" \t\r\n")
        value, end = scan(text, 0)
    # SystemError: the scanner's own error is in `json`, which may not be imported.
    except (ValueError, StopIteration, RecursionError, SystemError):
        return None
    return value if end == len(text) else None


class OrderRequest:
    def __init__(
        self,
        id: "int | str",
        arguments: "dict[str, Any]",
        meta: "dict[str, Any]",
        version: str,
        capabilities: "dict[str, Any]",
    ) -> None:
        self.id, self.arguments, self.meta = id, arguments, meta
        self.version, self.capabilities = version, capabilities


class Handshake:
    """The state of one connection until the SDK takes over, if it ever does."""

    def __init__(self, answers: "dict[str, bytes]", tool: str) -> None:
        self._answers = answers  # by "REVISION METHOD"
        self._tool = tool
        self._era: str | None = None  # None, "pinged", "legacy" or "modern"
        self._answering = True
        self._capabilities: dict[str, Any] = {}
        self.needs_sdk = False  # even for ordinary orders
        self.version = ""
        self.queue: list[bytes | TooLong | dict[str, Any]] = []  # a dict was answered already
        self.owes_an_answer = False

    def feed(self, line: bytes | TooLong) -> bytes | None:
        """Take one line; returns what to write at once."""
        message: Any = None
        if self._answering and not isinstance(line, TooLong) and len(line) <= _LONGEST:
            message = parsed(line)
        answer = self.answer(message)
        if answer is None:
            self.queue.append(line)
            if not is_notification(message):
                negotiated = self._era in ("legacy", "modern")
                order = is_call(message) and message["method"] == "tools/call"
                self._answering = negotiated and order
                self.owes_an_answer = True
        return answer

    def answer(self, message: "Any") -> bytes | None:
        """The answer if this is part of a handshake, as a line."""
        result = self._result(message) if _is_plain_request(message) else None
        if result is None:
            return None
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (id_bytes(message["id"]), result)

    def ordinary_order(self, message: "Any") -> OrderRequest | None:
        """The order in this message, if the SDK isn't needed to take it."""
        if not (_is_plain_request(message) and message["method"] == "tools/call"):
            return None
        params: dict[str, Any] = message.get("params") or {}
        given = {key: value for key, value in params.items() if value is not None}
        arguments, meta = given.get("arguments", {}), given.get("_meta", {})
        known = given.keys() <= {"name", "arguments", "_meta"} and given.get("name") == self._tool
        if not (known and _plain_arguments(arguments) and _is_object(meta)):
            return None
        if self._era == "legacy" and _plain_meta(meta):
            return OrderRequest(message["id"], arguments, meta, self.version, self._capabilities)
        if self._era == "modern" and self._is_modern(meta) and _asks_nothing(meta):
            return OrderRequest(message["id"], arguments, meta, meta[VERSION_KEY], {})
        return None

    def _result(self, message: "dict[str, Any]") -> bytes | None:
        params: dict[str, Any] = message.get("params") or {}
        meta: Any = params.get("_meta")
        method = message["method"]
        if method == "initialize":
            return self._initialize(message, params, meta)
        if _is_object(meta) and VERSION_KEY in meta:
            return self._modern(message, params, meta)
        if not (params.keys() <= {"_meta"} and _plain_meta(meta)):
            return None
        if method == "ping" and self._era != "modern":
            if self._era is None:
                self._enter("pinged", message)
            return b"{}"
        if method == "tools/list" and self._era == "legacy":
            return self._answers[f"{self.version} {method}"]
        return None

    def _initialize(
        self, message: "dict[str, Any]", params: "dict[str, Any]", meta: "Any"
    ) -> bytes | None:
        asked = params.get("protocolVersion")
        if not (
            self._era in (None, "pinged")
            and type(asked) is str
            and _plain_capabilities(params.get("capabilities"))
            and _plain_client(params.get("clientInfo"))
            and _plain_meta(meta)
        ):
            return None
        self.version = asked if f"{asked} initialize" in self._answers else LATEST
        self._capabilities = params["capabilities"]
        self._enter("legacy", message)
        return self._answers[f"{self.version} initialize"]

    def _modern(
        self, message: "dict[str, Any]", params: "dict[str, Any]", meta: "dict[str, Any]"
    ) -> bytes | None:
        method = message["method"]
        if not (
            self._era in (None, "modern")
            and method in ("server/discover", "tools/list")
            and params.keys() == {"_meta"}
            and self._is_modern(meta)
        ):
            return None
        if self._era is None:
            self._enter("modern", message)
            self.needs_sdk = not _asks_nothing(meta)
        return self._answers[f"{meta[VERSION_KEY]} {method}"]

    def _is_modern(self, meta: "dict[str, Any]") -> bool:
        known = f"{meta.get(VERSION_KEY)} server/discover" in self._answers
        return known and _plain_envelope(meta)

    def _enter(self, era: str, message: "dict[str, Any]") -> None:
        self._era = era
        self.queue.append(message)


def id_bytes(request_id: "int | str") -> bytes:
    if isinstance(request_id, str):
        return encode_basestring(request_id).encode()
    return b"%d" % request_id


def _is_object(value: "Any") -> bool:
    return type(value) is dict


def is_call(message: "Any") -> bool:
    return (
        _is_object(message)
        and message.get("jsonrpc") == "2.0"
        and type(message.get("method")) is str
    )


def is_notification(message: "Any") -> bool:
    return is_call(message) and "id" not in message


def is_answer(message: "Any") -> bool:
    return (
        _is_object(message)
        and "method" not in message
        and ("result" in message or "error" in message)
    )


def _is_plain_request(message: "Any") -> bool:
    return (
        is_call(message)
        and can_be_written(message.get("id"))
        and _is_object(message.get("params", {}))
    )


def can_be_written(request_id: "Any") -> bool:
    """Whether an answer can have this id; half a surrogate pair cannot be written."""
    if type(request_id) is not str:
        return type(request_id) is int
    return request_id.isascii() or not any("\ud800" <= c <= "\udfff" for c in request_id)


def _absent_or(kind: type, container: "dict[str, Any]", *keys: str) -> bool:
    return all(container.get(key) is None or type(container[key]) is kind for key in keys)


def _plain_meta(meta: "Any") -> bool:
    if meta is None:
        return True
    return (
        _is_object(meta)
        and VERSION_KEY not in meta
        and type(meta.get("progressToken", 0)) in (int, str)
    )


def _plain_arguments(arguments: "Any") -> bool:
    """Whether these are strings, and lists of objects of strings."""
    return _is_object(arguments) and all(map(_plain_argument, arguments.values()))


def _plain_argument(value: "Any") -> bool:
    if type(value) is str:
        return True
    return type(value) is list and all(map(_all_strings, value))  # pyright: ignore[reportUnknownArgumentType]


def _all_strings(value: "Any") -> bool:
    return _is_object(value) and set(map(type, value.values())) <= {str}


def _asks_nothing(meta: "dict[str, Any]") -> bool:
    """Whether the client takes neither questions nor tasks, which are results in this revision."""
    declared = meta[_CAPABILITIES_KEY]
    return "elicitation" not in declared and TASKS not in (declared.get("extensions") or {})


def _plain_client(info: "Any") -> bool:
    return (
        _is_object(info)
        and type(info.get("name")) is str
        and type(info.get("version")) is str
        and _absent_or(str, info, "title", "description", "websiteUrl")
        and info.get("icons") is None
    )


def _plain_capabilities(capabilities: "Any") -> bool:
    return _is_object(capabilities) and all(map(_plain_capability, capabilities.items()))


def _plain_capability(item: "tuple[str, Any]") -> bool:
    name, value = item
    if name == "roots":
        return _is_object(value) and _absent_or(bool, value, "listChanged")
    if name in ("sampling", "elicitation", "experimental", "extensions"):
        return _is_object(value) and all(map(_is_object, value.values()))
    if name == "tasks":
        return _all_objects(value)
    return True


def _all_objects(value: "Any") -> bool:
    return _is_object(value) and all(map(_all_objects, value.values()))


def _plain_envelope(meta: "dict[str, Any]") -> bool:
    return (
        _plain_capabilities(meta.get(_CAPABILITIES_KEY))
        and (_CLIENT_KEY not in meta or _plain_client(meta[_CLIENT_KEY]))
        and meta.get(_LOG_LEVEL_KEY) is None
        and type(meta.get("progressToken", 0)) in (int, str)
    )
