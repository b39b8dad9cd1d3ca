"""The user's part of a login: the browser, and the callback on loopback."""

import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qs, urlsplit

import anyio
import anyio.abc
import anyio.to_thread
from anyio.streams.buffered import BufferedByteReceiveStream

from openclaw.mcp.oauth import ShowCode
from openclaw.mcp_client.auth.oauth import LoginFailed, check_address

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
            _, problem = self._take_query(_split(pasted).query)
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
        target = _split(rest.rpartition(" ")[0])
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


def _split(address: str) -> SplitResult:
    """Its parts; of what is no address, none."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


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
