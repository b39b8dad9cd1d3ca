"""Which HTTP requests are taken, and what a session's streams can replay."""

from typing import Any

import pytest

from openclaw.mcp import http_server
from openclaw.mcp.http_server import Form, Headers, Refusal, StreamLog
from openclaw.mcp.jsonrpc import Request
from openclaw.mcp.names import META_CAPABILITIES, META_VERSION

META: dict[str, Any] = {META_VERSION: "2026-07-28", META_CAPABILITIES: {}}


def headers(**more: str) -> Headers:
    return [(name.replace("_", "-"), value) for name, value in more.items()]


def test_a_broken_stream_is_resumed_where_it_broke():
    log = StreamLog("s", most_bytes=2000)
    first = log.add("a", b"")
    log.add("b", b"1")
    second = log.add("a", b"2")
    third = log.add("a", b"3")
    assert log.find(first.id) == first
    assert log.unsent("a", first.number) == [second, third]
    assert log.unsent("a", second.number) == [third]
    assert log.find("unknown") is None
    log.add("a", b"x" * 1999)
    assert log.find(second.id) is None  # forgotten: the client has to ask anew


def test_events_without_data_are_forgotten_as_well():
    log = StreamLog("s", most_bytes=2000)
    first = log.add("a", b"")
    for _ in range(20):
        log.add("a", b"")
    assert log.find(first.id) is None


def test_an_event_that_is_larger_than_all_that_is_remembered_is_remembered_alone():
    log = StreamLog("s", most_bytes=10)
    first = log.add("a", b"1")
    large = log.add("a", b"x" * 100)
    assert log.unsent("a", first.number) == [large]
    assert log.find(first.id) is None


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("application/json, text/event-stream", Form.EITHER),
        ("*/*", Form.EITHER),
        ("application/json", Form.JSON),
        ("text/event-stream", Form.STREAM),
    ],
)
def test_the_answer_has_a_form_that_the_client_accepts(accept: str, form: Form):
    assert http_server.accepted_form(headers(accept=accept)) is form


def test_a_client_that_accepts_neither_form_is_told_so():
    refusal = http_server.accepted_form(headers(accept="text/html"))
    assert isinstance(refusal, Refusal)
    assert refusal.status == 406


@pytest.mark.parametrize(
    ("sent", "params", "stateless"),
    [
        ({}, None, False),
        ({"mcp_protocol_version": "2025-11-25"}, None, False),
        ({"mcp_protocol_version": "2026-07-28"}, None, True),
        ({"mcp_protocol_version": "2099-01-01"}, None, True),
        ({}, {"_meta": META}, True),
        ({"mcp_protocol_version": "2025-11-25"}, {"_meta": META}, True),
    ],
)
def test_a_request_stands_alone_if_its_headers_or_its_body_say_so(
    sent: dict[str, str], params: dict[str, Any] | None, stateless: bool
):
    request = Request(1, "tools/list", params)
    assert http_server.is_stateless(headers(**sent), request) is stateless


def test_what_a_request_says_about_itself_is_checked_before_its_headers():
    refusal = http_server.problem_with_stateless([], Request(1, "tools/list", {}))
    assert refusal is not None
    assert (refusal.status, refusal.error.code, refusal.id) == (400, -32602, 1)
    refusal = http_server.problem_with_stateless([], Request(1, "tools/list", {"_meta": META}))
    assert refusal is not None
    assert (refusal.status, refusal.error.code) == (400, -32020)
