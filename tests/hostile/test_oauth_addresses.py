"""A remote server that uses its login to make us knock at doors inside the network."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme

from openclaw.config.agent_schema import McpServerConfig
from openclaw.mcp_client.auth.login import LoginPrompt
from openclaw.mcp_client.auth.logins import Logins
from openclaw.mcp_client.auth.oauth import LoginFailed
from openclaw.mcp_client.session.login import log_in
from openclaw.secrets.refs import Secret

NAME = "docs.test"
RESOURCE = "/.well-known/oauth-protected-resource/mcp"
AUTHORITY = "/.well-known/oauth-authorization-server"


class Listener(ThreadingHTTPServer):
    """Answers what it was told to, and remembers who came."""

    daemon_threads = True

    def __init__(self, address: str, port: int = 0, context: ssl.SSLContext | None = None) -> None:
        super().__init__((address, port), _Handler)
        self.port = self.server_address[1]
        self.seen: list[str] = []
        self.connections = 0
        self.redirects: dict[str, str] = {}
        self.documents: dict[str, Any] = {}
        if context is not None:
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def get_request(self) -> Any:
        self.connections += 1
        return super().get_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what this is about."""


class _Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        assert isinstance(self.server, Listener)
        self.server.seen.append(self.path)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path in self.server.redirects:
            self.send_response(302)
            self.send_header("Location", self.server.redirects[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path == "/mcp":
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        document = self.server.documents.get(self.path)
        body = json.dumps(document or {}).encode()
        self.send_response(404 if document is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing on stderr."""


class Resolver:
    """The names of this test; `answers` are given one after the other, the last for ever."""

    def __init__(self) -> None:
        self.answers: dict[str, list[str]] = {}
        self._system = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *args: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name in self.answers:
            answers = self.answers[name]
            host = answers.pop(0) if len(answers) > 1 else answers[0]
        return self._system(host, port, *args, **named)


class Stage:
    """An MCP server at https://docs.test on 127.0.0.1, and a bystander at the same port elsewhere."""

    def __init__(self, root: Path, resolver: Resolver, stack: ExitStack) -> None:
        authority = trustme.CA()
        served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(NAME).configure_cert(served)  # pyright: ignore[reportUnknownMemberType]
        self.bundle = root / "ca.pem"
        authority.cert_pem.write_to_path(str(self.bundle))
        self.root, self.names = root, resolver
        self.server = Listener("127.0.0.1", context=served)
        self.inside = Listener("127.0.0.2", self.server.port)
        self.plain = Listener("127.0.0.1")
        for listener in (self.server, self.inside, self.plain):
            thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(listener.server_close)
            stack.callback(listener.shutdown)
        self.url = f"https://{NAME}:{self.server.port}"
        self.server.documents[RESOURCE] = {
            "resource": f"{self.url}/mcp",
            "authorization_servers": [self.url],
        }
        self.server.documents[AUTHORITY] = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }
        self.shown: list[str] = []
        self.logins = Logins(
            directory=root / "tokens",
            resolve_secrets=_resolve,
        )

    async def log_in(self) -> None:
        config = McpServerConfig.model_validate(
            {
                "url": f"{self.url}/mcp",
                "transport": "http",
                "auth": {"type": "oauth", "clientId": "ours"},
            }
        )
        with anyio.fail_after(60):
            await log_in(config, self.logins, LoginPrompt(show=self._show))

    def _show(self, url: str, code: str | None) -> None:
        self.shown.append(url)
        raise LoginFailed("far enough")


async def _resolve(values: Mapping[str, str]) -> dict[str, Secret]:
    return {name: Secret(value) for name, value in values.items()}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    with ExitStack() as stack:
        made = Stage(tmp_path, resolver, stack)
        monkeypatch.setenv("SSL_CERT_FILE", str(made.bundle))
        yield made


async def test_a_private_server_may_have_its_login_where_it_answers_itself(stage: Stage) -> None:
    stage.names.answers[NAME] = ["127.0.0.1"]
    with pytest.raises(LoginFailed, match="far enough"):
        await stage.log_in()
    assert stage.shown[0].startswith(f"{stage.url}/authorize")
    assert RESOURCE in stage.server.seen


async def test_a_name_that_moves_into_the_network_after_the_first_answer_is_not_followed(
    stage: Stage,
) -> None:
    # One answer for whether the name is private, one for the MCP request; then it moves.
    stage.names.answers[NAME] = ["127.0.0.1", "127.0.0.1", "127.0.0.2"]
    with pytest.raises(LoginFailed, match=r"127\.0\.0\.2 is loopback"):
        await stage.log_in()
    assert "/mcp" in stage.server.seen
    assert stage.inside.connections == 0


async def test_a_redirect_in_the_middle_must_be_https_too(stage: Stage) -> None:
    stage.names.answers[NAME] = ["127.0.0.1"]
    middle = f"http://{NAME}:{stage.plain.port}/metadata"
    stage.server.redirects[AUTHORITY] = middle
    stage.plain.redirects["/metadata"] = f"{stage.url}/real"
    stage.server.documents["/real"] = stage.server.documents.pop(AUTHORITY)
    with pytest.raises(LoginFailed, match="a login needs https"):
        await stage.log_in()
    assert stage.plain.connections == 0


@pytest.mark.parametrize("target", ["127.0.0.2", "localhost", "[::1]"])
async def test_a_redirect_to_another_private_address_is_not_followed(
    stage: Stage, target: str
) -> None:
    stage.names.answers[NAME] = ["127.0.0.1"]
    stage.server.redirects[AUTHORITY] = f"https://{target}:{stage.inside.port}/"
    with pytest.raises(LoginFailed, match="loopback"):
        await stage.log_in()
    assert stage.inside.connections == 0
    assert "/" not in stage.server.seen
