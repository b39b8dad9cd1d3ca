"""The headers of Streamable HTTP. The SDK's own functions are the oracle."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound

from openclaw.mcp import http
from openclaw.mcp.names import META_CAPABILITIES, META_VERSION
from openclaw.mcp.revisions import LATEST

HEADERS = st.sampled_from(["Region", "x", "", "a b", "REGION", 7])
TYPES = st.sampled_from(["string", "integer", "boolean", "number", ["string"], None])
LEAVES = st.fixed_dictionaries({}, optional={"type": TYPES, http.ANNOTATION: HEADERS})
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "$defs": st.dictionaries(st.sampled_from("de"), inner, max_size=2),
            "enum": st.lists(inner, max_size=1),
        },
    ),
    max_leaves=6,
)
VALUES = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 1.5, "é", " a", "1"])
)
ARGUMENTS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
RECEIVED = st.dictionaries(
    st.sampled_from(["mcp-param-region", "mcp-param-x"]),
    st.sampled_from(["1", "1.0", "true", "=?base64?w6k=?=", "=?base64?!?=", "=?base64?IGE=?="]),
)


@given(st.text())
def test_any_text_goes_through_a_header(text: str):
    encoded = http.encode_value(text)
    assert encoded == inbound.encode_header_value(text)
    assert encoded.isascii()
    assert http.decode_value(encoded) == text


@given(st.text(alphabet="=?base64AB+/ ", max_size=20))
def test_a_header_is_decoded_as_the_sdk_does(text: str):
    for value in (text, f"=?base64?{text}?="):
        assert http.decode_value(value) == inbound.decode_header_value(value)


def test_a_header_that_is_not_encoded_in_ascii_is_no_value():
    assert http.decode_value("=?base64?é?=") is None


@given(SCHEMAS)
def test_annotations_are_valid_where_the_sdk_finds_them_valid(schema: Any):
    ours = http.problem_of_annotations(schema)
    assert (ours is None) == (inbound.find_invalid_x_mcp_header(schema) is None)


@given(SCHEMAS, ARGUMENTS)
def test_the_headers_of_a_call_are_those_that_the_sdk_sends_and_accepts(
    schema: Any, arguments: Any
):
    if http.problem_of_annotations(schema) is not None:
        return
    ours = http.routing_headers("tools/call", {"name": "tool", "arguments": arguments}, schema)
    theirs = inbound.mcp_param_headers(inbound.x_mcp_header_map(schema), arguments)
    named = {"mcp-method": "tools/call", "mcp-name": "tool"}
    assert ours == named | {name.lower(): value for name, value in theirs.items()}
    assert http.param_mismatch(ours.items(), schema, arguments) is None


@given(SCHEMAS, ARGUMENTS, RECEIVED)
def test_headers_that_differ_from_the_arguments_are_refused_as_by_the_sdk(
    schema: Any, arguments: Any, received: dict[str, str]
):
    ours = http.param_mismatch(received.items(), schema, arguments)
    theirs = inbound.validate_mcp_param_headers(schema, arguments, received)
    assert (ours is None) == (theirs is None)


SENT = {"mcp-protocol-version": LATEST.name, "mcp-method": "tools/call", "mcp-name": "tool"}
META: dict[str, Any] = {META_VERSION: LATEST.name, META_CAPABILITIES: {}}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"mcp-name": "other"},
        {"mcp-name": None},
        {"mcp-method": "tools/list"},
        {"mcp-method": None},
        {"mcp-protocol-version": "2025-11-25"},
        {"mcp-protocol-version": None},
        {"mcp-name": "=?base64?dG9vbA==?="},
    ],
)
def test_headers_that_differ_from_the_body_are_refused_as_by_the_sdk(change: dict[str, str | None]):
    headers = {name: value for name, value in (SENT | change).items() if value is not None}
    params: dict[str, Any] = {"name": "tool", "_meta": META}
    ours = http.header_mismatch(headers.items(), "tools/call", params)
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    theirs = inbound.classify_inbound_request(body, headers=headers)
    assert (ours is None) == isinstance(theirs, inbound.InboundModernRoute)


def test_a_header_that_comes_twice_is_refused():
    params: dict[str, Any] = {"name": "tool", "_meta": META}
    twice = [*SENT.items(), ("mcp-name", "tool")]
    mismatch = http.header_mismatch(twice, "tools/call", params)
    assert mismatch is not None
    assert "more than once" in mismatch.message


@pytest.mark.parametrize(
    ("header", "json", "stream"),
    [
        (None, True, True),
        ("*/*", True, True),
        ("application/json", True, False),
        ("Application/JSON; charset=utf-8, text/*;q=0.5", True, True),
        ("application/json, text/event-stream;q=0", True, False),
        ("text/html", False, False),
    ],
)
def test_an_accept_header_names_what_may_come_back(header: str | None, json: bool, stream: bool):
    assert http.accepts(header) == http.Accepts(json, stream)
