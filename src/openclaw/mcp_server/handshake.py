"""Answers the static part of an MCP conversation before the SDK is loaded. Pure: lines in, bytes out.

Only exact, ordinary requests are answered, with answers that were recorded from the SDK's own server.
Anything else is kept, in order, for the SDK, and so is what brings it to the connection's state.
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
_LOG_LEVEL_KEY = _META + "logLevel"
_LONGEST = 1 << 20  # nothing that is answered here is longer; to parse it would hold everything up


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
scan: "Any" = make_scanner(_context)  # takes a text and a place; returns a value and its end


def loads(line: bytes) -> "Any":
    """One JSON value; raises ValueError, StopIteration or RecursionError."""
    text = line.decode("utf-8").strip(" \t\r\n")
    value, end = scan(text, 0)
    if end != len(text):
        raise ValueError("text after the value")
    return value


class Answered:
    __slots__ = ("message", "sent")

    def __init__(self, message: "dict[str, Any]", sent: bytes) -> None:
        self.message = message
        self.sent = sent


class Handshake:
    """The state of one connection until the SDK takes over."""

    def __init__(self, answers: "dict[str, bytes]") -> None:
        self._answers = answers  # by "REVISION METHOD"
        self._era: str | None = None  # None, "pinged", "legacy" or "modern"
        self._version = ""
        self._answering = True
        self.queue: list[bytes | TooLong | Answered] = []
        self.owes_an_answer = False

    def feed(self, line: bytes | TooLong) -> bytes | None:
        """Take one line; returns what to write at once."""
        if not self._answering or isinstance(line, TooLong) or len(line) > _LONGEST:
            return self._keep(line)
        try:
            message = loads(line)
        except (ValueError, StopIteration, RecursionError):
            return self._keep(line)
        if not is_call(message):
            return self._keep(line)
        if "id" not in message:
            return self._keep(line, expects_answer=False, go_on=True)
        plain_params = "params" not in message or _is_object(message["params"])
        if not (can_be_written(message["id"]) and plain_params):
            return self._keep(line)
        result = self._result(message)
        if result is None:
            settled = self._era in ("legacy", "modern")
            return self._keep(line, go_on=settled and message["method"] == "tools/call")
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (id_bytes(message["id"]), result)

    def _keep(
        self, line: bytes | TooLong, *, expects_answer: bool = True, go_on: bool = False
    ) -> None:
        self.queue.append(line)
        self.owes_an_answer = self.owes_an_answer or expects_answer
        self._answering = self._answering and go_on

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
                self._enter("pinged", message, b"{}")
            return b"{}"
        if method == "tools/list" and self._era == "legacy":
            return self._answers[f"{self._version} {method}"]
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
        self._version = asked if f"{asked} initialize" in self._answers else LATEST
        sent = self._answers[f"{self._version} initialize"]
        self._enter("legacy", message, sent)
        return sent

    def _modern(
        self, message: "dict[str, Any]", params: "dict[str, Any]", meta: "dict[str, Any]"
    ) -> bytes | None:
        method, version = message["method"], meta[VERSION_KEY]
        if not (
            self._era in (None, "modern")
            and method in ("server/discover", "tools/list")
            and params.keys() == {"_meta"}
            and f"{version} server/discover" in self._answers
            and _plain_envelope(meta)
        ):
            return None
        sent = self._answers[f"{version} {method}"]
        if self._era is None:
            self._enter("modern", message, sent)
        return sent

    def _enter(self, era: str, message: "dict[str, Any]", sent: bytes) -> None:
        self._era = era
        self.queue.append(Answered(message, sent))


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
