"""Reading: statements that change nothing."""

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from openclaw.sessions.model import (
    Hit,
    SessionInfo,
    SessionRef,
)
from openclaw.sessions.rows import (
    INFO_COLUMNS,
    bare,
    containing,
    hit_from,
    info_from,
    without_spaces,
)

if TYPE_CHECKING:
    from openclaw.sessions.postgres.pool import Connection

_WORD = re.compile(r"\w+")

_LONGEST_WORD_BYTES = 255
_MOST_BYTES = 256 * 1024
"""What is indexed of one text at most: PostgreSQL refuses a megabyte of them."""


def words_of(text: str) -> list[str]:
    """The words of `text`, each once, without case and accents, in the order of the text."""
    found: list[str] = []
    size = 0
    for word in dict.fromkeys(_WORD.findall(bare(text))):
        length = len(word.encode())
        size += length
        if size > _MOST_BYTES:
            break
        if length <= _LONGEST_WORD_BYTES:
            found.append(word)
    return found


def as_vector(text: str) -> str | None:
    """The words of `text` as PostgreSQL reads a `tsvector`; None where there is none."""
    return " ".join(words_of(text)) or None


def as_query(text: str) -> str | None:
    """What finds every word of `text`, or one that begins so; None where nothing is asked."""
    return " & ".join(f"{word}:*" for word in words_of(text)) or None


_DIGEST_BYTES = 16


def key_digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=_DIGEST_BYTES).digest()


def name_digest(agent: str, key: str) -> bytes:
    """What a session is looked up by; a key holds no NUL, so that two names never coincide."""
    return key_digest(f"{agent}\0{key}")


async def find_exact(connection: "Connection", agent: str, key: str) -> SessionRef | None:
    found = await connection.fetchval(
        "SELECT id FROM sessions WHERE name_digest = $1", name_digest(agent, key)
    )
    return None if found is None else SessionRef(found, agent, key)


async def find(connection: "Connection", key: str, agent: str | None) -> list[SessionInfo]:
    rows = await connection.fetch(
        f"SELECT {INFO_COLUMNS} FROM sessions s WHERE (key_digest = $1 OR id = $2)"  # noqa: S608 - ours
        " AND ($3::text IS NULL OR agent = $3)",
        key_digest(key),
        key,
        agent,
    )
    return sorted((info_from(row) for row in rows), key=lambda info: (info.agent, info.key))


async def search(connection: "Connection", text: str, agent: str | None, limit: int) -> list[Hit]:
    if without_spaces(text):
        # Scripts that no index can cut into words: the newest first.
        condition = " AND ".join(f"e.text ILIKE ${number + 3}" for number, _ in _numbered(text))
        values = [containing(word) for _, word in _numbered(text)]
        order = "e.at_ms DESC"
    elif (query := as_query(text)) is not None:
        condition, values = "e.words @@ $3::text::tsquery", [query]
        order = "ts_rank(e.words, $3::text::tsquery) DESC, e.at_ms DESC"
    else:
        return []
    rows = await connection.fetch(
        f"SELECT {INFO_COLUMNS}, e.seq AS number, e.kind, e.at_ms, e.text"  # noqa: S608 - constant names
        " FROM entries e JOIN sessions s ON s.row = e.session"
        f" WHERE {condition} AND ($1::text IS NULL OR s.agent = $1) ORDER BY {order} LIMIT $2",
        agent,
        limit,
        *values,
    )
    return [hit_from(row, text) for row in rows]


def _numbered(text: str) -> Sequence[tuple[int, str]]:
    return list(enumerate(text.split()))
