"""Logging a user in to a remote server: connects to it, which starts the login where it is wanted."""

from openclaw.config.agent_schema import McpServerConfig
from openclaw.content.labels import single_line
from openclaw.core.clock import SystemClock
from openclaw.core.errors import OperatorFacing
from openclaw.mcp import names
from openclaw.mcp_client import errors
from openclaw.mcp_client.auth.login import LOGIN_SECONDS, LoginPrompt, callback_server
from openclaw.mcp_client.auth.logins import Logins, RedirectTo
from openclaw.mcp_client.auth.oauth import Auth, LoginFailed
from openclaw.mcp_client.session.connect import ConnectionDeps, ConnectParams
from openclaw.mcp_client.session.elicitation import decline
from openclaw.mcp_client.session.era_memory import EraMemory
from openclaw.mcp_client.session.http import HttpRefused
from openclaw.mcp_client.session.notifications import ChangeSubscription, NotificationHandler
from openclaw.mcp_client.session.remote import open_remote
from openclaw.mcp_client.session.request_handlers import RequestHandlers
from openclaw.mcp_client.session.server_session import ServerSession
from openclaw.mcp_client.transport.child_process import StderrTail
from openclaw.secrets.redactor import Redactor

_PATIENCE = 2 * LOGIN_SECONDS


async def log_in(config: McpServerConfig, logins: Logins, prompt: LoginPrompt) -> None:
    """Have a user log in; returns once the server accepts our token. Raises `LoginFailed`."""
    port = None if config.auth is None else config.auth.callback_port
    try:
        async with callback_server(port, prompt) as user:
            redirect = RedirectTo(user.redirect_uri, without_browser=prompt.prefer_code)
            auth = await logins.auth(config, user, redirect)
            await _connect(config, logins, auth)
    except (
        errors.NeedsLogin,
        errors.ConnectionFailed,
        errors.CallFailed,
        BaseExceptionGroup,
    ) as error:
        cause = errors.first_cause(error)
        if isinstance(cause, OperatorFacing):
            raise cause from None
        raise LoginFailed(single_line(errors.error_text(cause), 300)) from None
    if not auth.is_logged_in:
        raise LoginFailed("the server did not ask for a login", hint='remove `auth: "oauth"`')


async def _connect(config: McpServerConfig, logins: Logins, auth: Auth) -> None:
    async def authenticate(config: McpServerConfig) -> Auth:
        return auth

    redactor, clock = Redactor(), SystemClock()
    params = ConnectParams(
        name="login",
        config=config,
        deps=ConnectionDeps(resolve_secrets=logins.resolve_secrets, environ={}, auth=authenticate),
        request_handlers=RequestHandlers("login", (), None, decline),
        notifications=NotificationHandler(
            "login", ChangeSubscription(_ignore_change, lambda uri: None), redactor, clock
        ),
        memory=EraMemory(None, ""),
        stderr=StderrTail("login", redactor, clock),
        patience=_PATIENCE,
    )
    async with open_remote(params) as session:
        if not auth.is_logged_in:
            # Some servers shake hands with anyone, and ask for a login afterwards.
            try:
                await session.caller.call(names.TOOLS_LIST, {}, timeout=_PATIENCE)
            except HttpRefused as refusal:
                if refusal.status in (401, 403):
                    raise
            except errors.RemoteError:
                pass  # it has no tools


async def _ignore_change(session: ServerSession, kind: str) -> bool:
    return True
