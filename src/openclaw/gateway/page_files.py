"""Serves the dashboard: files from the package, under a policy that lets nothing else in."""

from pathlib import Path
from typing import Any

from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

PAGE = Path(__file__).parent / "page"

_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    b"media-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-cache"),
]


class _Page:
    def __init__(self, files: Any) -> None:
        self._files = files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        await self._files(scope, receive, guarded)


def page_routes(directory: Path = PAGE) -> list[BaseRoute]:
    """The page at `/`, where it is installed."""
    if not directory.is_dir():
        return []
    return [Mount("/", _Page(StaticFiles(directory=directory, html=True)), name="page")]
