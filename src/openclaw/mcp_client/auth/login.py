"""Logging a user in to a remote server: the browser, the callback on loopback, the token."""

import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.abc
import anyio.to_thread
import httpx2
from anyio.streams.buffered import BufferedByteReceiveStream

from openclaw.config.agent_schema import McpServerConfig
from openclaw.content.labels import single_line
from openclaw.core.errors import OperatorFacing
from openclaw.mcp import names
from openclaw.mcp.http import ACCEPT_BOTH, METHOD_HEADER, SESSION_HEADER, VERSION_HEADER
from openclaw.mcp.oauth import ShowCode
from openclaw.mcp.oauth_documents import LoginRefused
from openclaw.mcp.revisions import LATEST, LATEST_WITH_HANDSHAKE
from openclaw.mcp_client.auth.oauth import Auth, check_address
from openclaw.mcp_client.auth.token_store import Logins, RedirectTo
from openclaw.mcp_client.errors import NeedsLogin, Unavailable, first_cause
from openclaw.version import __version__

CALLBACK_PATH = "/callback"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginPrompt:
    """How to reach the user. `show` says where to log in, and the code to enter there, if any.

    `browse` opens an address. `paste` waits for the address that the browser ended at, for a user
    whose browser cannot reach our port; it gets what was wrong with the one before. With
    `prefer_code`, a device code is used if the authorization server has them.
    """

    show: Callable[[str, str | None], None]
    browse: Callable[[str], bool] | None = None
    paste: Callable[[str | None], Awaitable[str]] | None = None
    prefer_code: bool = False


class CallbackServer:
    """Sends a user to log in, and waits on loopback for their browser to return.

    It accepts only the answer to our own request.
    """

    def __init__(self, port: int, prompt: LoginPrompt) -> None:
        self.port, self._prompt = port, prompt
        self._state: str | None = None
        self._answer: dict[str, str] | None = None
        self._answered = anyio.Event()

    @property
    def redirect_uri(self) -> str:
        return f"http://127.0.0.1:{self.port}{CALLBACK_PATH}"

    def show_code(self, code: ShowCode) -> None:
        self._prompt.show(code.direct_url or code.url, code.code)

    async def ask(self, url: str, state: str) -> Mapping[str, str]:
        self._state, self._answer, self._answered = state, None, anyio.Event()
        self._prompt.show(url, None)
        if self._prompt.browse is not None:
            await anyio.to_thread.run_sync(self._prompt.browse, url)
        async with anyio.create_task_group() as group:
            if self._prompt.paste is not None:
                group.start_soon(self._take_pasted, self._prompt.paste, name="pasted callback")
            with anyio.move_on_after(LOGIN_SECONDS):
                await self._answered.wait()
            group.cancel_scope.cancel()
        if self._answer is None:
            raise LoginFailed(f"nobody logged in within {LOGIN_SECONDS:g} s")
        return self._answer

    async def _take_pasted(self, paste: Callable[[str | None], Awaitable[str]]) -> None:
        problem = None
        while self._answer is None:
            if not (pasted := (await paste(problem)).strip()):
                return
            _, problem = self._take_query(urlsplit(pasted).query)
        self._answered.set()

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
        return self._take_query(target.query)

    def _take_query(self, query: str) -> tuple[str, str]:
        answer = {key: values[0] for key, values in parse_qs(query).items()}
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
async def callback_server(port: int | None, prompt: LoginPrompt) -> AsyncGenerator[CallbackServer]:
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port or 0)
    except OSError as error:
        raise LoginFailed(
            f"port {port} on loopback cannot be used: {error.strerror or error}",
            hint="change auth.callbackPort",
        ) from None
    own = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not a query
    server = CallbackServer(own, prompt)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, server.serve, name="login callback")
        try:
            yield server
        finally:
            group.cancel_scope.cancel()


def open_browser(url: str) -> bool:
    """Open the address in the user's browser, without a shell."""
    check_address(url)
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


async def log_in(config: McpServerConfig, logins: Logins, prompt: LoginPrompt) -> None:
    """Have a user log in; returns once the server accepts our token. Raises `LoginFailed`."""
    port = None if config.auth is None else config.auth.callback_port
    try:
        async with callback_server(port, prompt) as user:
            redirect = RedirectTo(user.redirect_uri, without_browser=prompt.prefer_code)
            await _provoke_login(config, await logins.auth(config, user, redirect))
    except (OperatorFacing, BaseExceptionGroup) as failure:
        cause = first_cause(failure)
        if isinstance(cause, NeedsLogin | LoginRefused):
            raise LoginFailed(single_line(str(cause), 300)) from None
        if isinstance(cause, Unavailable):
            raise LoginFailed(single_line(cause.reason, 300)) from None
        if isinstance(cause, httpx2.HTTPError):
            raise LoginFailed(f"the server cannot be reached: {cause}") from None
        raise cause from None


_ids = count(1)
_CLIENT_INFO = {"name": "openclaw", "version": __version__}
_INITIALIZE: dict[str, Any] = {
    "protocolVersion": LATEST_WITH_HANDSHAKE.name, "capabilities": {}, "clientInfo": _CLIENT_INFO,
}  # fmt: skip
_META: dict[str, Any] = {"_meta": {
    names.META_VERSION: LATEST.name,
    names.META_CLIENT: _CLIENT_INFO,
    names.META_CAPABILITIES: {},
}}  # fmt: skip


async def _provoke_login(config: McpServerConfig, auth: Auth) -> None:
    """Send requests until one is refused, which starts the login."""
    assert config.url is not None
    async with httpx2.AsyncClient(auth=auth, timeout=httpx2.Timeout(_SECONDS)) as client:
        if config.kind == "sse":
            response = await _ask(client, config.url)
        else:
            response = await _ask(client, config.url, names.INITIALIZE, _INITIALIZE)
            if not auth.is_logged_in:
                # Some servers answer `initialize` to anyone, and ask for a login afterwards.
                headers = _headers_after(response)
                response = await _ask(client, config.url, names.TOOLS_LIST, _META, **headers)
    if not auth.is_logged_in:
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
    sent = {"Accept": ACCEPT_BOTH, **headers}
    id = next(_ids)  # each is used only once in a session
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params} if method else None
    verb = "POST" if message else "GET"
    async with client.stream(verb, url, headers=sent, json=message) as response:
        return response


def _headers_after(response: httpx2.Response) -> dict[str, str]:
    """The headers of the request after `initialize`, for the revision that the server speaks."""
    if not response.is_success:
        return {VERSION_HEADER: LATEST.name, METHOD_HEADER: names.TOOLS_LIST}
    session = response.headers.get(SESSION_HEADER)
    own = {SESSION_HEADER: session} if session else {}
    return {VERSION_HEADER: LATEST_WITH_HANDSHAKE.name, **own}
