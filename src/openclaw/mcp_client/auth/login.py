"""Logging a person in to a remote server: the browser, the callback on loopback, the token."""

import logging
import webbrowser
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.abc
import anyio.to_thread
import httpx2
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import AuthorizationCodeResult
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from openclaw.config.agent_schema import McpServerConfig
from openclaw.content.labels import single_line
from openclaw.core.errors import OperatorFacing
from openclaw.mcp_client.auth.oauth import CALLBACK_PATH, check_address
from openclaw.mcp_client.auth.token_store import Logins
from openclaw.mcp_client.errors import first_cause
from openclaw.version import __version__

logger = logging.getLogger(__name__)

LOGIN_SECONDS = 300.0  # how long a person has in the browser
_HEAD_LIMIT = 16 * 1024
_SECONDS = 30.0


# errors from a browser that sends no request, or doesn't wait for the answer
_GONE = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.DelimiterNotFound,
    anyio.BrokenResourceError,
    TimeoutError,
)


class LoginFailed(OperatorFacing):
    """Raised when a login did not end with a token."""


class CallbackServer:
    """Sends a person to log in, and waits on loopback for their browser to return.

    It accepts only the answer to our own request.
    """

    def __init__(
        self, port: int, show: Callable[[str], None], browse: Callable[[str], bool] | None
    ) -> None:
        self.port, self._show, self._browse = port, show, browse
        self._state: str | None = None
        self._answer: dict[str, str] | None = None
        self._answered = anyio.Event()

    @property
    def redirect_uri(self) -> str:
        return f"http://127.0.0.1:{self.port}{CALLBACK_PATH}"

    async def redirect(self, authorization_url: str) -> None:
        found = parse_qs(urlsplit(authorization_url).query).get("state")
        self._state = found[0] if found else None
        self._show(authorization_url)
        if self._browse is not None:
            await anyio.to_thread.run_sync(self._browse, authorization_url)

    async def wait(self) -> AuthorizationCodeResult:
        with anyio.move_on_after(LOGIN_SECONDS):
            await self._answered.wait()
        answer = self._answer
        if answer is None:
            raise LoginFailed(f"nobody logged in within {LOGIN_SECONDS:g} s")
        if "code" not in answer:
            why = single_line(answer.get("error_description") or answer["error"], 200)
            raise LoginFailed(f"the login was refused: {why}")
        return AuthorizationCodeResult(
            code=answer["code"], state=answer["state"], iss=answer.get("iss")
        )

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with suppress(*_GONE), anyio.fail_after(_SECONDS):
                reader = BufferedByteReceiveStream(stream)
                head = await reader.receive_until(b"\r\n\r\n", _HEAD_LIMIT)
                status, words = self._take(head.split(b"\r\n")[0].decode("latin-1"))
                await stream.send(_page(status, words))
        if self._answer is not None:
            self._answered.set()

    def _take(self, request: str) -> tuple[str, str]:
        method, _, rest = request.partition(" ")
        target = urlsplit(rest.rpartition(" ")[0])
        if method != "GET" or target.path != CALLBACK_PATH:
            return "404 Not Found", "There is nothing here."
        answer = {key: values[0] for key, values in parse_qs(target.query).items()}
        if self._state is None or answer.get("state") != self._state:
            return "400 Bad Request", "This is not an answer that we are waiting for."
        if not {"code", "error"} & answer.keys():
            return "400 Bad Request", "This is not a valid answer."
        if self._answer is None:
            self._answer = answer
        words = "You are logged in." if "code" in answer else "The login did not succeed."
        return "200 OK", f"{words} You can close this window."


def _page(status: str, words: str) -> bytes:
    body = f"<!doctype html><title>OpenClaw</title><p>{words}</p>".encode()
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Content-Security-Policy: default-src 'none'",
        "Referrer-Policy: no-referrer",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def callback_server(
    port: int | None, show: Callable[[str], None], browse: Callable[[str], bool] | None
) -> AsyncGenerator[CallbackServer]:
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port or 0)
    except OSError as error:
        raise LoginFailed(
            f"port {port} on loopback cannot be used: {error.strerror or error}",
            hint="change auth.callbackPort",
        ) from None
    own = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not a query
    server = CallbackServer(own, show, browse)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, server.serve, name="login callback")
        try:
            yield server
        finally:
            group.cancel_scope.cancel()


def open_browser(url: str) -> bool:
    """Open the address in the person's browser, without a shell."""
    check_address(url)
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


async def log_in(
    config: McpServerConfig,
    logins: Logins,
    *,
    show: Callable[[str], None],
    browse: Callable[[str], bool] | None = open_browser,
) -> None:
    """Have a person log in; returns once the server accepts our token. Raises `LoginFailed`."""
    port = None if config.auth is None else config.auth.callback_port
    try:
        async with callback_server(port, show, browse) as server:
            await _provoke_login(config, logins, server)
    except (LoginFailed, BaseExceptionGroup) as failure:
        cause = first_cause(failure)
        if isinstance(cause, OAuthFlowError | OAuthTokenError | OAuthRegistrationError):
            raise LoginFailed(single_line(str(cause), 300)) from None
        if isinstance(cause, httpx2.HTTPError):
            raise LoginFailed(f"the server cannot be reached: {cause}") from None
        raise cause from None


_ids = count(1)
_CLIENT_INFO = {"name": "openclaw", "version": __version__}
_INITIALIZE: dict[str, Any] = {
    "protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": _CLIENT_INFO,
}  # fmt: skip
_META: dict[str, Any] = {"_meta": {
    PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
    CLIENT_INFO_META_KEY: _CLIENT_INFO,
    CLIENT_CAPABILITIES_META_KEY: {},
}}  # fmt: skip


async def _provoke_login(config: McpServerConfig, logins: Logins, person: CallbackServer) -> None:
    """Send requests until one is refused, which starts the login."""
    assert config.url is not None
    auth = await logins.auth(config, person)
    async with httpx2.AsyncClient(auth=auth, timeout=httpx2.Timeout(_SECONDS)) as client:
        if config.kind == "sse":
            response = await _ask(client, config.url)
        else:
            response = await _ask(client, config.url, "initialize", _INITIALIZE)
            if auth.context.current_tokens is None:
                # Some servers answer `initialize` to anyone, and ask for a login afterwards.
                headers = _headers_after(response)
                response = await _ask(client, config.url, "tools/list", _META, **headers)
    if auth.context.current_tokens is None:
        raise LoginFailed(
            f"the server did not ask for a login (it answered {response.status_code})",
            hint='remove `auth: "oauth"`',
        )
    if response.status_code in (401, 403):
        raise LoginFailed(
            f"the server did not accept the token (it answered {response.status_code})"
        )


async def _ask(
    client: httpx2.AsyncClient,
    url: str,
    method: str | None = None,
    params: dict[str, Any] | None = None,
    **headers: str,
) -> httpx2.Response:
    """The answer without its body; without an MCP method, requests the event stream."""
    sent = {"Accept": "application/json, text/event-stream", **headers}
    id = next(_ids)  # each is used only once in a session
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params} if method else None
    verb = "POST" if message else "GET"
    async with client.stream(verb, url, headers=sent, json=message) as response:
        return response


def _headers_after(response: httpx2.Response) -> dict[str, str]:
    """The headers of the request after `initialize`, for the revision that the server speaks."""
    if not response.is_success:
        return {"MCP-Protocol-Version": LATEST_MODERN_VERSION, "Mcp-Method": "tools/list"}
    session = response.headers.get("mcp-session-id")
    own = {"mcp-session-id": session} if session else {}
    return {"MCP-Protocol-Version": LATEST_HANDSHAKE_VERSION, **own}
