"""A lane between machines: dead and frozen holders, a server that restarts, a copy that is killed."""

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.support.lane_holder import holder, take
from tests.support.postgres_server import OwnServer, make_store, own_server

from openclaw.core.clock import SystemClock
from openclaw.core.outcome import Outcome
from openclaw.sessions.postgres.address import parsed
from openclaw.sessions.postgres.store import PostgresStore, open_postgres_store
from openclaw.sessions.records import EntryKind, NewEntry, StoreError, TurnState
from openclaw.sessions.sqlite.store import open_sqlite_store

pytestmark = pytest.mark.subprocess


async def test_a_killed_holder_is_replaced_long_before_its_lease_ends(postgres_url: str) -> None:
    async with open_postgres_store(parsed(postgres_url), lease=1.0) as store:
        with holder(postgres_url, lease=3600) as other:
            await other.says("waiting", "held")
            other.process.kill()
            with anyio.fail_after(60):
                assert await take(store) is TurnState.LOST


async def test_a_frozen_holder_is_replaced_when_its_lease_ends_and_cannot_write_later(
    postgres_url: str,
) -> None:
    async with open_postgres_store(parsed(postgres_url), lease=1.0) as store:
        with holder(postgres_url, lease=1.0) as other:
            await other.says("waiting", "held")
            other.process.send_signal(signal.SIGSTOP)
            with anyio.fail_after(60):
                assert await take(store) is TurnState.LOST
            other.finish()
            other.process.send_signal(signal.SIGCONT)
            await other.says("lost")
        session = await store.open_session("main", "shared")
        kinds = [entry.kind for entry in await store.history(session)]
        assert kinds[2:] == [
            EntryKind.TOOL_CALL,
            EntryKind.TURN_LOST,
            EntryKind.TURN_STARTED,
            EntryKind.TURN_FINISHED,
        ]


async def test_a_holder_that_beats_keeps_its_lane_beyond_its_lease(postgres_url: str) -> None:
    async with open_postgres_store(parsed(postgres_url), lease=1.5) as store:
        with holder(postgres_url, lease=1.5) as other:
            await other.says("waiting", "held")
            session = await store.open_session("main", "shared")
            taken = False
            with anyio.move_on_after(
                3.0
            ):  # two leases; with shorter ones a busy machine is too late
                async with store.acquire_lane(session):
                    taken = True
            assert not taken
            other.finish()
            await other.says("finished")


async def test_a_holder_whose_event_loop_is_blocked_renews_its_lease(postgres_url: str) -> None:
    async with open_postgres_store(parsed(postgres_url)) as store:
        with holder(postgres_url, lease=3.0, blocked=True) as other:
            await other.says("waiting", "held")
            for _ in range(2):
                before = await lease_ends(store)
                with anyio.fail_after(60):
                    while await lease_ends(store) == before:  # noqa: ASYNC110 - it is in the database
                        await anyio.sleep(0.05)
            other.finish()
            await other.says("finished")


async def lease_ends(store: PostgresStore) -> object:
    return await store.database.read(lambda db: db.fetchval("SELECT expires FROM tickets"))


async def test_one_who_waits_elsewhere_is_woken_when_the_session_is_left(
    postgres_url: str,
) -> None:
    async with open_postgres_store(parsed(postgres_url)) as store:
        session = await store.open_session("main", "shared")
        with holder(postgres_url) as other:
            async with store.acquire_lane(session):
                await other.says("waiting")
                await tickets(store, 2)
            await other.says("held")
            other.finish()
            await other.says("finished")


async def tickets(store: PostgresStore, count: int) -> None:
    """Until so many wait or hold."""

    async def enough() -> bool:
        return count <= await store.database.read(
            lambda db: db.fetchval("SELECT count(*) FROM tickets")
        )

    with anyio.fail_after(60):
        while not await enough():  # noqa: ASYNC110 - another process changes it
            await anyio.sleep(0.01)


async def test_one_who_is_entitled_goes_ahead_of_those_who_wait_and_replaces_its_like(
    postgres_url: str,
) -> None:
    async with (
        open_postgres_store(parsed(postgres_url)) as here,
        open_postgres_store(parsed(postgres_url)) as there,
    ):
        session = await here.open_session("main", "shared")
        order: list[str] = []

        async def wait_plainly() -> None:
            async with there.acquire_lane(session):
                order.append("plain")

        async with (
            anyio.create_task_group() as group,
            here.acquire_lane(session, entitled=True) as old,
        ):
            turn = await old.begin_turn()
            group.start_soon(wait_plainly)
            await tickets(here, 2)
            async with there.acquire_lane(session, entitled=True) as new:
                order.append("entitled")
                assert new.at.epoch > old.at.epoch
                assert [lost.id for lost in await there.unfinished_turns(session)] == [turn]
        assert order == ["entitled", "plain"]


@pytest.fixture(scope="module")
def server() -> Generator[OwnServer]:
    """A server that these tests alone use, and that runs again at the end of each.

    It writes to disk only what it must, so that a crash forgets whatever was not waited for.
    """
    with own_server(wal_writer_delay="10000ms") as mine:
        yield mine


@pytest.fixture
def own_url(server: OwnServer) -> str:
    url = server.facts.url(server.facts.create())
    make_store(url)
    return url


def restart(server: OwnServer, mode: str) -> None:
    server.stop(mode)
    server.start()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_turn_goes_on_where_the_server_restarts_in_its_midst(
    server: OwnServer, own_url: str, mode: str
) -> None:
    async with open_postgres_store(parsed(own_url), lease=1.0) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            turn = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, "go on")])
            await anyio.to_thread.run_sync(restart, server, mode)
            await lane.append(turn, [NewEntry(EntryKind.TOOL_CALL, {}, call_id="c")])
            await anyio.sleep(1.5)  # beyond its lease: it lives, since it found its way back
            await lane.append(turn, [NewEntry(EntryKind.TOOL_RESULT, {}, call_id="c")])
            await lane.finish_turn(turn, Outcome.OK)
        assert [entry.seq for entry in await store.history(session)] == [1, 2, 3, 4, 5]
        assert await store.unfinished_turns(session) == []


async def test_a_crash_of_the_server_forgets_nothing_that_was_written(
    server: OwnServer, own_url: str
) -> None:
    note = NewEntry(EntryKind.NOTICE, {}, "n")
    async with open_postgres_store(parsed(own_url), lease=1.0) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            turn = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, "go on")])
            for _ in range(3):
                await lane.append(turn, [note])
            await anyio.to_thread.run_sync(restart, server, "immediate")
            assert len(await store.history(session)) == 5
            await lane.finish_turn(turn, Outcome.OK)
        entries = await store.history(session)
        assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5, 6]
        assert [entry.kind for entry in entries][2:5] == [EntryKind.NOTICE] * 3


async def test_a_write_waits_for_a_server_that_is_away_and_then_gives_up(
    server: OwnServer, own_url: str
) -> None:
    async with open_postgres_store(parsed(own_url), lease=2.0, patience=0.5) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            turn = await lane.begin_turn()
            await anyio.to_thread.run_sync(server.stop, "immediate")
            with pytest.raises(StoreError):
                await lane.append(turn, [NewEntry(EntryKind.TOOL_CALL, {}, call_id="c")])
            with pytest.raises(StoreError):
                await store.history(session)
            await anyio.to_thread.run_sync(server.start)
            await lane.append(turn, [NewEntry(EntryKind.TOOL_CALL, {}, call_id="d")])
            await lane.finish_turn(turn, Outcome.OK)
        entries = await store.history(session)
        assert [entry.call_id for entry in entries] == [None, "d", None]


async def test_a_copy_that_is_killed_goes_on_without_doubling(
    tmp_path: Path, postgres_url: str
) -> None:
    path = tmp_path / "from.db"
    async with open_sqlite_store(path, SystemClock()) as source:
        for number in range(30):
            session = await source.open_session("main", f"k{number}")
            async with source.acquire_lane(session) as lane:
                notes = [NewEntry(EntryKind.NOTICE, {"n": n}) for n in range(60)]
                await lane.append(None, notes)
                await lane.append(None, notes)
    command = [sys.executable, "-m", "openclaw", "sessions", "copy", str(path), postgres_url]
    async with open_postgres_store(parsed(postgres_url)) as target:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        with anyio.fail_after(60):
            while len((await target.list_sessions()).sessions) < 5:  # noqa: ASYNC110 - as above
                await anyio.sleep(0.005)
        process.kill()
        await anyio.to_thread.run_sync(process.wait)
        assert len((await target.list_sessions()).sessions) < 30
        done = await anyio.to_thread.run_sync(
            lambda: subprocess.run([*command, "--json"], stdout=subprocess.PIPE, check=True)
        )
        report = json.loads(done.stdout)
        assert (report["copied"] + report["unchanged"], report["refused"]) == (30, [])
        for info in (await target.list_sessions(limit=None)).sessions:
            numbers = [e.seq for e in await target.history(info.ref)]
            assert numbers == list(range(1, 121))
