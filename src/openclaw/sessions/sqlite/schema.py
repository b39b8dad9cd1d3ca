"""The version of a session database, also without SQLite, which could change the file."""

from pathlib import Path

from openclaw.config.state_version import NewerState

APPLICATION_ID = 0x4F43_4C57  # identifies our databases in the file's header
_MAGIC = b"SQLite format 3\0"

# One script per version, applied in order; a released script never changes.
SQL = Path(__file__).with_name("sql")


def newest() -> int:
    return sum(1 for _ in SQL.glob("*.sql"))


def refuse_newer(path: Path) -> None:
    """Raise `NewerState` if a newer version of this program has written the database.

    Not for a process that has the database open: closing the file would drop its locks.
    """
    try:
        with path.open("rb") as file:
            header = file.read(72)
    except OSError:
        return
    version, owner = (int.from_bytes(header[at : at + 4]) for at in (60, 68))
    if header.startswith(_MAGIC) and owner == APPLICATION_ID and version > newest():
        raise NewerState(path, version, newest())
