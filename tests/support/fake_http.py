"""A real HTTP server on loopback, for stand-ins of services."""

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit


class QuietHandler(BaseHTTPRequestHandler):
    """Answers as its methods say, and writes no log."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def reply(self, body: bytes, status: int = 200, kind: str | None = None) -> None:
        """Send this, and say how long it is."""
        self.send_response(status)
        if kind is not None:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Generator[str]:
    """The address at which this handler answers from a thread, until the end."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True, slots=True)
class Request:
    """What came in."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body or b"{}")

    def form(self) -> dict[str, str]:
        """The body as a form."""
        return {key: values[0] for key, values in parse_qs(self.body.decode()).items()}


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes out."""

    status: int
    body: Any


class FakeHttp:
    """Serves `answer` from a thread between `with` and its end; requests are kept in `seen`.

    `failing` is a status that is answered whatever is asked; `silent` answers nothing until the
    server is closed.
    """

    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        self.seen: list[Request] = []
        self.failing: int | None = None
        self.silent = False
        self._scheme = "http"
        self._answer = answer
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def secure(self, context: ssl.SSLContext) -> None:
        """Speak TLS from now on, with the certificate of this context."""
        # The handshake happens in the connection's own thread, so that a bad one stops nobody.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._scheme = "https"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reply(self, request: Request) -> Reply:
        """What to answer, with the faults that were asked for."""
        self.seen.append(request)
        if self.silent:
            self._closing.wait()
        if self.failing is not None:
            return Reply(self.failing, {"errors": ["asked to fail"]})
        return self._answer(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                parts = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                request = Request(
                    self.command,
                    unquote(parts.path),
                    {key: values[0] for key, values in parse_qs(parts.query).items()},
                    {key.lower(): value for key, value in self.headers.items()},
                    self.rfile.read(length),
                )
                reply = fake.reply(request)
                data = json.dumps(reply.body).encode()
                self.send_response(reply.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                # A client that gave up while we were slow is part of some tests.
                with contextlib.suppress(BrokenPipeError):
                    self.end_headers()
                    self.wfile.write(data)

            do_GET = do_POST = _serve

            def log_message(self, format: str, *args: Any) -> None:
                return

        return Handler
