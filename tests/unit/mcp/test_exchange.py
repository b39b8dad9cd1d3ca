"""What HTTP answers mean."""

import json

import pytest

from openclaw.mcp.exchange import (
    MAX_RESUMPTIONS,
    SHORTEST_PAUSE,
    Body,
    Meaning,
    Resumption,
    as_answer,
    body_of,
    failure_of,
)
from openclaw.mcp.jsonrpc import ErrorData, ErrorResponse, Incoming, Malformed, Response, decode


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "application/json", Body.JSON),
        (200, "Text/Event-Stream; charset=utf-8", Body.EVENTS),
        (200, None, Body.JSON),
        (202, None, Body.NOTHING),
        (302, "text/html", Body.FAILURE),
        (500, "text/event-stream", Body.FAILURE),
    ],
)
def test_a_status_and_a_type_say_what_the_body_is(
    status: int, kind: str | None, body: Body
) -> None:
    assert body_of(status, {} if kind is None else {"content-type": kind}) is body


@pytest.mark.parametrize(
    ("status", "in_session", "error", "meaning"),
    [
        (401, False, None, Meaning.NEEDS_LOGIN),
        (403, False, None, Meaning.REFUSED),
        (404, False, None, Meaning.REFUSED),
        (404, True, None, Meaning.SESSION_OVER),
        (404, True, ErrorData(-32601, "unknown method"), Meaning.REFUSED),
        (404, True, ErrorData(-32001, "Session not found"), Meaning.SESSION_OVER),
        (400, False, ErrorData(-32000, "Bad Request: no valid session ID"), Meaning.SESSION_OVER),
        (400, True, ErrorData(-32602, "bad session"), Meaning.REFUSED),
        (500, True, None, Meaning.REFUSED),
    ],
)
def test_an_error_status_means(
    status: int, in_session: bool, error: ErrorData | None, meaning: Meaning
) -> None:
    body = b"<html>"
    if error is not None:
        fields = {"code": error.code, "message": error.message}
        body = json.dumps({"jsonrpc": "2.0", "id": None, "error": fields}).encode()
    failure = failure_of(status, {}, body, in_session=in_session)
    assert failure.meaning is meaning
    assert failure.has_message is (error is not None)
    assert failure.error.message == (error.message if error else failure.error.message)


@pytest.mark.parametrize(
    ("after", "said"), [("7", True), ("Wed, 21 Oct", False), ("9" * 30, False)]
)
def test_a_server_that_is_busy_says_when_to_try_again(after: str, said: bool) -> None:
    failure = failure_of(503, {"retry-after": after}, b"", in_session=False)
    assert ("try again in 7 s" in failure.error.message) is said


@pytest.mark.parametrize(
    ("text", "whole", "expected"),
    [
        (b'{"id":1,"result":{}}', True, Response(1, {})),
        (b'{"id":9,"result":{}}', True, Response(9, {})),  # whoever it is for, not us
        (
            b'{"id":null,"error":{"code":1,"message":"x"}}',
            False,
            ErrorResponse(1, ErrorData(1, "x")),
        ),
        (b"<html>", True, 1),
        (b"<html>", False, None),
        (b'{"id":1,"result":{oops', False, 1),
    ],
)
def test_what_has_no_id_is_about_the_request(
    text: bytes, whole: bool, expected: Incoming | int | None
) -> None:
    answer = as_answer(decode(text), 1, whole=whole)
    if isinstance(expected, Response | ErrorResponse):
        assert answer == expected
    else:
        assert isinstance(answer, Malformed)
        assert answer.id == expected
        assert answer.is_response is (expected is not None)


def test_each_message_of_a_batch_is_looked_at() -> None:
    answer = as_answer(decode(b'[{"id":null,"error":{"code":1,"message":"x"}}]'), 4, whole=True)
    assert answer.items[0].id == 4  # type: ignore[union-attr]


def test_a_stream_is_resumed_after_what_the_server_asked_for_and_not_for_ever() -> None:
    resumption = Resumption()
    assert resumption.pause() is None  # nothing to resume from
    resumption.received("e1", 200)
    assert resumption.headers() == {"last-event-id": "e1"}
    pauses = [resumption.pause() for _ in range(MAX_RESUMPTIONS + 1)]
    assert pauses[:2] == [0.2, 0.4]
    assert pauses[-1] is None
    resumption.received(None, None)
    assert resumption.pause() == 0.2


def test_a_server_that_wants_no_pause_does_not_keep_us_busy() -> None:
    resumption = Resumption()
    for _ in range(3):
        resumption.received("e1", 0)
        assert resumption.pause() == SHORTEST_PAUSE
