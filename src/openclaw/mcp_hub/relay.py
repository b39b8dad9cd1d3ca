"""The hub of a running gateway, for the one client that this process serves.

It is an ordinary MCP connection, of the last revision with sessions, so that the gateway knows which
client it talks to. What the gateway asks goes to the client.
"""

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import anyio
from anyio.abc import TaskStatus

from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.clock import SystemClock
from openclaw.core.errors import OperatorFacing
from openclaw.mcp import names
from openclaw.mcp.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, JsonObject, RpcError
from openclaw.mcp.server_events import Acknowledge, Call, Client, ListChanged
from openclaw.mcp_client.errors import CallFailed, RemoteError, Unavailable, error_text, first_cause
from openclaw.mcp_client.session.connect import ConnectionDeps, ConnectParams
from openclaw.mcp_client.session.era_memory import Era, EraMemory
from openclaw.mcp_client.session.notifications import ChangeSubscription, NotificationHandler
from openclaw.mcp_client.session.remote import open_remote
from openclaw.mcp_client.session.request_handlers import RequestHandlers
from openclaw.mcp_client.session.server_session import ServerSession
from openclaw.mcp_client.transport.child_process import StderrTail
from openclaw.mcp_hub.client import label_of
from openclaw.mcp_hub.progress import passing_on_progress
from openclaw.mcp_hub.rounds import AskClient, Rounds
from openclaw.mcp_server.conversation import Peer
from openclaw.mcp_server.stdio import Tell
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import Secret

logger = logging.getLogger(__name__)

_GATEWAY = "gateway"
_CONNECT_MS = 5_000  # it is on this machine
_MOST_BYTES = 256 << 20  # the servers' own limits hold already


class _WithSessions(EraMemory):
    def recall(self) -> Era | None:
        return Era.LEGACY


class _ClientsAnswers(RequestHandlers):
    """Puts what the gateway asks to the client, by the latest call that is open."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.open: list[AskClient] = []

    def capabilities(self) -> JsonObject:
        passed_on = ("roots", "sampling", "elicitation")
        return {key: self._client.capabilities[key] for key in passed_on if self._client.can(key)}

    async def answer(self, method: str, params: JsonObject) -> JsonObject:
        if not self.open:
            raise RpcError(METHOD_NOT_FOUND, "no call is open that this could be about")
        return await self.open[-1](method, params)


class Relay:
    """`headers` identify this program at the gateway, and `client` is whom it speaks for."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        agent_id: str | None,
        client: Client,
        redactor: Redactor,
        tell: Tell,
    ) -> None:
        query = {"agent": agent_id, "client": label_of(client)}
        self._url = f"{url}/mcp/hub?{urlencode({k: v for k, v in query.items() if v})}"
        self._headers, self._redactor, self._tell = headers, redactor, tell
        self._answers = _ClientsAnswers(client)
        self._session: ServerSession | None = None
        self._rounds: Rounds | None = None

    @property
    def is_lost(self) -> bool:
        return self._session is None or self._session.caller.is_gone

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Stay connected until the gateway goes away; raises `OperatorFacing` if it can't be reached."""
        try:
            async with (
                open_remote(self._params()) as session,
                anyio.create_task_group() as tasks,
            ):
                self._session, self._rounds = session, Rounds(tasks)
                tasks.start_soon(self._changes.run, session, name="changes of the gateway's hub")
                task_status.started()
                await session.caller.lost.wait()
                tasks.cancel_scope.cancel()
        except Exception as error:
            words = error_text(first_cause(error))
            if self._session is None:
                raise OperatorFacing(f"the gateway's hub cannot be reached: {words}") from error
            logger.info("the connection to the gateway's hub ended: %s", words)
        finally:
            self._session = None

    def _params(self) -> ConnectParams:
        async def resolve(values: Mapping[str, str]) -> dict[str, Secret]:
            return {key: Secret(value) for key, value in values.items()}

        async def changed(session: ServerSession, kind: str) -> bool:
            await self._tell(ListChanged(kind))
            return True

        clock = SystemClock()
        self._changes = ChangeSubscription(changed, lambda uri: None)
        config = McpServerConfig.model_validate(
            {
                "url": self._url,
                "transport": "http",
                "headers": dict(self._headers),
                "timeout": _CONNECT_MS,
                "maxMessageBytes": _MOST_BYTES,
            }
        )
        return ConnectParams(
            name=_GATEWAY,
            config=config,
            deps=ConnectionDeps(resolve_secrets=resolve, environ={}, redactor=self._redactor),
            request_handlers=self._answers,
            notifications=NotificationHandler(_GATEWAY, self._changes, self._redactor, clock),
            memory=_WithSessions(None, ""),
            stderr=StderrTail(_GATEWAY, self._redactor, clock),
        )

    async def carry_out(self, call: Call, peer: Peer) -> dict[str, Any]:
        """The gateway's answer; raises `RpcError`, and `Unavailable` if nothing was sent."""
        if call.method == names.LISTEN:
            wanted = call.params["notifications"]
            keys = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
            await peer.send(Acknowledge(call.id, {key: True for key in keys if wanted.get(key)}))
            await anyio.sleep_forever()
        asks = any(call.client.can(kind) for kind in ("elicitation", "sampling", "roots"))
        if call.revision.server_requests or not asks:
            return await self._pass_on(call, peer, peer.ask)
        if self._rounds is None:
            raise Unavailable("the gateway is gone")
        if (state := call.request_state) is not None:
            return await self._rounds.resume("", state, call.input_responses)

        async def work(ask: AskClient) -> JsonObject:
            return await self._pass_on(call, peer, ask)

        return await self._rounds.begin("", work)

    async def _pass_on(self, call: Call, peer: Peer, ask: AskClient) -> JsonObject:
        session = self._session
        if session is None:
            raise Unavailable("the gateway is gone")
        params = {key: value for key, value in call.params.items() if key != "_meta"}
        self._answers.open.append(ask)
        try:
            async with passing_on_progress(peer) as report:
                return await session.request(call.method, params, timeout=None, on_progress=report)
        except RemoteError as error:
            raise RpcError(error.code, error.message, error.data) from None
        except Unavailable:
            raise
        except CallFailed as error:
            raise RpcError(INTERNAL_ERROR, f"the gateway's hub: {error.message}") from None
        finally:
            self._answers.open.remove(ask)
