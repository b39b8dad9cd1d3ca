"""What is kept of turns that run."""

import anyio
import pytest

from openclaw.core.errors import Busy, OperatorFacing
from openclaw.core.events import TextDelta
from openclaw.gateway.event_streams import EventFeed, TurnFeeds, TurnKey

KEY = TurnKey("", "t")

pytestmark = pytest.mark.anyio


async def test_who_comes_late_sees_everything_and_who_is_there_sees_it_as_it_comes() -> None:
    feed = EventFeed()
    early: list[bytes] = []
    late: list[bytes] = []
    async with anyio.create_task_group() as group:
        group.start_soon(feed.follow, early.append)
        feed.put(b"a")
        await anyio.wait_all_tasks_blocked()
        assert early == [b"a"]
        feed.put(b"b")
        group.start_soon(feed.follow, late.append)
        await anyio.wait_all_tasks_blocked()
        feed.put(b"c")
        feed.close()
    assert early == late == [b"a", b"b", b"c"]


async def test_a_turn_that_says_too_much_loses_its_beginning() -> None:
    feed = EventFeed(most=100)
    behind: list[bytes] = []
    async with anyio.create_task_group() as group:
        group.start_soon(feed.follow, behind.append)
        for number in range(25):
            feed.put(b"%10d" % number)
            if number == 3:
                await anyio.wait_all_tasks_blocked()
        feed.close()
    late: list[bytes] = []
    await feed.follow(late.append)
    assert late[-1] == b"%10d" % 24
    assert sum(map(len, late)) <= 100
    numbers = [int(one) for one in behind]
    assert numbers[:4] == [0, 1, 2, 3]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 24


async def test_a_turn_has_one_feed_and_none_once_it_is_over() -> None:
    all_feeds = TurnFeeds()
    with all_feeds.open(KEY) as feed:
        assert all_feeds[KEY] is feed
        with pytest.raises(Busy), all_feeds.open(KEY):
            pytest.fail("there are two")
    assert KEY not in all_feeds


async def test_a_watched_turn_that_fails_says_so_to_those_who_watch() -> None:
    all_feeds = TurnFeeds()
    seen: list[bytes] = []
    kept: list[EventFeed] = []

    def turn() -> None:
        with all_feeds.open(KEY) as feed:
            kept.append(feed)
            feed.event(TextDelta("x"))
            raise OperatorFacing("it broke")

    with pytest.raises(OperatorFacing):
        turn()
    await kept[0].follow(seen.append)
    assert seen[0] == b'event: text_delta\ndata: {"text":"x"}\n\n'
    assert b"it broke" in seen[1]
