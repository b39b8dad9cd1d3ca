"""Whole sessions in and out of the file store, as they are."""

import sqlite3
from collections.abc import Sequence

from openclaw.sessions.codec import encode
from openclaw.sessions.copying import CopyConflict, Dossier, TurnRecord
from openclaw.sessions.file import queries
from openclaw.sessions.model import Entry, SessionInfo, SessionRef, TurnState, searchable


def dossier(connection: sqlite3.Connection, session: SessionRef) -> Dossier:
    """All that is known of a session besides its entries, at one moment."""
    row = queries.row_of(connection, session)
    summary, summarised = connection.execute(
        "SELECT summary_seq, summarised FROM sessions WHERE row = ?", (row,)
    ).fetchone()
    turns = connection.execute(
        "SELECT id, state, started_ms, finished_ms, first_seq FROM turns WHERE session = ?"
        " ORDER BY first_seq, id",
        (row,),
    )
    (stored,) = connection.execute(
        "SELECT count(*) FROM entries WHERE session = ?", (row,)
    ).fetchone()
    return Dossier(
        queries.show(connection, session),
        summary,
        summarised,
        tuple(TurnRecord(turn[0], TurnState(turn[1]), *turn[2:]) for turn in turns),
        stored,
    )


def receive_entries(
    connection: sqlite3.Connection, info: SessionInfo, after: int, entries: Sequence[Entry]
) -> int:
    """Add entries to a session that ends at `after`, and return its row."""
    connection.execute(
        "INSERT INTO sessions (id, agent, key, created_ms, updated_ms) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (info.id, info.agent, info.key, info.created_ms, info.updated_ms),
    )
    row = queries.row_of(connection, info.ref)
    last = entries[-1].seq if entries else after
    moved = connection.execute(
        "UPDATE sessions SET seq = ? WHERE row = ? AND seq = ? RETURNING row", (last, row, after)
    ).fetchone()
    if moved is None:
        raise CopyConflict("somebody else writes to the target's session")
    for entry in entries:
        _add(connection, row, entry)
    return row


def receive_dossier(connection: sqlite3.Connection, dossier: Dossier) -> None:
    """Make everything besides the entries what it was in the other store."""
    info = dossier.info
    row = queries.row_of(connection, info.ref)
    connection.execute(
        "UPDATE sessions SET title = ?, created_ms = ?, updated_ms = ?, messages = ?,"
        " input_tokens = ?, output_tokens = ?, cache_read_tokens = ?, cache_write_tokens = ?,"
        " requests = ?, tool_calls = ?, summary_seq = ?, summarised = ? WHERE row = ?",
        (*info[3:7], *info[8:], dossier.summary_seq, dossier.summarised, row),
    )
    connection.execute(
        "UPDATE entries SET details = NULL WHERE session = ? AND seq <= ? AND details IS NOT NULL",
        (row, dossier.summarised),
    )
    connection.executemany(
        "INSERT INTO turns (session, id, state, started_ms, finished_ms, first_seq)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (session, id) DO UPDATE"
        " SET state = ?3, finished_ms = ?5",
        [
            (row, turn.id, turn.state, turn.started_ms, turn.finished_ms, turn.first_seq)
            for turn in dossier.turns
        ],
    )


def _add(connection: sqlite3.Connection, row: int, entry: Entry) -> None:
    text = searchable(entry.text)
    details = None if entry.details is None else encode(entry.details)
    added = connection.execute(
        "INSERT INTO entries (session, seq, turn, kind, at_ms, call_id, text, data, details)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            row,
            entry.seq,
            entry.turn,
            entry.kind,
            entry.at_ms,
            entry.call_id,
            text,
            encode(entry.data),
            details,
        ),
    )
    if text:
        connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (added.lastrowid, text))
