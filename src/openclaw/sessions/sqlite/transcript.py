"""Writing a transcript: work for the writer's transactions."""

import sqlite3
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from openclaw.core.errors import DeveloperFacing, InvalidRequest
from openclaw.sessions.model import (
    MESSAGE_KINDS,
    Encoded,
    EntryKind,
    Outcome,
    TurnState,
    Usage,
)
from openclaw.sessions.store import LaneLost

_ADD_ENTRY = """
INSERT INTO entries (session, seq, turn, kind, at_ms, call_id, text, data, details)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to write to a session, as it was granted."""

    row: int
    epoch: int

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise `LaneLost` where the right no longer stands."""
        found = connection.execute(
            "SELECT epoch FROM sessions WHERE row = ?", (self.row,)
        ).fetchone()
        if found is None:
            raise LaneLost("it was deleted")
        if found[0] != self.epoch:
            raise LaneLost("another process took it over")


def begin_turn(
    connection: sqlite3.Connection, fence: Fence, turn: str, entries: Sequence[Encoded], now_ms: int
) -> None:
    fence.check(connection)
    if _turn_state(connection, fence.row, turn) is not None:
        raise InvalidRequest(f"the session already has a turn '{turn}'")
    running = connection.execute(
        "SELECT id FROM turns WHERE session = ? AND state = 'running'", (fence.row,)
    ).fetchone()
    if running is not None:
        raise DeveloperFacing(f"turn '{running[0]}' has not been finished")
    started = Encoded(EntryKind.TURN_STARTED, "", b"{}", None, None)
    numbers = add_entries(connection, fence.row, turn, [started, *entries], now_ms)
    connection.execute(
        "INSERT INTO turns (session, id, state, started_ms, first_seq) VALUES (?, ?, ?, ?, ?)",
        (fence.row, turn, TurnState.RUNNING, now_ms, numbers[0]),
    )


def resume_turn(
    connection: sqlite3.Connection, fence: Fence, turn: str, entries: Sequence[Encoded], now_ms: int
) -> None:
    fence.check(connection)
    if _turn_state(connection, fence.row, turn) != TurnState.LOST:
        raise InvalidRequest(f"the session has no lost turn '{turn}'")
    add_entries(connection, fence.row, turn, entries, now_ms)
    connection.execute(
        "UPDATE turns SET state = 'running', finished_ms = NULL WHERE session = ? AND id = ?",
        (fence.row, turn),
    )


def append(
    connection: sqlite3.Connection,
    fence: Fence,
    turn: str | None,
    entries: Sequence[Encoded],
    now_ms: int,
) -> range:
    fence.check(connection)
    _require_running(connection, fence.row, turn)
    return add_entries(connection, fence.row, turn, entries, now_ms)


def compact(
    connection: sqlite3.Connection,
    fence: Fence,
    turn: str | None,
    summary: Encoded,
    through: int,
    now_ms: int,
) -> int:
    """Let `summary` stand for all entries up to `through` and drop the details of those."""
    fence.check(connection)
    _require_running(connection, fence.row, turn)
    last, before = connection.execute(
        "SELECT seq, summarised FROM sessions WHERE row = ?", (fence.row,)
    ).fetchone()
    if not before <= through <= last:
        raise InvalidRequest(f"a summary through {through} must be between {before} and {last}")
    number = add_entries(connection, fence.row, turn, [summary], now_ms)[0]
    connection.execute(
        "UPDATE entries SET details = NULL"
        " WHERE session = ? AND seq > ? AND seq <= ? AND details IS NOT NULL",
        (fence.row, before, through),
    )
    connection.execute(
        "UPDATE sessions SET summary_seq = ?, summarised = ? WHERE row = ?",
        (number, through, fence.row),
    )
    return number


def finish_turn(
    connection: sqlite3.Connection,
    fence: Fence,
    turn: str,
    outcome: Outcome,
    entries: Sequence[Encoded],
    usage: Usage,
    now_ms: int,
) -> None:
    """Add the last entries, end the turn and count what it consumed."""
    fence.check(connection)
    _require_running(connection, fence.row, turn)
    add_entries(connection, fence.row, turn, entries, now_ms)
    connection.execute(
        "UPDATE turns SET state = ?, finished_ms = ? WHERE session = ? AND id = ?",
        (outcome, now_ms, fence.row, turn),
    )
    connection.execute(
        "UPDATE sessions SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,"
        " cache_read_tokens = cache_read_tokens + ?, cache_write_tokens = cache_write_tokens + ?,"
        " requests = requests + ?, tool_calls = tool_calls + ? WHERE row = ?",
        (*astuple(usage), fence.row),
    )


def add_entries(
    connection: sqlite3.Connection,
    row: int,
    turn: str | None,
    entries: Sequence[Encoded],
    now_ms: int,
) -> range:
    """Number the entries on from the session's last and write them."""
    messages = sum(entry.kind in MESSAGE_KINDS for entry in entries)
    (last,) = connection.execute(
        "UPDATE sessions SET seq = seq + ?, messages = messages + ?,"
        " updated_ms = max(updated_ms, ?) WHERE row = ? RETURNING seq",
        (len(entries), messages, now_ms, row),
    ).fetchone()
    numbers = range(last - len(entries) + 1, last + 1)
    for number, entry in zip(numbers, entries, strict=True):
        added = connection.execute(
            _ADD_ENTRY,
            (
                row,
                number,
                turn,
                entry.kind,
                now_ms,
                entry.call_id,
                entry.text,
                entry.data,
                entry.details,
            ),
        )
        if entry.text:
            connection.execute(
                "INSERT INTO words (rowid, text) VALUES (?, ?)", (added.lastrowid, entry.text)
            )
    return numbers


def _require_running(connection: sqlite3.Connection, row: int, turn: str | None) -> None:
    if turn is not None and _turn_state(connection, row, turn) != TurnState.RUNNING:
        raise DeveloperFacing(f"turn '{turn}' does not run")


def _turn_state(connection: sqlite3.Connection, row: int, turn: str) -> str | None:
    found = connection.execute(
        "SELECT state FROM turns WHERE session = ? AND id = ?", (row, turn)
    ).fetchone()
    return None if found is None else found[0]
