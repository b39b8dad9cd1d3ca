"""Event streams, in whatever pieces they arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.mcp.sse import EventDecoder, ServerSentEvent, TooLarge, encode_event

STREAM = (
    b"\xef\xbb\xbf: a comment\r\nretry: 250\r\nid: 1\ndata: first\ndata:second line\r\r"
    b"event: endpoint\r\ndata: /messages\r\n\r\n"
    b"id: 2\r\n\r\n"
    b"id: \x00bad\ndata\n\n"
    b"retry: soon\nunknown: field\n\n"
    b"data: never ended"
)
EVENTS = [
    ServerSentEvent(b"first\nsecond line", "message", "1"),
    ServerSentEvent(b"/messages", "endpoint", "1"),
    ServerSentEvent(b"", "message", "2"),
    ServerSentEvent(b"", "message", "2"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20).map(sorted))
def test_the_events_do_not_depend_on_where_the_stream_is_cut(cuts: list[int]):
    decoder = EventDecoder()
    ends = [*cuts, len(STREAM)]
    events = [
        event
        for start, end in zip([0, *cuts], ends, strict=True)
        for event in decoder.feed(STREAM[start:end])
    ]
    assert events == EVENTS
    assert (decoder.last_id, decoder.retry_ms) == ("2", 250)


def test_what_is_written_is_read_back():
    decoder = EventDecoder()
    written = encode_event(b'{"a":1}', id="7", retry_ms=100) + encode_event(b"", id="8")
    assert decoder.feed(written) == [
        ServerSentEvent(b'{"a":1}', "message", "7"),
        ServerSentEvent(b"", "message", "8"),
    ]
    assert decoder.retry_ms == 100


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 101, b"data: xxxxxxxxx\n" * 12])
def test_an_event_above_the_limit_is_refused_before_it_ends(stream: bytes):
    with pytest.raises(TooLarge):
        EventDecoder(limit=100).feed(stream)


def test_many_events_together_may_be_larger_than_one():
    assert len(EventDecoder(limit=100).feed(b"data: x\n\n" * 1000)) == 1000


def test_a_large_event_in_small_pieces_takes_linear_time():
    decoder = EventDecoder()
    for _ in range(20_000):
        assert decoder.feed(b"x" * 1000) == []
    assert decoder.feed(b"\n\ndata: end\n\n") == [ServerSentEvent(b"end")]
