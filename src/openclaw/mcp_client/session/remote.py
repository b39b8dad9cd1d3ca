"""Opens the connection to a remote server: dials it, does the handshake, and always cleans up."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2

from openclaw.core.errors import OperatorFacing
from openclaw.mcp.exchange import FALL_BACK
from openclaw.mcp_client import errors
from openclaw.mcp_client.session.connect import ConnectParams, handshake, make_session
from openclaw.mcp_client.session.http import HttpClient, HttpRefused, HttpTransport
from openclaw.mcp_client.session.http_sse import SseTransport
from openclaw.mcp_client.session.server_session import ServerSession
from openclaw.secrets.refs import has_reference


@asynccontextmanager
async def open_remote(params: ConnectParams) -> AsyncGenerator[ServerSession]:
    config, deps = params.config, params.deps
    url = config.url
    if url is None:
        raise OperatorFacing("a remote server needs a `url`")
    headers = await deps.reveal({name: str(value) for name, value in config.headers.items()})
    if has_reference(url):
        url = (await deps.reveal({"url": url}))["url"]
    auth = None if config.auth is None or deps.auth is None else await deps.auth(config)
    # Every call has its own deadline, and a stream of events may be silent as long as it likes.
    timeout = httpx2.Timeout(config.timeout / 1000, read=None)
    has_remedy = auth is not None and params.patience is None
    remedy = f"run: openclaw mcp login {params.name}" if has_remedy else None
    params.on_asked()
    async with httpx2.AsyncClient(headers=headers, auth=auth, timeout=timeout) as client:
        remote = HttpClient(client, url, config.max_message_bytes, remedy)
        try:
            async with AsyncExitStack() as stack:
                yield await _enter_first(stack, params, remote)
        except Exception as error:
            raise _explained(error, remote) from error


async def _enter_first(
    stack: AsyncExitStack, params: ConnectParams, client: HttpClient
) -> ServerSession:
    if params.config.kind == "sse":
        return await stack.enter_async_context(_open_sse(params, client))
    try:
        return await stack.enter_async_context(_open_streamable(params, client))
    except Exception as error:
        cause = errors.first_cause(error)
        is_refusal = isinstance(cause, HttpRefused) and cause.status in FALL_BACK
        if not params.config.may_fall_back_to_sse or not is_refusal:
            raise
    client.session = None
    return await stack.enter_async_context(_open_sse(params, client))


@asynccontextmanager
async def _open_streamable(
    params: ConnectParams, client: HttpClient
) -> AsyncGenerator[ServerSession]:
    session = make_session(params, "http")
    async with session.running() as group:
        transport = HttpTransport(client, session.caller, group)
        try:
            await handshake(params, session, lambda: client.was_turned_away)
            if client.session is not None:  # else nothing says whose stream it would be
                group.start_soon(transport.listen, name="server's own stream")
            yield session
        finally:
            await transport.end_session()


@asynccontextmanager
async def _open_sse(params: ConnectParams, client: HttpClient) -> AsyncGenerator[ServerSession]:
    session = make_session(params, "sse")
    async with session.running() as group:
        transport = SseTransport(client, session.caller, group)
        await transport.open(params.handshake_seconds)
        await handshake(params, session, lambda: client.was_turned_away)
        yield session


def _explained(error: Exception, client: HttpClient) -> Exception:
    """Why there is no connection, as whoever operates it should read it."""
    cause = errors.first_cause(error)
    match cause:
        case HttpRefused() if cause.status in (401, 403):
            return errors.NeedsLogin(client.refused(cause.status))
        case HttpRefused() if not cause.failure.has_message:
            return errors.ConnectionFailed(f"the server answered {cause.status}")
        case errors.Unavailable() | errors.Interrupted():
            return errors.ConnectionFailed(cause.reason)
        case errors.NeedsLogin():
            remedy = f"; {client.remedy}" if client.remedy else ""
            return errors.NeedsLogin(f"{cause}{remedy}")
        case Exception():
            return cause
        case _:
            return error
