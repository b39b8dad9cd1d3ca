"""The worker, with a queue that does as it is told."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import anyio
import pytest

from openclaw.agent.port import Reply
from openclaw.cluster import worker as module
from openclaw.cluster.order_relay import OrderFeed, OrderFeeds
from openclaw.cluster.worker import RunningOrder, Worker
from openclaw.core.errors import Cancelled, NotFound
from openclaw.sessions.postgres.order_queue import OrderQueue, QueuedOrder
from openclaw.sessions.records import LaneLost, StoreError

_ORDER = QueuedOrder(1, "s", "t", "main", 1, 1, "a", ("a",), 1, False, None, b"")
_DONE = Reply("done", "id", "t")


class _Queue:
    """What the database would say."""

    def __init__(self) -> None:
        self.waiting: list[QueuedOrder] = []
        self.alive = {_ORDER.id: False}  # ours, and nobody wants it stopped
        self.failures = 0
        self.returned: list[bool] = []
        self.finished: list[str] = []
        self.lost = False

    async def claim(self, most: int, ready: Any) -> list[QueuedOrder]:
        await anyio.lowlevel.checkpoint()
        if self.failures:
            self.failures -= 1
            raise StoreError("gone")
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        return taken

    async def keep_renewing(
        self,
        held: Callable[[], list[QueuedOrder]],
        renewed: Callable[[QueuedOrder, bool | None], None],
    ) -> None:
        while True:
            await anyio.sleep(0.01)
            for order in held():
                renewed(order, self.alive.get(order.id))

    async def release(self, order: QueuedOrder, *, blameless: bool) -> bool:
        self.returned.append(blameless)
        return True

    async def finish(self, order: QueuedOrder, outcome: str, reply: bytes) -> bool:
        if self.lost:
            raise LaneLost("another gateway took it")
        self.finished.append(outcome)
        return True


class _Trial:
    def __init__(self, queue: _Queue, run: Callable[[RunningOrder], Any]) -> None:
        self.queue = queue
        self.ended: list[Any] = []
        self.done = anyio.Event()
        feeds = cast("OrderFeeds", None)
        self.worker = Worker(
            cast("OrderQueue", queue),
            capacity=2,
            most_attempts=3,
            ready=lambda: ["main"],
            open_feed=lambda order: OrderFeed(order.id, 0, [], feeds),
            run=run,
            ended=self._ended,
        )

    def _ended(self, held: RunningOrder, result: Any) -> None:
        self.ended.append(result)
        self.done.set()

    async def until_done(self) -> None:
        with anyio.fail_after(60):
            async with self.worker.working(lambda: None):
                await self.done.wait()


@pytest.fixture
async def queue(monkeypatch: pytest.MonkeyPatch) -> _Queue:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.01)
    return _Queue()


async def _hang(held: RunningOrder) -> Reply:
    await anyio.sleep_forever()
    return _DONE


async def _raise(error: Exception) -> Reply:
    await anyio.lowlevel.checkpoint()
    raise error


async def test_a_reply_that_was_no_new_turn_ends_its_order(queue: _Queue) -> None:
    async def run(held: RunningOrder) -> Reply:
        await anyio.lowlevel.checkpoint()
        return replace(_DONE, outcome="duplicate")

    queue.failures, queue.waiting = 1, [_ORDER]
    trial = _Trial(queue, run)
    await trial.until_done()
    assert (queue.finished, trial.worker.taken) == (["duplicate"], 1)


@pytest.mark.parametrize(
    ("error", "finished", "returned"),
    [
        (NotFound("no such agent"), ["error"], []),
        (ValueError("a defect"), ["error"], []),
        (LaneLost("it was taken"), [], [False]),
        (StoreError("the database is gone"), [], [False]),
    ],
)
async def test_an_error_before_the_turn_ends_the_order_unless_it_is_not_the_turns_fault(
    queue: _Queue, error: Exception, finished: list[str], returned: list[bool]
) -> None:
    queue.waiting = [_ORDER]
    trial = _Trial(queue, lambda held: _raise(error))
    await trial.until_done()
    assert (queue.finished, queue.returned) == (finished, returned)
    assert trial.ended == [error]


async def test_an_order_that_was_taken_over_is_let_go(queue: _Queue) -> None:
    continued: list[bool] = []

    async def run(held: RunningOrder) -> Reply:
        try:
            return await _hang(held)
        finally:  # another gateway continues the turn: this one must not end it
            continued.append(held.yielding)

    queue.waiting, queue.alive = [_ORDER], {}
    trial = _Trial(queue, run)
    await trial.until_done()
    assert (trial.ended, trial.worker.lost, continued) == ([None], 1, [True])
    assert (queue.finished, queue.returned) == ([], [])


async def test_an_order_that_somebody_wants_stopped_is_stopped_at_the_next_renewal(
    queue: _Queue,
) -> None:
    queue.waiting, queue.alive = [_ORDER], {1: True}
    trial = _Trial(queue, _hang)
    await trial.until_done()
    assert queue.finished == ["cancelled"]


async def test_an_order_that_was_cancelled_before_it_was_taken_is_refused(queue: _Queue) -> None:
    refusals: list[Any] = []

    async def run(held: RunningOrder) -> Reply:
        refusals.append(held.refusal)
        return await _raise(held.refusal or ValueError())

    queue.waiting = [replace(_ORDER, cancelled=True)]
    queue.lost = True  # and meanwhile another gateway has it
    trial = _Trial(queue, run)
    await trial.until_done()
    assert isinstance(refusals[0], Cancelled)
    assert trial.worker.lost == 1


async def test_a_gateway_that_stops_hands_over_what_it_runs_without_blame(queue: _Queue) -> None:
    queue.waiting = [_ORDER]
    trial = _Trial(queue, _hang)
    with anyio.fail_after(60):
        async with trial.worker.working(lambda: None):
            while not trial.worker.running:  # noqa: ASYNC110 - the worker's own task
                await anyio.sleep(0.001)
            assert trial.worker.find(1) is not None
            assert trial.worker.find(99) is None
    assert queue.returned == [True]


async def test_a_gateway_without_workers_takes_nothing(queue: _Queue) -> None:
    queue.waiting = [_ORDER]
    trial = _Trial(queue, _hang)
    trial.worker.capacity = 0
    async with trial.worker.working(lambda: pytest.fail("nothing has to be loaded")):
        await anyio.sleep(0.03)
    assert queue.waiting == [_ORDER]
