"""The version of the state: an older one is migrated after a backup, a newer one is refused.

The files in the state directory (pins, schedules, memory, skills, logins, tokens, secrets) share one
version, in `version.json`; without that file it is 1. Session stores carry their own, because they may
be elsewhere, and so does the configuration.
"""

import json
from collections.abc import Callable
from pathlib import Path

from openclaw.config.paths import write_atomically
from openclaw.core.errors import OperatorFacing
from openclaw.version import __version__

Migration = Callable[[Path], None]
"""Changes a copy of the state's files, in this directory, to the next version."""

MIGRATIONS: tuple[Migration, ...] = ()  # the first leads from version 1 to 2; none ever changes

VERSION_FILE = "version.json"
FILES = (
    VERSION_FILE,
    "pins.json",
    "cron",
    "memory",
    "skills",
    "tokens",
    "tokens.json",
    "gateway.token",
    "secrets.json",
    "imported-servers.json",
)
BACKUPS = "backups"
COMMITTED = ".committed"  # below it, files that have yet to be moved into place


class NewerState(OperatorFacing):
    """Raised when a newer version of this program has written the state."""

    def __init__(self, place: Path, found: int, known: int, program: str = "") -> None:
        by = f" ({program})" if program else ""
        super().__init__(
            f"{place} was written by a newer version of this program{by}: "
            f"its version is {found}, and {__version__} knows {known}",
            hint="update openclaw-runtime, or set OPENCLAW_STATE_DIR to another directory",
        )


def newest() -> int:
    return 1 + len(MIGRATIONS)


def read_version(root: Path) -> tuple[int, str]:
    """The state's version, and that of the program that wrote it ("" if that is unknown)."""
    try:
        stored = json.loads((root / VERSION_FILE).read_bytes())
        return int(stored["version"]), str(stored.get("program", ""))
    except (FileNotFoundError, NotADirectoryError):
        return 1, ""
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise OperatorFacing(
            f"{root / VERSION_FILE} cannot be read: {error}",
            hint="restore it from a backup, or remove it if no other version was ever used here",
        ) from None


def write_version(root: Path) -> None:
    text = json.dumps({"version": newest(), "program": __version__})
    write_atomically(root / VERSION_FILE, text + "\n")


def is_outdated(root: Path) -> bool:
    """Whether the files must be migrated, or a migration was interrupted. Raises `NewerState`."""
    found, program = read_version(root)
    if found > newest():
        raise NewerState(root, found, newest(), program)
    older = found < newest() and any((root / name).exists() for name in FILES)
    return older or (root / BACKUPS / COMMITTED).exists()


def record_version(root: Path) -> None:
    """Say in a state directory that is up to date which program wrote it."""
    if root.is_dir() and not is_outdated(root) and read_version(root)[1] != __version__:
        write_version(root)
