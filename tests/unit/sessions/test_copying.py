"""Copying between stores: whole, again, and from where it was stopped."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from openclaw.core.clock import SystemClock
from openclaw.core.events import Usage
from openclaw.core.outcome import Outcome
from openclaw.sessions.copying import CopyConflict, CopyReport, copy_sessions
from openclaw.sessions.postgres.address import parsed
from openclaw.sessions.postgres.store import open_postgres_store
from openclaw.sessions.records import Entry, EntryKind, NewEntry, SessionInfo
from openclaw.sessions.sqlite.store import open_sqlite_store
from openclaw.sessions.store import SessionStore

K = EntryKind
Kind = str


async def fill(store: SessionStore) -> None:
    """Sessions of every kind: long, compacted, half-way, empty, oddly named."""
    for number in range(3):
        session = await store.open_session("main", f"talk {number}")
        for turn_number in range(25 if number == 0 else 2):
            async with store.acquire_lane(session) as lane:
                turn = await lane.begin_turn(
                    [NewEntry(K.USER_MESSAGE, {"n": turn_number}, "find needle")]
                )
                call = NewEntry(K.TOOL_CALL, {"x": "\0"}, call_id="c", details={"private": 1})
                await lane.append(turn, [call, NewEntry(K.TOOL_RESULT, {"y": 2**70}, call_id="c")])
                await lane.finish_turn(turn, Outcome.OK, usage=Usage(1, 2, 3, 4, 5, 6))
    session = await store.open_session("main", "talk 2")
    async with store.acquire_lane(session) as lane:
        await lane.compact(None, NewEntry(K.COMPACTION, {"summary": "…"}), through=5)
    await store.set_title(session, "A title")
    await store.open_session("other", "empty")
    odd = await store.open_session("main", "\u202e'; --\n😀")
    async with store.acquire_lane(odd) as lane:  # left half-way
        await lane.begin_turn(turn="half")
        await lane.append("half", [NewEntry(K.TOOL_CALL, {}, call_id="open")])


async def contents(store: SessionStore) -> dict[str, Any]:
    page = await store.list_sessions(limit=None)
    return {
        info.id: (
            info,
            await store.history(info.ref, since_compaction=False),
            [entry.seq for entry in await store.history(info.ref)],
            await store.unfinished_turns(info.ref),
        )
        for info in page.sessions
    }


@pytest.fixture
async def open_one(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncGenerator[Callable[[Kind], Any]]:
    async with AsyncExitStack() as stack:

        async def opened(kind: Kind) -> Any:
            if kind == "postgres":
                url: str = request.getfixturevalue("postgres_url")
                return await stack.enter_async_context(open_postgres_store(parsed(url)))
            return await stack.enter_async_context(
                open_sqlite_store(tmp_path / f"{kind}.db", SystemClock())
            )

        yield opened


def ignore(report: CopyReport) -> None:
    pass


@pytest.mark.parametrize(
    ("one", "other"), [("file", "postgres"), ("postgres", "file"), ("file", "second")]
)
async def test_everything_goes_over_and_a_second_time_nothing_does(
    open_one: Any, one: Kind, other: Kind
) -> None:
    source, target = await open_one(one), await open_one(other)
    await fill(source)
    before = await contents(source)
    report = await copy_sessions(source, target, ignore)
    assert (report.copied, report.unchanged, report.refused) == (5, 0, [])
    assert await contents(target) == before == await contents(source)
    assert len(await target.search("needle")) == 20
    again = await copy_sessions(source, target, ignore)
    assert (again.copied, again.unchanged, again.entries) == (0, 5, 0)


class Stopped(Exception):
    """Stands for the end of the process."""


class StoppingArchive:
    """A target whose process ends after so many pieces."""

    def __init__(self, target: Any, pieces: int) -> None:
        self._target = target
        self.pieces = pieces

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    async def receive_entries(
        self, info: SessionInfo, after: int, entries: Sequence[Entry]
    ) -> None:
        if self.pieces == 0:
            raise Stopped
        self.pieces -= 1
        await self._target.receive_entries(info, after, entries)


@pytest.mark.parametrize(("one", "other"), [("file", "postgres"), ("postgres", "file")])
async def test_a_copy_that_was_stopped_anywhere_goes_on_without_doubling(
    open_one: Any, one: Kind, other: Kind
) -> None:
    source, target = await open_one(one), await open_one(other)
    await fill(source)
    for pieces in (1, 1, 1):
        with pytest.raises(Stopped):
            await copy_sessions(
                source, cast("SessionStore", StoppingArchive(target, pieces)), ignore
            )
    await copy_sessions(source, target, ignore)
    assert await contents(target) == await contents(source)


async def test_what_was_added_since_goes_over_the_next_time(open_one: Any) -> None:
    source, target = await open_one("file"), await open_one("postgres")
    await fill(source)
    await copy_sessions(source, target, ignore)
    session = await source.open_session("main", "talk 1")
    async with source.acquire_lane(session) as lane:
        await lane.append(None, [NewEntry(K.NOTICE, {}, "news")])
    report = await copy_sessions(source, target, ignore)
    assert (report.copied, report.entries) == (1, 1)
    assert await contents(target) == await contents(source)


@pytest.mark.parametrize("other", ["postgres", "second"])
async def test_a_session_that_went_on_in_the_target_is_left_alone_and_named(
    open_one: Any, other: Kind
) -> None:
    source, target = await open_one("file"), await open_one(other)
    await fill(source)
    await copy_sessions(source, target, ignore)
    for store, count in ((target, 2), (source, 3)):
        session = await store.open_session("main", "talk 1")
        async with store.acquire_lane(session) as lane:
            for number in range(count):
                await lane.append(None, [NewEntry(K.NOTICE, {"n": number + count})])
    report = await copy_sessions(source, target, ignore)
    ((info, reason),) = report.refused
    assert (info.key, "on its own" in reason) == ("talk 1", True)
    longer = await copy_sessions(target, source, ignore)
    assert [info.key for info, _ in longer.refused] == ["talk 1"]


@pytest.mark.parametrize("other", ["postgres", "second"])
async def test_another_session_of_the_same_name_is_not_mixed_with_it(
    open_one: Any, other: Kind
) -> None:
    source, target = await open_one("file"), await open_one(other)
    await source.open_session("main", "k")
    mine = await target.open_session("main", "k")
    report = await copy_sessions(source, target, ignore)
    assert "another session" in report.refused[0][1]
    assert await target.find_sessions("k") == [await target.show(mine)]


@pytest.mark.parametrize("other", ["postgres", "second"])
async def test_a_session_in_use_in_the_target_is_left_for_later(open_one: Any, other: Kind) -> None:
    source, target = await open_one("file"), await open_one(other)
    await fill(source)
    await copy_sessions(source, target, ignore)
    session = await source.open_session("main", "talk 1")
    async with source.acquire_lane(session) as lane:
        await lane.append(None, [NewEntry(K.NOTICE)])
    async with target.acquire_lane(session):
        report = await copy_sessions(source, target, ignore)
    assert "running" in report.refused[0][1]
    assert (await copy_sessions(source, target, ignore)).copied == 1


@pytest.mark.parametrize("other", ["postgres", "second"])
async def test_a_piece_that_does_not_follow_on_is_refused(open_one: Any, other: Kind) -> None:
    source, target = await open_one("file"), await open_one(other)
    session = await source.open_session("main", "k")
    async with source.acquire_lane(session) as lane:
        await lane.append(None, [NewEntry(K.NOTICE)])
    info = await source.show(session)
    with pytest.raises(CopyConflict, match="somebody else"):
        await target.receive_entries(info, 7, await source.entries(session))


@pytest.mark.parametrize("other", ["postgres", "second"])
async def test_totals_are_not_copied_over_a_session_that_went_on_in_the_target(
    open_one: Any, other: Kind
) -> None:
    source, target = await open_one("file"), await open_one(other)
    session = await source.open_session("main", "k")
    async with source.acquire_lane(session) as lane:
        await lane.append(None, [NewEntry(K.NOTICE)])
    details = await source.details(session)
    await target.receive_entries(details.info, 0, await source.entries(session))
    async with target.acquire_lane(session) as lane:
        await lane.append(None, [NewEntry(K.USER_MESSAGE, {}, "more")])
    with pytest.raises(CopyConflict, match="somebody else"):
        await target.receive_details(details)
    assert (await target.show(session)).messages == 1
