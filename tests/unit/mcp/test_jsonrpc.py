"""What is a message, and what is said about everything else. The SDK's models are the oracle."""

import json
from typing import Any

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.mcp import json_text, jsonrpc
from openclaw.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Batch,
    ErrorData,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    Response,
    decode,
    encode,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
LIKELY = {
    "jsonrpc": st.just("2.0") | JSON,
    "id": st.integers(-5, 5) | st.text(max_size=3) | st.floats(-2, 2) | JSON,
    "method": st.just("ping") | JSON,
    "params": OBJECTS | JSON,
    "result": OBJECTS | JSON,
    "error": st.fixed_dictionaries({"code": st.integers(-9, 9), "message": st.text()}) | JSON,
}
MESSAGES = st.fixed_dictionaries({}, optional=LIKELY)


def as_the_sdk_has_it(value: dict[str, Any]) -> dict[str, Any] | None:
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        return None
    return message.model_dump(by_alias=True, exclude_unset=True)


@given(MESSAGES)
def test_what_the_sdk_takes_for_a_message_is_one_with_the_same_content(value: dict[str, Any]):
    theirs, ours = as_the_sdk_has_it(value), jsonrpc.parse(value)
    if theirs is None or isinstance(ours, Malformed | Batch):
        return
    if "method" in value and ("result" in value or "error" in value):
        return  # both a request and an answer: what decides for us is the method
    for key, field in jsonrpc.to_json(ours).items():
        assert theirs.get(key) == field or key == "error"


@given(MESSAGES)
def test_requests_and_notifications_are_those_that_the_sdk_knows(value: dict[str, Any]):
    if "result" in value or "error" in value:
        return
    # What a request's id may be is stricter here: 1.0 and true are not integers.
    if type(value.get("id", 0)) not in (int, str):
        assert isinstance(jsonrpc.parse(value), Malformed)
        return
    ours = jsonrpc.parse(value)
    assert isinstance(ours, Request | Notification) == (as_the_sdk_has_it(value) is not None)


@given(MESSAGES | JSON)
def test_whatever_comes_is_a_message_or_named_as_none_and_survives_the_wire(value: Any):
    message = decode(json.dumps(value).encode())
    if isinstance(message, Request | Notification | Response):
        assert decode(encode(message)) == message


@given(st.binary())
def test_no_bytes_raise(data: bytes):
    decode(data)


@pytest.mark.parametrize(
    ("text", "code", "id"),
    [
        ("nonsense", PARSE_ERROR, None),
        ("[]", INVALID_REQUEST, None),
        ('"text"', INVALID_REQUEST, None),
        ('{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID_REQUEST, 1),
        ('{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID_REQUEST, None),
        ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST, None),
        ('{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST, None),
        ('{"jsonrpc":"2.0","id":1,"method":7}', INVALID_REQUEST, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', INVALID_PARAMS, 1),
        ('{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":', INVALID_REQUEST, "a"),
        (
            '{"jsonrpc":"2.0","method":"m","params":{"x":' + "[" * 300 + ',"id":4}',
            INVALID_REQUEST,
            4,
        ),
        ('{"jsonrpc":"2.0","id":1,"method":"m","x":NaN}', INVALID_REQUEST, 1),
    ],
)
def test_a_request_that_cannot_be_read_is_answered_with_an_error(
    text: str, code: int, id: int | str | None
):
    malformed = decode(text.encode())
    assert isinstance(malformed, Malformed)
    answer = malformed.answer()
    assert answer is not None
    assert (answer.error.code, answer.id) == (code, id)


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":3,"result":{"x":',
        '{"jsonrpc":"2.0","id":3,"result":[]}',
        '{"jsonrpc":"2.0","id":3,"result":null}',
        '{"jsonrpc":"2.0","result":{"deep":' + "[" * 300 + '],"id":3}',
    ],
)
def test_an_answer_that_cannot_be_read_names_the_request_that_fails_with_it(text: str):
    malformed = decode(text.encode())
    assert isinstance(malformed, Malformed)
    assert malformed.is_response
    assert malformed.id == 3
    assert malformed.answer() is None


def test_nobody_answers_a_notification_that_cannot_be_read():
    malformed = decode(b'{"jsonrpc":"2.0","method":"m","params":7}')
    assert isinstance(malformed, Malformed)
    assert malformed.answer() is None


def test_an_error_without_code_or_message_still_ends_its_request():
    assert decode(b'{"id":1,"error":"no"}') == ErrorResponse(
        1, ErrorData(jsonrpc.INTERNAL_ERROR, "no reason was given")
    )


def test_a_batch_holds_each_of_its_messages():
    batch = decode(b'[{"jsonrpc":"2.0","id":1,"method":"ping"},7,{"jsonrpc":"2.0","method":"n"}]')
    assert isinstance(batch, Batch)
    first, second, third = batch.items
    assert (first, third) == (Request(1, "ping"), Notification("n"))
    assert isinstance(second, Malformed)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb'"cut \ud83d"', "cut \ufffd"),
        (rb'"\ude00 \\ud83d \ud83d\ude00"', "\ufffd \\ud83d \U0001f600"),
        (b'"caf\xe9"', "caf\ufffd"),
        (b'\xef\xbb\xbf"marked"', "marked"),
    ],
)
def test_a_character_that_is_broken_costs_only_itself(text: bytes, read: str):
    assert json_text.loads(text) == read


@pytest.mark.parametrize("text", [b"NaN", b"[Infinity]", b"{'a':1}", b"", b"1 2", b"\xef\xbb\xbf"])
def test_what_is_not_json_is_refused(text: bytes):
    with pytest.raises(json_text.Unreadable, match="not JSON"):
        json_text.loads(text)


@pytest.mark.parametrize("depth", [129, 2_000, 100_000])
@pytest.mark.parametrize("inside", ["1", r'"\ud83d"'])
def test_deep_nesting_is_refused(depth: int, inside: str):
    with pytest.raises(json_text.Unreadable, match="deep"):
        json_text.loads(("[" * depth + inside + "]" * depth).encode())


def test_a_message_of_128_levels_is_read():
    assert json_text.loads(b"[" * 128 + b"]" * 128)


def test_what_has_no_json_form_elsewhere_is_written_all_the_same():
    assert json_text.loads(json_text.dumps({"a": "\ud83d", "b": 2**80}))["a"] == "\ufffd"


# ---- counting values


def values_in(value: Any) -> int:
    """Commas and opening brackets that the text of this value has outside strings."""
    if isinstance(value, dict):
        return 1 + max(0, len(value) - 1) + sum(map(values_in, value.values()))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(values_in, value))  # pyright: ignore[reportUnknownArgumentType]
    return 0


@given(JSON)
def test_values_are_counted_whatever_the_strings_hold(value: Any):
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert json_text.count_values(text, 10**9) == values_in(value)


@pytest.mark.parametrize("escapes", [10, 31, 32, 33, 500_000, 1_100_001])
def test_strings_full_of_escaped_quotes_are_skipped_to_their_end(escapes: int):
    text = b'["' + rb"\"" * escapes + b'",[],{}]'
    assert json_text.count_values(text, 10**9) == 5


def test_a_string_without_an_end_is_the_end():
    assert json_text.count_values(b'["abc', 10) == 1
    assert json_text.count_values(b'["' + rb"\"" * 100, 10) == 1


def test_a_large_message_of_too_many_values_is_refused_by_name():
    malformed = decode(b'{"jsonrpc":"2.0","id":7,"result":{"x":[' + b"0," * 1_000_001 + b"0]}}")
    assert isinstance(malformed, Malformed)
    assert (malformed.id, malformed.is_response) == (7, True)
    assert "values" in malformed.error.message


def test_a_large_message_of_few_values_is_taken():
    line = b'{"id":1,"result":{"text":"' + b",[{" * 2_000_000 + b'"}}'
    assert decode(line) == Response(1, {"text": ",[{" * 2_000_000})
