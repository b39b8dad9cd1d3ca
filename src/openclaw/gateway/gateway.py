"""The running gateway: the state that its routes share."""

from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectSendStream

from openclaw.agent.port import Agent, MessageContext, Reply, TurnListener
from openclaw.agent.redaction import RedactedTurn
from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.config.paths import StatePaths
from openclaw.config.reload import ReloadReport
from openclaw.config.schema import GatewayConfig
from openclaw.core.clock import Clock, random_id
from openclaw.core.errors import Busy, Cancelled, OperatorFacing
from openclaw.core.events import Event, Notice, TurnFinished, TurnStarted, Usage
from openclaw.core.outcome import Outcome
from openclaw.core.tools import ToolSpec
from openclaw.gateway.answered_questions import AnsweredQuestions
from openclaw.gateway.auth import grant_of
from openclaw.gateway.event_streams import EventFeed, TurnFeeds, TurnKey
from openclaw.gateway.metrics import Metrics
from openclaw.gateway.pending_questions import PendingQuestions
from openclaw.gateway.tokens import Tokens
from openclaw.mcp_hub.service import HubBackend, HubService
from openclaw.mcp_server.asgi import HttpApp
from openclaw.mcp_server.order_service import OrderService
from openclaw.mcp_server.order_tasks import OrderTasks
from openclaw.mcp_server.order_tool import Principal, Source
from openclaw.mcp_server.orders import OrderHandler
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.records import session_owner

if TYPE_CHECKING:
    from openclaw.agent.toolpath.approval import Approvals
    from openclaw.cluster.node import ClusterNode
    from openclaw.mcp_client.auth.logins import Logins
    from openclaw.mcp_client.lifecycle.manager import McpManager
    from openclaw.sessions.store import SessionStore


def _source(scope: MutableMapping[str, Any]) -> Source:
    """Who gives an order over HTTP; `?agent=ID` names the agent."""
    grant = grant_of(scope)
    assert grant is not None
    principal = Principal(grant.name, grant.allows("admin"), grant.session)
    query = parse_qs(scope["query_string"].decode("latin-1"))
    agent, client = query.get("agent", [None])[-1], query.get("client", [None])[-1]
    return Source(principal, agent, local=False, client=client if grant.owner else None)


_LAG_BYTES = 1024 * 1024  # how far behind a reader of all events may fall
_RETRY_AFTER = 5.0
_BY_REQUEST = "the turn was cancelled"
_BY_SHUTDOWN = "the gateway is stopping, and the turn was cancelled at the shutdown timeout"


@dataclass(slots=True)
class RunningTurn:
    id: str
    agent: str
    session: str
    origin: str
    started: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    why: str | None = None

    @property
    def owner(self) -> str:
        return session_owner(self.session)

    def stop(self, why: str) -> None:
        self.why = self.why or why
        self.scope.cancel()


class Turns:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[TurnKey, RunningTurn] = {}
        self._closing = False
        self._idle = anyio.Event()

    @property
    def running(self) -> tuple[RunningTurn, ...]:
        return tuple(self._running.values())

    @asynccontextmanager
    async def run(self, id: str, agent: str, session: str, origin: str) -> AsyncGenerator[None]:
        """Run a turn inside; raises `Cancelled` if it is stopped."""
        if self._closing:
            raise OperatorFacing("the gateway is stopping")
        turn = RunningTurn(id, agent, session, origin, self._clock.now_ms())
        key = TurnKey(turn.owner, id)
        if key in self._running:
            raise Busy(f"turn {id} is already running", retry_after=_RETRY_AFTER)
        self._running[key] = turn
        try:
            with turn.scope:
                yield
        finally:
            del self._running[key]
            if not self._running:
                self._idle.set()
        if turn.scope.cancelled_caught:
            raise Cancelled(turn.why or _BY_REQUEST)

    def cancel(self, wanted: Callable[[RunningTurn], bool]) -> int:
        """Stop turns, including those waiting for their session; returns how many."""
        found = [turn for turn in self.running if wanted(turn)]
        for turn in found:
            turn.stop(_BY_REQUEST)
        return len(found)

    async def close(self, grace: float, closing: float) -> None:
        """Accept no more turns; running ones get `grace` to finish, then `closing` to stop."""
        self._closing = True
        with anyio.move_on_after(grace):
            await self._until_idle()
        self.stop_all()
        with anyio.move_on_after(closing):
            await self._until_idle()

    def stop_all(self) -> None:
        for turn in self.running:
            turn.stop(_BY_SHUTDOWN)

    async def _until_idle(self) -> None:
        while self._running:
            self._idle = anyio.Event()
            await self._idle.wait()


async def _no_reload() -> ReloadReport:
    return ReloadReport()


@dataclass(frozen=True, slots=True)
class GatewayBackend:
    agent: Agent
    agents: Callable[[], Mapping[str, EffectiveAgent]]
    tools: Callable[[str], Sequence[ToolSpec]]
    servers: "McpManager"
    store: "SessionStore"
    redactor: Redactor
    cluster: "ClusterNode | None"
    apply: Callable[[LoadedConfig], Awaitable[None]]  # if invalid, raises and changes nothing
    approvals: "Callable[[], Approvals]"
    logins: "Callable[[], Logins]"
    hub: HubBackend


@dataclass(slots=True)
class Gateway:
    """The state that routes share. Without a `backend`, the gateway is still starting."""

    settings: GatewayConfig
    paths: StatePaths
    clock: Clock
    redact: Callable[[str], str]
    config_path: Path
    started: int
    tokens: Tokens
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    log_file: Path | None = None
    reload: Callable[[], Awaitable[ReloadReport]] = _no_reload
    all_events: EventFeed = field(default_factory=lambda: EventFeed(_LAG_BYTES))
    feeds: TurnFeeds = field(default_factory=TurnFeeds)
    background: TaskGroup | None = None
    metrics: Metrics = field(default_factory=Metrics)
    turns: Turns = field(init=False)
    questions: PendingQuestions = field(init=False)
    answered: AnsweredQuestions | None = None
    scopes: set[str] = field(default_factory=set[str])
    opened: GatewayBackend | None = None
    serving: TaskGroup | None = None
    stopping: bool = False
    _mcp: HttpApp | None = None
    _hub: HttpApp | None = None
    _mcp_lock: anyio.Lock = field(default_factory=anyio.Lock)
    last_reload_error: str | None = None
    open_logins: dict[str, MemoryObjectSendStream[str]] = field(
        default_factory=dict[str, MemoryObjectSendStream[str]]
    )
    """Where the logins that users are at wait for pasted addresses, by server."""

    def __post_init__(self) -> None:
        self.turns = Turns(self.clock)
        self.questions = PendingQuestions()

    @property
    def backend(self) -> GatewayBackend:
        if self.opened is None:
            raise OperatorFacing("the gateway is starting")
        return self.opened

    def emit(self, event: Event) -> None:
        if self.all_events.followers:
            self.all_events.event(event)

    async def mcp(self) -> HttpApp:
        """The application at `/mcp`, which is loaded when it is first needed."""
        async with self._mcp_lock:
            app = self._mcp
            if app is None:
                app = self._mcp = await self._running.start(self._serve_mcp, name="MCP over HTTP")
            return app

    async def hub(self) -> HttpApp:
        """The same at `/mcp/hub`."""
        async with self._mcp_lock:
            app = self._hub
            if app is None:
                app = self._hub = await self._running.start(self._serve_hub, name="MCP hub")
            return app

    @property
    def _running(self) -> TaskGroup:
        if self.serving is None or self.stopping:
            raise OperatorFacing("the gateway is starting or stopping")
        return self.serving

    async def _serve_mcp(self, *, task_status: TaskStatus[HttpApp]) -> None:
        agent, clustered = self.backend.agent, self.backend.cluster is not None
        handler = OrderHandler("openclaw", agent, self.clock, None, self.answer)
        orders = OrderTasks(handler, in_gateway=True, resumes=clustered)
        most = self.settings.limits.max_request_bytes
        async with orders.running(), anyio.create_task_group() as tasks:
            service = OrderService(handler, orders)
            task_status.started(HttpApp(service, tasks, _source, most_bytes=most))
            await anyio.sleep_forever()

    async def _serve_hub(self, *, task_status: TaskStatus[HttpApp]) -> None:
        most = self.settings.limits.max_request_bytes
        async with anyio.create_task_group() as tasks:
            service = HubService(self.backend.hub, tasks)
            app = HttpApp(service, tasks, _source, most_bytes=most, on_end=service.end)
            task_status.started(app)
            await service.watch(app.tell_all)

    def stop(self) -> None:
        """Accept no more orders, and end the streams of watchers."""
        self.stopping = True
        self.questions.leave_all()
        self.all_events.close()

    async def answer(self, context: MessageContext, listener: TurnListener) -> Reply:
        """Answer a message as a turn that is counted, and that others can watch and stop.

        Its id is the idempotency key.
        """
        id = context.idempotency_key or random_id()
        context = replace(context, idempotency_key=id)
        began, outcome, reply = self.clock.monotonic(), Outcome.ERROR, None
        key = TurnKey(session_owner(context.session_key), id)
        # A detached turn already has a feed.
        watched = self.all_events.followers and key not in self.feeds
        try:
            with self.feeds.open(key) if watched else nullcontext() as feed:
                async with self.turns.run(
                    id, context.agent_id, context.session_key, context.origin
                ):
                    reply = await self._answer_redacted(context, listener, feed)
                if feed is not None:
                    feed.reply(reply)
        except Cancelled:
            outcome = Outcome.CANCELLED
            raise
        else:
            assert reply is not None
            outcome = reply.outcome
            return reply
        finally:
            usage = reply.usage if reply is not None else Usage()
            seconds = self.clock.monotonic() - began
            self.metrics.turn(outcome, seconds, usage.input_tokens, usage.output_tokens)

    async def _answer_redacted(
        self, context: MessageContext, listener: TurnListener, feed: EventFeed | None
    ) -> Reply:
        """Redact here: a front end in another process doesn't know all the secrets resolved here."""
        outgoing = RedactedTurn(self.backend.redactor)
        watcher, on_block_reply = listener.on_event, listener.on_block_reply

        def tell(events: Sequence[Event]) -> None:
            for event in events:
                if watcher is not None:
                    watcher(event)
                if feed is not None:
                    feed.event(event)
                if isinstance(event, TurnStarted | TurnFinished | Notice):
                    self.emit(event)  # not every piece of text belongs in the gateway's own stream

        def on_event(event: Event) -> None:
            tell(outgoing.events(event))

        watched = watcher is not None or feed is not None
        listener = replace(
            listener,
            on_block_reply=outgoing.redacting(on_block_reply) if on_block_reply else None,
            on_event=on_event if watched else None,
        )
        reply = await self.backend.agent.reply(context, listener)
        if watched:
            tell(outgoing.held())
        return replace(reply, text=outgoing.redact(reply.text))
