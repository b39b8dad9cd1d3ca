"""Logging in to a protected MCP server, with a real authorization server, all over sockets."""

import gzip
import json
import os
import stat
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from tests.support.fake_oauth import (
    FakeAuthority,
    ProtectedServer,
    browse,
    is_logged_in,
    protected,
)
from tests.support.mcp_server_kit import McpInstallation, fake_tool, open_gateway_runtime, until

from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.content import text_of
from openclaw.core.errors import OperatorFacing
from openclaw.mcp import oauth
from openclaw.mcp.oauth_documents import LoginRefused
from openclaw.mcp_client.auth import login as logging_in
from openclaw.mcp_client.auth.login import LoginPrompt, open_browser
from openclaw.mcp_client.auth.logins import Logins
from openclaw.mcp_client.auth.oauth import LoginFailed, check_address
from openclaw.mcp_client.lifecycle import connection
from openclaw.mcp_client.lifecycle.server_state import ServerState
from openclaw.mcp_client.session.login import log_in
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import Secret

_BOMB = 128 * 1024 * 1024  # bytes of a refusal once it is unpacked
SPEC = {"tools": [fake_tool("echo")]}


async def resolve(values: Mapping[str, str]) -> dict[str, Secret]:
    return {name: Secret(value) for name, value in values.items()}


class Desk:
    """One authority, one server behind it, one place where logins are kept."""

    def __init__(self, root: Path, authority: FakeAuthority, server: ProtectedServer) -> None:
        self.root = root
        self.tokens = root / "tokens"
        self.authority = authority
        self.server = server
        self.redactor = Redactor()
        self.shown: list[str] = []
        self.logins = Logins(
            directory=self.tokens,
            resolve_secrets=resolve,
            register=self.redactor.register,
        )

    def config(self, **auth: Any) -> McpServerConfig:
        entry = {"url": self.server.url, "transport": "http", "auth": {"type": "oauth", **auth}}
        return McpServerConfig.model_validate(entry)

    def prompt(self, browse: Callable[[str], bool] | None, **options: Any) -> LoginPrompt:
        return LoginPrompt(show=lambda url, code: self.shown.append(url), browse=browse, **options)

    async def log_in(self, **auth: Any) -> None:
        with anyio.fail_after(60):
            await log_in(self.config(**auth), self.logins, self.prompt(browse))

    @asynccontextmanager
    async def installation(self, **auth: Any) -> AsyncGenerator[McpInstallation]:
        servers = {"docs": self.config(**auth)}
        async with open_gateway_runtime(
            self.root, servers, environ=dict(os.environ), auth=self.logins.auth
        ) as installation:
            yield installation

    def record(self) -> dict[str, Any]:
        [path] = self.tokens.glob("*.json")
        return json.loads(path.read_text())

    def kept(self) -> dict[str, Any]:
        record = self.record()
        return record["issuers"][record["issuer"]]


@pytest.fixture
def authority() -> Iterator[FakeAuthority]:
    with FakeAuthority().running() as running:
        yield running


@pytest.fixture
async def desk(tmp_path: Path, authority: FakeAuthority) -> AsyncGenerator[Desk]:
    async with protected(SPEC, authority) as server:
        yield Desk(tmp_path, authority, server)


def state(installation: McpInstallation) -> ServerState:
    return installation.manager.status()[0].snapshot.state


async def test_after_a_login_the_servers_tools_can_be_used(desk: Desk) -> None:
    await desk.log_in()
    async with desk.installation() as installation:
        assert state(installation) is ServerState.READY
        assert "hello" in await installation.said("mcp_docs_echo", text="hello")
    [form] = desk.authority.forms
    assert form["grant_type"] == "authorization_code"
    assert form["resource"] == desk.server.url


async def test_without_a_login_the_server_needs_one_and_says_how(desk: Desk) -> None:
    async with desk.installation() as installation:
        await until(lambda: state(installation) is ServerState.NEEDS_LOGIN)
        [status] = installation.manager.status()
        assert "openclaw mcp login docs" in (status.snapshot.last_error or "")
        assert installation.names() == []
    assert "/authorize" not in desk.authority.seen


async def test_the_login_is_kept_privately_and_its_secrets_are_redacted(desk: Desk) -> None:
    await desk.log_in()
    [path] = desk.tokens.glob("*.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(desk.tokens.stat().st_mode) == 0o700
    token = desk.kept()["tokens"]["access_token"]
    assert token not in desk.redactor.redact(f"Bearer {token}")


async def test_a_token_that_has_ended_is_refreshed_without_a_person(desk: Desk) -> None:
    desk.authority.expires_in = 0
    await desk.log_in()
    old = desk.kept()["tokens"]["refresh_token"]
    desk.authority.expires_in = 3600
    async with desk.installation() as installation:
        assert state(installation) is ServerState.READY
        assert "hi" in await installation.said("mcp_docs_echo", text="hi")
    assert desk.authority.forms[-1]["grant_type"] == "refresh_token"
    assert desk.authority.forms[-1]["refresh_token"] == old
    assert desk.kept()["tokens"]["refresh_token"] != old
    assert desk.authority.seen.count("/authorize") == 1


async def test_a_token_that_the_server_no_longer_takes_is_refreshed_in_the_middle(
    desk: Desk,
) -> None:
    await desk.log_in()
    async with desk.installation() as installation:
        desk.authority.access.clear()
        assert "again" in await installation.said("mcp_docs_echo", text="again")
    assert desk.authority.forms[-1]["grant_type"] == "refresh_token"


async def test_the_body_of_a_refusal_is_not_unpacked(desk: Desk) -> None:
    bomb = gzip.compress(bytes(_BOMB))
    desk.server.refusal_body = bomb
    await desk.log_in()
    async with desk.installation() as installation:
        desk.authority.access.clear()
        tracemalloc.start()
        try:
            assert "again" in await installation.said("mcp_docs_echo", text="again")
            assert tracemalloc.get_traced_memory()[1] < _BOMB // 4
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("ended", ["by the clock", "by the server"])
async def test_connections_of_one_login_refresh_it_one_at_a_time(desk: Desk, ended: str) -> None:
    desk.authority.expires_in = 0 if ended == "by the clock" else 3600
    await desk.log_in()
    desk.authority.expires_in = 3600
    if ended == "by the server":
        desk.authority.access.clear()
    states: list[ServerState] = []

    async def connect() -> None:
        async with desk.installation() as installation:
            await until(lambda: state(installation) in (ServerState.READY, ServerState.NEEDS_LOGIN))
            states.append(state(installation))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(connect)
    assert states == [ServerState.READY] * 3
    refreshed = [form for form in desk.authority.forms if form["grant_type"] == "refresh_token"]
    assert len(refreshed) == 1


async def test_a_failing_authorization_server_costs_a_call_but_never_the_login(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(connection, "RESTART_PATIENCE", 0.0)
    await desk.log_in()
    async with desk.installation() as installation:
        desk.authority.access.clear()
        desk.authority.failures = [503] * 1000
        refused = await installation.call("mcp_docs_echo", text="hi")
        assert refused.is_error
        assert "503" in text_of(refused.blocks)
        assert "may or may not" not in text_of(refused.blocks)
        desk.authority.failures = [500]
        await until(lambda: state(installation) is ServerState.READY, 60)
        assert "hi" in await installation.said("mcp_docs_echo", text="hi")
    assert desk.authority.seen.count("/authorize") == 1


async def test_when_the_refresh_token_has_ended_too_a_login_is_needed(desk: Desk) -> None:
    await desk.log_in()
    desk.authority.access.clear()
    desk.authority.refresh.clear()
    async with desk.installation() as installation:
        await until(lambda: state(installation) is ServerState.NEEDS_LOGIN)
    await desk.log_in()
    async with desk.installation() as installation:
        assert state(installation) is ServerState.READY


async def test_a_login_that_is_denied_says_so_and_keeps_nothing(desk: Desk) -> None:
    desk.authority.deny = True
    with pytest.raises(LoginFailed, match="access_denied"):
        await desk.log_in()
    assert list(desk.tokens.glob("*.json")) == []


async def test_metadata_of_another_issuer_is_refused(desk: Desk) -> None:
    desk.authority.issuer = "http://127.0.0.1:1"
    with pytest.raises(LoginFailed, match="issuer mismatch"):
        await desk.log_in()
    assert "/authorize" not in desk.authority.seen
    assert "/register" not in desk.authority.seen


async def test_an_answer_that_names_another_issuer_is_refused(desk: Desk) -> None:
    desk.authority.issuer_in_answer = "http://127.0.0.1:1"
    with pytest.raises(LoginFailed, match="iss mismatch"):
        await desk.log_in()
    assert "/token" not in desk.authority.seen


async def test_an_authority_without_pkce_is_refused(desk: Desk) -> None:
    desk.authority.pkce = False
    with pytest.raises(LoginFailed, match="PKCE"):
        await desk.log_in()
    assert "/authorize" not in desk.authority.seen


async def test_the_credentials_of_one_issuer_are_never_shown_to_another(desk: Desk) -> None:
    await desk.log_in(clientId="ours", clientSecret="sesame")
    assert desk.authority.forms[-1]["client_secret"] == "sesame"
    refresh = desk.kept()["tokens"]["refresh_token"]
    with FakeAuthority().running() as other:
        document = "/.well-known/oauth-protected-resource/mcp"
        desk.server.documents[document]["authorization_servers"] = [other.url]
        desk.server.authority = other
        other.deny = True
        with pytest.raises(LoginFailed, match="access_denied"):
            await desk.log_in(clientId="ours", clientSecret="sesame")
        sent = json.dumps(other.forms) + json.dumps(other.clients)
        assert "sesame" not in sent
        assert refresh not in sent
        assert "ours" not in other.clients


async def test_a_server_that_points_into_the_private_network_is_not_followed(desk: Desk) -> None:
    document = "/.well-known/oauth-protected-resource/mcp"
    desk.server.documents[document]["authorization_servers"] = ["https://169.254.169.254/"]
    with pytest.raises(LoginFailed, match="169\\.254\\.169\\.254"):
        await desk.log_in()


async def test_a_server_that_points_to_plain_http_elsewhere_is_not_followed(desk: Desk) -> None:
    document = "/.well-known/oauth-protected-resource/mcp"
    desk.server.documents[document]["authorization_servers"] = ["http://auth.example/"]
    with pytest.raises(LoginFailed, match="https"):
        await desk.log_in()


async def test_a_server_that_asks_for_no_login_is_said_to(desk: Desk) -> None:
    desk.authority.access.add("")
    desk.server.refusal = lambda request: None
    with pytest.raises(LoginFailed, match="did not ask for a login"):
        await desk.log_in()


async def test_a_server_that_lets_everybody_greet_it_is_logged_in_to(desk: Desk) -> None:
    desk.server.open_to = {"server/discover", "initialize", "notifications/initialized"}
    await desk.log_in()
    sent = [json.loads(one.body) for one in desk.server.requests if one.body]
    ids = {one["method"]: one["id"] for one in sent if "id" in one}
    assert ids["initialize"] != ids["tools/list"]  # it is one session, which sees an id once
    async with desk.installation() as installation:
        assert "hello" in await installation.said("mcp_docs_echo", text="hello")


async def test_the_next_login_asks_for_what_a_call_was_refused_for(desk: Desk) -> None:
    desk.server.challenge = "read"
    desk.server.scopes = {"tools/call": "write"}
    await desk.log_in()
    async with desk.installation() as installation:
        refused = await installation.call("mcp_docs_echo", text="hello")
        assert refused.is_error
        assert "openclaw mcp login docs" in text_of(refused.blocks)
        assert "may or may not" not in text_of(refused.blocks)
        assert state(installation) is ServerState.READY  # the other tools still work
    await desk.log_in()
    assert [set(scope.split()) for scope in desk.authority.scopes] == [{"read"}, {"read", "write"}]
    async with desk.installation() as installation:
        assert "hello" in await installation.said("mcp_docs_echo", text="hello")
    desk.server.scopes = {}
    await desk.log_in()
    assert desk.authority.scopes[-1] == "read"


async def test_the_scopes_that_the_operator_names_are_asked_for(desk: Desk) -> None:
    desk.server.challenge = "everything"
    await desk.log_in(scopes=["read", "list"])
    assert desk.authority.scopes == ["read list"]


@pytest.mark.parametrize("methods", [["client_secret_basic"], []])
async def test_the_operators_secret_is_shown_in_the_way_that_the_authority_takes(
    desk: Desk, methods: list[str]
) -> None:
    desk.authority.methods = methods
    desk.authority.expires_in = 0
    await desk.log_in(clientId="ours", clientSecret="sesame")
    async with desk.installation(clientId="ours", clientSecret="sesame"):
        pass
    assert [form["grant_type"] for form in desk.authority.forms][:2] == [
        "authorization_code",
        "refresh_token",
    ]
    assert not any("client_secret" in form for form in desk.authority.forms)
    assert {header[:6] for header in desk.authority.credentials} == {"Basic "}


async def test_logging_out_forgets_everything(desk: Desk) -> None:
    await desk.log_in()
    tokens = desk.kept()["tokens"]
    assert is_logged_in("file", desk.tokens, desk.server.url)
    done = await desk.logins.log_out(desk.config())
    assert done.existed
    assert done.revoked
    assert desk.authority.revoked == [tokens["refresh_token"], tokens["access_token"]]
    assert list(desk.tokens.iterdir()) == []
    assert not is_logged_in("file", desk.tokens, desk.server.url)
    assert not (await desk.logins.log_out(desk.config())).existed


async def test_the_callback_takes_only_the_answer_to_its_own_question(desk: Desk) -> None:
    statuses: list[int] = []

    def nosy(url: str) -> bool:
        query = httpx2.URL(url).params
        back = query["redirect_uri"]
        answers = [
            {"code": "stolen", "state": "guessed"},
            {"state": query["state"]},
            {"code": "stolen"},
        ]
        statuses.extend(httpx2.get(back, params=answer).status_code for answer in answers)
        statuses.append(httpx2.get(back.replace("/callback", "/other")).status_code)
        statuses.append(httpx2.post(back, params={"code": "x"}).status_code)
        return browse(url)

    await log_in(desk.config(), desk.logins, desk.prompt(nosy))
    assert statuses == [400, 400, 400, 404, 404]
    assert desk.kept()["tokens"]


async def test_the_address_that_a_browser_elsewhere_ended_at_can_be_pasted(desk: Desk) -> None:
    problems: list[str | None] = []

    async def paste(problem: str | None) -> str:
        problems.append(problem)
        if problem is None:
            return "http://127.0.0.1:1/callback?code=stolen&state=guessed"
        return await anyio.to_thread.run_sync(landing_page, desk.shown[0])

    await log_in(desk.config(), desk.logins, desk.prompt(None, paste=paste))
    assert desk.kept()["tokens"]
    assert problems == [None, "This is not an answer that we are waiting for."]


def landing_page(url: str) -> str:
    """Where a browser ends that cannot reach our port."""
    with httpx2.Client(trust_env=False) as browser:
        return browser.get(url).headers["location"]


async def test_a_code_is_shown_for_another_device_where_that_is_offered(desk: Desk) -> None:
    desk.authority.devices = True
    codes: list[str | None] = []
    prompt = LoginPrompt(show=lambda url, code: codes.append(code), prefer_code=True)
    await log_in(desk.config(), desk.logins, prompt)
    assert codes == ["ABCD-EFGH"]
    async with desk.installation() as installation:
        assert "hi" in await installation.said("mcp_docs_echo", text="hi")


async def test_nobody_at_the_browser_ends_the_login(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging_in, "LOGIN_SECONDS", 0.2)
    with pytest.raises(LoginFailed, match="nobody logged in"):
        await log_in(desk.config(), desk.logins, desk.prompt(None))
    assert desk.shown[0].startswith(desk.authority.url)


async def test_a_fixed_port_that_is_taken_is_named(desk: Desk) -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as taken:
        port = taken.extra(anyio.abc.SocketAttribute.local_port)
        with pytest.raises(LoginFailed, match=f"port {port}"):
            await desk.log_in(callbackPort=port)


async def test_plain_http_beyond_this_machine_has_no_login(desk: Desk) -> None:
    entry = {"url": "http://docs.example/mcp", "auth": "oauth"}
    with pytest.raises(OperatorFacing, match="https"):
        await desk.logins.auth(McpServerConfig.model_validate(entry))


async def test_a_login_that_cannot_be_read_is_the_operators_matter(desk: Desk) -> None:
    await desk.log_in()
    [path] = desk.tokens.glob("*.json")
    path.write_text("[")
    with pytest.raises(OperatorFacing, match="cannot be read"):
        is_logged_in("file", desk.tokens, desk.server.url)


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "file:///etc/passwd", "http://example.com/", "https:///x", "-flag"],
)
def test_only_web_addresses_are_opened(url: str) -> None:
    with pytest.raises(LoginRefused):
        open_browser(url)


@pytest.mark.parametrize(
    "url", ["https://a.example/x", "http://127.0.0.1:5/", "http://[::1]/", "http://localhost/"]
)
def test_addresses_that_credentials_may_go_to(url: str) -> None:
    check_address(url)
