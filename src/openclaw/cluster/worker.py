"""A gateway's worker: claims orders that any gateway accepted, and runs them."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from openclaw.agent.port import Reply
from openclaw.cluster.order_relay import OrderFeed, answer_bytes
from openclaw.core.errors import Cancelled, OpenClawError, UserFacing
from openclaw.core.outcome import Outcome
from openclaw.sessions.lanes import Lane
from openclaw.sessions.postgres.order_queue import OrderQueue, QueuedOrder
from openclaw.sessions.records import LaneLost, SessionRef, StoreError
from openclaw.sessions.store import SessionStore

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5  # how often to look for orders of dead gateways, which no message announces
_TAKEN_AT_ONCE = 4  # so that waiting orders are spread over gateways with room
_PAUSE_SECONDS = 1.0
_GIVE_BACK_SECONDS = 5.0
BY_REQUEST = "the turn was cancelled"


@dataclass(slots=True, eq=False)
class RunningOrder:
    """An order running here: the `Claim` of its message, and how to stop it."""

    order: QueuedOrder
    feed: OrderFeed
    refusal: OpenClawError | None
    queue: OrderQueue
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    yielding: bool = False
    ending: bool = False  # whether the end of the turn and order may have been written
    more: bool = False
    lost: bool = False
    stopped: bool = False

    def lane(self, store: SessionStore, session: SessionRef) -> AbstractAsyncContextManager[Lane]:
        return store.acquire_lane(session, entitled=True)

    async def finish(self, lane: Lane, outcome: Outcome, result: Reply | BaseException) -> None:
        cancelled = isinstance(result, anyio.get_cancelled_exc_class())
        await self.feed.flush()
        answer = await _encoded(Cancelled(BY_REQUEST) if cancelled else result)

        def then(more: bool) -> None:
            self.ending, self.more = True, more

        lane.on_finish = self.queue.finishing(self.order, outcome, answer, self.feed.number, then)

    def stop(self) -> None:
        self.stopped = True
        self.scope.cancel("cancelled")

    def lose(self) -> None:
        self.lost = self.yielding = True
        self.scope.cancel("taken over")

    def hand_over(self) -> None:
        self.yielding = True
        self.scope.cancel("handed over")


Run = Callable[[RunningOrder], Awaitable[Reply]]
Ended = Callable[[RunningOrder, Reply | BaseException | None], None]


@dataclass(eq=False)
class Worker:
    queue: OrderQueue
    capacity: int
    most_attempts: int
    ready: Callable[[], Sequence[str]]  # the agents whose servers run here
    open_feed: Callable[[QueuedOrder], OrderFeed]
    run: Run
    ended: Ended
    # How many orders it claimed, took over, gave up, lost to others, and returned.
    taken: int = 0
    taken_over: int = 0
    given_up: int = 0
    lost: int = 0
    returned: int = 0
    _held: dict[int, RunningOrder] = field(default_factory=dict[int, RunningOrder])
    _kick: anyio.Event = field(default_factory=anyio.Event)
    _idle: anyio.Event = field(default_factory=anyio.Event)
    _stopping: bool = False

    @property
    def running(self) -> int:
        return len(self._held)

    def kick(self) -> None:
        self._kick.set()

    def find(self, order: int) -> RunningOrder | None:
        return self._held.get(order)

    @asynccontextmanager
    async def working(self, prepare: Callable[[], None]) -> AsyncGenerator[None]:
        """Work while the block runs; at the end, running orders are handed to other gateways.

        `prepare` imports what turns need, in a thread. Nothing is claimed before that, because other
        gateways may be able to start at once.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(self._take_orders, group, prepare, name="turn worker")
            group.start_soon(
                self.queue.keep_renewing, self._orders, self._renewed, name="turn leases"
            )
            try:
                yield
            finally:
                self.stop_taking()
                with anyio.CancelScope(shield=True), anyio.move_on_after(2 * _GIVE_BACK_SECONDS):
                    for held in self._held.values():
                        held.hand_over()
                    await self.until_idle()
                group.cancel_scope.cancel()

    def stop_taking(self) -> None:
        self._stopping = True
        self._kick.set()

    async def until_idle(self) -> None:
        while self._held:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def _take_orders(self, group: TaskGroup, prepare: Callable[[], None]) -> None:
        if self.capacity:
            await anyio.to_thread.run_sync(prepare)
        while not self._stopping:
            if not await self._took_all(group):
                continue
            with anyio.move_on_after(POLL_SECONDS):
                await self._kick.wait()
            self._kick = anyio.Event()

    async def _took_all(self, group: TaskGroup) -> bool:
        """Claim as many orders as there is room for; false if there may be more."""
        most = min(self.capacity - len(self._held), _TAKEN_AT_ONCE)
        if most <= 0:
            return True
        try:
            orders = await self.queue.claim(most, self.ready())
        except StoreError as error:
            logger.warning("cannot claim orders: %s", error.message)
            await anyio.sleep(_PAUSE_SECONDS)
            return True
        for order in orders:
            group.start_soon(self._one, self._hold(order), name=f"turn {order.turn}")
        return len(orders) < most

    def _hold(self, order: QueuedOrder) -> RunningOrder:
        self.taken += 1
        self.taken_over += order.read_ct > 1
        refusal: UserFacing | None = None
        if order.attempts > self.most_attempts:
            self.given_up += 1
            refusal = UserFacing(
                f"the turn was given up: {order.attempts - 1} gateways stopped while they ran it",
                hint="see in the transcript what it did last, then send the message again",
            )
        if order.cancelled:
            refusal = Cancelled(BY_REQUEST)
        held = self._held[order.id] = RunningOrder(
            order, self.open_feed(order), refusal, self.queue
        )
        return held

    async def _one(self, held: RunningOrder) -> None:
        result: Reply | BaseException | None = None
        try:
            with held.scope:
                result = await self._result(held)
            with anyio.CancelScope(shield=True), anyio.move_on_after(_GIVE_BACK_SECONDS):
                await self._close(held, result)
        except StoreError as error:
            logger.warning("the end of an order could not be written: %s", error.message)
        finally:
            if self._held.get(held.order.id) is held:
                del self._held[held.order.id]
            self._idle.set()
            self._kick.set()
            self.ended(held, result)

    async def _result(self, held: RunningOrder) -> Reply | BaseException:
        try:
            return await self.run(held)
        except OpenClawError as error:
            return error
        except Exception as error:
            order = held.order
            names = order.turn, order.session, order.agent
            logger.exception("turn %s of session %s (agent %s) failed", *names)
            return error

    async def _close(self, held: RunningOrder, result: Reply | BaseException | None) -> None:
        """End or return an order whose end was not written with that of its turn."""
        if held.ending or held.lost:
            return
        if held.yielding or isinstance(result, LaneLost | StoreError):
            # Not the turn's fault: the gateway is stopping, or lost its session or database.
            self.returned += 1
            await self.queue.release(held.order, blameless=held.yielding)
            return
        if result is None:
            result = Cancelled(BY_REQUEST)
        failed = Outcome.CANCELLED if isinstance(result, Cancelled) else Outcome.ERROR
        outcome = result.outcome if isinstance(result, Reply) else failed
        answer = await _encoded(result)
        try:
            held.more = await self.queue.finish(held.order, outcome, answer)
        except LaneLost:
            self.lost += 1

    def _orders(self) -> list[QueuedOrder]:
        return [held.order for held in list(self._held.values())]

    def _renewed(self, order: QueuedOrder, stop: bool | None) -> None:
        held = self._held.get(order.id)
        if held is None or held.order is not order or held.ending:
            return  # it ended meanwhile
        if stop is None:
            self.lost += 1
            held.lose()
        elif stop and not held.stopped:
            held.stop()


async def _encoded(result: Reply | BaseException) -> bytes:
    if isinstance(result, Reply) and result.media:
        return await anyio.to_thread.run_sync(answer_bytes, result)
    return answer_bytes(result)
