"""What a URL in an answer points to, had through the guarded client."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from openclaw.core.errors import ToolFailure

if TYPE_CHECKING:
    from openclaw.net.client import GuardedClient

SECONDS = 30.0  # the person waits for the answer meanwhile

OpenClient = Callable[[], AbstractAsyncContextManager["GuardedClient"]]


def open_guarded() -> AbstractAsyncContextManager["GuardedClient"]:
    """A client for one URL; loaded only when one is fetched."""
    from openclaw.net.client import GuardedClient

    return GuardedClient(total_timeout=SECONDS)


async def fetch_guarded(
    url: str, limit: int, open_client: OpenClient = open_guarded
) -> tuple[bytes, str | None]:
    """The body and its declared type; an error of ours where it cannot or may not be had."""
    async with open_client() as client:
        fetched = await client.fetch(url, max_bytes=limit)
    if fetched.status != 200:
        raise ToolFailure(f"its address answered with HTTP {fetched.status}")
    return fetched.body, fetched.mime_type or None
