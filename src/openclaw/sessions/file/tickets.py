"""Who waits for which session, kept in the database so that every process sees one queue.

Whoever wants a session draws a ticket. The oldest live ticket holds the session. A ticket is dead
once its process is, where this machine can tell, or once its lease has run out. Leases are
measured on the monotonic clock, which all processes of one machine share and nobody can set.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from openclaw.sessions.codec import Encoded
from openclaw.sessions.file.queries import open_calls, row_of
from openclaw.sessions.file.transcript import add_entries
from openclaw.sessions.liveness import is_gone
from openclaw.sessions.model import EntryKind, SessionRef, Turn, TurnState


@dataclass(frozen=True, slots=True)
class Grant:
    """A session that was taken: its row, the new fence, and turns that its last holder left."""

    row: int
    epoch: int
    lost_turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """When and by whom a ticket is drawn or judged."""

    mark: str
    monotonic: float
    now_ms: int
    lease: float


def try_grant(
    connection: sqlite3.Connection, session: SessionRef, ticket: int | None, moment: Moment
) -> tuple[int, Grant | None]:
    """Take the session where `ticket` is the oldest live one.

    Without a ticket, or where others have judged it dead, a new one is drawn first.
    """
    row = row_of(connection, session)
    if ticket is None or not _exists(connection, ticket):
        ticket = _draw(connection, row, moment)
    if _drop_dead(connection, row, ticket, moment):
        return ticket, None
    (epoch,) = connection.execute(
        "UPDATE sessions SET epoch = epoch + 1 WHERE row = ? RETURNING epoch", (row,)
    ).fetchone()
    return ticket, Grant(row, epoch, _give_up_turns(connection, row, moment.now_ms))


def is_free(connection: sqlite3.Connection, ticket: int, moment: Moment) -> bool:
    """True where it is worth trying: the ticket ahead is gone or dead, or this one is."""
    found = connection.execute(
        "SELECT owner, expires FROM tickets WHERE id < ?1 AND session ="
        " (SELECT session FROM tickets WHERE id = ?1) ORDER BY id LIMIT 1",
        (ticket,),
    ).fetchone()
    return found is None or _is_dead(found[0], found[1], moment)


def held(connection: sqlite3.Connection, row: int, moment: Moment) -> bool:
    """True while a live ticket holds or awaits the session."""
    tickets = connection.execute("SELECT owner, expires FROM tickets WHERE session = ?", (row,))
    return any(not _is_dead(owner, expires, moment) for owner, expires in tickets)


def renew(connection: sqlite3.Connection, tickets: Iterable[int], moment: Moment) -> set[int]:
    """Lengthen the leases and return the tickets that still exist."""
    wanted = orjson.dumps(sorted(tickets)).decode()
    rows = connection.execute(
        "UPDATE tickets SET expires = ? WHERE id IN (SELECT value FROM json_each(?)) RETURNING id",
        (moment.monotonic + moment.lease, wanted),
    )
    return {row[0] for row in rows}


def hand_in(
    connection: sqlite3.Connection, ticket: int, grant: Grant | None, moment: Moment
) -> None:
    """Leave the queue, or the session; a turn that was not finished by then is lost."""
    _drop(connection, ticket)
    if grant is None:
        return
    found = connection.execute("SELECT epoch FROM sessions WHERE row = ?", (grant.row,)).fetchone()
    if found == (grant.epoch,):
        _give_up_turns(connection, grant.row, moment.now_ms)


def _draw(connection: sqlite3.Connection, row: int, moment: Moment) -> int:
    """A ticket behind all others of this session."""
    drawn = connection.execute(
        "INSERT INTO tickets (session, owner, expires) VALUES (?, ?, ?)",
        (row, moment.mark, moment.monotonic + moment.lease),
    )
    assert drawn.lastrowid is not None
    return drawn.lastrowid


def _exists(connection: sqlite3.Connection, ticket: int) -> bool:
    found = connection.execute("SELECT 1 FROM tickets WHERE id = ?", (ticket,)).fetchone()
    return found is not None


def _drop_dead(connection: sqlite3.Connection, row: int, ticket: int, moment: Moment) -> bool:
    """Remove dead tickets from the head of the queue; True where a live one is ahead."""
    while ahead := connection.execute(
        "SELECT id, owner, expires FROM tickets WHERE session = ? AND id < ? ORDER BY id LIMIT 1",
        (row, ticket),
    ).fetchone():
        other, owner, expires = ahead
        if not _is_dead(owner, expires, moment):
            return True
        _drop(connection, other)
    return False


def _drop(connection: sqlite3.Connection, ticket: int) -> None:
    connection.execute("DELETE FROM tickets WHERE id = ?", (ticket,))


def _is_dead(owner: str, expires: float, moment: Moment) -> bool:
    if expires <= moment.monotonic:
        return True
    if owner == moment.mark:
        return False
    # Nobody's lease is this long: the clock began anew, so the machine did too.
    began_before_boot = expires > moment.monotonic + 100 * moment.lease
    return began_before_boot or is_gone(owner)


def _give_up_turns(connection: sqlite3.Connection, row: int, now_ms: int) -> tuple[Turn, ...]:
    """Mark turns that still run as lost: whoever began them no longer holds the session."""
    rows = connection.execute(
        "SELECT id, started_ms, first_seq FROM turns WHERE session = ? AND state = 'running'",
        (row,),
    ).fetchall()
    lost: list[Turn] = []
    for name, started, first in rows:
        calls = open_calls(connection, row, name, first)
        data = orjson.dumps({"openCalls": [call.call_id for call in calls]})
        ending = Encoded(EntryKind.TURN_LOST, "", data, None, None)
        add_entries(connection, row, name, [ending], now_ms)
        connection.execute(
            "UPDATE turns SET state = 'lost', finished_ms = ? WHERE session = ? AND id = ?",
            (now_ms, row, name),
        )
        lost.append(Turn(name, TurnState.LOST, started, now_ms, calls))
    return tuple(lost)
