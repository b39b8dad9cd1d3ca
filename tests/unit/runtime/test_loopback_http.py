"""Answers as a server on this machine may send them, in any pieces."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from openclaw.runtime import gateway_client as http

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def server(pieces: Sequence[bytes], seen: list[bytes]) -> AsyncGenerator[str]:
    """Reads one request, sends these pieces, and closes."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            request = b""
            while b"\r\n\r\n" not in request:
                request += await stream.receive()
            length = int(request.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            while len(request.partition(b"\r\n\r\n")[2]) < length:
                request += await stream.receive()
            seen.append(request)
            for piece in pieces:
                await stream.send(piece)
                await anyio.lowlevel.checkpoint()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            group.cancel_scope.cancel()


async def asked(pieces: Sequence[bytes], content: bytes = b"") -> tuple[int, bytes, bytes]:
    seen: list[bytes] = []
    failure: http.BrokenOff | None = None
    async with server(pieces, seen) as url:
        try:
            async with http.request("POST", url, "/a?b=c", {"x-test": "1"}, content) as answer:
                return answer.status, await answer.read(), seen[0]
        except http.BrokenOff as error:
            failure = error  # raised in here, it would come out in a group
    assert failure is not None
    raise failure


async def test_a_request_carries_its_headers_and_body() -> None:
    _, _, seen = await asked([b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n"], b"hello")
    head, _, body = seen.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /a?b=c HTTP/1.1"
    assert b"x-test: 1" in lines
    assert lines[1].startswith(b"host: 127.0.0.1:")
    assert body == b"hello"


ANSWERS = {
    "by length": b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"6;x=y\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n",
    "until it closes": b"HTTP/1.1 200 OK\r\n\r\nhello world",
    "after word that it will come": b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello world",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_an_answer_is_read_in_whatever_pieces_it_comes(answer: bytes, size: int) -> None:
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
    assert (await asked(pieces))[:2] == (200, b"hello world")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
        b"a" * 100_000,
    ],
)
async def test_an_answer_that_is_none_or_stops_half_way_is_an_error(answer: bytes) -> None:
    with pytest.raises(http.BrokenOff):
        await asked([answer] if answer else [])


async def test_where_nobody_listens_nothing_was_sent() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    await listener.aclose()
    with pytest.raises(http.NotReached):
        async with http.request("GET", f"http://127.0.0.1:{port}", "/", {}):
            pass
