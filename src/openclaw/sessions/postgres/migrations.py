"""The schema: how it came to be what it is, and how two versions of the program share it.

Each file `sql/NNN_name.sql` is applied once, in the order of the numbers, in a transaction of its
own, under a lock that lets one process at a time migrate. Numbers below 100 are the session
store's; those from 100 on belong to the queue of turns. A file that was released never changes.

A migration only adds (tables, columns with a default, indexes), so that a gateway of the version
before goes on working beside one that has migrated. One that cannot says `-- breaking` in its first
line: a program that does not know it then refuses the database.
"""

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw.core.errors import MissingExtra, OperatorFacing
from openclaw.core.installed import install_command
from openclaw.sessions.postgres.pool import SCHEMA, Database, translated
from openclaw.sessions.store import StoreMissing, StoreTooNew, StoreUnavailable

if TYPE_CHECKING:
    import asyncpg


# It comes with the package `pgmq`, which is pinned: the digest is that of PGMQ 1.13.0. Nothing else of
# that package is used, and it is never imported.

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


_FILE = re.compile(r"(?P<number>\d{3})_(?P<name>\w+)\.sql")
_LOCK = 0x4F43_4C57  # the advisory lock that whoever migrates holds

_LOCK_WAIT = "60s"
_QUEUE = 100  # the first number of those that belong to the queue of turns
_PGMQ = 100  # the step whose SQL is PGMQ's own, which comes with its package


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def breaking(self) -> bool:
        """True where a program that does not know this step cannot use the database."""
        return self.sql.startswith("-- breaking")


def known() -> list[Migration]:
    found = [Migration(_PGMQ, "pgmq", install_script())]
    for file in resources.files("openclaw.sessions.postgres").joinpath("sql").iterdir():
        match = _FILE.fullmatch(file.name)
        if match:
            number = int(match["number"])
            found.append(Migration(number, match["name"], file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda step: step.number)


async def migrate(database: Database, *, create: bool = True) -> None:
    """Bring the schema to what this version knows.

    Without `create` nothing is changed: `StoreMissing` where there is no store yet, and
    `StoreUnavailable` where one is too old to be read. `StoreTooNew` where a newer version has changed the schema beyond what this one can use.
    """
    steps = known()
    missing = await database.read(lambda db: _missing(db, steps, database.place))
    if not missing:
        return
    if not create:
        _require_readable(missing, steps, database.place)
        return
    connection = await database.connect()
    try:
        with translated(database.place):
            await _apply(connection, steps, database.place)
    finally:
        await connection.close()


def _require_readable(missing: list[Migration], steps: list[Migration], place: str) -> None:
    """Sessions can be read without what belongs to the queue of turns."""
    if len(missing) == len(steps):
        raise StoreMissing(f"there is no session store on PostgreSQL ({place})")
    if any(step.number < _QUEUE for step in missing):
        raise StoreUnavailable(
            f"the session store on PostgreSQL ({place}) has an older schema",
            hint="a gateway of this version, or a turn, brings it up to date",
        )


async def _apply(connection: "asyncpg.Connection[Any]", steps: list[Migration], place: str) -> None:
    await connection.execute("SET statement_timeout = 0")
    await connection.execute("SET idle_in_transaction_session_timeout = 0")
    await connection.execute(f"SET lock_timeout = '{_LOCK_WAIT}'")
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
                step.breaking,
            )


async def _missing(connection: Any, steps: list[Migration], place: str) -> list[Migration]:
    """The steps that were not applied yet, once those that were are found to be bearable."""
    if not await _has_table(connection):
        return steps
    rows = await connection.fetch("SELECT number, name, breaking FROM migrations")
    numbers = {step.number for step in steps}
    for row in rows:
        if row["breaking"] and row["number"] not in numbers:
            raise StoreTooNew(
                f"a newer version of this program changed the session store on PostgreSQL ({place})"
                f" in a way that this one does not know ({row['number']} {row['name']})",
                hint="update openclaw-runtime",
            )
    applied = {row["number"] for row in rows}
    return [step for step in steps if step.number not in applied]


async def _has_table(connection: Any) -> bool:
    return await connection.fetchval("SELECT to_regclass('openclaw.migrations') IS NOT NULL")
