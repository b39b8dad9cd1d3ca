"""What can go wrong with a store, named for who acts on it.

OpenClawError
├── UserFacing
│   └── LaneLost
└── OperatorFacing
    └── StoreError
        ├── StoreUnavailable    it cannot be opened or reached at all
        │   └── StoreMissing    nothing was ever stored there
        ├── StoreCorrupt        what is there is not, or no longer, ours to read
        ├── StoreReadOnly
        ├── StoreFull
        └── StoreTooNew         a newer version of the program wrote it
"""

from openclaw.core.errors import OperatorFacing, UserFacing


class LaneLost(UserFacing):
    """Raised when another process took the session over, so that nothing more may be written."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"this turn no longer holds its session: {reason}",
            hint="what was committed before is kept; send the message again",
        )


class StoreError(OperatorFacing):
    """Raised when the session store does not work; every leaf says what mends it."""


class StoreUnavailable(StoreError):
    """Raised when the store cannot be opened or reached."""


class StoreMissing(StoreUnavailable):
    """Raised when there is no store where one was to be read."""


class StoreCorrupt(StoreError):
    """Raised when the store's file is damaged or belongs to another program."""


class StoreReadOnly(StoreError):
    """Raised when the store may be read and not written."""


class StoreFull(StoreError):
    """Raised when no space is left to write to."""


class StoreTooNew(StoreError):
    """Raised when the store was written by a newer version of this program."""
