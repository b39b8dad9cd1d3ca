"""A request without the HTTP library: the same answers, and the same checks of certificates."""

import http.server
import socketserver
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme

from openclaw.net.http_request import get

pytestmark = pytest.mark.anyio


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked; at /chunks in two pieces, at /status/N with that status."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status = int(self.path.rpartition("/")[2]) if self.path.startswith("/status/") else 200
        self.send_response(status)
        said = f"{self.path} {self.headers.get('authorization')}".encode()
        if self.path == "/chunks":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust it leaves."""


@contextmanager
def echoing(tls: ssl.SSLContext | None = None, handler: type[Echo] = Echo) -> Generator[str]:
    server = Server(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def sending(*pieces: bytes) -> Generator[str]:
    """A server that reads a request, sends these bytes, and ends the connection."""

    class Raw(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            with suppress(OSError):  # the client may leave
                for piece in pieces:
                    self.request.sendall(piece)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Raw) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def authority(tmp_path: Path) -> tuple[ssl.SSLContext, dict[str, str]]:
    """A server's certificate for 127.0.0.1, and the environment of whoever trusts it."""
    issuer, server = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert("127.0.0.1").configure_cert(server)  # pyright: ignore[reportUnknownMemberType]
    issuer.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return server, {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}


async def test_the_status_and_the_body_come_whole() -> None:
    with echoing() as where:
        assert await get(f"http://{where}/a b?c=ü", {}, {}, 20) == (200, b"/a%20b?c=%C3%BC None")
        assert await get(f"http://{where}/chunks", {}, {}, 20) == (200, b"onetwo")
        assert (await get(f"http://{where}/status/401", {}, {}, 20))[0] == 401
        assert await get(f"http://{where}", {"Authorization": "Bearer k"}, {}, 20) == (
            200,
            b"/ Bearer k",
        )


async def test_a_certificate_is_checked_against_the_authorities_that_the_environment_names(
    authority: tuple[ssl.SSLContext, dict[str, str]],
) -> None:
    server, environ = authority
    with echoing(server) as where:
        assert await get(f"https://{where}/x", {}, environ, 20) == (200, b"/x None")
        with pytest.raises(OSError, match=r"(?i)certificate"):
            await get(f"https://{where}/x", {}, {}, 20)
        with pytest.raises(OSError, match=r"(?i)certificate"):
            await get(f"https://{where.replace('127.0.0.1', 'localhost')}/x", {}, environ, 20)


async def test_a_proxy_of_the_environment_is_used() -> None:
    with echoing() as proxy:
        environ = {"HTTP_PROXY": f"http://{proxy}"}
        status, body = await get("http://models.example/v1/models", {}, environ, 20)
    assert (status, body) == (200, b"http://models.example/v1/models None")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "127.0.0.1/x", "http://", "http://a:x/"])
async def test_what_is_not_an_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        await get(url, {}, {}, 20)


async def test_a_header_cannot_bring_another_one_with_it() -> None:
    with echoing() as where, pytest.raises(ValueError, match="header"):
        await get(f"http://{where}", {"Authorization": "Bearer k\r\nX: y"}, {}, 20)


async def test_nobody_there_is_said_as_it_is() -> None:
    with pytest.raises(OSError, match="All connection attempts failed"):
        await get("http://127.0.0.1:9/x", {}, {}, 20)


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"hello\r\n\r\n",
        HEAD + b"content-length: 5\r\n\r\nhi",
        HEAD + b"content-length: -5\r\n\r\nhello",
        HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nhel",
        HEAD + b"transfer-encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        HEAD + b"a: b\r\n" * 20_000,
        b"HTTP/1.1 101 Switching\r\n\r\n",
    ],
)
async def test_an_answer_that_is_no_answer_or_is_cut_off_fails_as_a_connection_does(
    said: bytes,
) -> None:
    with sending(said) as where, pytest.raises(OSError, match=r"."):
        await get(f"http://{where}/", {}, {}, 20)


async def test_a_tls_handshake_that_the_server_ends_fails_as_a_connection_does() -> None:
    with sending() as where, pytest.raises(OSError, match="ended the connection"):
        await get(f"https://{where}/", {}, {}, 20)


@pytest.mark.parametrize("proxied", [False, True])
async def test_an_endless_answer_is_given_up(*, proxied: bool) -> None:
    endless = (HEAD + b"\r\n", *[b"x" * 1024 * 1024] * 100)
    with sending(*endless) as where:
        environ = {"HTTP_PROXY": f"http://{where}"} if proxied else {}
        url = "http://models.example/" if proxied else f"http://{where}/"
        with pytest.raises(OSError, match="too long"):
            await get(url, {}, environ, 60)


async def test_a_status_without_a_body_does_not_wait_for_one() -> None:
    ended = threading.Event()

    class Silent(Echo):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()
            self.wfile.flush()
            ended.wait(60)

    with echoing(handler=Silent) as where:
        assert await get(f"http://{where}/", {}, {}, 10) == (204, b"")
        ended.set()
