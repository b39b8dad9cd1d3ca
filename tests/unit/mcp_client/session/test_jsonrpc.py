"""Bytes to messages within bounds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.mcp_client.session import jsonrpc

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


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
    assert jsonrpc.count_values(text, 10**9) == values_in(value)


@pytest.mark.parametrize("escapes", [10, 31, 32, 33, 500_000, 1_100_001])
def test_strings_full_of_escaped_quotes_are_skipped_to_their_end(escapes: int):
    text = b'["' + rb"\"" * escapes + b'",[],{}]'
    assert jsonrpc.count_values(text, 10**9) == 5


def test_a_string_without_an_end_is_the_end():
    assert jsonrpc.count_values(b'["abc', 10) == 1
    assert jsonrpc.count_values(b'["' + rb"\"" * 100, 10) == 1


def test_counting_stops_past_the_limit():
    assert 10 < jsonrpc.count_values(b"[" + b"0," * 5_000_000 + b"0]", 10) < 5_000_000


def test_a_large_message_of_too_many_values_is_refused_by_name():
    line = b'{"jsonrpc":"2.0","id":7,"result":{"x":[' + b"0," * 1_000_001 + b"0]}}"
    with pytest.raises(jsonrpc.TooManyValues) as caught:
        jsonrpc.decode(line)
    assert caught.value.id == 7


def test_a_large_message_of_few_values_is_taken():
    line = b'{"result":{"text":"' + b",[{" * 2_000_000 + b'"}}'
    assert jsonrpc.decode(line) == {"result": {"text": ",[{" * 2_000_000}}


@pytest.mark.parametrize(("depth", "taken"), [(126, True), (128, False), (5000, False)])
def test_depth_is_bounded(depth: int, taken: bool):
    line = b'{"id":"a","result":{"x":' + b"[" * depth + b"]" * depth + b"}}"
    if taken:
        assert jsonrpc.decode(line)
        return
    with pytest.raises(jsonrpc.Undecodable, match="nested too deeply") as caught:
        jsonrpc.decode(line)
    assert caught.value.id == "a"


@pytest.mark.parametrize("line", [b"noise", b"3", b'"text"', b"{", b"\xff\xfe", b""])
def test_what_is_no_message_answers_nothing(line: bytes):
    with pytest.raises(jsonrpc.Undecodable) as caught:
        jsonrpc.decode(line)
    assert caught.value.id is None


def test_an_id_at_the_end_is_found_too():
    assert jsonrpc.answered_id(b'{"result":{' + b"x" * 2000 + b'},"id":42}') == 42
