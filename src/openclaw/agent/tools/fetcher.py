"""The web as `web_fetch` reaches it: by the guarded client, within bounds, as text."""

import codecs
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from openclaw.agent.tools.web import Page

if TYPE_CHECKING:
    from openclaw.net.client import GuardedClient

OpenClient = Callable[[], AbstractAsyncContextManager["GuardedClient"]]

_ACCEPT = "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.1"
_CHARSET = re.compile(rb"""charset\s*=\s*["']?([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_HEAD_BYTES = 2048
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def open_guarded() -> AbstractAsyncContextManager["GuardedClient"]:
    """A client for one page. It is loaded only when a page is fetched."""
    from openclaw.net.client import GuardedClient

    return GuardedClient()


class GuardedFetcher:
    """A `Fetcher` on the guarded client."""

    def __init__(self, open_client: OpenClient = open_guarded) -> None:
        self._open_client = open_client

    async def fetch(self, url: str, *, max_bytes: int) -> Page:
        """The page, or its first `max_bytes`."""
        body = bytearray()
        async with (
            self._open_client() as client,
            client.stream(url, headers={"Accept": _ACCEPT}) as answer,
        ):
            async for piece in answer.chunks():
                body += piece
                if len(body) > max_bytes:
                    break
        declared = answer.headers.get("content-type", "")
        return Page(
            answer.url,
            answer.status,
            declared.partition(";")[0].strip().lower(),
            decoded(bytes(body[:max_bytes]), declared),
            truncated=len(body) > max_bytes,
        )


def decoded(body: bytes, content_type: str) -> str:
    """The body's text, by its mark, by what the server says, or by what the page says itself."""
    named = next((name for mark, name in _BOMS if body.startswith(mark)), None)
    for place in (content_type.encode("ascii", "ignore"), body[:_HEAD_BYTES]):
        found = _CHARSET.search(place)
        named = named or (_known(found[1].decode("ascii")) if found else None)
    return body.decode(named or "utf-8", "replace")


def _known(charset: str) -> str | None:
    """The codec of this name, where it is one for text."""
    try:
        "".encode(charset)
    except (LookupError, ValueError):
        return None
    return charset
