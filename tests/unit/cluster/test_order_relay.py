"""Feeds: what is told, what is kept, and what is given up."""

from typing import Any, cast

import anyio
import orjson
import pytest

from openclaw.cluster import order_relay as module
from openclaw.cluster.order_relay import EPOCH, OrderFeeds
from openclaw.core.events import Notice, TextDelta, TurnFinished
from openclaw.core.outcome import Outcome
from openclaw.sessions.postgres.order_queue import (
    MOST_PAYLOAD_BYTES,
    EventBatch,
    GatewayChannel,
    OrderQueue,
)
from openclaw.sessions.records import StoreError


class _Queue:
    def __init__(self) -> None:
        self.kept: list[EventBatch] = []
        self.failures = 0
        self.news = anyio.Event()

    async def keep_events(self, stretches: list[EventBatch]) -> None:
        await anyio.lowlevel.checkpoint()
        if self.failures:
            self.failures -= 1
            raise StoreError("gone")
        self.kept += stretches
        self.news.set()


class _Wire:
    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    def tell(self, gateway: str, message: dict[str, Any]) -> None:
        assert len(orjson.dumps(message)) <= MOST_PAYLOAD_BYTES
        self.told.append((gateway, message))


@pytest.fixture
def log() -> _Queue:
    return _Queue()


@pytest.fixture
def wire() -> _Wire:
    return _Wire()


def _feeds(log: _Queue, wire: _Wire, delivered: list[Any] | None = None) -> OrderFeeds:
    heard = [] if delivered is None else delivered
    return OrderFeeds(
        "a",
        cast("OrderQueue", log),
        cast("GatewayChannel", wire),
        lambda order, first, events: heard.append((order, first, events)),
    )


async def test_a_watcher_here_hears_at_once_and_one_elsewhere_in_messages_that_fit(
    log: _Queue, wire: _Wire
) -> None:
    delivered: list[Any] = []
    feeds = _feeds(log, wire, delivered)
    feed = feeds.open(7, 1, ("a", "b"))
    for number in range(300):
        feed.on_event(TextDelta(f"word {number} " * 5))
    feed.on_event(Notice("info", "x" * 10_000))
    feed.on_event(TextDelta("the end"))
    feed.on_event(TurnFinished("s", "t", Outcome.OK))
    assert len(delivered) == 302
    await feed.flush()
    batches = [message for _, message in wire.told if "e" in message]
    assert [gateway for gateway, _ in wire.told] == ["b"] * len(wire.told)
    told = sum(len(message["e"]) for message in batches)
    assert told == 301  # all but the one that is too large
    assert batches[0]["a"] == EPOCH + 1
    assert wire.told[-1][1] == {"o": 7, "f": EPOCH + 302}
    [kept] = log.kept
    assert (kept.first, kept.last, len(orjson.loads(kept.body))) == (EPOCH + 1, EPOCH + 302, 302)


async def test_what_could_not_be_kept_is_kept_later_and_given_up_when_it_grows_too_large(
    log: _Queue, wire: _Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(module, "TOLD_EVERY_SECONDS", 0.001)
    feeds = _feeds(log, wire)
    feed = feeds.open(7, 1, ("b",))
    log.failures = 1
    feed.on_event(TextDelta("one"))
    await feed.flush()
    assert (log.kept, len(feed.unkept)) == ([], 1)
    async with anyio.create_task_group() as group:
        group.start_soon(feeds.run)
        feed.on_event(TextDelta("two"))
        with anyio.fail_after(60):
            await log.news.wait()
        group.cancel_scope.cancel()
    assert (log.kept[0].first, log.kept[0].last) == (EPOCH + 1, EPOCH + 2)
    monkeypatch.setattr(module, "_MOST_UNKEPT_BYTES", 10)
    log.failures = 1
    feed.on_event(TextDelta("three"))
    await feed.flush()
    assert feed.unkept == []


async def test_one_who_comes_to_watch_is_told_from_then_on(log: _Queue, wire: _Wire) -> None:
    feeds = _feeds(log, wire)
    feed = feeds.open(7, 1, ("a",))
    feed.on_event(TextDelta("before"))
    await feed.flush()
    assert (wire.told, log.kept) == ([], [])
    feed.add_watcher("c")
    feed.add_watcher("c")
    await feed.flush()
    assert feed.watchers == ["a", "c"]
    assert len(log.kept) == 1
    feeds.close(feed)
    feeds.close(feed)
