"""What is a message goes to the SDK; whoever sent anything else is told so, by the id where it has one."""

import json
from typing import Any

import mcp_types as types
import pytest

from openclaw.mcp_server.sdk_handoff import ParsedLine, parse_line
from openclaw.stdio.lines import TooLong

PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def told(judged: ParsedLine) -> tuple[Any, int]:
    assert judged.message is None
    assert judged.fault is not None
    return judged.fault.id, judged.fault.error.code


def of(message: Any) -> ParsedLine:
    return parse_line(json.dumps(message).encode())


@pytest.mark.parametrize("size", [10, 2 << 20])
def test_a_request_is_read_the_same_whether_small_or_large(size: int) -> None:
    asked: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "t", "arguments": {"message": "é" * size, "n": [1.5, None, True]}},
    }
    judged = parse_line(json.dumps(asked, ensure_ascii=False).encode())
    assert judged.fault is None
    read = judged.message
    assert isinstance(read, types.JSONRPCRequest)
    assert read.model_dump(exclude_unset=True) == asked


@pytest.mark.parametrize("size", [10, 2 << 20])
def test_what_is_no_json_has_no_id(size: int) -> None:
    assert told(parse_line(b"{" + b"x" * size)) == (None, types.PARSE_ERROR)


@pytest.mark.parametrize("size", [10, 2 << 20])
def test_a_stray_byte_costs_that_character_alone(size: int) -> None:
    head = b'{"jsonrpc":"2.0","method":"m","params":{"a":"' + b"x" * size
    judged = parse_line(head + b'\xff"}}')
    read = judged.message
    assert isinstance(read, types.JSONRPCNotification)
    assert read.params == {"a": "x" * size + "\ufffd"}


@pytest.mark.parametrize(
    "line",
    [b"nonsense", b"{", b'{"a":}', b'"\x01"', b"\xff\xfe", b"1 2", b"[" * 100_000, b"'x'", b"\x00"],
)
def test_rubbish_is_a_parse_error(line: bytes) -> None:
    assert told(parse_line(line)) == (None, types.PARSE_ERROR)


@pytest.mark.parametrize(
    ("message", "request_id"),
    [
        ([], None),
        ([PING], None),
        (5, None),
        ("ping", None),
        (None, None),
        (True, None),
        ({}, None),
        ({"jsonrpc": "2.0", "id": 7}, 7),
        ({"jsonrpc": "2.0", "id": "seven"}, "seven"),
        ({"jsonrpc": "2.0", "id": 7, "method": 5}, 7),
        ({"jsonrpc": "1.0", "id": 8, "method": "ping"}, 8),
        ({"id": 9, "method": "ping"}, 9),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": "\ud800", "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": 4, "method": "\ud800"}, 4),
        (["\ud800"], None),
    ],
)
def test_what_is_no_request_is_refused_by_its_id(message: Any, request_id: Any) -> None:
    assert told(of(message)) == (request_id, types.INVALID_REQUEST)


def test_json_that_is_too_deep_for_the_sdk_is_refused_by_its_id() -> None:
    deep = b"[" * 500 + b"]" * 500
    line = b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":' + deep + b"}}"
    assert told(parse_line(line)) == (3, types.INVALID_REQUEST)


@pytest.mark.parametrize("params", [[], 5, "x", True])
def test_parameters_that_are_no_object_are_refused_for_that_request(params: Any) -> None:
    assert told(of({**PING, "params": params})) == (1, types.INVALID_PARAMS)


@pytest.mark.parametrize("params", [[], 5])
def test_a_notification_is_never_answered(params: Any) -> None:
    judged = of({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    assert judged == ParsedLine()


def test_an_id_deep_inside_a_notification_does_not_make_it_a_request() -> None:
    judged = of({"jsonrpc": "2.0", "method": "notifications/x", "params": {"id": 5}})
    assert isinstance(judged.message, types.JSONRPCNotification)


@pytest.mark.parametrize(
    "answer",
    [
        {"result": []},
        {"error": "no"},
        {"result": "x", "error": {}},
        {"result": {"content": "\ud800"}},
    ],
)
def test_a_malformed_answer_fails_the_request_that_waits_for_it(answer: dict[str, Any]) -> None:
    judged = of({"jsonrpc": "2.0", "id": 3, **answer})
    assert isinstance(judged.message, types.JSONRPCError)
    assert judged.message.id == 3
    assert judged.fault is None


def test_an_answer_to_nothing_is_let_go() -> None:
    assert of({"jsonrpc": "2.0", "id": 1.5, "result": {}}) == ParsedLine()


@pytest.mark.parametrize(
    ("head", "tail", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"x":"yyy', b'yyy"}}', 5),
        (b' { "id" : "five" , "params":{', b"}}", "five"),
        (b'{"method":"tools/call","params":{"x":"yyy', b'yyy"},"jsonrpc":"2.0","id":6}', 6),
        (b'{"method":"tools/call","params":{"x":"yyy', b'yyy"},"id":"a b" } ', "a b"),
        (b'{"params":{"x":"yyy', b'yyy","id":6}}', None),
        (b'{"params":"yyy', b'yyy\\"id\\":6}"}', None),
        (b'{"id":12', b"", None),
        (b"xxxx", b"xxxx", None),
        (b'{"id', b"", None),
        (b"", b"", None),
    ],
)
def test_the_id_of_a_line_that_is_too_long_is_read_from_its_ends(
    head: bytes, tail: bytes, request_id: Any
) -> None:
    judged = parse_line(TooLong(100, head, tail))
    assert told(judged) == (request_id, types.INVALID_REQUEST)


@pytest.mark.parametrize("head", [b'{"jsonrpc":"2.0","id":5,"result":{"x":"', b'{"result":{"x":"'])
def test_an_answer_that_is_too_long_fails_the_request_that_waits_for_it(head: bytes) -> None:
    judged = parse_line(TooLong(100, head, b'xx"},"jsonrpc":"2.0","id":5}'))
    assert judged.fault is None
    assert isinstance(judged.message, types.JSONRPCError)
    assert judged.message.id == 5


@pytest.mark.parametrize("id_first", [True, False])
def test_an_answer_nested_too_deeply_fails_the_request_that_it_answers(id_first: bool) -> None:
    deep = "[" * 20_000 + "]" * 20_000
    result = f'"result":{{"action":"accept","content":{{"answer":{deep}}}}}'
    members = ['"id":"openclaw-1"', result]
    line = f'{{"jsonrpc":"2.0",{",".join(members if id_first else members[::-1])}}}'.encode()
    judged = parse_line(line)
    assert judged.fault is None
    assert isinstance(judged.message, types.JSONRPCError)
    assert judged.message.id == "openclaw-1"
