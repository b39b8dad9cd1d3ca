"""The gateway while it runs: what its routes share."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus
from starlette.types import Receive, Scope, Send

from openclaw.agent.port import Agent, MessageContext, Reply, TurnListener
from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.config.paths import StatePaths
from openclaw.config.schema import GatewayConfig
from openclaw.core.clock import Clock
from openclaw.core.errors import Busy, Cancelled, NotFound, OperatorFacing
from openclaw.core.events import Emit, Event, Notice, TurnFinished, TurnStarted
from openclaw.core.ids import random_id
from openclaw.core.tools import ToolSpec
from openclaw.gateway.feeds import Feed, Feeds, RedactedTurn
from openclaw.gateway.metrics import Metrics
from openclaw.gateway.questions import Questions
from openclaw.gateway.tokens import Tokens
from openclaw.secrets.redactor import Redactor

if TYPE_CHECKING:
    from openclaw.agent.toolpath.approval import Approvals
    from openclaw.mcp_client.auth.oauth import Logins
    from openclaw.mcp_client.lifecycle.manager import McpManager
    from openclaw.sessions.store import SessionStore

_LAG_BYTES = 1024 * 1024  # that whoever follows all events may be behind

_RETRY_AFTER = 5.0
_BY_REQUEST = "the turn was cancelled"
_BY_SHUTDOWN = "the gateway is stopping, and the turn's time to finish was up"


@dataclass(slots=True)
class Running:
    """A turn on its way; `why` is set once it was told to stop."""

    id: str
    agent: str
    session: str
    origin: str
    started: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    why: str | None = None

    def stop(self, why: str) -> None:
        """End it; its session records that it was cancelled."""
        self.why = self.why or why
        self.scope.cancel()


class Turns:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[str, Running] = {}
        self._closing = False
        self._idle = anyio.Event()

    @property
    def running(self) -> tuple[Running, ...]:
        return tuple(self._running.values())

    @asynccontextmanager
    async def run(self, id: str, agent: str, session: str, origin: str) -> AsyncGenerator[Running]:
        """Run one inside; raises `Cancelled` where it was told to stop."""
        if self._closing:
            raise OperatorFacing("the gateway is stopping")
        if id in self._running:
            raise Busy(f"turn {id} is already running", retry_after=_RETRY_AFTER)
        turn = Running(id, agent, session, origin, self._clock.now_ms())
        self._running[id] = turn
        try:
            with turn.scope:
                yield turn
        finally:
            del self._running[id]
            if not self._running:
                self._idle.set()
        if turn.scope.cancelled_caught:
            raise Cancelled(turn.why or _BY_REQUEST)

    def has(self, id: str) -> bool:
        return id in self._running

    def cancel(self, id: str) -> None:
        turn = self._running.get(id)
        if turn is None:
            raise NotFound(f"no turn '{id}' is running")
        turn.stop(_BY_REQUEST)

    def cancel_session(self, session: str, agent: str | None) -> int:
        """Stop what runs in a session, and what waits for it; returns how many."""
        found = [
            turn
            for turn in self.running
            if turn.session == session and (agent is None or turn.agent == agent)
        ]
        for turn in found:
            turn.stop(_BY_REQUEST)
        return len(found)

    async def close(self, grace: float, closing: float) -> None:
        """Take no more; let those that run finish within `grace`, then stop them within `closing`."""
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


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """What a reload did. `waiting` are key paths whose change counts only after a restart."""

    changed: bool
    waiting: tuple[str, ...] = ()


Reload = Callable[[], Awaitable[ReloadReport]]


async def _no_reload() -> ReloadReport:
    return ReloadReport(changed=False)


class Cluster(Protocol):
    """The gateways that share a database, as one of them sees them."""

    url: str  # where this gateway is, for the others to show

    @property
    def reachable(self) -> bool: ...

    def drain(self) -> None:
        """Take nothing more to run: this gateway is going to stop."""
        ...

    async def cancel_turn(self, turn: str) -> int:
        """Stop a turn wherever it runs or waits; returns how many were stopped."""
        ...

    async def cancel_session(self, key: str, agent: str | None) -> int:
        """Stop what runs in a session anywhere, and what waits for it."""
        ...

    def watch_turn(self, turn: str, after: int = 0) -> AsyncGenerator[tuple[int, str, Any]]:
        """Number, name and body of a turn's events; the last is `reply` or `error`."""
        ...

    async def gateways(self) -> list[dict[str, Any]]: ...

    def figures(self) -> list[tuple[str, str, str, float]]:
        """For the metrics: kind, name, help and value of each."""
        ...


class McpApp(Protocol):
    """The application at `/mcp`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def poll(self, scope: Scope, message: dict[str, Any]) -> bytes | None:
        """The answer to a poll of a task that runs here, ready to be sent; None if it takes more."""
        ...


@dataclass(frozen=True, slots=True)
class Backend:
    """What a gateway serves. `apply` takes a new configuration, or raises and changes nothing."""

    agent: Agent
    agents: Callable[[], Mapping[str, EffectiveAgent]]
    tools: Callable[[str], Sequence[ToolSpec]]
    servers: "McpManager"
    store: "SessionStore"
    redactor: Redactor
    cluster: Cluster | None
    apply: Callable[[LoadedConfig], Awaitable[None]]
    mcp: "Callable[[Gateway], AbstractAsyncContextManager[McpApp]]"
    """The application at `/mcp`, whose orders the gateway answers."""
    approvals: "Callable[[], Approvals]"
    logins: "Callable[[], Logins]"


@dataclass(slots=True)
class Gateway:
    """What every route uses. `backend` is there once everything is built."""

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
    reload: Reload = _no_reload
    hub: Feed = field(default_factory=lambda: Feed(_LAG_BYTES))
    feeds: Feeds = field(default_factory=Feeds)
    background: TaskGroup | None = None
    metrics: Metrics = field(default_factory=Metrics)
    turns: Turns = field(init=False)
    questions: Questions = field(init=False)
    scopes: set[str] = field(default_factory=set[str])
    opened: Backend | None = None
    serving: TaskGroup | None = None
    stopping: bool = False
    _mcp: McpApp | None = None
    _mcp_lock: anyio.Lock = field(default_factory=anyio.Lock)
    last_reload_error: str | None = None

    def __post_init__(self) -> None:
        self.turns = Turns(self.clock)
        self.questions = Questions(self.settings.limits.question_timeout_ms / 1000)

    @property
    def backend(self) -> Backend:
        if self.opened is None:
            raise OperatorFacing("the gateway is starting")
        return self.opened

    def emit(self, event: Event) -> None:
        """Tell whoever follows all that happens here."""
        if self.hub.followers:
            self.hub.event(event)

    async def mcp(self) -> McpApp:
        """The application at `/mcp`; it is loaded when it is first asked for."""
        async with self._mcp_lock:
            if self.serving is None or self.stopping:
                raise OperatorFacing("the gateway is starting or stopping")
            app = self._mcp
            if app is None:
                app = self._mcp = await self.serving.start(self._serve_mcp, name="MCP over HTTP")
            return app

    def poll(self, scope: Scope, message: dict[str, Any]) -> bytes | None:
        """The answer to a poll of a task that runs here; None if that takes more."""
        return None if self._mcp is None or self.stopping else self._mcp.poll(scope, message)

    async def _serve_mcp(self, *, task_status: TaskStatus[McpApp]) -> None:
        async with self.backend.mcp(self) as app:
            task_status.started(app)
            await anyio.sleep_forever()

    async def answer(self, context: MessageContext, listener: TurnListener) -> Reply:
        """Answer a message as a turn of this gateway: counted, shown, and stopped on request."""
        turn = context.idempotency_key or random_id()
        async with self.turn(replace(context, idempotency_key=turn)) as one:
            return await one.answer(listener)

    def stop(self) -> None:
        """Take no more orders, and let go of those who only watch."""
        self.stopping = True
        self.hub.close()

    @property
    def patience(self) -> float:
        """Seconds that a client may take to read what it is sent."""
        return self.settings.limits.client_timeout_ms / 1000

    @asynccontextmanager
    async def turn(self, context: MessageContext) -> AsyncGenerator["GatewayTurn"]:
        """A turn that is counted, and that others can stop. Its id is the idempotency key."""
        assert context.idempotency_key is not None
        began = self.clock.monotonic()
        one = GatewayTurn(self, context)
        outcome = "error"
        try:
            turn = context.idempotency_key
            with self.feeds.watched(turn, wanted=bool(self.hub.followers)) as one.feed:
                async with self.turns.run(
                    turn, context.agent_id, context.session_key, context.origin
                ) as running:
                    one.running = running
                    yield one
                if one.feed is not None and one.reply is not None:
                    one.feed.reply(one.reply)
            outcome = one.reply.outcome if one.reply is not None else "error"
        except Cancelled:
            outcome = "cancelled"
            raise
        finally:
            usage = one.reply.usage if one.reply is not None else None
            tokens = (usage.input_tokens, usage.output_tokens) if usage else (0, 0)
            self.metrics.turn(outcome, self.clock.monotonic() - began, *tokens)


class GatewayTurn:
    """One turn on its way through the gateway; its events go to the hub as well."""

    def __init__(self, gateway: Gateway, context: MessageContext) -> None:
        self._gateway = gateway
        self._context = context
        self.running: Running | None = None
        self.reply: Reply | None = None
        self.feed: Feed | None = None

    async def answer(self, listener: TurnListener) -> Reply:
        """Have the agent answer; whoever listens is told nothing that is secret."""
        backend = self._gateway.backend
        outgoing = RedactedTurn(backend.redactor)
        watcher = self._told(listener.on_event)
        on_block_reply = listener.on_block_reply
        redacted = replace(
            listener,
            on_block_reply=outgoing.blocks(on_block_reply) if on_block_reply else None,
            on_event=outgoing.events(watcher) if watcher else None,
        )
        reply = await backend.agent.reply(self._context, redacted)
        if watcher is not None:
            outgoing.flush(watcher)
        self.reply = outgoing.reply(reply)
        return self.reply

    def _told(self, watcher: Emit | None) -> Emit | None:
        """Where events go: to whoever asked, to those who watch this turn, and to the hub."""
        emit, feed = self._gateway.emit, self.feed
        if watcher is None and feed is None:
            return None

        def told(event: Event) -> None:
            if watcher is not None:
                watcher(event)
            if feed is not None:
                feed.event(event)
            if isinstance(event, TurnStarted | TurnFinished | Notice):
                emit(event)  # not every piece of text belongs in the gateway's own stream

        return told
