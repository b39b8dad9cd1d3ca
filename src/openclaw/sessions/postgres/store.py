"""The PostgreSQL store: sessions that many machines share."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from openclaw.core.errors import MissingExtra, OperatorFacing
from openclaw.core.installed import install_command
from openclaw.media.stored_files import ALL_BYTES, LOOK_EVERY_BYTES, SESSION_BYTES, digest_of
from openclaw.sessions import queries as shared
from openclaw.sessions.lanes import LEASE_SECONDS
from openclaw.sessions.postgres.address import Address
from openclaw.sessions.postgres.lanes import NOW_MS, PostgresLanes, as_query
from openclaw.sessions.postgres.pool import RECONNECT_SECONDS, SCHEMA, Database, translated
from openclaw.sessions.queries import Statements
from openclaw.sessions.records import SessionDetails, SessionRef, StoreError, StoreMissing
from openclaw.sessions.store import SessionStore
from openclaw.sessions.task_groups import helper_tasks

if TYPE_CHECKING:
    import asyncpg

    from openclaw.sessions.postgres.pool import Connection

# Each file `sql/NNN_name.sql` is applied once, in the order of the numbers, in its own transaction,
# under a lock. Numbers below 100 are the session store's, the others the queue's. A file that was
# has been released never changes.
#
# A migration only adds (tables, columns with a default, indexes), so that a gateway of the previous
# version keeps working. One that cannot says `-- breaking` in its first line: a program that does not
# know it then refuses the database.

# From PGMQ 1.13.0. Nothing else in the package `pgmq` is used, and it is never imported.
SHA256 = "bf7e66c75ed771df0c5f7cb2b9f0123ca77992daacd56e3911d1894a3efa99de"
_PGMQ_SQL = "pgmq/sql/pgmq.sql"
_GUARDED = """
DO $openclaw$ BEGIN
  IF to_regtype('pgmq.message_record') IS NULL THEN
    EXECUTE $openclaw_pgmq${script}$openclaw_pgmq$;
  END IF;
END $openclaw$;
"""


def install_script() -> str:
    try:
        path = Path(str(distribution("pgmq").locate_file(_PGMQ_SQL)))
        script = path.read_bytes()
    except (PackageNotFoundError, OSError) as error:
        raise MissingExtra("a session store on PostgreSQL", "postgres") from error
    if hashlib.sha256(script).hexdigest() != SHA256:
        raise OperatorFacing(
            "the installed package 'pgmq' is not the version that this program was made for",
            hint=f"install it again with: {install_command('postgres')}",
        )
    return _GUARDED.format(script=script.decode())


SQL = Path(__file__).with_name("sql")
_LOCK = 0x4F43_4C57  # the advisory lock for migrating
_QUEUE = 100  # the first number that belongs to the queue; its SQL is PGMQ's own


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str


def known() -> list[Migration]:
    steps = [Migration(_QUEUE, "pgmq", install_script())]
    for file in SQL.glob("*.sql"):
        number, _, name = file.stem.partition("_")
        steps.append(Migration(int(number), name, file.read_text("utf-8")))
    return sorted(steps, key=lambda step: step.number)


async def migrate(database: Database, *, create: bool = True) -> None:
    """Bring the schema up to date; `StoreError` if a newer version changed it too much.

    Without `create` nothing is changed: `StoreMissing` if there is no store yet, and
    `StoreError` if it is too old to be read.
    """
    steps, place = known(), database.place
    missing = await database.read(lambda db: _missing(db, steps, place))
    if not missing:
        return
    if not create:
        if len(missing) == len(steps):
            raise StoreMissing(f"there is no session store on PostgreSQL ({place})")
        if any(step.number < _QUEUE for step in missing):  # the queue is not needed for reading
            raise StoreError(
                f"the session store on PostgreSQL ({place}) has an older schema",
                hint="a gateway of this version, or a turn, brings it up to date",
            )
        return
    connection = await database.connect()
    try:
        with translated(place):
            await _apply(connection, steps, place)
    finally:
        await connection.close()


async def _apply(connection: "asyncpg.Connection[Any]", steps: list[Migration], place: str) -> None:
    await connection.execute("SET statement_timeout = 0")
    await connection.execute("SET idle_in_transaction_session_timeout = 0")
    await connection.execute("SET lock_timeout = '60s'")
    await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
    if not await _has_table(connection):
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        await connection.execute(
            "CREATE TABLE migrations (number integer PRIMARY KEY, name text NOT NULL,"
            " breaking boolean NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
    for step in await _missing(connection, steps, place):
        async with connection.transaction():
            await connection.execute(step.sql)
            await connection.execute(
                "INSERT INTO migrations (number, name, breaking) VALUES ($1, $2, $3)",
                step.number,
                step.name,
                step.sql.startswith("-- breaking"),
            )


async def _missing(connection: Any, steps: list[Migration], place: str) -> list[Migration]:
    """The steps that have not been applied yet."""
    if not await _has_table(connection):
        return steps
    rows = await connection.fetch("SELECT number, name, breaking FROM migrations")
    numbers = {step.number for step in steps}
    for row in rows:
        if row["breaking"] and row["number"] not in numbers:
            raise StoreError(
                f"a newer version of this program changed the session store on PostgreSQL ({place})"
                f" in a way that this one does not know ({row['number']} {row['name']})",
                hint="update openclaw-runtime",
            )
    applied = {row["number"] for row in rows}
    return [step for step in steps if step.number not in applied]


async def _has_table(connection: Any) -> bool:
    return await connection.fetchval("SELECT to_regclass('openclaw.migrations') IS NOT NULL")


T = TypeVar("T")

_REMOVE_OLDEST_MEDIA = """
DELETE FROM media USING (
  SELECT session AS owner, digest AS old,
    sum(octet_length(data)) OVER (ORDER BY kept_at DESC, session, digest) AS total
  FROM media WHERE session = $1 OR $1 IS NULL
) AS sums WHERE session = owner AND digest = old AND total > $2
"""


class PostgresStore(SessionStore):
    like = "ILIKE"
    among = "id IN (SELECT jsonb_array_elements_text($2::jsonb))"
    # It may already exist, from before a connection broke.
    repeated = "OR (d.rev = excluded.rev AND d.data = excluded.data)"
    newest_entry = "e.at_ms DESC"
    word_search = (
        "entries e",
        "e.words @@ $3::text::tsquery",
        "ts_rank(e.words, $3::text::tsquery) DESC, e.at_ms DESC",
    )

    def __init__(self, database: Database, lanes: PostgresLanes) -> None:
        super().__init__(lanes)
        self.database = database
        self._unseen = LOOK_EVERY_BYTES

    def _named(self, key: str) -> tuple[str, list[Any]]:
        return "key_digest = $2 OR id = $3", [_digest(key), key]

    def _words(self, text: str) -> str | None:
        return as_query(text)

    async def _insert_session(
        self, db: Statements, session: SessionRef, times: tuple[int, int] | None = None
    ) -> None:
        await db.execute(
            "INSERT INTO sessions (id, agent, key, name_digest, key_digest, created_ms, updated_ms)"
            f" SELECT $1, $2, $3, $4, $5, coalesce($6::bigint, {NOW_MS}),"
            f" coalesce($7::bigint, {NOW_MS}) ON CONFLICT DO NOTHING",
            *astuple(session),
            _name_digest(session.agent, session.key),
            _digest(session.key),
            *(times or (None, None)),
        )

    async def _delete(self, db: Statements, row: int) -> None:
        await db.execute("DELETE FROM sessions WHERE row = $1", row)

    async def keep_media(self, session: SessionRef, data: bytes) -> str:
        digest = digest_of(data)

        async def keep(db: "Connection") -> None:
            row = await shared.row_of(db, session)
            await db.execute(
                "INSERT INTO media (session, digest, data) VALUES ($1, $2, $3)"
                " ON CONFLICT (session, digest) DO UPDATE SET kept_at = now()",
                row,
                digest,
                data,
            )
            await db.execute(_REMOVE_OLDEST_MEDIA, row, SESSION_BYTES)
            if self._unseen >= LOOK_EVERY_BYTES:
                await db.execute(_REMOVE_OLDEST_MEDIA, None, ALL_BYTES)

        self._unseen += len(data)
        await self.database.transact(keep)
        if self._unseen >= LOOK_EVERY_BYTES:
            self._unseen = 0
        return digest

    async def media(self, session: SessionRef, digest: str) -> bytes | None:
        query = (
            "SELECT data FROM media JOIN sessions ON row = session WHERE id = $1 AND digest = $2"
        )
        return await self.database.read(lambda db: db.fetchval(query, session.id, digest))

    async def details(self, session: SessionRef) -> SessionDetails:
        async def read(db: "Connection") -> SessionDetails:
            async with db.transaction(isolation="repeatable_read", readonly=True):
                return await shared.session_details(db, session)

        return await self.database.read(read)


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def _name_digest(agent: str, key: str) -> bytes:
    return _digest(f"{agent}\0{key}")  # no key contains NUL


@asynccontextmanager
async def open_postgres_store(
    address: Address,
    *,
    lease: float = LEASE_SECONDS,
    create: bool = True,
    patience: float = RECONNECT_SECONDS,
) -> AsyncGenerator[PostgresStore]:
    """The store in the database at `address`; times come from the database's clock.

    Without `create`, nothing is changed in the database, and one without a store is refused.
    `patience` is how long to wait for an unavailable server.
    """
    async with Database(address, patience=patience).pooled() as database:
        await migrate(database, create=create)
        lanes = PostgresLanes(database, lease)
        async with helper_tasks() as tasks:
            tasks.start_soon(lanes.run, name="session leases")
            yield PostgresStore(database, lanes)
