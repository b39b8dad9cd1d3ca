"""An authorization server and an MCP server that it protects, on loopback, real in all that counts.

It registers clients, checks PKCE, redirect addresses and resources, gives short tokens, rotates
refresh tokens, and can be told to deny, to lie about its issuer or to forget.
"""

import base64
import hashlib
import json
import secrets
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from openclaw.mcp.oauth import DEVICE_CODE
from openclaw.mcp_client.auth.token_store import login_key, open_login_store
from tests.support.fake_http_server import FakeHttpServer, Request


def is_logged_in(store: str, directory: Path, url: str) -> bool:
    record: dict[str, Any] = open_login_store(store, directory).load(login_key(url)) or {}
    return bool(record.get("issuers", {}).get(record.get("issuer"), {}).get("tokens"))


@dataclass
class _Grant:
    client: str
    challenge: str
    redirect_uri: str
    resource: str | None


@dataclass
class FakeAuthority:
    """What the test sees and may change. `seen` are the paths that were asked for, in order.

    `failures` are the statuses with which the next requests for tokens fail, `revoked` the tokens that
    were given back. With `devices` it gives codes, which somebody has entered at once.
    `scopes` are those that were asked for, `credentials` the headers that came to the token's address.
    """

    port: int = 0
    issuer: str | None = None
    issuer_in_answer: str | None = None
    deny: bool = False
    pkce: bool = True
    methods: list[str] = field(default_factory=lambda: ["none", "client_secret_post"])
    expires_in: int = 3600
    failures: list[int] = field(default_factory=list[int])
    devices: bool = False
    revoked: list[str] = field(default_factory=list[str])
    seen: list[str] = field(default_factory=list[str])
    forms: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    scopes: list[str] = field(default_factory=list[str])
    credentials: list[str] = field(default_factory=list[str])
    clients: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    access: set[str] = field(default_factory=set[str])
    refresh: dict[str, str] = field(default_factory=dict[str, str])
    _grants: dict[str, _Grant] = field(default_factory=dict[str, _Grant])

    @property
    def url(self) -> str:
        """Its address, and its issuer unless it lies."""
        return f"http://127.0.0.1:{self.port}"

    def metadata(self) -> dict[str, Any]:
        """What it says of itself."""
        return {
            "issuer": self.issuer or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": self.methods,
            **({"code_challenge_methods_supported": ["S256"]} if self.pkce else {}),
            "authorization_response_iss_parameter_supported": True,
            "revocation_endpoint": f"{self.url}/revoke",
            **({"device_authorization_endpoint": f"{self.url}/device"} if self.devices else {}),
        }

    def register(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """A new client."""
        client = secrets.token_hex(8)
        self.clients[client] = list(wanted["redirect_uris"])
        return {**wanted, "client_id": client}

    def authorize(self, query: Mapping[str, str]) -> str:
        """Where the browser is sent: with a code, or with the reason why not."""
        client, uri = query["client_id"], query["redirect_uri"]
        self.scopes.append(query.get("scope", ""))
        if uri not in self.clients.get(client, [uri]):
            raise ValueError("another redirect address")
        answer = {"state": query["state"], "iss": self.issuer_in_answer or self.url}
        if self.deny:
            return f"{uri}?{urlencode({'error': 'access_denied', **answer})}"
        code = secrets.token_hex(16)
        self._grants[code] = _Grant(client, query["code_challenge"], uri, query.get("resource"))
        return f"{uri}?{urlencode({'code': code, **answer})}"

    def token(self, form: Mapping[str, str]) -> dict[str, Any] | None:
        """New tokens, or None for an invalid grant."""
        self.forms.append(dict(form))
        if form["grant_type"] == "refresh_token":
            client = self.refresh.pop(form["refresh_token"], None)
            return self._issue(client) if client and client == form["client_id"] else None
        if form["grant_type"] == DEVICE_CODE:
            return self._issue(form["client_id"])
        grant = self._grants.pop(form["code"], None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if grant is None or grant.challenge != proof or grant.redirect_uri != form["redirect_uri"]:
            return None
        return self._issue(grant.client)

    def _issue(self, client: str) -> dict[str, Any]:
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        self.access.add(access)
        self.refresh[refresh] = client
        return {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": self.expires_in,
            "refresh_token": refresh,
        }

    @contextmanager
    def running(self) -> Generator["FakeAuthority"]:
        """Listen until the block ends."""
        server = _Server(("127.0.0.1", 0), _Handler)
        server.authority = self
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    authority: FakeAuthority


class _Handler(BaseHTTPRequestHandler):
    @property
    def _authority(self) -> FakeAuthority:
        assert isinstance(self.server, _Server)
        return self.server.authority

    def do_GET(self) -> None:
        authority = self._authority
        target = urlsplit(self.path)
        authority.seen.append(target.path)
        query = {key: values[0] for key, values in parse_qs(target.query).items()}
        if target.path == "/.well-known/oauth-authorization-server":
            self._answer(200, authority.metadata())
        elif target.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", authority.authorize(query))
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._answer(404, {})

    def do_POST(self) -> None:
        authority = self._authority
        authority.seen.append(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/register":
            self._answer(201, authority.register(json.loads(body)))
            return
        authority.credentials.append(self.headers.get("Authorization", ""))
        form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
        if self.path == "/revoke":
            authority.revoked.append(form["token"])
            self._answer(200, {})
            return
        if self.path == "/device":
            code = {"device_code": "d", "user_code": "ABCD-EFGH", "interval": 0}
            self._answer(200, {**code, "verification_uri": f"{authority.url}/enter"})
            return
        if authority.failures:
            self._answer(authority.failures.pop(0), {})
            return
        tokens = authority.token(form)
        self._answer(400, {"error": "invalid_grant"}) if tokens is None else self._answer(
            200, tokens
        )

    def _answer(self, status: int, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing on stderr."""


class ProtectedServer(FakeHttpServer):
    """A fake MCP server that only takes the authority's tokens.

    `open_to` are the methods that it lets everybody use; `scopes` says what a method needs, and
    `challenge` what is asked for at first.
    """

    def __init__(self, spec: Mapping[str, Any], authority: FakeAuthority) -> None:
        super().__init__(spec)
        self.authority = authority
        self.open_to: set[str] = set()
        self.scopes: dict[str, str] = {}
        self.challenge = ""

    def refusal(self, request: Request) -> tuple[int, dict[str, str]] | None:
        """Turn away whoever has no token."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        method = json.loads(request.body or b"{}").get("method")
        where = f"http://127.0.0.1:{self.port}/.well-known/oauth-protected-resource/mcp"
        words = f'Bearer resource_metadata="{where}"'
        if scheme != "Bearer" or token not in self.authority.access:
            scope = f', scope="{self.challenge}"' if self.challenge else ""
            packed = {"Content_Encoding": "gzip"} if self.refusal_body else {}
            refusal = 401, {"WWW_Authenticate": words + scope, **packed}
            return None if method in self.open_to else refusal
        needed = self.scopes.get(method)
        if needed is None or needed in self.authority.scopes[-1].split():
            return None
        more = f', error="insufficient_scope", scope="{needed}"'
        return 403, {"WWW_Authenticate": words + more}


@asynccontextmanager
async def protected(
    spec: Mapping[str, Any], authority: FakeAuthority
) -> AsyncGenerator[ProtectedServer]:
    """The MCP server, running, with the document that names its authority."""
    async with ProtectedServer(spec, authority).running() as server:
        assert isinstance(server, ProtectedServer)
        server.documents["/.well-known/oauth-protected-resource/mcp"] = {
            "resource": server.url,
            "authorization_servers": [authority.url],
        }
        yield server


def browse(url: str) -> bool:
    """Be a browser whose owner agrees: follow the redirects to the end."""
    try:
        with urllib.request.urlopen(url, timeout=60) as page:
            return bool(page.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
