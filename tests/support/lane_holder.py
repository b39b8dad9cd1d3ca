"""Another process that takes a session's lane and keeps it until it is told to finish."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from openclaw.config.paths import StatePaths
from openclaw.core.outcome import Outcome
from openclaw.sessions.open import open_store
from openclaw.sessions.records import EntryKind, LaneLost, NewEntry, TurnState
from openclaw.sessions.store import SessionStore

_PATIENCE = 60.0  # a bound for a busy machine, not a wait
_SHARED = ("main", "shared")


class Holder:
    """The other process, as a test sees it."""

    def __init__(self, store: str, lease: float, *mode: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, store, str(lease), *mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def says(self, *words: str) -> None:
        """Wait until it says these words, one after the other."""
        assert self.process.stdout is not None
        for word in words:
            with anyio.fail_after(_PATIENCE):
                line = await anyio.to_thread.run_sync(self.process.stdout.readline)
            assert line.strip() == word

    def finish(self) -> None:
        """Tell it to end its turn."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@contextmanager
def holder(store: Path | str, lease: float = 9.0, *, blocked: bool = False) -> Generator[Holder]:
    """A process that holds the shared session of this store; `blocked` if its event loop is, too."""
    other = Holder(str(store), lease, *(["blocked"] if blocked else []))
    try:
        yield other
    finally:
        other.process.kill()
        other.process.communicate()


async def take(store: SessionStore) -> TurnState:
    """Take the shared lane and say what the former holder's turn came to."""
    session = await store.open_session(*_SHARED)
    async with store.acquire_lane(session) as lane:
        *_, lost = await store.unfinished_turns(session)
        assert [call.call_id for call in lost.open_calls] == ["c"]
        turn = await lane.begin_turn()
        await lane.finish_turn(turn, Outcome.OK)
    return lost.state


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def _hold(spec: str, lease: float, mode: str = "") -> None:
    async with open_store(spec, StatePaths(Path()), lease_seconds=lease) as store:
        session = await store.open_session(*_SHARED)
        _say("waiting")
        try:
            async with store.acquire_lane(session) as lane:
                turn = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, "order")])
                await lane.append(turn, [NewEntry(EntryKind.TOOL_CALL, {}, call_id="c")])
                _say("held")
                if mode == "blocked":
                    sys.stdin.readline()  # on the event loop, which cannot renew the lease meanwhile
                else:
                    await anyio.to_thread.run_sync(sys.stdin.readline)
                await lane.finish_turn(turn, Outcome.OK)
                _say("finished")
        except LaneLost:
            _say("lost")


if __name__ == "__main__":
    anyio.run(_hold, sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
