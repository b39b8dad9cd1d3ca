"""A lane between processes: who gets it, in which order, and what a frozen holder may still do."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.support.connection_bench import until
from tests.support.lane_holder import holder, take

from openclaw.core.clock import SystemClock
from openclaw.core.outcome import Outcome
from openclaw.sessions.records import EntryKind, NewEntry, TurnState
from openclaw.sessions.sqlite.store import open_sqlite_store

pytestmark = pytest.mark.subprocess


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


async def test_a_killed_holder_is_replaced_long_before_its_lease_ends(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        with holder(database, lease=3600) as other:
            await other.says("waiting", "held")
            other.process.kill()
            with anyio.fail_after(60):
                assert await take(store) is TurnState.LOST


async def test_a_killed_holders_turn_does_not_run_any_more(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        with holder(database, lease=3600) as other:
            await other.says("waiting", "held")
            session = await store.open_session("main", "shared")
            other.process.kill()
            other.process.wait()
            (turn,) = await store.unfinished_turns(session)
            assert turn.state is TurnState.LOST


async def test_a_frozen_holder_is_replaced_when_its_lease_ends_and_cannot_write_later(
    database: Path,
) -> None:
    async with open_sqlite_store(database, SystemClock(), lease=1.0) as store:
        with holder(database, lease=1.0) as other:
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


async def test_a_busy_holder_keeps_its_session_although_it_cannot_renew_its_lease(
    database: Path,
) -> None:
    async with open_sqlite_store(database, SystemClock(), lease=3600) as store:
        session = await store.open_session("main", "shared")
        with holder(database, lease=0.5, blocked=True) as other:
            await other.says("waiting", "held")
            query = "SELECT count(*) FROM tickets WHERE expires > ?"
            await until(lambda: not _value(database, query, SystemClock().monotonic()))
            (turn,) = await store.unfinished_turns(session)
            assert turn.state is TurnState.RUNNING
            other.finish()
            await other.says("finished")


def _value(database: Path, query: str, *values: float) -> int:
    with sqlite3.connect(database) as connection:
        return connection.execute(query, values).fetchone()[0]


async def test_a_thawed_holder_is_stopped_by_its_heartbeat(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock(), lease=1.0) as store:
        with holder(database, lease=1.0) as other:
            await other.says("waiting", "held")
            other.process.send_signal(signal.SIGSTOP)
            with anyio.fail_after(60):
                await take(store)
            other.process.send_signal(signal.SIGCONT)
            other.finish()  # frees the thread that waits for stdin; the body is cancelled already
            await other.says("lost")


async def test_a_holder_that_beats_keeps_its_lane_beyond_its_lease(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock(), lease=1.5) as store:
        with holder(database, lease=1.5) as other:
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


async def test_processes_are_served_as_they_came(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        session = await store.open_session("main", "shared")
        with holder(database) as first, holder(database) as second:
            async with store.acquire_lane(session):
                await first.says("waiting")
                await second.says("waiting")
                await _tickets(database, 3)
                owners = _waiting_pids(database)
            by_pid = {first.process.pid: first, second.process.pid: second}
            assert set(owners) == set(by_pid)
            for pid in owners:
                await by_pid[pid].says("held")
                by_pid[pid].finish()
                await by_pid[pid].says("finished")


async def _tickets(database: Path, count: int) -> None:
    """Until so many wait or hold."""
    with anyio.fail_after(60):
        while len(_owners(database)) < count:  # noqa: ASYNC110 - another process changes it
            await anyio.sleep(0.01)


def _owners(database: Path) -> list[int]:
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT owner FROM tickets ORDER BY id").fetchall()
    connection.close()
    return [int(row[0].split("/")[2]) for row in rows]


def _waiting_pids(database: Path) -> list[int]:
    return [pid for pid in _owners(database) if pid != os.getpid()]


async def test_a_turn_is_visible_to_other_processes_while_it_runs(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        with holder(database) as other:
            await other.says("waiting", "held")
            session = await store.open_session("main", "shared")
            (turn,) = await store.unfinished_turns(session)
            assert turn.state is TurnState.RUNNING
            other.finish()
            await other.says("finished")
        assert await store.unfinished_turns(session) == []


async def test_many_processes_may_create_the_store_at_once(database: Path) -> None:
    script = (
        "import sys, anyio\nfrom pathlib import Path\n"
        "from openclaw.core.clock import SystemClock\n"
        "from openclaw.sessions.sqlite.store import open_sqlite_store\n"
        "async def main():\n"
        "    async with open_sqlite_store(Path(sys.argv[1]), SystemClock()) as store:\n"
        "        await store.open_session('main', 'one')\n"
        "anyio.run(main)\n"
    )
    command = [sys.executable, "-c", script, str(database)]
    processes = [subprocess.Popen(command) for _ in range(6)]
    codes = [await anyio.to_thread.run_sync(process.wait) for process in processes]
    assert codes == [0] * 6
    async with open_sqlite_store(database, SystemClock()) as store:
        assert len((await store.list_sessions()).sessions) == 1


async def test_a_message_is_still_there_for_the_next_process(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            turn = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {"a": "ü"}, "ü")])
            await lane.finish_turn(turn, Outcome.OK)
    async with open_sqlite_store(database, SystemClock()) as store:
        assert (await store.history(session))[1].data == {"a": "ü"}
