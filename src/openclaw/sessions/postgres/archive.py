"""Whole sessions in and out of the PostgreSQL store, as they are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openclaw.sessions.codec import encode
from openclaw.sessions.copying import CopyConflict, Dossier, TurnRecord
from openclaw.sessions.model import (
    Entry,
    SessionInfo,
    SessionRef,
    TurnState,
    searchable,
    storable,
)
from openclaw.sessions.postgres import queries
from openclaw.sessions.postgres.words import as_vector

if TYPE_CHECKING:
    from openclaw.sessions.postgres.pool import Connection


async def dossier(connection: "Connection", session: SessionRef) -> Dossier:
    """All that is known of a session besides its entries, at one moment."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        info = await queries.show(connection, session)
        found = await connection.fetchrow(
            "SELECT row, summary_seq, summarised FROM sessions WHERE id = $1", session.id
        )
        assert found is not None
        turns = await connection.fetch(
            "SELECT id, state, started_ms, finished_ms, first_seq FROM turns WHERE session = $1",
            found["row"],
        )
        stored = await connection.fetchval(
            "SELECT count(*) FROM entries WHERE session = $1", found["row"]
        )
    records = [
        TurnRecord(name, TurnState(state), started, finished, first)
        for name, state, started, finished, first in turns
    ]
    ordered = sorted(records, key=lambda turn: (turn.first_seq, turn.id))
    return Dossier(info, found["summary_seq"], found["summarised"], tuple(ordered), stored)


async def receive_entries(
    connection: "Connection", info: SessionInfo, after: int, entries: Sequence[Entry]
) -> int:
    """Add entries to a session that ends at `after`, and return its row. In a transaction."""
    await connection.execute(
        "INSERT INTO sessions (id, agent, key, name_digest, key_digest, created_ms, updated_ms)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        info.id,
        info.agent,
        info.key,
        queries.name_digest(info.agent, info.key),
        queries.key_digest(info.key),
        info.created_ms,
        info.updated_ms,
    )
    last = entries[-1].seq if entries else after
    row = await connection.fetchval(
        "UPDATE sessions SET seq = $2 WHERE id = $1 AND seq = $3"
        " RETURNING row, set_config('synchronous_commit', 'off', true)",  # the dossier syncs it
        info.id,
        last,
        after,
    )
    if row is None:
        raise CopyConflict("somebody else writes to the target's session")
    texts = [searchable(entry.text) for entry in entries]
    await connection.execute(
        "INSERT INTO entries (session, seq, turn, kind, at_ms, call_id, text, data, details, words)"
        " SELECT $1, e.seq, e.turn, e.kind, e.at_ms, e.call_id, e.text, e.data, e.details,"
        " e.words::tsvector FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[],"
        " $6::text[], $7::text[], $8::bytea[], $9::bytea[], $10::text[])"
        " AS e (seq, turn, kind, at_ms, call_id, text, data, details, words)",
        row,
        [entry.seq for entry in entries],
        [entry.turn for entry in entries],
        [str(entry.kind) for entry in entries],
        [entry.at_ms for entry in entries],
        [None if entry.call_id is None else storable(entry.call_id) for entry in entries],
        texts,
        [encode(entry.data) for entry in entries],
        [None if entry.details is None else encode(entry.details) for entry in entries],
        [as_vector(text) for text in texts],
    )
    return row


async def receive_dossier(connection: "Connection", dossier: Dossier) -> None:
    """Make everything besides the entries what it was in the other store. In a transaction."""
    info = dossier.info
    row = await queries.row_of(connection, info.ref)
    await connection.execute(
        "UPDATE sessions SET title = $2, created_ms = $3, updated_ms = $4, messages = $5,"
        " input_tokens = $6, output_tokens = $7, cache_read_tokens = $8, cache_write_tokens = $9,"
        " requests = $10, tool_calls = $11, summary_seq = $12, summarised = $13 WHERE row = $1",
        row,
        *info[3:7],
        *info[8:],
        dossier.summary_seq,
        dossier.summarised,
    )
    await connection.execute(
        "UPDATE entries SET details = NULL"
        " WHERE session = $1 AND seq <= $2 AND details IS NOT NULL",
        row,
        dossier.summarised,
    )
    turns = dossier.turns
    await connection.execute(
        "INSERT INTO turns (session, id, state, started_ms, finished_ms, first_seq)"
        " SELECT $1, t.* FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[],"
        " $6::bigint[]) AS t ON CONFLICT (session, id) DO UPDATE"
        " SET state = excluded.state, finished_ms = excluded.finished_ms",
        row,
        [turn.id for turn in turns],
        [str(turn.state) for turn in turns],
        [turn.started_ms for turn in turns],
        [turn.finished_ms for turn in turns],
        [turn.first_seq for turn in turns],
    )
