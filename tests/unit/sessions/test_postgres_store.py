"""What only the store on a database server promises: postgres_store, repeated writes, failures."""

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest
import trustme
from tests.support.postgres_server import Server

from openclaw.config.paths import StatePaths
from openclaw.core.errors import InvalidRequest, MissingExtra
from openclaw.core.events import Usage
from openclaw.core.outcome import Outcome
from openclaw.sessions.lanes import Write
from openclaw.sessions.open import open_store
from openclaw.sessions.postgres import pool
from openclaw.sessions.postgres import store as postgres_store
from openclaw.sessions.postgres.address import parsed
from openclaw.sessions.postgres.lanes import PostgresLanes
from openclaw.sessions.postgres.pool import Database, explain, is_lost
from openclaw.sessions.postgres.store import (
    Migration,
    PostgresStore,
    known,
    migrate,
    open_postgres_store,
)
from openclaw.sessions.records import (
    Encoded,
    EntryKind,
    LaneLost,
    NewEntry,
    StoreError,
    StoreMissing,
    encoded,
)

K = EntryKind


async def sql(url: str, statement: str, *values: Any) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement, *values)
    finally:
        await connection.close()


# --- the schema -------------------------------------------------------------------------------


def test_steps_have_numbers_of_their_own() -> None:
    numbers = [step.number for step in known()]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1


async def test_many_may_make_the_schema_at_once(bare_postgres_url: str) -> None:
    async def make() -> None:
        async with Database(parsed(bare_postgres_url)).pooled() as database:
            await migrate(database)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(make)
    applied = await sql(bare_postgres_url, "SELECT count(*) FROM openclaw.migrations")
    assert applied == len(known())


async def test_looking_makes_no_schema(bare_postgres_url: str) -> None:
    with pytest.raises(StoreMissing):
        async with open_postgres_store(parsed(bare_postgres_url), create=False):
            pass
    assert await sql(bare_postgres_url, "SELECT to_regnamespace('openclaw') IS NULL")


async def test_a_step_of_a_newer_version_is_borne_unless_it_breaks(postgres_url: str) -> None:
    add = "INSERT INTO openclaw.migrations (number, name, breaking) VALUES ($1, $2, $3)"
    await sql(postgres_url, add, 98, "more_columns", False)
    async with open_postgres_store(parsed(postgres_url)) as store:
        await store.open_session("main", "k")
    await sql(postgres_url, add, 99, "other_columns", True)
    with pytest.raises(StoreError, match="99 other_columns"):
        async with open_postgres_store(parsed(postgres_url)):
            pass


async def test_two_versions_share_a_database_that_the_newer_has_migrated(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_postgres_store(parsed(postgres_url)) as old:
        session = await old.open_session("main", "k")
        more = Migration(97, "mood", "ALTER TABLE sessions ADD COLUMN mood text DEFAULT 'fine'")
        monkeypatch.setattr(postgres_store, "known", lambda: [*known(), more])
        async with open_postgres_store(parsed(postgres_url)) as new:
            for store in (old, new, old):
                async with store.acquire_lane(session) as lane:
                    turn = await lane.begin_turn()
                    await lane.finish_turn(turn, Outcome.OK)
        assert len(await old.history(session)) == 6


async def test_an_older_schema_is_not_changed_by_looking(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = known()
    queue = Migration(990, "queue", "CREATE TABLE never (x integer)")
    monkeypatch.setattr(postgres_store, "known", lambda: [*steps, queue])
    async with open_postgres_store(parsed(postgres_url), create=False) as store:
        assert (await store.list_sessions()).sessions == []
    assert await sql(postgres_url, "SELECT to_regclass('openclaw.never') IS NULL")
    own = Migration(99, "own", "CREATE TABLE never (x integer)")
    monkeypatch.setattr(postgres_store, "known", lambda: [*steps, own])
    with pytest.raises(StoreError, match="older schema"):
        async with open_postgres_store(parsed(postgres_url), create=False):
            pass


async def test_a_step_that_fails_leaves_nothing_of_itself(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Migration(97, "bad", "CREATE TABLE half (x integer); SELECT 1 / 0")
    monkeypatch.setattr(postgres_store, "known", lambda: [*known(), bad])
    with pytest.raises(StoreError, match="division by zero"):
        async with open_postgres_store(parsed(postgres_url)):
            pass
    assert await sql(postgres_url, "SELECT to_regclass('openclaw.half') IS NULL")


# --- writes that are sent again ---------------------------------------------------------------


async def test_a_write_that_is_sent_twice_is_written_once(postgres_url: str) -> None:
    def entry(kind: K) -> list[Encoded]:
        return encoded([NewEntry(kind)])

    writes = [
        Write("begin", "t", entry(K.TURN_STARTED)),
        Write("append", "t", entry(K.NOTICE)),
        Write("compact", "t", entry(K.COMPACTION), through=1),
        Write("finish", "t", entry(K.TURN_FINISHED), outcome=Outcome.OK, usage=Usage(1)),
    ]
    async with open_postgres_store(parsed(postgres_url)) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            for seq, write in enumerate(writes):
                at = replace(lane.at, seq=seq)
                work = partial(lane._manager.commit, at=at, write=write)
                assert [await store.database.transact(work) for _ in range(2)] == [True, False]
        whole = await store.history(session, since_compaction=False)
        assert [entry.seq for entry in whole] == [1, 2, 3, 4]
        assert (await store.show(session)).input_tokens == 1


async def test_a_number_that_nobody_could_have_written_is_an_error(postgres_url: str) -> None:
    async with open_postgres_store(parsed(postgres_url)) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            await sql(postgres_url, "UPDATE openclaw.sessions SET seq = 7")
            with pytest.raises(StoreError, match="did not hold"):
                await lane.append(None, [NewEntry(K.NOTICE)])


async def test_entries_that_were_on_disk_and_are_gone_are_an_error(postgres_url: str) -> None:
    async with open_postgres_store(parsed(postgres_url)) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            await lane.append(None, [NewEntry(K.TOOL_CALL, call_id="c")])
            await sql(postgres_url, "DELETE FROM openclaw.entries")
            await sql(postgres_url, "UPDATE openclaw.sessions SET seq = 0")
            with pytest.raises(StoreError, match="lost entries"):
                await lane.append(None, [NewEntry(K.NOTICE)])


# --- what a queue adds to the end of a turn ---------------------------------------------------


async def finished(store: PostgresStore, on_finish: Any) -> str:
    session = await store.open_session("main", "k")
    async with store.acquire_lane(session) as lane:
        turn = await lane.begin_turn()
        lane.on_finish = on_finish
        await lane.finish_turn(turn, Outcome.OK)
    return turn


async def test_what_is_added_to_the_end_of_a_turn_is_committed_with_it(postgres_url: str) -> None:
    await sql(postgres_url, "CREATE TABLE public.acks (turn text)")

    async def acknowledge(connection: Any) -> None:
        await connection.execute("INSERT INTO public.acks VALUES ('done')")

    async with open_postgres_store(parsed(postgres_url)) as store:
        await finished(store, acknowledge)
    assert await sql(postgres_url, "SELECT count(*) FROM public.acks") == 1


async def test_a_turn_is_not_finished_where_what_was_added_fails(postgres_url: str) -> None:
    async def fail(connection: Any) -> None:
        raise InvalidRequest("not acknowledged")

    async with open_postgres_store(parsed(postgres_url)) as store:
        with pytest.raises(InvalidRequest, match="not acknowledged"):
            await finished(store, fail)
        session = await store.open_session("main", "k")
        assert (await store.history(session))[-1].kind is K.TURN_LOST


async def test_the_end_of_a_turn_is_tried_again_where_its_connection_breaks(
    postgres_url: str,
) -> None:
    calls: list[int] = []

    async def break_once(connection: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    async with open_postgres_store(parsed(postgres_url)) as store:
        turn = await finished(store, break_once)
        session = await store.open_session("main", "k")
        found = await store.find_turn(session, turn)
    assert found is not None
    assert (len(calls), found.state) == (2, "ok")


# --- connections ------------------------------------------------------------------------------


async def test_a_process_whose_connections_are_cut_keeps_its_session(postgres_url: str) -> None:
    async with open_postgres_store(parsed(postgres_url), lease=3.0) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            turn = await lane.begin_turn()
            before = await sql(postgres_url, "SELECT owner FROM openclaw.tickets")
            await sql(
                postgres_url,
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            with anyio.fail_after(60):
                owner = "SELECT owner FROM openclaw.tickets"
                while await sql(postgres_url, owner) == before:  # noqa: ASYNC110 - in the database
                    await anyio.sleep(0.02)
            await lane.finish_turn(turn, Outcome.OK)
        assert await store.unfinished_turns(session) == []


@pytest.mark.parametrize("jump", ["1 day", "-1 day"])
async def test_a_live_process_keeps_its_session_if_the_databases_clock_is_set(
    postgres_url: str, jump: str
) -> None:
    """Setting the clock by a day is the same as moving what it wrote by a day."""
    async with (
        open_postgres_store(parsed(postgres_url), lease=1.5) as store,
        open_postgres_store(parsed(postgres_url), lease=1.5) as other,
    ):
        session = await store.open_session("main", "s")
        taken = anyio.Event()

        async def wait() -> None:
            async with other.acquire_lane(session):
                taken.set()

        async with anyio.create_task_group() as group, store.acquire_lane(session) as lane:
            turn = await lane.begin_turn()
            await sql(postgres_url, f"UPDATE openclaw.tickets SET expires = expires + '{jump}'")
            group.start_soon(wait)
            with anyio.fail_after(60):
                misdated = "abs(extract(epoch FROM expires - now())) > 60"
                query = f"SELECT count(*) FROM openclaw.tickets WHERE {misdated}"
                while await sql(postgres_url, query):  # noqa: ASYNC110 - another process renews it
                    await anyio.sleep(0.05)
            assert not taken.is_set()
            await lane.finish_turn(turn, Outcome.OK)
        assert taken.is_set()


async def test_a_frozen_process_loses_its_session_even_if_its_lease_ends_tomorrow(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def frozen(self: PostgresLanes, loop: Any, connection: Any) -> None:
        """It holds its advisory lock and renews nothing."""

    async with open_postgres_store(parsed(postgres_url), lease=0.5) as other:
        monkeypatch.setattr(PostgresLanes, "_beat", frozen)
        async with open_postgres_store(parsed(postgres_url), lease=0.5) as store:
            session = await store.open_session("main", "s")
            with anyio.fail_after(60):
                async with store.acquire_lane(session):
                    await sql(
                        postgres_url, "UPDATE openclaw.tickets SET expires = expires + '1 day'"
                    )
                    async with other.acquire_lane(session):
                        pass


async def test_a_database_that_forgets_its_tables_ends_no_store(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_postgres_store(parsed(postgres_url), lease=0.3) as store:
        session = await store.open_session("main", "k")
        with caplog.at_level("WARNING"):
            async with store.acquire_lane(session):
                await sql(postgres_url, "ALTER TABLE openclaw.tickets RENAME TO elsewhere")
                with anyio.fail_after(60):
                    while "cannot renew the leases" not in caplog.text:  # noqa: ASYNC110 - a log
                        await anyio.sleep(0.02)
                await anyio.sleep(0.8)  # three more tries
                await sql(postgres_url, "ALTER TABLE openclaw.elsewhere RENAME TO tickets")
        assert caplog.text.count("cannot renew the leases") == 1
        assert (await store.show(session)).key == "k"


async def test_connections_that_break_at_once_are_made_less_and_less_often_and_logged_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pool, "_AGAIN_SECONDS", (0.01, 0.3))
    made: list[float] = []
    rare = anyio.Event()

    async def use(connection: Any) -> None:
        made.append(anyio.current_time())
        if len(made) > 3 and made[-1] - made[-2] > 0.3:
            rare.set()
        connection.terminate()
        await connection.execute("SELECT 1")

    database = pool.Database(parsed(postgres_url))
    with caplog.at_level("INFO", "openclaw"):
        async with anyio.create_task_group() as group:
            group.start_soon(database.stay_connected, use, "no connection")
            with anyio.fail_after(60):
                await rare.wait()
            group.cancel_scope.cancel()
    assert caplog.text.count("a connection to the database broke") == 1


async def test_a_write_on_a_connection_that_died_silently_is_sent_on_another(
    postgres: Server, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "WRITE_SECONDS", 2.0)
    name = postgres_url.partition("@/")[2].partition("?")[0]
    async with forwarding(postgres) as cable:
        url = f"postgresql://postgres@127.0.0.1:{cable.port}/{name}?sslmode=disable"
        async with open_postgres_store(parsed(url)) as store:
            session = await store.open_session("main", "k")
            async with store.acquire_lane(session) as lane:
                turn = await lane.begin_turn()
                cable.swallow()
                with anyio.fail_after(60):
                    await lane.finish_turn(turn, Outcome.OK)
            assert [entry.seq for entry in await store.history(session)] == [1, 2]


async def test_a_lane_of_a_deleted_session_is_lost_also_after_a_doubtful_write(
    postgres_url: str,
) -> None:
    async with open_postgres_store(parsed(postgres_url)) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            await sql(postgres_url, "UPDATE openclaw.sessions SET seq = 7")
            with pytest.raises(StoreError):
                await lane.append(None, [NewEntry(K.NOTICE)])
            await sql(postgres_url, "DELETE FROM openclaw.sessions")
            with pytest.raises(LaneLost, match="deleted"):
                await lane.append(None, [NewEntry(K.NOTICE)])


async def test_a_closed_store_says_so(postgres_url: str) -> None:
    async with open_postgres_store(parsed(postgres_url)) as store:
        pass
    with pytest.raises(StoreError, match="closed"):
        await store.open_session("main", "k")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("nowhere", "no such database"),
        ("port", "cannot be reached"),
        ("role", "refuses this user"),
        ("option", "not understood"),
    ],
)
async def test_a_wrong_address_is_named_without_its_password(
    postgres: Server, change: str, says: str
) -> None:
    url = {
        "nowhere": postgres.url("nowhere"),
        "port": postgres.url().replace("port=5432", "port=5431"),
        "role": postgres.url().replace("postgres@/", "nobody@/"),
        "option": postgres.url() + "&sslmode=hunter2x",
    }[change].replace("@/", ":hunter2@/")
    with pytest.raises(StoreError, match=says) as refused:
        async with open_postgres_store(parsed(url)):
            pass
    assert "hunter2" not in f"{refused.value!r} {refused.value.hint}"


@pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="PgBouncer is not installed")
@pytest.mark.parametrize("forgives", [False, True])
@pytest.mark.parametrize("sets_path", [False, True])
async def test_a_pooler_that_shares_connections_is_refused_with_a_sentence(
    postgres: Server, tmp_path: Path, forgives: bool, sets_path: bool
) -> None:
    """`forgives`: it ignores settings that a connection starts with, instead of refusing them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = Path(tempfile.mkdtemp(prefix="openclaw-pooler-"))
    place.chmod(0o755)
    path = "connect_query='SET search_path TO openclaw'" if sets_path else ""
    names = "search_path,jit,statement_timeout,idle_in_transaction_session_timeout"
    settings = [
        "[databases]",
        f"postgres = host={postgres.directory} port={postgres.port} user=postgres {path}",
        "[pgbouncer]",
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =",
        f"auth_type = any\nauth_file = {place / 'users'}\npool_mode = transaction",
        f"ignore_startup_parameters = {names}" if forgives else "",
    ]
    (place / "users").write_text('"postgres" ""\n')
    (place / "settings").write_text("\n".join(settings) + "\n")
    user = ["-u", "postgres"] if os.geteuid() == 0 else []
    command = ["pgbouncer", "-q", *user, str(place / "settings")]
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    try:
        async with await anyio.open_process(command, stdout=None, stderr=None) as pooler:
            try:
                with anyio.fail_after(60):
                    while True:
                        with pytest.raises(StoreError) as refused:
                            async with open_postgres_store(parsed(url)):
                                pass
                        if "cannot be reached" not in refused.value.message:
                            break
                        await anyio.sleep(0.05)
            finally:
                pooler.terminate()
    finally:
        shutil.rmtree(place)
    assert "is behind a connection pooler, such as PgBouncer" in refused.value.message


async def test_a_server_that_may_only_be_read_says_so(postgres: Server, postgres_url: str) -> None:
    name = postgres_url.partition("@/")[2].partition("?")[0]
    await sql(postgres_url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    async with open_postgres_store(parsed(postgres_url)) as store:
        assert (await store.list_sessions()).sessions == []
        with pytest.raises(StoreError, match="cannot be written"):
            await store.open_session("main", "k")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (asyncpg.DiskFullError("full"), "has no space left"),
        (asyncpg.TooManyConnectionsError("many"), "has no connection free"),
        (asyncpg.QueryCanceledError("late"), "did not answer in time"),
        (asyncpg.InsufficientPrivilegeError("no {x}"), "cannot be written: no {x}"),
        (asyncpg.PostgresError(), "does not work: PostgresError ()"),
        (TimeoutError(), "did not answer in time"),
        (
            ConnectionRefusedError(111, "Connection refused"),
            "cannot be reached: Connection refused",
        ),
        (asyncpg.InterfaceError("the dsn postgresql://me:hunter2@db"), "does not work: InterfaceE"),
    ],
)
def test_failures_become_errors_that_say_what_happened(error: Exception, says: str) -> None:
    message = explain(error, "db, database 'x'").message
    assert message.startswith(f"the session store on PostgreSQL (db, database 'x') {says}")
    assert "hunter2" not in message


def test_a_certificate_that_is_not_trusted_is_not_tried_again() -> None:
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_message = "self-signed certificate"
    assert not is_lost(error)
    assert "sslrootcert" in (explain(error, "db").hint or "")


def test_without_its_driver_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def attempt() -> None:
        async with open_store("postgresql://127.0.0.1/x", StatePaths(tmp_path)):
            pass

    for name in ("lanes", "pool", "store"):
        monkeypatch.delitem(sys.modules, f"openclaw.sessions.postgres.{name}")
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingExtra) as missing:
        anyio.run(attempt)
    assert '[postgres]"' in (missing.value.hint or "")


def test_the_driver_is_loaded_only_where_a_server_is_used() -> None:
    code = "import sys, openclaw.sessions.open, openclaw.cli.commands.sessions; sys.exit('asyncpg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@dataclass
class Cable:
    """A way to the server that can swallow what is sent on connections made so far."""

    port: int = 0
    dead: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    live: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    def swallow(self) -> None:
        self.dead |= self.live

    async def pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.live.add(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if writer not in self.dead:
                    writer.write(data)
        writer.close()


@asynccontextmanager
async def forwarding(server: Server) -> AsyncGenerator[Cable]:
    cable = Cable()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        near = await asyncio.open_unix_connection(f"{server.directory}/.s.PGSQL.{server.port}")
        async with anyio.create_task_group() as group:
            group.start_soon(cable.pipe, reader, near[1])
            group.start_soon(cable.pipe, near[0], writer)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        cable.port = listener.sockets[0].getsockname()[1]
        yield cable


# --- certificates -----------------------------------------------------------------------------


@asynccontextmanager
async def behind_tls(server: Server, context: ssl.SSLContext | None) -> AsyncGenerator[int]:
    """A port of loopback that speaks TLS as PostgreSQL does, in front of a server that does not."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)  # the request for TLS
        writer.write(b"S" if context else b"N")
        await writer.drain()
        with contextlib.suppress(OSError, ssl.SSLError):
            if context:
                await writer.start_tls(context)
                near = await asyncio.open_unix_connection(
                    f"{server.directory}/.s.PGSQL.{server.port}"
                )
                async with anyio.create_task_group() as group:
                    group.start_soon(pipe, reader, near[1])
                    group.start_soon(pipe, near[0], writer)
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        yield listener.sockets[0].getsockname()[1]


async def test_a_certificate_is_checked_against_its_authority(
    tmp_path: Path, postgres: Server
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    for name, ca in (("ca", authority), ("other", stranger)):
        ca.cert_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    pair = authority.issue_cert("127.0.0.1")
    pair.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "pair.pem"))
    context.load_cert_chain(tmp_path / "pair.pem")
    async with behind_tls(postgres, context) as port:
        base = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=verify-full"
        async with Database(parsed(f"{base}&sslrootcert={tmp_path}/ca.pem")).pooled() as database:
            assert await database.read(lambda db: db.fetchval("SELECT 1")) == 1
        for untrusted in (f"{base}&sslrootcert={tmp_path}/other.pem", base):
            with pytest.raises(StoreError, match="not trusted"):
                async with Database(parsed(untrusted)).pooled():
                    pass


async def test_a_server_without_tls_is_not_used_where_tls_is_wanted(postgres: Server) -> None:
    async with behind_tls(postgres, None) as port:
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=verify-full"
        with pytest.raises(StoreError, match="cannot be reached"):
            async with Database(parsed(url)).pooled():
                pass


async def test_each_write_to_a_transcript_is_one_statement(postgres_url: str) -> None:
    sent: list[str] = []

    def note(record: Any) -> None:
        sent.append(str(record.query))

    async def listen(db: Any) -> None:
        db.add_query_logger(note)

    async with open_postgres_store(parsed(postgres_url)) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            await store.database.read(listen)  # the pool gives the connection that was used last
            turn = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, "hello")])
            await lane.append(turn, [NewEntry(EntryKind.TOOL_CALL), NewEntry(EntryKind.NOTICE)])
            await lane.compact(turn, NewEntry(EntryKind.COMPACTION), through=1)
            await lane.finish_turn(turn, Outcome.OK)
            assert [
                query for query in sent if "pg_catalog" not in query and "jit" not in query
            ] == [sent[-1]] * 4  # besides what the driver asks once about the types
