"""The gateway while it runs: what its routes share."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from anyio.abc import TaskGroup

from openclaw.agent.context import MessageContext, OnBlockReply, OnToolResult, Reply
from openclaw.config.paths import StatePaths
from openclaw.config.schema import GatewayConfig
from openclaw.core.clock import Clock
from openclaw.core.errors import Cancelled, OperatorFacing
from openclaw.core.events import Emit, Event, Notice, TurnFinished, TurnStarted
from openclaw.gateway.feeds import Feed, Feeds
from openclaw.gateway.house import House
from openclaw.gateway.hub import Hub
from openclaw.gateway.metrics import Metrics
from openclaw.gateway.questions import Asker, Questions
from openclaw.gateway.redacting import RedactedTurn
from openclaw.gateway.turns import Running, Turns


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """What a reload did. `waiting` are key paths whose change counts only after a restart."""

    changed: bool
    waiting: tuple[str, ...] = ()


Reload = Callable[[], Awaitable[ReloadReport]]


async def _no_reload() -> ReloadReport:
    return ReloadReport(changed=False)


@dataclass(slots=True)
class Gateway:
    """What every route uses. `house` is there once everything is built."""

    settings: GatewayConfig
    paths: StatePaths
    clock: Clock
    redact: Callable[[str], str]
    config_path: Path
    started: int
    url: str = ""
    log_file: Path | None = None
    reload: Reload = _no_reload
    hub: Hub = field(default_factory=Hub)
    feeds: Feeds = field(default_factory=Feeds)
    background: TaskGroup | None = None
    metrics: Metrics = field(default_factory=Metrics)
    turns: Turns = field(init=False)
    questions: Questions = field(init=False)
    scopes: set[str] = field(default_factory=set[str])
    opened: House | None = None
    stopping: bool = False
    last_reload_error: str | None = None

    def __post_init__(self) -> None:
        self.turns = Turns(self.clock)
        self.questions = Questions(self.settings.limits.question_timeout_ms / 1000)

    @property
    def house(self) -> House:
        """The agents; raises until they are there."""
        if self.opened is None:
            raise OperatorFacing("the gateway is starting")
        return self.opened

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
            with self.feeds.watched(turn, wanted=self.hub.heard) as one.feed:
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
            self.metrics.turn(
                outcome,
                self.clock.monotonic() - began,
                usage.input_tokens if usage else 0,
                usage.output_tokens if usage else 0,
            )


class GatewayTurn:
    """One turn on its way through the gateway; what happens in it is told to the hub as well."""

    def __init__(self, gateway: Gateway, context: MessageContext) -> None:
        self._gateway = gateway
        self._context = context
        self.running: Running | None = None
        self.reply: Reply | None = None
        self.feed: Feed | None = None

    async def answer(
        self,
        *,
        on_block_reply: OnBlockReply | None = None,
        on_tool_result: OnToolResult | None = None,
        on_event: Emit | None = None,
        asker: Asker | None = None,
    ) -> Reply:
        """Have the agent answer; `asker` asks the person who gave the order."""
        house = self._gateway.house
        outgoing = RedactedTurn(house.redactor)
        watcher = self._told(on_event)
        reply = await house.get_reply(
            self._context,
            on_block_reply=outgoing.blocks(on_block_reply) if on_block_reply else None,
            on_tool_result=on_tool_result,
            on_event=outgoing.events(watcher) if watcher else None,
            ask=asker.permit if asker is not None else None,
            elicit=asker.elicit if asker is not None else None,
        )
        if watcher is not None:
            outgoing.flush(watcher)
        self.reply = outgoing.reply(reply)
        return self.reply

    def _told(self, watcher: Emit | None) -> Emit | None:
        """Who is told what happens: whoever asked, those who watch, and the hub."""
        emit, feed = self._gateway.hub.emit, self.feed
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
