"""Events in order, whatever order they come in, and the answer at the end."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import anyio
import pytest

from openclaw.agent.port import Reply
from openclaw.cluster import order_relay
from openclaw.cluster.order_relay import EPOCH, OrderWatch, OrderWatches, answer_bytes
from openclaw.core.errors import NotFound
from openclaw.sessions.postgres.order_queue import EventBatch, OrderQueue

_DONE = Reply("done", "id", "k")


class _Table:
    """What the database holds of one order."""

    def __init__(self) -> None:
        self.stretches: list[EventBatch] = []
        self.state = "running"
        self.reply = answer_bytes(_DONE)
        self.looks = 0

    async def events_after(self, order: int, number: int) -> list[EventBatch]:
        self.looks += 1
        return [one for one in self.stretches if one.last > number]

    async def answer(self, order: int) -> bytes | None:
        return self.reply if self.state == "done" else None


@pytest.fixture
def table() -> _Table:
    return _Table()


@pytest.fixture
def watches(table: _Table) -> OrderWatches:
    return OrderWatches(cast("OrderQueue", table))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_relay, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(order_relay, "_GAP_SECONDS", 0.01)


async def _names(events: AsyncGenerator[Any]) -> list[str]:
    with anyio.fail_after(60):
        async with aclosing(events) as all_of_them:
            return [name async for _, name, _ in all_of_them]


def _put(watches: OrderWatches, first: int, *names: str) -> None:
    watches.deliver(1, EPOCH + first, [[name, {}] for name in names])


async def test_events_come_in_order_and_the_answer_of_this_gateway_ends_them(
    watches: OrderWatches, table: _Table
) -> None:
    with watches.watch(1) as watch:
        _put(watches, 3, "c")
        _put(watches, 1, "a", "b")
        _put(watches, 2, "b")
        watches.tell(1, lambda one: one.end(_DONE))
        assert await _names(watches.events(watch)) == ["a", "b", "c"]
        assert watch.result is _DONE
    assert table.looks == 0


async def test_what_was_missed_is_read_from_the_database(
    watches: OrderWatches, table: _Table
) -> None:
    with watches.watch(1) as watch:
        _put(watches, 1, "a")
        _put(watches, 4, "d")
        table.stretches = [EventBatch(1, EPOCH + 2, EPOCH + 3, b'[["b",{}],["c",{}]]')]
        table.state = "done"
        assert await _names(watches.events(watch)) == ["a", "b", "c", "d"]
        assert watch.result == _DONE


async def test_what_nobody_has_any_more_is_passed_over_at_the_end(
    watches: OrderWatches, table: _Table
) -> None:
    with watches.watch(1) as watch:
        _put(watches, 2, "b")
        _put(watches, 5, "e")
        table.state = "done"
        watch.end()
        assert await _names(watches.events(watch)) == ["b", "e"]


async def test_an_end_that_was_told_too_early_is_not_believed(
    watches: OrderWatches, table: _Table
) -> None:
    with watches.watch(1) as watch:
        watch.end()
        async with anyio.create_task_group() as group:

            async def finish() -> None:
                while watch.ended:  # noqa: ASYNC110 - it is the watcher who unsets it
                    await anyio.sleep(0.005)
                _put(watches, 1, "a")
                table.state = "done"
                watch.end()

            group.start_soon(finish)
            assert await _names(watches.events(watch)) == ["a"]


async def test_an_answer_that_was_read_is_kept_when_its_end_is_told_again(
    watches: OrderWatches, table: _Table
) -> None:
    with watches.watch(1) as watch:
        watch.end(_DONE)
        watch.end()
        assert watch.result is _DONE


async def test_a_later_attempt_goes_on_where_an_earlier_one_broke_off() -> None:
    watch = OrderWatch(1)
    watch.put(EPOCH + 1, [["a", {}]])
    watch.put(EPOCH + 3, [["lost", {}]])
    watch.put(2 * EPOCH + 1, [["again", {}], ["more", {}]])
    assert [name for _, name, _ in watch.take()] == ["a", "again", "more"]
    assert not watch.gap
    watch.put(EPOCH + 2, [["late", {}]])
    assert watch.take() == []
    assert watch.take(all=True) == []


async def test_what_came_before_somebody_watched_is_handed_over(watches: OrderWatches) -> None:
    _put(watches, 1, "early")
    with watches.watch(1) as watch:
        assert [name for _, name, _ in watch.take()] == ["early"]
    for order in range(2000):
        watches.tell(order + 10, OrderWatch.end)
    with watches.watch(10) as forgotten:
        assert not forgotten.ended


async def test_a_watcher_looks_only_where_it_is_behind(watches: OrderWatches) -> None:
    with watches.watch(1, seen=5) as watch:
        watch.kept(5)
        assert not watch.ask_log
        watches.look_all()
        assert watch.ask_log
        watch.ask_log = False
        watch.kept(6)
        assert watch.ask_log


async def test_an_error_is_an_answer_and_so_is_an_answer_that_cannot_be_read(
    watches: OrderWatches, table: _Table
) -> None:
    table.state = "done"
    for reply, kind in ((answer_bytes(NotFound("no")), NotFound), (b"", ValueError)):
        table.reply = reply
        with watches.watch(1) as watch:
            watch.end()
            assert await _names(watches.events(watch)) == []
            assert isinstance(watch.result, kind)
