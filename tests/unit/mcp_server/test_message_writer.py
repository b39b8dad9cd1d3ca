"""Lines in and out of the pipes, large ones without copies of what is large."""

import json
from typing import Any

import pytest

from openclaw.mcp_server.message_writer import encode, log_traffic

BLOB = "QUJD" * 30_000


def line_of(pieces: list[bytes | str]) -> bytes:
    return b"".join(one if isinstance(one, bytes) else one.encode() for one in pieces)


def response(result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "1", "result": result}


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": "short"}]},
        {"content": [{"type": "image", "data": BLOB}, {"type": "audio", "data": BLOB + "A"}]},
        {"content": [{"resource": {"blob": BLOB, "uri": "attachment://\u00e9"}}], "isError": False},
        {"content": [{"data": BLOB + '"\\\n'}, {"data": "é" * 70_000}, {"data": "short"}]},
        {"data": BLOB, "list": [1, None, True, [{"blob": 3}]]},
        {"data": BLOB, "more than 64 bits": 1 << 70, "half a pair": "\ud800"},
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


def test_the_log_shows_short_texts_whole_and_says_how_much_of_others_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    params = {"text": "short", "long": "y" * 10_000, "data": BLOB}
    with caplog.at_level("DEBUG", "openclaw.mcp_server"):
        log_traffic("->", {"method": "m", "params": params})
    (line,) = caplog.messages
    assert line.startswith("-> ")
    assert '"text": "short"' in line
    assert "y… <10000 characters>" in line
    assert "<90000 bytes as base64>" in line
    assert len(line) < 5_000


def test_messages_are_logged_only_in_detail(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        log_traffic("->", {"method": "m"})
    assert caplog.messages == []
