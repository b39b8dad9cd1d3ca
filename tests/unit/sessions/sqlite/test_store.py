"""What is particular to the store in a file: its files, its schema, its failures."""

import os
import shutil
import sqlite3
import stat
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from blockbuster import BlockBuster

from openclaw.config.state_version import NewerState
from openclaw.core.clock import SystemClock
from openclaw.core.outcome import Outcome
from openclaw.sessions.records import (
    EntryKind,
    LaneLost,
    NewEntry,
    StoreError,
)
from openclaw.sessions.sqlite import connections, schema
from openclaw.sessions.sqlite.connections import SqliteDatabase, Statements, explain
from openclaw.sessions.sqlite.store import SqliteStore, open_sqlite_store

VERSION = len([*schema.SQL.glob("*.sql")])


def with_script(tmp_path: Path, script: str) -> Path:
    shutil.copytree(schema.SQL, tmp_path / "sql")
    (tmp_path / "sql" / "999_newer.sql").write_text(script)
    return tmp_path / "sql"


def edit(database: Path, statement: str) -> None:
    connection = sqlite3.connect(database)
    connection.execute(statement)
    connection.commit()
    connection.close()


async def open_and_close(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()):
        pass


async def test_the_files_are_their_owners_alone(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        await store.open_session("main", "k")
        assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in database.parent.iterdir()}
        assert modes == {
            "sessions.db": 0o600,
            "sessions.db-wal": 0o600,
            "sessions.db-shm": 0o600,
        }


async def test_a_database_that_was_open_to_others_is_closed(database: Path) -> None:
    await open_and_close(database)
    database.chmod(0o666)
    async with open_sqlite_store(database, SystemClock()) as store:
        await store.open_session("main", "k")
        modes = {stat.S_IMODE(path.stat().st_mode) for path in database.parent.iterdir()}
    assert modes == {0o600}


async def test_no_key_reaches_the_file_system(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        for key in ("../../escaped", "/etc/x", "a\nb", "con"):
            await store.open_session("main", key)
    assert [path.name for path in database.parent.iterdir()] == ["sessions.db"]


async def test_the_writer_closes_last_so_that_no_log_is_left(database: Path) -> None:
    await open_and_close(database)
    alive: list[bool] = []

    class Reader:
        def close(self) -> None:
            (writer,) = (t for t in threading.enumerate() if t.name == "openclaw-session-writer")
            writer.join(0.5)  # it would end now
            alive.append(writer.is_alive())

    async with SqliteDatabase(database, lambda: 0).opened() as opened:
        opened._idle.append(cast("sqlite3.Connection", Reader()))
    assert alive == [True]
    assert [path.name for path in database.parent.iterdir()] == ["sessions.db"]


async def test_the_database_is_in_wal_mode_and_says_whose_it_is(
    file_store: SqliteStore, database: Path
) -> None:
    connection = sqlite3.connect(database)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA application_id").fetchone() == (schema.APPLICATION_ID,)
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    connection.close()


async def test_a_newer_schema_is_refused_with_words(database: Path) -> None:
    await open_and_close(database)
    edit(database, f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(NewerState, match="newer version"):
        await open_and_close(database)


async def test_an_older_schema_is_brought_up_to_date_and_keeps_its_sessions(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        session = await store.open_session("main", "k")
    newer = "ALTER TABLE sessions ADD COLUMN colour TEXT; CREATE TABLE t (x)"
    monkeypatch.setattr(schema, "SQL", with_script(tmp_path, newer))
    async with open_sqlite_store(database, SystemClock()) as store:
        assert await store.open_session("main", "k") == session
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT colour FROM sessions").fetchone() == (None,)
    connection.close()


async def test_a_migration_that_fails_changes_nothing(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_and_close(database)
    broken = with_script(tmp_path, "CREATE TABLE half (x); CREATE TABLE nonsense (")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "SQL", broken)
        with pytest.raises(StoreError):
            await open_and_close(database)
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'half'").fetchone() is None
    connection.close()
    await open_and_close(database)


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE recipes (x)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"],
)
async def test_another_programs_database_is_left_alone(database: Path, statement: str) -> None:
    database.parent.mkdir()
    edit(database, statement)
    with pytest.raises(StoreError, match="another program"):
        await open_and_close(database)


async def test_what_is_no_database_is_refused_with_words(database: Path) -> None:
    database.parent.mkdir()
    database.write_bytes(b"not a database, " * 100)
    with pytest.raises(StoreError, match="damaged"):
        await open_and_close(database)


async def test_a_damaged_page_is_refused_with_words(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        session = await store.open_session("main", "k")
    content = bytearray(database.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    database.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        async with open_sqlite_store(database, SystemClock()) as store:
            await store.history(session)


async def test_a_directory_that_cannot_be_made_is_an_error_of_the_operator(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        await open_and_close(tmp_path / "file" / "sessions.db")


def test_a_full_disk_and_a_read_only_file_are_named(tmp_path: Path) -> None:
    for code, words in (
        (sqlite3.SQLITE_FULL, "no space"),
        (sqlite3.SQLITE_READONLY, "cannot be written"),
        (sqlite3.SQLITE_BUSY, "locked"),
        (sqlite3.SQLITE_IOERR, "does not work"),
    ):
        error = sqlite3.OperationalError("x")
        error.sqlite_errorcode = code
        assert words in explain(error, tmp_path).message


async def test_a_store_without_space_refuses_a_write_and_goes_on_when_there_is_some(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []
    open_writer = connections.open_writer

    def watched(path: Path) -> sqlite3.Connection:
        opened.append(open_writer(path))
        return opened[-1]

    monkeypatch.setattr(connections, "open_writer", watched)
    async with open_sqlite_store(database, SystemClock()) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            (pages,) = opened[0].execute("PRAGMA page_count").fetchone()
            opened[0].execute(f"PRAGMA max_page_count = {pages + 1}")
            entry = NewEntry(EntryKind.NOTICE, {"x": "y" * 100_000})
            with pytest.raises(StoreError, match="no space left"):
                await lane.append(None, [entry])
            opened[0].execute("PRAGMA max_page_count = 1000000")
            assert list(await lane.append(None, [entry])) == [1]


async def test_a_write_waits_for_another_process_without_stopping_the_event_loop(
    file_store: SqliteStore, database: Path
) -> None:
    blocker = sqlite3.connect(database, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    opened = anyio.Event()

    async def write() -> None:
        await file_store.open_session("main", "k")
        opened.set()

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        await anyio.sleep(0.05)
        assert not opened.is_set()
        blocker.execute("ROLLBACK")
        with anyio.fail_after(60):
            await opened.wait()
    blocker.close()


async def test_a_database_that_stays_locked_is_an_error_and_no_hang(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections.begin, "__defaults__", (0.05,))
    async with open_sqlite_store(database, SystemClock()) as store:
        blocker = sqlite3.connect(database, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            await store.open_session("main", "k")
        blocker.close()
        await store.open_session("main", "k")


async def test_work_that_queues_up_shares_a_commit_and_fails_alone(database: Path) -> None:
    await open_and_close(database)
    started, go_on = threading.Event(), threading.Event()
    results: dict[str, object] = {}

    async def hold(db: Statements) -> None:
        started.set()
        go_on.wait(60)

    async def insert(name: str, db: Statements) -> int:
        if name == "bad":
            await db.execute("DELETE FROM sessions")
            raise ZeroDivisionError
        await db.execute(
            "INSERT INTO sessions (id, agent, key, created_ms, updated_ms)"
            " VALUES ($1, '', $1, 0, 0)",
            name,
        )
        return await db.fetchval("SELECT total_changes()")

    async with SqliteDatabase(database, SystemClock().now_ms).opened() as running:

        async def submit(name: str) -> None:
            try:
                results[name] = await running.transact(partial(insert, name))
            except ZeroDivisionError as error:
                results[name] = error

        async with anyio.create_task_group() as group:
            group.start_soon(lambda: running.transact(hold, durable=False))
            await anyio.to_thread.run_sync(started.wait)
            for name in ("a", "bad", "b"):
                group.start_soon(submit, name)
            await anyio.wait_all_tasks_blocked()
            go_on.set()
    assert isinstance(results.pop("bad"), ZeroDivisionError)
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT id FROM sessions ORDER BY id").fetchall() == [("a",), ("b",)]
    connection.close()


async def test_a_closed_store_says_so(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        session = await store.open_session("main", "k")
    with pytest.raises(StoreError, match="closed"):
        await store.show(session)
    with pytest.raises(StoreError, match="closed"):
        await store.set_title(session, "x")


async def test_an_error_inside_the_store_comes_out_as_it_is(database: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_sqlite_store(database, SystemClock()):
            raise ZeroDivisionError


async def test_a_deletion_leaves_no_word_in_the_index_and_none_on_the_disk(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        for key in ("kept", "gone"):
            session = await store.open_session("main", key)
            async with store.acquire_lane(session) as lane:
                words = NewEntry(EntryKind.NOTICE, {"x": f"data-of-{key}"}, f"word{key}")
                await lane.append(None, [words] * 50)
        await store.delete(session)
    connection = sqlite3.connect(database)
    connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    connection.close()
    content = database.read_bytes()
    assert b"data-of-kept" in content
    assert b"data-of-gone" not in content


async def test_no_store_call_blocks_the_event_loop(database: Path) -> None:
    guard = BlockBuster()
    guard.activate()
    try:
        async with open_sqlite_store(database, SystemClock()) as store:
            session = await store.open_session("main", "k")
            async with store.acquire_lane(session) as lane:
                turn = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, "hi")])
                await lane.finish_turn(turn, Outcome.OK)
            await store.history(session)
            await store.search("hi")
            await store.delete(session)
    finally:
        guard.deactivate()


async def test_a_holder_whose_ticket_vanished_is_stopped_by_the_next_heartbeat(
    database: Path,
) -> None:
    async with open_sqlite_store(database, SystemClock(), lease=0.15) as store:
        session = await store.open_session("main", "k")

        async def hold() -> None:
            async with store.acquire_lane(session):
                edit(database, "DELETE FROM tickets")
                await anyio.sleep_forever()

        with pytest.raises(LaneLost), anyio.fail_after(60):
            await hold()


async def test_one_whose_ticket_vanished_while_waiting_draws_another(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        session = await store.open_session("main", "k")
        served = anyio.Event()

        async def wait() -> None:
            async with store.acquire_lane(session):
                served.set()

        async with anyio.create_task_group() as group:
            async with store.acquire_lane(session):
                group.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                edit(database, "DELETE FROM tickets WHERE id > 1")
            with anyio.fail_after(60):
                await served.wait()


async def test_a_ticket_of_a_machine_that_was_restarted_is_dead(database: Path) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:
        session = await store.open_session("main", "k")
        for owner, expires in (("another-boot/1/1/1", 0.1), (f"{os.getpid()}", 1e12)):
            mark = owner if "/" in owner else f"{_boot()}/1/1/1"
            edit(
                database,
                "INSERT INTO tickets (session, owner, expires)"
                f" VALUES (1, '{mark}', {SystemClock().monotonic() + expires + 3600})",
            )
        with anyio.fail_after(60):
            async with store.acquire_lane(session):
                pass


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Failing:
    """A writer's work that fails while `broken` is set, as a full disk makes it fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken = False
        self.failed = anyio.Event()
        transact = SqliteDatabase.transact

        async def transact_or_fail(
            itself: SqliteDatabase, work: Any, *, durable: bool = True
        ) -> Any:
            if self.broken:
                self.failed.set()
                raise StoreError("no space is left")
            return await transact(itself, work, durable=durable)

        monkeypatch.setattr(SqliteDatabase, "transact", transact_or_fail)


async def test_a_heartbeat_that_fails_is_tried_again(
    database: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Failing(monkeypatch)
    async with open_sqlite_store(database, SystemClock(), lease=0.6) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            disk.broken = True
            with anyio.fail_after(60):
                await disk.failed.wait()
            disk.broken = False
            await lane.begin_turn()
    assert "could not renew" in caplog.text


async def test_a_lane_that_cannot_be_handed_in_lets_others_of_its_process_go_on(
    database: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Failing(monkeypatch)
    async with open_sqlite_store(database, SystemClock(), lease=0.3) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session):
            disk.broken = True
        assert "could not leave" in caplog.text
        disk.broken = False
        with anyio.fail_after(60):  # the ticket is there until its lease ends
            async with store.acquire_lane(session) as lane:
                await lane.begin_turn()


def test_a_file_system_that_cannot_share_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(":memory:")  # which has no log to share either
    with pytest.raises(StoreError, match="cannot share a database"):
        connections._enter_wal(connection, tmp_path)
    connection.close()


async def test_a_store_that_another_process_creates_just_now_is_waited_for(database: Path) -> None:
    database.parent.mkdir()
    blocker = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.2, lambda: blocker.execute("ROLLBACK"))
    timer.start()
    await open_and_close(database)
    timer.join()
    blocker.close()


async def test_a_failure_that_is_not_the_databases_reaches_whoever_waits(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sqlite_store(database, SystemClock()) as store:

        def broken(*given: object) -> None:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(connections, "begin", broken)
            with pytest.raises(StoreError, match="MemoryError"), anyio.fail_after(60):
                await store.open_session("main", "k")
        await store.open_session("main", "k")


@pytest.mark.skipif(sys.platform == "win32", reason="the locks of Windows are not lost so")
async def test_opening_a_store_again_drops_no_lock_of_this_process(database: Path) -> None:
    """Else another process, which takes itself for the last, removes the log under our connections."""
    look = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+b');"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)"
    )
    async with open_sqlite_store(database, SystemClock()) as store:
        await store.open_session("main", "k")
        await open_and_close(database)
        command = [sys.executable, "-c", look, str(database)]
        taken = await anyio.run_process(command, check=False)
    assert b"BlockingIOError" in taken.stderr


async def test_a_write_takes_the_same_work_however_many_turns_the_session_has(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[None] = []
    open_writer = connections.open_writer

    def counting(path: Path) -> sqlite3.Connection:
        connection = open_writer(path)
        connection.set_progress_handler(lambda: steps.append(None), 100)
        return connection

    monkeypatch.setattr(connections, "open_writer", counting)
    async with open_sqlite_store(database, SystemClock()) as store:
        session = await store.open_session("main", "k")
        edit(
            database,
            "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
            " INSERT INTO turns SELECT 1, 'old ' || i, 'ok', 0, 0, 0 FROM n",
        )
        async with store.acquire_lane(session) as lane:
            steps.clear()
            turn = await lane.begin_turn()
            await lane.append(turn, [NewEntry(EntryKind.USER_MESSAGE)])
            await lane.finish_turn(turn, Outcome.OK)
            assert len(steps) < 50  # 100 instructions each; a scan of all turns takes 10,000s
