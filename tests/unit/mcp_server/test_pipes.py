"""Lines in and out of the pipes, large ones without copies of what is large."""

import json
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from openclaw.mcp_server.pipes import encode, parse

BLOB = "QUJD" * 30_000


def line_of(pieces: list[bytes | str]) -> bytes:
    return b"".join(one if isinstance(one, bytes) else one.encode() for one in pieces)


def response(result: dict[str, Any]) -> SessionMessage:
    return SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id="1", result=result))


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": "short"}]},
        {"content": [{"type": "image", "data": BLOB}, {"type": "audio", "data": BLOB + "A"}]},
        {"content": [{"resource": {"blob": BLOB, "uri": "attachment://\u00e9"}}], "isError": False},
        {"content": [{"data": BLOB + '"\\\n'}, {"data": "é" * 70_000}, {"data": "short"}]},
        {"data": BLOB, "list": [1, None, True, [{"blob": 3}]]},
    ],
)
def test_a_line_says_what_the_message_says_however_it_is_cut(result: dict[str, Any]) -> None:
    pieces = encode(response(result))
    line = line_of(pieces)
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert json.loads(line) == {"jsonrpc": "2.0", "id": "1", "result": result}


def test_long_base64_is_a_piece_of_its_own_and_not_copied() -> None:
    pieces = encode(response({"content": [{"type": "image", "data": BLOB}]}))
    assert any(piece is BLOB for piece in pieces)


@pytest.mark.parametrize("size", [10, 2 << 20])
def test_a_request_is_read_the_same_whether_small_or_large(size: int) -> None:
    asked: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "t", "arguments": {"message": "é" * size, "n": [1.5, None, True]}},
    }
    read = parse(json.dumps(asked, ensure_ascii=False).encode())
    assert isinstance(read, SessionMessage)
    assert isinstance(read.message, types.JSONRPCRequest)
    assert read.message.model_dump(exclude_unset=True) == asked


@pytest.mark.parametrize("size", [10, 2 << 20])
def test_what_is_no_message_is_an_error_to_be_answered(size: int) -> None:
    assert isinstance(parse(b"{" + b"x" * size), ValueError)
    assert isinstance(parse(json.dumps({"x": "y" * size}).encode()), ValueError)


@pytest.mark.parametrize("size", [10, 2 << 20])
def test_a_stray_byte_costs_that_character_alone(size: int) -> None:
    head = b'{"jsonrpc":"2.0","method":"m","params":{"a":"' + b"x" * size
    read = parse(head + b'\xff"}}')
    assert isinstance(read, SessionMessage)
    assert isinstance(read.message, types.JSONRPCNotification)
    assert read.message.params == {"a": "x" * size + "\ufffd"}
