"""Polls of tasks, answered from the bytes of the request, without a parser, a task or an application.

A client with hundreds of tasks asks for each of them every few seconds. Whatever is not plainly such
a poll, of a task that runs here, goes the long way, which answers the same.
"""

import re
from typing import TYPE_CHECKING, Any

import orjson

from openclaw.gateway.auth import MCP_PATH, SECURITY_HEADERS, Guard, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw.gateway.state import Gateway

START = f"POST {MCP_PATH} HTTP/1.1\r\n".encode()
MORE = b"more"
"""Says that this is the beginning of a poll."""

_MOST_BYTES = 16 * 1024
_POLL = b"\r\nmcp-method: tasks/get\r\n"
_REVISION = "2026-07-28"
_HEAD = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ \t]*[\x20-\x7e]*\r\n)*")
_LONG_WAY = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"trailer", b"te"})

Headers = dict[bytes, bytes]


def read_poll(data: bytes) -> tuple[Headers, bytes] | bytes | None:
    """The headers and the body of a poll; `MORE` if it is not all there, None if it is no poll."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end or len(data) > _MOST_BYTES or _POLL not in head.lower() + b"\r\n":
        return None
    if _HEAD.fullmatch(data, len(START), len(head) + 2) is None:
        return None
    lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
    named = {name.lower(): value.strip() for name, _, value in lines}
    length = named.get(b"content-length", b"")
    keeps = named.get(b"connection", b"keep-alive").lower() == b"keep-alive"
    if len(named) < len(lines) or not length.isdigit() or not keeps or named.keys() & _LONG_WAY:
        return None
    if len(body) < int(length) <= _MOST_BYTES:
        return MORE
    return (named, body) if len(body) == int(length) else None


def answer_poll(
    gateway: "Gateway",
    guard: Guard,
    client: tuple[str, int] | None,
    more_headers: "Sequence[tuple[bytes, bytes]]",
    data: bytes,
) -> bytes | None:
    """The whole answer to a poll; `MORE` if it is not all there, None if it goes the long way."""
    read = read_poll(data)
    if read is None or isinstance(read, bytes):
        return read
    named, body = read
    began = gateway.clock.monotonic()
    try:
        scope = guard.check_poll(named, client)
        result = gateway.poll(scope, _poll_in(named, body))
    except (Refused, ValueError):
        return None
    if result is None:
        return None
    guard.metrics.request("POST", MCP_PATH, 200, gateway.clock.monotonic() - began)
    lines = [b"%s: %s" % header for header in (*more_headers, *SECURITY_HEADERS)]
    return b"\r\n".join(
        (
            b"HTTP/1.1 200 OK",
            *lines,
            b"content-type: application/json",
            b"content-length: %d" % len(result),
            b"",
            result,
        )
    )


def _poll_in(headers: Headers, body: bytes) -> dict[str, Any]:
    """The request, if its headers say the same as its body; else `ValueError`."""
    message: Any = orjson.loads(body)
    accepts = headers.get(b"accept", b"")
    match message:
        case {"method": "tasks/get", "params": {"taskId": str(task)}} if (
            headers.get(b"mcp-name") == task.encode()
            and headers.get(b"mcp-protocol-version") == _REVISION.encode()
            and headers.get(b"content-type") == b"application/json"
            and b"application/json" in accepts
            and b"text/event-stream" in accepts
        ):
            return message
        case _:
            raise ValueError("it is not a poll of this revision")
