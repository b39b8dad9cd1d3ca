"""What the SDK's HTTP transport does not tell or bound, seen through the client's own hooks."""

from collections.abc import AsyncIterator

import httpx2

_UNAUTHORIZED, _FORBIDDEN = 401, 403


class TooLong(httpx2.StreamError):
    """Raised when a body is over the limit; the SDK answers the request it belongs to with it."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it is over the limit of {limit} bytes")


class Watch:
    """Sees every response: remembers the last refusal, and bounds bodies that are not streams.

    `remedy` says what a person can do where the server wants a login.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.status: int | None = None
        self.remedy: str | None = None

    @property
    def wants_login(self) -> bool:
        """Whether the last answer was that we may not."""
        return self.status in (_UNAUTHORIZED, _FORBIDDEN)

    async def saw(self, response: httpx2.Response) -> None:
        """Take a response whose body was not read yet."""
        if response.request.method != "DELETE":
            self.status = response.status_code if response.is_error else None
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream") and isinstance(
            response.stream, httpx2.AsyncByteStream
        ):
            response.stream = _Bounded(response.stream, self._limit)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, limit: int) -> None:
        self._inner, self._limit = inner, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in self._inner:
            total += len(chunk)
            if total > self._limit:
                raise TooLong(self._limit)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
