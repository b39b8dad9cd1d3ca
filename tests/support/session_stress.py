"""Many processes on shared sessions, killed and frozen at random, and the check of what they left.

Every worker carries out its orders one after the other, each in a session picked at random. It
writes an order down in a log of its own once the store has acknowledged it. A worker that was
killed is started again and goes on where its log ends: an order that the store had finished
without the worker living to hear of it is found by its turn id and not carried out again.
"""

import contextlib
import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio

from openclaw.core.clock import SystemClock
from openclaw.core.errors import InvalidRequest
from openclaw.core.outcome import Outcome
from openclaw.sessions.copying import SessionDetails
from openclaw.sessions.postgres.address import parsed
from openclaw.sessions.postgres.store import PostgresStore, open_postgres_store
from openclaw.sessions.records import (
    Entry,
    EntryKind,
    LaneLost,
    NewEntry,
    SessionRef,
    StoreError,
    TurnState,
)
from openclaw.sessions.sqlite.store import SqliteStore, open_sqlite_store
from openclaw.sessions.store import SessionStore

_START_SECONDS = 60.0  # that a database server may take to start, on a busy machine

_WHOLE_TURN = [
    EntryKind.TURN_STARTED,
    EntryKind.USER_MESSAGE,
    EntryKind.TOOL_CALL,
    EntryKind.TOOL_RESULT,
    EntryKind.ASSISTANT_MESSAGE,
    EntryKind.TURN_FINISHED,
]


@dataclass(frozen=True)
class StressPlan:
    """How much of everything; `seed` decides who is hit when.

    With `url` the store is on a PostgreSQL server, else in a file.
    """

    directory: str
    url: str = ""
    processes: int = 8
    turns: int = 500
    sessions: int = 20
    kills: int = 40
    freezes: int = 2
    pause: float = 0.4
    lease: float = 2.0
    seed: int = 1

    @property
    def database(self) -> Path:
        """The store that all share, where it is a file."""
        return Path(self.directory, "sessions.db")

    def open(self) -> AbstractAsyncContextManager[SqliteStore | PostgresStore]:
        """The store that all share."""
        if self.url:
            return open_postgres_store(parsed(self.url), lease=self.lease)
        return open_sqlite_store(self.database, SystemClock(), lease=self.lease)

    def acknowledged(self, worker: int) -> Path:
        """The log of what this worker was told is done."""
        return Path(self.directory, f"acknowledged-{worker}.log")

    def effects(self, worker: int) -> Path:
        """The log of what this worker's tool calls did to the world."""
        return Path(self.directory, f"effects-{worker}.log")


# --- a worker ---------------------------------------------------------------------------------


async def work(plan: StressPlan, worker: int) -> None:
    """Carry out this worker's orders from where its log ends."""
    done = len(_lines(plan.acknowledged(worker)))
    async with _opened(plan) as store:
        with plan.acknowledged(worker).open("a") as log:
            for number in range(done, plan.turns):
                await _order(store, plan, worker, number)
                log.write(f"{worker}-{number}\n")
                log.flush()


@asynccontextmanager
async def _opened(plan: StressPlan) -> AsyncGenerator[SessionStore]:
    """The store, as soon as there is one: a server that was crashed may be starting just now."""
    until = anyio.current_time() + _START_SECONDS
    async with AsyncExitStack() as stack:
        while True:
            try:
                store = await stack.enter_async_context(plan.open())
                break
            except StoreError:
                if anyio.current_time() > until:
                    raise
                await anyio.sleep(0.1)
        yield store


async def _order(store: SessionStore, plan: StressPlan, worker: int, number: int) -> None:
    picked = random.Random(f"{plan.seed}/{worker}/{number}").randrange(plan.sessions)
    session = await store.open_session("main", f"shared-{picked}")
    attempt = 0
    while True:
        turn = f"{worker}-{number}.{attempt}"
        found = await store.find_turn(session, turn)
        if found is None:
            with contextlib.suppress(LaneLost, InvalidRequest):
                return await _attempt(store, plan, session, worker, turn)
        elif found.state is TurnState.OK:
            return None
        elif found.state is TurnState.LOST:
            attempt += 1
        else:
            # Our own former life left it running: whoever takes the lane finds that out.
            async with store.acquire_lane(session):
                pass


async def _attempt(
    store: SessionStore, plan: StressPlan, session: SessionRef, worker: int, turn: str
) -> None:
    async with store.acquire_lane(session) as lane:
        await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, f"order {turn}")], turn=turn)
        await lane.append(turn, [NewEntry(EntryKind.TOOL_CALL, {}, call_id=turn)])
        with plan.effects(worker).open("a") as world:
            world.write(f"{turn}\n")
        await lane.append(turn, [NewEntry(EntryKind.TOOL_RESULT, {}, call_id=turn)])
        answer = NewEntry(EntryKind.ASSISTANT_MESSAGE, {}, f"answer {turn}")
        await lane.finish_turn(turn, Outcome.OK, [answer])


# --- the one who starts, hits and restarts them ---------------------------------------------------


def run_stress(plan: StressPlan, halfway: Callable[[], None] | None = None) -> dict[str, Any]:
    """Run it all and return the figures; raises where something is lost, doubled or out of order.

    `halfway` is called once, after half of the kills.
    """
    chance = random.Random(plan.seed)
    workers = {number: _start(plan, number) for number in range(plan.processes)}
    kills, freezes = plan.kills, plan.freezes
    restarts = 0
    began = time.monotonic()
    try:
        while workers:
            time.sleep(plan.pause * chance.random())
            restarts += _reap(plan, workers)
            if workers and freezes and chance.random() < 0.1:
                freezes -= 1
                _freeze(chance.choice(list(workers.values())), plan.lease * 1.5)
            elif workers and kills:
                kills -= 1
                chance.choice(list(workers.values())).kill()
            if halfway is not None and kills <= plan.kills // 2:
                halfway()
                halfway = None
    finally:
        for process in workers.values():
            process.kill()
            process.wait()
    figures = verify(plan)
    return figures | {
        "seconds": round(time.monotonic() - began, 1),
        "kills": plan.kills - kills,
        "freezes": plan.freezes - freezes,
        "restarts": restarts,
    }


def _start(plan: StressPlan, worker: int) -> "subprocess.Popen[bytes]":
    request = json.dumps([asdict(plan), worker])
    return subprocess.Popen([sys.executable, "-m", __name__, request])


def _reap(plan: StressPlan, workers: "dict[int, subprocess.Popen[bytes]]") -> int:
    restarted = 0
    for number, process in list(workers.items()):
        code = process.poll()
        if code == 0:
            del workers[number]
        elif code is not None:
            if code != -signal.SIGKILL:
                raise AssertionError(f"worker {number} failed with {code}")
            workers[number] = _start(plan, number)
            restarted += 1
    return restarted


def _freeze(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)


# --- the check --------------------------------------------------------------------------------


def verify(plan: StressPlan) -> dict[str, Any]:
    """Look at what is in the store and at what was acknowledged."""
    if not plan.url:
        _check_file(plan.database)
    finished, calls = anyio.run(_check_transcripts, plan)
    once = Counter(turn.partition(".")[0] for turns in finished for turn in turns)
    _require(set(once.values()) == {1}, "an order was carried out twice")
    for worker in range(plan.processes):
        acknowledged = _lines(plan.acknowledged(worker))
        _require(len(acknowledged) == plan.turns, "a worker did not finish")
        _require(all(order in once for order in acknowledged), "an acknowledged order is lost")
        _require(set(_lines(plan.effects(worker))) <= calls, "a call acted that was not recorded")
    for turns in finished:
        _check_order(turns)
    return {"orders": sum(once.values())}


def _check_file(path: Path) -> None:
    database = sqlite3.connect(path)
    try:
        _require(database.execute("PRAGMA integrity_check").fetchone() == ("ok",), "integrity")
        database.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        database.rollback()
    finally:
        database.close()


async def _check_transcripts(plan: StressPlan) -> tuple[list[list[str]], set[str]]:
    """Every session's finished turns in the order of its transcript, and all calls."""
    async with plan.open() as store:
        page = await store.list_sessions(limit=None)
        finished: list[list[str]] = []
        calls: set[str] = set()
        for info in page.sessions:
            details = await store.details(info.ref)
            entries = await store.history(info.ref, since_compaction=False)
            finished.append(_check_transcript(details, entries))
            calls |= {entry.call_id for entry in entries if entry.call_id}
    return finished, calls


def _check_transcript(details: SessionDetails, entries: list[Entry]) -> list[str]:
    numbers = [entry.seq for entry in entries]
    _require(numbers == list(range(1, details.info.entries + 1)), "a number is missing")
    kinds: dict[str, list[EntryKind]] = {}
    for entry in entries:
        turn = entry.turn or ""
        inside = entry.kind is EntryKind.TURN_STARTED or turn == next(reversed(kinds), None)
        _require(inside, "two turns are mixed")
        kinds.setdefault(turn, []).append(entry.kind)
    states = {turn.id: turn.state for turn in details.turns}
    _require(set(states) == set(kinds), "a turn and its entries do not agree")
    finished = [turn for turn in kinds if states[turn] is TurnState.OK]
    _require(all(kinds[turn] == _WHOLE_TURN for turn in finished), "a turn is not whole")
    return finished


def _check_order(turns: list[str]) -> None:
    by_worker: dict[str, list[int]] = defaultdict(list)
    for turn in turns:
        worker, _, number = turn.partition(".")[0].partition("-")
        by_worker[worker].append(int(number))
    _require(all(numbers == sorted(numbers) for numbers in by_worker.values()), "out of order")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def _lines(path: Path) -> list[str]:
    """Whole lines: the last one may have been cut by a kill."""
    text = path.read_text() if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


if __name__ == "__main__":
    given, me = json.loads(sys.argv[1])
    with contextlib.suppress(BrokenPipeError):
        anyio.run(work, StressPlan(**given), me)
