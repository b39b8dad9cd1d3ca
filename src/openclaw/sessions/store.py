"""What every store promises, whether it is a file, a database server or memory."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from openclaw.core.errors import OperatorFacing, UserFacing
from openclaw.sessions.model import (
    Document,
    Entry,
    Hit,
    NewEntry,
    Outcome,
    Page,
    SessionInfo,
    SessionRef,
    Turn,
    Usage,
)

DEFAULT_LIMIT = 50

LEASE_SECONDS = 9.0
"""How long a process that froze keeps others waiting; one that died is noticed at once."""


class Lane(Protocol):
    """The exclusive right to write to one session.

    Every write checks, in its own transaction, that the right still stands, and raises `LaneLost`
    where another process has taken the session over. A write that has begun is finished even when
    its caller is cancelled, so that there is no half of one and no doubt about it.
    """

    @property
    def session(self) -> SessionRef: ...

    @property
    def epoch(self) -> int:
        """The fence: it grows each time the lane changes hands."""
        ...

    @property
    def lost_turns(self) -> Sequence[Turn]:
        """Turns that a holder who died left half-way, marked as lost when this lane was taken."""
        ...

    async def begin_turn(self, entries: Sequence[NewEntry] = (), *, turn: str | None = None) -> str:
        """Start a turn with its first entries; the id is `turn` or a new one.

        An id that the session already has is refused with `InvalidRequest`, so that an order sent
        twice under one id is carried out once.
        """
        ...

    async def resume_turn(self, turn: str, entries: Sequence[NewEntry] = ()) -> None:
        """Go on with a turn that was lost; it runs again, and these entries are added to it.

        `InvalidRequest` where the session has no lost turn of that id.
        """
        ...

    async def append(self, turn: str | None, entries: Sequence[NewEntry]) -> Sequence[int]:
        """Add entries and return their numbers.

        A tool call is on disk before this returns: append it before the tool runs.
        """
        ...

    async def compact(self, turn: str | None, summary: NewEntry, *, through: int) -> int:
        """Add a summary that stands for every entry up to number `through`.

        The transcript keeps them, without their details; `history` begins with the summary.
        """
        ...

    async def finish_turn(
        self,
        turn: str,
        outcome: Outcome,
        entries: Sequence[NewEntry] = (),
        *,
        usage: Usage | None = None,
        detail: str = "",
    ) -> None:
        """Add the last entries, say how the turn ended, and count its usage, all or nothing.

        When this returns, the turn survives a loss of power: only then may it be acknowledged.
        """
        ...


class SessionStore(Protocol):
    async def open_session(self, agent: str, key: str) -> SessionRef:
        """The session of this agent with this key, created where there is none."""
        ...

    def acquire_lane(self, session: SessionRef) -> AbstractAsyncContextManager[Lane]:
        """Wait until the session is free and hold it; those who wait are served as they came.

        A turn that is unfinished when the body ends is marked as lost. When the right is lost
        inside, the body is cancelled and `LaneLost` raised on the way out.
        Raises `NotFound` where the session was deleted.
        """
        ...

    async def history(self, session: SessionRef, *, since_compaction: bool = True) -> list[Entry]:
        """The transcript in order.

        With `since_compaction`, the latest summary comes first and then every entry that it does
        not stand for, as the model is to see them.
        """
        ...

    async def entries(
        self, session: SessionRef, *, after: int = 0, limit: int = DEFAULT_LIMIT
    ) -> list[Entry]:
        """At most `limit` entries whose number is greater than `after`."""
        ...

    async def find_turn(self, session: SessionRef, turn: str) -> Turn | None:
        """The turn with this id, such as one that was sent twice; None where there is none."""
        ...

    async def unfinished_turns(self, session: SessionRef) -> list[Turn]:
        """Turns that run now or that died half-way, oldest first, with calls of unknown outcome."""
        ...

    async def list_sessions(
        self,
        agent: str | None = None,
        *,
        limit: int | None = DEFAULT_LIMIT,
        cursor: str | None = None,
        search: str | None = None,
        conversations: bool = False,
    ) -> Page:
        """Sessions, the most recently used first; `search` looks into keys and titles.

        With `conversations`, those that programs began are left out (`PROGRAM_KEYS`).
        """
        ...

    async def count_sessions(self) -> int: ...

    async def find_sessions(self, key: str, agent: str | None = None) -> list[SessionInfo]: ...

    async def show(self, session: SessionRef) -> SessionInfo: ...

    async def set_title(self, session: SessionRef, title: str | None) -> None:
        """Name a session; None takes its title away."""
        ...

    async def keep_media(self, session: SessionRef, data: bytes) -> str:
        """Keep an attachment until the session is deleted, and return its digest.

        What a session keeps is bounded: the oldest attachments go first.
        """
        ...

    async def media(self, session: SessionRef, digest: str) -> bytes | None:
        """An attachment that was kept, or None if it is gone."""
        ...

    async def delete(self, session: SessionRef) -> None:
        """Remove a session and all that it holds; `Busy` while a turn holds its lane."""
        ...

    async def search(self, text: str, *, agent: str | None = None, limit: int = 20) -> list[Hit]:
        """Entries that contain every word of `text`, the best matches first."""
        ...

    async def documents(
        self, kind: str, ids: Sequence[str] | None = None, *, limit: int = DEFAULT_LIMIT
    ) -> list[Document]:
        """Documents of a kind, those with these ids or all, the last written first."""
        ...

    async def write_document(
        self,
        kind: str,
        document: Document,
        *,
        expires_ms: int,
        durable: bool = True,
    ) -> bool:
        """Write a document; false if it is no longer at the revision before this one."""
        ...

    async def delete_documents(self, kind: str, ids: Sequence[str] = (), *, expired: int) -> None:
        """Remove these documents of a kind, and all documents whose time was up at `expired`."""
        ...


# OpenClawError
# ├── UserFacing
# │   └── LaneLost
# └── OperatorFacing
# └── StoreError
# ├── StoreUnavailable    it cannot be opened or reached at all
# │   └── StoreMissing    nothing was ever stored there
# ├── StoreCorrupt        what is there is not, or no longer, ours to read
# ├── StoreReadOnly
# ├── StoreFull
# └── StoreTooNew         a newer version of the program wrote it


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
