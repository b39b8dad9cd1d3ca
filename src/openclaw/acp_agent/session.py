"""One session of a client: where it works, which servers it brought, and its turns."""

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from acp import RequestError
from acp.schema import AllowedOutcome, PermissionOption, ToolCallUpdate
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from openclaw.acp_agent.blocks import ContentBlock
from openclaw.acp_agent.forms import Forms
from openclaw.acp_agent.host import AgentHost
from openclaw.acp_agent.prompt import receive
from openclaw.acp_agent.updates import Translator, Update, kind_of, locations
from openclaw.agent.context import MessageContext, PermissionRequest, Reply
from openclaw.config.schema import McpServerConfig
from openclaw.core.errors import Cancelled, OpenClawError
from openclaw.core.events import Event
from openclaw.core.tools import JsonObject
from openclaw.media.store import OrderFiles, order_files

if TYPE_CHECKING:
    from acp.interfaces import Client

logger = logging.getLogger(__name__)

ORIGIN = "acp"

_ONCE, _ALWAYS, _NO = "allow_once", "allow_always", "reject_once"
_OPTIONS = [
    PermissionOption(option_id=_ONCE, name="Allow", kind="allow_once"),
    PermissionOption(option_id=_ALWAYS, name="Always allow in this session", kind="allow_always"),
    PermissionOption(option_id=_NO, name="Reject", kind="reject_once"),
]


@dataclass(slots=True)
class Session:
    """A session that is open. `always` are the tools that the person allowed for all of it."""

    id: str
    cwd: Path
    agent_id: str
    servers: Mapping[str, McpServerConfig]
    model: str | None = None
    titled: bool = False  # whether the client knows what the conversation is called
    turns: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope])
    always: set[str] = field(default_factory=set[str])
    asking: anyio.Lock = field(default_factory=anyio.Lock)
    _files: OrderFiles | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    async def connect(self, host: AgentHost) -> None:
        """Have the session's servers started for its agent."""
        await host.bring(self.id, self.agent_id, self.servers)

    def files(self, host: AgentHost) -> OrderFiles:
        """Where the session's attachments are kept: later questions may be about them."""
        if self._files is None:
            self._files = self._stack.enter_context(order_files(host.host.paths.temp))
        return self._files

    def cancel(self) -> None:
        """Stop every turn that runs."""
        for scope in self.turns:
            scope.cancel()

    def close(self, host: AgentHost) -> None:
        """Stop the turns and the session's servers, and remove its files."""
        self.cancel()
        host.end_session(self.id)
        self.forget_files()

    def forget_files(self) -> None:
        """Remove the session's attachments."""
        self._stack.close()
        self._files = None


async def take_turn(
    session: Session,
    blocks: Sequence[ContentBlock],
    host: AgentHost,
    client: "Client",
    *,
    forms: Forms | None = None,
) -> Reply | None:
    """Answer a prompt, with updates as it goes; None where it was cancelled, here or elsewhere.

    `forms` asks the person what MCP servers want to know. Every update has been sent when this
    returns.
    """
    with anyio.CancelScope() as scope:
        session.turns.add(scope)
        try:
            return await _Turn(session, host, client, forms).run(blocks)
        except Cancelled:
            return None  # somebody stopped it at the gateway
        finally:
            session.turns.discard(scope)
    return None


class _Turn:
    def __init__(
        self, session: Session, host: AgentHost, client: "Client", forms: Forms | None
    ) -> None:
        self._session = session
        self._forms = forms
        self._host = host
        self._client = client
        self._translator = Translator(host.host.redactor, session.cwd)
        self._queue, self._queued = _queue()

    async def run(self, blocks: Sequence[ContentBlock]) -> Reply:
        session = self._session
        received = await receive(blocks, session.files(self._host), self._host.transcriber())
        context = MessageContext(
            text=received.text,
            session_key=session.id,
            agent_id=session.agent_id,
            media=received.media,
            origin=ORIGIN,
            prompt_calls=True,
            workspace=session.cwd,
            model=session.model,
        )
        failure: OpenClawError | None = None
        reply: Reply | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_all, name=f"updates of {session.id}")
            with self._queue:
                try:
                    reply = await self._host.get_reply(
                        context,
                        on_event=self._on,
                        ask=self._ask,
                        elicit=None if self._forms is None else self._elicit,
                    )
                    self._put(self._translator.closing(reply))
                except OpenClawError as error:
                    failure = error  # raised in here, it would come out in a group of errors
        if failure is not None:
            raise failure
        assert reply is not None
        return reply

    def _on(self, event: Event) -> None:
        self._put(self._translator.updates(event))

    def _put(self, updates: Sequence[Update]) -> None:
        for update in updates:
            self._queue.send_nowait(update)

    async def _send_all(self) -> None:
        gone = False
        async for item in self._queued:
            if isinstance(item, anyio.Event):
                item.set()
            elif not gone:
                try:
                    await self._client.session_update(self._session.id, item)
                except ConnectionError:
                    gone = True  # the turn itself ends with the connection

    async def _ask(self, request: PermissionRequest) -> bool:
        """Whether the person agrees, asked one question at a time."""
        session = self._session
        async with session.asking:
            if request.name in session.always:
                return True
            self._put(self._translator.asking(request))
            await self._all_shown()
            chosen = await self._choice(request)
        if chosen == _ALWAYS:
            session.always.add(request.name)
        return chosen in (_ONCE, _ALWAYS)

    async def _elicit(self, server: str, params: JsonObject) -> JsonObject:
        """What the person tells an MCP server, asked one question at a time."""
        assert self._forms is not None
        async with self._session.asking:
            await self._all_shown()
            return await self._forms.ask(self._session.id, server, params)

    async def _all_shown(self) -> None:
        """Wait until the client has been sent everything so far."""
        shown = anyio.Event()
        self._queue.send_nowait(shown)
        await shown.wait()

    async def _choice(self, request: PermissionRequest) -> str | None:
        call = ToolCallUpdate(
            tool_call_id=request.call_id,
            title=request.label or request.name,
            kind=kind_of(request.name),
            status="pending",
            locations=locations(request.name, request.arguments, self._session.cwd),
            raw_input=dict(request.arguments),
        )
        try:
            answer = await self._client.request_permission(self._session.id, call, _OPTIONS)
        except (RequestError, ConnectionError, ValueError):
            logger.warning("the client did not say whether %s may be used", request.name)
            return None
        outcome = answer.outcome
        return outcome.option_id if isinstance(outcome, AllowedOutcome) else None


def _queue() -> tuple[
    MemoryObjectSendStream[Update | anyio.Event], MemoryObjectReceiveStream[Update | anyio.Event]
]:
    # Unbounded: an event must never wait, and a turn's events are bounded by its limits.
    return anyio.create_memory_object_stream[Update | anyio.Event](math.inf)
