"""Bodies of remote servers, within bounds."""

import gzip
from collections.abc import Callable

import httpx2
import pytest

from openclaw.mcp.exchange import Resumption
from openclaw.mcp_client.errors import Interrupted, RemoteError, TooLarge
from openclaw.mcp_client.session.http import HttpClient

LIMIT = 64 * 1024
BOMB = gzip.compress(bytes(16 * LIMIT))
PACKED = {"content-encoding": "gzip", "content-type": "application/json"}
URL = "http://server/mcp"


def client(handler: Callable[[httpx2.Request], httpx2.Response]) -> HttpClient:
    library = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
    return HttpClient(library, URL, LIMIT, None)


def answering(status: int, body: bytes, headers: dict[str, str]) -> HttpClient:
    return client(
        lambda request: httpx2.Response(status, headers=headers, stream=httpx2.ByteStream(body))
    )


async def test_an_answer_counts_as_it_is_unpacked() -> None:
    remote = answering(200, BOMB, PACKED)
    async with remote.stream("POST", URL, {}) as response:
        with pytest.raises(TooLarge):
            await remote.read(response)


@pytest.mark.parametrize("headers", [PACKED, {"content-type": "text/event-stream"}])
async def test_an_error_has_a_bound_and_its_status_says_enough(headers: dict[str, str]) -> None:
    remote = answering(500, BOMB if headers is PACKED else b"data: {}\n\n" * LIMIT, headers)
    async with remote.stream("POST", URL, {}) as response:
        failure = await remote.failure(response)
    assert failure.error.message == "the server answered 500"


async def test_an_event_has_a_bound() -> None:
    remote = answering(200, b"data: " + b"x" * 2 * LIMIT, {"content-type": "text/event-stream"})
    async with remote.stream("POST", URL, {}) as response:
        with pytest.raises(TooLarge):
            [event async for event in remote.events(response, Resumption())]


async def test_an_answer_that_cannot_be_unpacked_fails_its_call_alone() -> None:
    remote = answering(200, b"not packed at all", PACKED)
    with pytest.raises(Interrupted):
        async with remote.stream("POST", URL, {}) as response:
            await remote.read(response)


async def test_a_packed_answer_is_read() -> None:
    remote = answering(200, gzip.compress(b'{"a": 1}'), PACKED)
    async with remote.stream("POST", URL, {}) as response:
        assert await remote.read(response) == b'{"a": 1}'


@pytest.mark.parametrize(
    ("status", "location", "followed"),
    [
        (307, "/mcp/", True),
        (308, "http://server/mcp/", True),
        (307, "https://server/mcp/", False),
        (307, "http://elsewhere/mcp/", False),
        (302, "/mcp/", False),  # it would become a GET
    ],
)
async def test_redirects_are_followed_within_the_servers_own_origin(
    status: int, location: str, followed: bool
) -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/mcp/":
            return httpx2.Response(200, content=request.content)
        return httpx2.Response(status, headers={"location": location})

    remote = client(handle)
    async with remote.stream("POST", URL, {"secret": "s"}, b"body") as response:
        assert response.status_code == (200 if followed else status)
        assert (await remote.read(response) == b"body") is followed


async def test_endless_redirects_end() -> None:
    remote = client(lambda _: httpx2.Response(307, headers={"location": "/mcp"}))
    with pytest.raises(RemoteError, match="redirects"):
        async with remote.stream("POST", URL, {}):
            pass
