"""Which bytes are a poll of a task, and which go the long way."""

import pytest

from openclaw.gateway.http_server import MORE, read_poll

HEAD = b"POST /mcp HTTP/1.1\r\nhost: h\r\nMcp-Method: tasks/get\r\ncontent-length: 2\r\n"


def test_a_poll_is_read_with_its_headers() -> None:
    read = read_poll(HEAD + b"\r\n{}")
    assert read == ({b"host": b"h", b"mcp-method": b"tasks/get", b"content-length": b"2"}, b"{}")


def test_a_poll_whose_body_is_on_its_way_is_waited_for() -> None:
    assert read_poll(HEAD + b"\r\n") is MORE
    assert read_poll(HEAD + b"\r\n{") is MORE


@pytest.mark.parametrize(
    "data",
    [
        HEAD,  # the head is not all there
        HEAD.replace(b"tasks/get", b"tools/call") + b"\r\n{}",
        HEAD + b"\r\n{}POST /mcp HTTP/1.1\r\n",  # another request behind it
        HEAD + b"transfer-encoding: chunked\r\n\r\n{}",
        HEAD + b"expect: 100-continue\r\n\r\n{}",
        HEAD + b"connection: close\r\n\r\n{}",
        HEAD + b"content-length: 3\r\n\r\n{}",  # said twice
        HEAD + b"host : two\r\n\r\n{}",
        HEAD + b" folded\r\n\r\n{}",
        HEAD + b"no colon\r\n\r\n{}",
        HEAD + b"x: \0\r\n\r\n{}",
        HEAD + b"x: a\nhost: b\r\n\r\n{}",
        HEAD.replace(b"length: 2", b"length: +2") + b"\r\n{}",
        HEAD.replace(b"length: 2", b"length: 99999999") + b"\r\n{}",
        HEAD + b"x: %s\r\n\r\n{}" % (b"a" * 20_000),
    ],
)
def test_what_is_not_plainly_a_poll_goes_the_long_way(data: bytes) -> None:
    assert read_poll(data) is None
