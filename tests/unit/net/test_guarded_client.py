"""The guarded client against real servers on loopback."""

import gzip
import ssl
import threading
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from openclaw.net.guarded_client import (
    Exemptions,
    FetchFailed,
    FetchRefused,
    GuardedClient,
)

Handle = Callable[[BaseHTTPRequestHandler], None]
pytestmark = pytest.mark.anyio


@contextmanager
def serving(handle: Handle, context: ssl.SSLContext | None = None) -> Generator[int]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            handle(self)

        do_POST = do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that hangs up is what several of these tests are about

    server = Server(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reply(
    handler: BaseHTTPRequestHandler, body: bytes = b"", status: int = 200, **headers: str
) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def redirect(handler: BaseHTTPRequestHandler, location: str, status: int = 302) -> None:
    reply(handler, status=status, Location=location)


def resolving(**names: Sequence[str]) -> Callable[[str, int], object]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return names[host.replace(".", "_")]

    return resolve


def client_for(port: int, **options: object) -> GuardedClient:
    """A client that may reach this machine."""
    options.setdefault("exemptions", Exemptions(loopback=True))
    options.setdefault("resolve", resolving(public_test=["127.0.0.1"], other_test=["127.0.0.1"]))
    return GuardedClient(**options)  # pyright: ignore[reportArgumentType]


async def test_an_answer_arrives_whole_under_the_name_that_was_asked_for() -> None:
    hosts: list[str | None] = []

    def handle(handler: BaseHTTPRequestHandler) -> None:
        hosts.append(handler.headers["Host"])
        reply(handler, b"hello", Content_Type="text/plain; charset=utf-8")

    with serving(handle) as port:
        async with client_for(port) as client:
            fetched = await client.fetch(f"http://public.test:{port}/x?y=1#z")
    assert (fetched.status, fetched.body, fetched.mime_type) == (200, b"hello", "text/plain")
    assert fetched.url == f"http://public.test:{port}/x?y=1"
    assert hosts == [f"public.test:{port}"]


async def test_loopback_is_refused_without_an_exemption_and_nothing_connects() -> None:
    calls: list[str] = []
    with serving(lambda handler: calls.append(handler.path)) as port:
        async with GuardedClient() as client:
            for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"):
                with pytest.raises(FetchRefused):
                    await client.fetch(f"http://{host}:{port}/")
    assert calls == []


async def test_an_exempted_pair_is_that_address_under_that_name_alone() -> None:
    with serving(lambda handler: reply(handler, b"ok")) as port:
        resolve = resolving(own_test=["127.0.0.1"], other_test=["127.0.0.1"], own2_test=["::1"])
        exemptions = Exemptions(pair=("own.test", "127.0.0.1"))
        async with client_for(port, exemptions=exemptions, resolve=resolve) as client:
            assert (await client.fetch(f"http://own.test:{port}/")).body == b"ok"
            for host in ("other.test", "own2.test", "127.0.0.1"):
                with pytest.raises(FetchRefused):
                    await client.fetch(f"http://{host}:{port}/")


async def test_exempting_loopback_does_not_exempt_other_private_addresses() -> None:
    async with GuardedClient(exemptions=Exemptions(loopback=True)) as client:
        for host in ("10.0.0.1", "169.254.169.254", "[fd00:ec2::254]", "[::ffff:10.0.0.1]"):
            with pytest.raises(FetchRefused):
                await client.fetch(f"http://{host}/")


async def test_one_private_answer_among_public_ones_refuses_the_name() -> None:
    resolve = resolving(mixed_test=["93.184.215.14", "10.1.2.3"])
    async with client_for(1, resolve=resolve) as client:
        with pytest.raises(FetchRefused, match=r"10\.1\.2\.3 is private"):
            await client.fetch("http://mixed.test/")


async def test_a_name_is_resolved_once_and_the_checked_address_is_connected_to() -> None:
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    lookups: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        lookups.append(host)
        return next(answers)

    with serving(lambda handler: reply(handler, b"first")) as port:
        async with client_for(port, resolve=rebinding) as client:
            assert (await client.fetch(f"http://rebind.test:{port}/")).body == b"first"
    assert lookups == ["rebind.test"]


async def test_a_second_lookup_that_turns_private_is_refused() -> None:
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return next(answers)

    with serving(lambda handler: reply(handler, b"first", Connection="close")) as port:
        async with client_for(port, resolve=rebinding) as client:
            await client.fetch(f"http://rebind.test:{port}/")
            with pytest.raises(FetchRefused, match="link-local"):
                await client.fetch(f"http://rebind.test:{port}/")


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://2852039166/",
        "http://0xa9.0xfe.0xa9.0xfe/",
        "//10.0.0.1/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_INFO",
        "http://user@127.0.0.1/",
        "http://public.test\\@127.0.0.1/",
    ],
)
async def test_a_redirect_is_checked_like_the_first_url(location: str) -> None:
    with serving(lambda handler: redirect(handler, location)) as port:
        async with client_for(port) as client:
            with pytest.raises(FetchRefused):
                await client.fetch(f"http://public.test:{port}/")


async def test_five_redirects_are_followed_and_the_sixth_is_not() -> None:
    def handle(handler: BaseHTTPRequestHandler) -> None:
        left = int(handler.path[1:])
        redirect(handler, f"/{left - 1}") if left else reply(handler, b"there")

    with serving(handle) as port:
        async with client_for(port) as client:
            assert (await client.fetch(f"http://public.test:{port}/5")).body == b"there"
            with pytest.raises(FetchRefused, match="more than 5 redirects"):
                await client.fetch(f"http://public.test:{port}/6")


async def test_credentials_stay_behind_when_a_redirect_leaves_the_origin() -> None:
    seen: list[dict[str, str]] = []

    def handle(handler: BaseHTTPRequestHandler) -> None:
        seen.append({k.lower(): v for k, v in handler.headers.items()})
        if handler.path == "/same":
            redirect(handler, "/away")
        elif handler.path == "/away":
            redirect(handler, f"http://other.test:{port}/end")
        else:
            reply(handler)

    headers = {"Authorization": "Bearer x", "X-Api-Key": "k", "Cookie": "c=1", "Accept": "a/b"}
    with serving(handle) as port:
        async with client_for(port) as client:
            await client.fetch(f"http://public.test:{port}/same", headers=headers)
    assert [("authorization" in h, "x-api-key" in h, "cookie" in h) for h in seen] == [
        (True, True, True),
        (True, True, True),
        (False, False, False),
    ]
    assert seen[2]["accept"] == "a/b"


async def test_a_body_does_not_follow_to_another_origin() -> None:
    def handle(handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers["Content-Length"]))
        redirect(handler, f"http://other.test:{port}/", status=307)

    with serving(handle) as port:
        async with client_for(port) as client:
            with pytest.raises(FetchRefused, match="body"):
                await client.fetch(f"http://public.test:{port}/", method="POST", content=b"secret")


async def test_a_post_that_is_answered_with_see_other_becomes_a_get_without_its_body() -> None:
    methods: list[tuple[str, str | None]] = []

    def handle(handler: BaseHTTPRequestHandler) -> None:
        methods.append((handler.command, handler.headers["Content-Type"]))
        handler.rfile.read(int(handler.headers["Content-Length"] or 0))
        redirect(handler, "/done", status=303) if handler.path == "/" else reply(handler)

    with serving(handle) as port:
        async with client_for(port) as client:
            await client.fetch(
                f"http://public.test:{port}/",
                method="post",
                content=b"x",
                headers={"Content-Type": "text/plain"},
            )
    assert methods == [("POST", "text/plain"), ("GET", None)]


async def test_cookies_are_not_kept_between_fetches() -> None:
    cookies: list[str | None] = []

    def handle(handler: BaseHTTPRequestHandler) -> None:
        cookies.append(handler.headers["Cookie"])
        reply(handler, Set_Cookie="track=1; Path=/")

    with serving(handle) as port:
        async with client_for(port) as client:
            await client.fetch(f"http://public.test:{port}/")
            await client.fetch(f"http://public.test:{port}/")
    assert cookies == [None, None]


async def test_proxy_and_netrc_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (home / ".netrc").write_text("machine public.test login a password b\n")
    seen: list[str | None] = []

    def handle(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers["Authorization"])
        reply(handler, b"direct")

    with serving(handle) as port:
        async with client_for(port) as client:
            assert (await client.fetch(f"http://public.test:{port}/")).body == b"direct"
    assert seen == [None]


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_over_the_limit_is_cut_off(declared: bool) -> None:
    def handle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        if declared:
            handler.send_header("Content-Length", "2000000")
        else:
            handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(b"x" * 2_000_000)

    with serving(handle) as port:
        async with client_for(port, max_bytes=1000) as client:
            with pytest.raises(FetchFailed, match="larger than"):
                await client.fetch(f"http://public.test:{port}/")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_packed_answer_is_unpacked_and_counted_unpacked(encoding: str) -> None:
    plain = b"0" * 5_000_000
    packed = {"gzip": gzip.compress(plain), "deflate": zlib.compress(plain)}[encoding]

    with serving(lambda h: reply(h, packed, Content_Encoding=encoding)) as port:
        async with client_for(port) as client:
            assert (await client.fetch(f"http://public.test:{port}/")).body == plain
            with pytest.raises(FetchFailed, match="larger than"):
                await client.fetch(f"http://public.test:{port}/", max_bytes=4_999_999)


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "compress"])
async def test_encodings_that_were_not_asked_for_are_refused(encoding: str) -> None:
    with serving(lambda h: reply(h, b"x", Content_Encoding=encoding)) as port:
        async with client_for(port) as client:
            with pytest.raises(FetchFailed, match="not asked for"):
                await client.fetch(f"http://public.test:{port}/")


async def test_a_damaged_packed_answer_is_a_failure() -> None:
    with serving(lambda h: reply(h, b"not gzip at all", Content_Encoding="gzip")) as port:
        async with client_for(port) as client:
            with pytest.raises(FetchFailed, match="cannot be unpacked"):
                await client.fetch(f"http://public.test:{port}/")


async def test_a_server_that_drips_runs_out_of_time() -> None:
    stop = threading.Event()

    def handle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not stop.wait(0.01):
            handler.wfile.write(b".")

    with serving(handle) as port:
        async with client_for(port, total_timeout=0.3) as client:
            with pytest.raises(FetchFailed, match="no complete answer within"):
                await client.fetch(f"http://public.test:{port}/")
        stop.set()


async def test_a_dead_server_and_a_name_without_address_are_failures() -> None:
    with serving(lambda handler: None) as port:
        pass
    async with client_for(port, resolve=resolving(public_test=["127.0.0.1"])) as client:
        with pytest.raises(FetchFailed):
            await client.fetch(f"http://public.test:{port}/")

    async def nowhere(host: str, port: int) -> Sequence[str]:
        raise OSError("no such host")

    for resolve in (nowhere, resolving(public_test=[])):
        async with client_for(port, resolve=resolve) as client:
            with pytest.raises(FetchFailed):
                await client.fetch("http://public.test/")


async def test_the_next_address_is_tried_when_the_first_is_dead() -> None:
    with serving(lambda handler: reply(handler, b"second")) as port:
        resolve = resolving(public_test=["127.0.0.2", "127.0.0.1"])
        async with client_for(port, resolve=resolve) as client:
            assert (await client.fetch(f"http://public.test:{port}/")).body == b"second"


class Tls:
    """A certificate for `public.test`, and what the server was asked for."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.names: list[str | None] = []
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("public.test").configure_cert(self.server)  # pyright: ignore[reportUnknownMemberType]
        self.server.sni_callback = lambda sock, name, context: self.names.append(name)
        self.client = ssl.create_default_context()
        self.authority.configure_trust(self.client)  # pyright: ignore[reportUnknownMemberType]


@pytest.fixture(scope="module")
def tls() -> Tls:
    return Tls()


async def test_tls_asks_for_and_verifies_the_name_not_the_address(tls: Tls) -> None:
    with serving(lambda handler: reply(handler, b"safe"), tls.server) as port:
        async with client_for(port, ssl_context=tls.client) as client:
            assert (await client.fetch(f"https://public.test:{port}/")).body == b"safe"
            assert tls.names[-1] == "public.test"
            with pytest.raises(FetchFailed, match=r"(?i)certificate"):
                await client.fetch(f"https://other.test:{port}/")


async def test_an_unknown_authority_is_not_trusted(tls: Tls) -> None:
    with serving(lambda handler: reply(handler), tls.server) as port:
        async with client_for(port) as client:
            with pytest.raises(FetchFailed, match=r"(?i)certificate"):
                await client.fetch(f"https://public.test:{port}/")


async def test_an_answer_can_be_read_piece_by_piece() -> None:
    with serving(lambda handler: reply(handler, b"ab" * 100_000)) as port:
        async with (
            client_for(port) as client,
            client.stream(f"http://public.test:{port}/") as answer,
        ):
            assert answer.status == 200
            assert sum([len(piece) async for piece in answer.chunks()]) == 200_000
