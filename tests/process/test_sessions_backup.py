"""A backup of the database server, taken while it is used and restored elsewhere."""

import subprocess
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from tests.support.postgres_server import Server

from openclaw.core.outcome import Outcome
from openclaw.sessions.postgres.address import parsed
from openclaw.sessions.postgres.store import open_postgres_store
from openclaw.sessions.records import EntryKind, NewEntry, TurnState
from openclaw.sessions.store import SessionStore

pytestmark = pytest.mark.subprocess


async def run(*command: str | Path) -> None:
    await anyio.to_thread.run_sync(lambda: subprocess.run(command, check=True, timeout=60))


async def contents(store: SessionStore) -> list[Any]:
    page = await store.list_sessions(limit=None)
    return [(info, await store.history(info.ref)) for info in page.sessions]


async def test_a_backup_taken_in_the_midst_of_a_turn_is_restored_and_goes_on(
    tmp_path: Path, postgres: Server, postgres_url: str
) -> None:
    dump = tmp_path / "openclaw.dump"
    restored = postgres.create()
    async with open_postgres_store(parsed(postgres_url)) as store:
        session = await store.open_session("main", "k")
        async with store.acquire_lane(session) as lane:
            first = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {"a": "ü\0"}, "find")])
            await lane.finish_turn(first, Outcome.OK)
            half = await lane.begin_turn()
            await lane.append(half, [NewEntry(EntryKind.TOOL_CALL, {}, call_id="c")])
            await run(postgres.tool("pg_dump"), "--format=custom", f"--file={dump}", postgres_url)
            before = await contents(store)
            await lane.finish_turn(half, Outcome.OK)
    try:
        await run(
            postgres.tool("pg_restore"),
            "--exit-on-error",
            f"--dbname={postgres.url(restored)}",
            dump,
        )
        # The lease is short, so that the ticket that came with the backup is soon judged.
        async with open_postgres_store(parsed(postgres.url(restored)), lease=1.0) as store:
            assert await contents(store) == before
            assert len(await store.search("find")) == 1
            async with store.acquire_lane(session) as lane:
                (lost,) = await store.unfinished_turns(session)
                assert (lost.id, lost.state) == (half, TurnState.LOST)
                assert [call.call_id for call in lost.open_calls] == ["c"]
                turn = await lane.begin_turn()
                await lane.finish_turn(turn, Outcome.OK)
            await store.open_session("main", "another")
    finally:
        postgres.drop(restored)
