import gzip

import httpx2
import pytest

from openclaw.mcp_client.errors import Interrupted, TooLarge
from openclaw.mcp_client.session.http_client import RemoteClient, record_exchange

LIMIT = 64 * 1024
BOMB = gzip.compress(bytes(16 * LIMIT))
PACKED = {"content-encoding": "gzip", "content-type": "application/json"}


def client(status: int, body: bytes, headers: dict[str, str]) -> RemoteClient:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers=headers, stream=httpx2.ByteStream(body))

    return RemoteClient(LIMIT, transport=httpx2.MockTransport(answer))


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("kind", ["application/json", "text/html"])
async def test_an_answer_counts_as_it_is_unpacked(status: int, kind: str) -> None:
    async with client(status, BOMB, {**PACKED, "content-type": kind}) as remote:
        with record_exchange() as exchange:
            await remote.post("http://server/mcp")
        assert isinstance(exchange.problem, TooLarge)


async def test_an_error_that_calls_itself_an_event_stream_has_a_bound() -> None:
    events = {"content-type": "text/event-stream"}
    async with client(500, b"data: {}\n\n" * LIMIT, events) as remote:
        with record_exchange() as exchange:
            await remote.post("http://server/mcp")
        assert isinstance(exchange.problem, TooLarge)


async def test_what_answers_the_end_of_a_session_has_a_bound() -> None:
    async with client(200, BOMB, PACKED) as remote:
        with pytest.raises(httpx2.StreamError, match="over the limit"):
            await remote.delete("http://server/mcp")


async def test_an_answer_that_cannot_be_unpacked_fails_its_call_alone() -> None:
    async with client(200, b"not packed at all", PACKED) as remote:
        with record_exchange() as exchange:
            await remote.post("http://server/mcp")
        assert isinstance(exchange.problem, Interrupted)


async def test_a_packed_answer_is_read() -> None:
    async with client(200, gzip.compress(b'{"a": 1}'), PACKED) as remote:
        assert (await remote.post("http://server/mcp")).json() == {"a": 1}
