"""A gateway in a cluster: accepts orders, runs claimed ones, and reports its state."""

import logging
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from openclaw.agent.event_codec import error_json, listener_to, reply_json, tell
from openclaw.agent.port import NO_LISTENER, Agent, MessageContext, Reply, TurnListener
from openclaw.agent.redaction import clean_message
from openclaw.cluster import order_relay
from openclaw.cluster.worker import BY_REQUEST, RunningOrder, Worker
from openclaw.config.schema import ClusterConfig
from openclaw.core.clock import Clock, random_id
from openclaw.core.errors import Cancelled, InvalidRequest
from openclaw.core.events import Notice, TurnFinished
from openclaw.core.outcome import Outcome
from openclaw.media.stored_files import order_files
from openclaw.sessions.postgres.order_queue import (
    BEAT_SECONDS,
    GatewayChannel,
    Gateways,
    Message,
    OrderQueue,
)
from openclaw.sessions.postgres.pool import Database
from openclaw.sessions.records import LaneLost, SessionRef, StoreError, storable
from openclaw.version import __version__

if TYPE_CHECKING:
    from openclaw.mcp_client.lifecycle.manager import McpManager

logger = logging.getLogger(__name__)

_CANCEL_SECONDS = 5.0
_LEAVE_SECONDS = 2.0
_LISTEN_SECONDS = 2.0  # how long to wait for a connection before taking orders without messages
_BEATS_PER_PRUNING = 30

Json = dict[str, Any]
Figure = tuple[str, str, dict[tuple[()], float]]  # for the metrics: name, help, value

_UNREADY = ("connecting", "error", "failed", "needs_login")


class ClusterNode:
    """This gateway. `answer` runs a turn in this process; `load` imports what that needs."""

    def __init__(
        self,
        database: Database,
        settings: ClusterConfig,
        *,
        url: str,
        agent: Agent,
        answer: Callable[[MessageContext, TurnListener], Awaitable[Reply]],
        agents: Callable[[], Sequence[str]],
        servers: "McpManager",
        clock: Clock,
        load: Callable[[], None],
    ) -> None:
        self.id = random_id()
        self.url = url
        self.draining = False
        self._settings = settings
        self._agent, self._answer, self._load = agent, answer, load
        self._clock = clock
        self._agents, self._servers = agents, servers
        self.queue = OrderQueue(database, self.id)
        self._gateways = Gateways(database, self.id)
        self._hurry = database.hurry
        self._watches = order_relay.OrderWatches(self.queue)
        self._channel = GatewayChannel(
            database,
            self.id,
            on_wake=lambda: self.worker.kick(),
            on_message=self._heard,
            on_connected=self._watches.look_all,
        )
        deliver = self._watches.deliver
        self._feeds = order_relay.OrderFeeds(self.id, self.queue, self._channel, deliver)
        self.worker = Worker(
            self.queue,
            capacity=settings.workers,
            most_attempts=settings.max_attempts,
            ready=self._ready_agents,
            open_feed=lambda order: self._feeds.open(order.id, order.read_ct, order.watchers),
            run=self._run,
            ended=self._ended,
        )
        self._askers: dict[tuple[str, str], TurnListener] = {}
        self._reached = self._clock.monotonic()

    # ---- accepting orders

    async def reply(self, context: MessageContext, listener: TurnListener = NO_LISTENER) -> Reply:
        agent = await self._agent.settings(context.agent_id)
        if storable(context.text) != context.text:
            raise InvalidRequest(
                "contains characters that cannot be sent to a model", field="message"
            )
        turn = context.idempotency_key or random_id()
        context = clean_message(context, agent.redactor)
        context = replace(context, agent_id=agent.id, idempotency_key=turn, claim=None)
        on_event = listener.on_event
        callbacks = listener.on_block_reply is not None or listener.on_tool_result is not None
        encode = partial(
            order_relay.order_bytes, context, streams=on_event is not None, callbacks=callbacks
        )
        body = await anyio.to_thread.run_sync(encode) if context.media else encode()
        store = await self._agent.store()
        session = await store.open_session(agent.id, context.session_key)
        key = (session.id, turn)
        if listener.ask is not None:
            self._askers[key] = listener
        try:
            pin = await self._pin(session, context, asks=key in self._askers)
            enqueued = await self.queue.enqueue(
                session,
                turn,
                body,
                most=self._settings.max_waiting_per_session,
                most_in_all=self._settings.max_waiting,
                pin=pin,
            )
            with self._watches.watch(enqueued.id) as watch:
                if enqueued.created:
                    self._offer(agent.id)
                else:
                    await self._join(watch)
                reply = await self._followed(watch, listener)
        finally:
            self._askers.pop(key, None)
        if on_event is not None:
            on_event(TurnFinished(context.session_key, turn, Outcome.OK))
        return reply

    async def _pin(self, session: SessionRef, context: MessageContext, *, asks: bool) -> str | None:
        """This gateway, if only it has the turn's person, directory or client-provided servers."""
        scope = context.server_scope
        servers = [one.snapshot.name for one in self._servers.status() if scope in one.sessions]
        if servers or context.scope is not None:
            await self._gateways.set_home(session.id, servers)
        return self.id if asks or servers or context.workspace is not None else None

    def _offer(self, agent: str) -> None:
        """Wake our worker, or all workers if ours is full or not ready."""
        self.worker.kick()
        if self.worker.running >= self.worker.capacity or agent not in self._ready_agents():
            self._channel.wake()

    def _ready_agents(self) -> Sequence[str]:
        unready = [one for one in self._servers.status() if one.snapshot.state.value in _UNREADY]
        waiting = {agent for one in unready for agent in one.agents}
        return [agent for agent in self._agents() if agent not in waiting]

    async def _join(self, watch: order_relay.OrderWatch) -> None:
        runner = await self.queue.watch(watch.order)
        if runner is not None:
            self._channel.tell(runner, {"o": watch.order, "w": self.id})
        watch.end()  # which checks whether it has ended

    async def _followed(self, watch: order_relay.OrderWatch, listener: TurnListener) -> Reply:
        try:
            async with aclosing(self._watches.events(watch)) as events:
                async for _, name, body in events:
                    tell(listener, name, body)
        except anyio.get_cancelled_exc_class():
            if not self.draining:  # if this gateway stops, another one continues the turn
                with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCEL_SECONDS):
                    await self.cancel(watch.order)
            raise
        result = watch.result
        assert result is not None
        if isinstance(result, BaseException):
            raise result
        return result

    # ---- stopping

    async def cancel(self, order: int) -> bool:
        stopped = await self.queue.cancel(order, order_relay.answer_bytes(Cancelled(BY_REQUEST)))
        if stopped.runner is not None:
            self._channel.tell(stopped.runner, {"o": order, "c": True})
        elif stopped.known:
            for gateway in stopped.watchers:
                self._channel.tell(gateway, {"o": order, "d": True})
            if stopped.more:
                self.worker.kick()
                self._channel.wake()
        return stopped.known

    async def orders_of_turn(self, turn: str) -> list[tuple[int, str]]:
        """The orders with this turn id, the unfinished ones first, each with its session's key."""
        return await self.queue.find(turn)

    async def cancel_session(self, key: str, agent: str | None) -> int:
        orders = await self.queue.unfinished_of(key, agent)
        return sum([await self.cancel(order) for order in orders])

    def drain(self) -> None:
        self.draining = True
        self.worker.stop_taking()

    # ---- watching turns of any gateway

    async def watch_order(
        self, order: int, after: int = 0
    ) -> AsyncGenerator[order_relay.NamedEvent]:
        """The events of any gateway's turn after number `after`, then its answer.

        The answer is named `reply` or `error`.
        """
        with self._watches.watch(order, after) as watch:
            await self._join(watch)
            async with aclosing(self._watches.events(watch)) as events:
                async for event in events:
                    yield event
            if isinstance(watch.result, Reply):
                yield (watch.seen + 1, "reply", reply_json(watch.result))
            elif watch.result is not None:
                yield (watch.seen + 1, "error", error_json(watch.result))

    # ---- running

    async def _run(self, held: RunningOrder) -> Reply:
        order = held.order
        with ExitStack() as stack:
            if order_relay.has_media(order.body):
                files = stack.enter_context(order_files((await self._agent.settings()).temp_root))
                carried = await anyio.to_thread.run_sync(order_relay.order_from, order.body, files)
            else:
                carried = order_relay.order_from(order.body, None)
            if order.pin is not None and order.pin != self.id:
                await self._tell_homeless(held)
            context, streams, callbacks = carried
            asker = self._askers.get((order.session, order.turn), NO_LISTENER)
            relaying = listener_to(
                held.feed.put, events=streams, callbacks=callbacks, carried=order_relay.blocks_held
            )
            listener = replace(relaying, ask=asker.ask, attended=asker.attended)
            return await self._answer(replace(context, claim=held), listener)

    async def _tell_homeless(self, held: RunningOrder) -> None:
        order = held.order
        assert order.pin is not None
        servers = await self._gateways.clear_home(order.session, order.pin)
        lost = f": MCP servers {', '.join(servers)} were lost with it" if servers else ""
        held.feed.on_event(Notice("warning", f"the gateway of this session is gone{lost}"))

    def _ended(self, held: RunningOrder, result: Reply | BaseException | None) -> None:
        self._feeds.close(held.feed)
        if held.yielding or isinstance(result, LaneLost | StoreError):
            self._channel.wake()
            return
        answer = Cancelled(BY_REQUEST) if result is None else result
        for gateway in held.feed.watchers:
            if gateway == self.id:
                self._watches.tell(held.order.id, lambda watch: watch.end(answer))
            else:
                self._channel.tell(gateway, {"o": held.order.id, "d": True})
        if held.more:
            self._offer(held.order.agent)

    # ---- messages from other gateways

    def _heard(self, message: Message) -> None:
        order = message["o"]
        if "e" in message:
            self._watches.deliver(order, message["a"], message["e"])
        elif "f" in message:
            self._watches.tell(order, lambda watch: watch.kept(message["f"]))
        elif "d" in message:
            self._watches.tell(order, order_relay.OrderWatch.end)
        elif (held := self.worker.find(order)) is None:
            return  # it ended meanwhile
        elif "c" in message:
            held.stop()
        elif "w" in message:
            held.feed.add_watcher(message["w"])

    # ---- state

    @property
    def reachable(self) -> bool:
        return self._clock.monotonic() - self._reached < 3 * BEAT_SECONDS

    async def gateways(self) -> list[Json]:
        return await self._gateways.listed()

    def figures(self) -> list[Figure]:
        depth, worker = self.queue.depth, self.worker
        found: list[tuple[str, str, float]] = [
            ("database_up", "1 while the database answers.", self.reachable),
            ("queue_waiting", "Turns that wait anywhere.", depth.waiting),
            ("queue_running", "Turns that run anywhere.", depth.running),
            ("queue_oldest_seconds", "How long the oldest waits.", depth.oldest_seconds),
            ("worker_running", "Turns that run here.", worker.running),
            ("worker_capacity", "Turns that may run here.", worker.capacity),
            ("turns_taken_total", "Turns taken to run here.", worker.taken),
            ("turns_taken_over_total", "Turns whose gateway stopped.", worker.taken_over),
            ("turns_parked_total", "Turns given up: too many attempts.", worker.given_up),
            ("turns_lost_total", "Turns that another gateway took over.", worker.lost),
            ("turns_returned_total", "Turns handed to another gateway.", worker.returned),
        ]
        return [(name, text, {(): value}) for name, text, value in found]

    def _facts(self) -> Json:
        return {
            "url": self.url,
            "stopping": self.draining,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": __version__,
            "workers": self.worker.capacity,
            "running": self.worker.running,
            "readyAgents": self._ready_agents(),
            "servers": [
                {
                    "name": one.snapshot.name,
                    "state": one.snapshot.state.value,
                    "agents": list(one.agents),
                    "sessions": list(one.sessions),
                    "tools": one.tools,
                }
                for one in self._servers.status()
            ],
        }

    async def _beat(self) -> None:
        beats = 0
        while True:
            try:
                await self._gateways.heartbeat(self._facts())
                await self.queue.forget_future()
                await self.queue.measure()
                self._reached = self._clock.monotonic()
                if beats % _BEATS_PER_PRUNING == 0:
                    await self.queue.prune()
            except StoreError as error:
                logger.warning("the database cannot be reached: %s", error.message)
            beats += 1
            await anyio.sleep(BEAT_SECONDS)

    # ---- lifetime

    @asynccontextmanager
    async def joined(self, grace: float) -> AsyncGenerator[None]:
        """Be part of the cluster while the block runs; at the end, turns get `grace` seconds."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._channel.run, name="messages of gateways")
            with anyio.move_on_after(_LISTEN_SECONDS):
                await self._channel.connected.wait()
            group.start_soon(self._feeds.run, name="events of turns")
            group.start_soon(self._beat, name="heartbeat")
            async with self.worker.working(self._load):
                try:
                    yield
                finally:
                    self.drain()
                    with anyio.CancelScope(shield=True), anyio.move_on_after(grace):
                        await self.worker.until_idle()
                    if not self.worker.running:
                        self._hurry()  # no turn has anything left to write
            self._hurry()
            await self._leave()
            group.cancel_scope.cancel()

    async def _leave(self) -> None:
        why = "the database did not answer in time"
        try:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_LEAVE_SECONDS):
                await self._gateways.leave()
                return
        except StoreError as error:
            why = error.message
        logger.warning("the other gateways could not be told: %s", why)
