"""What happens in the turns that run now, kept from their beginning for whoever comes to watch."""

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from openclaw.agent.context import Reply
from openclaw.core.errors import Busy, NotFound
from openclaw.core.events import Event
from openclaw.gateway.codec import error_json, event_json, event_name, reply_json
from openclaw.gateway.stream import Put, frame

_MOST_KEPT = 16 * 1024 * 1024  # bytes of one turn; a longer one loses its beginning
_RETRY_AFTER = 5.0
_QUESTIONS = (b"event: question\n", b"event: question_closed\n")


class Feed:
    """One turn's frames, in order."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._size = 0
        self._lost = 0  # frames that were let go
        self._news = anyio.Event()
        self._closed = False

    def put(self, data: bytes) -> None:
        """Keep one; never blocks."""
        self._frames.append(data)
        self._size += len(data)
        if self._size > _MOST_KEPT:
            self._forget()
        self._tell()

    def event(self, event: Event) -> None:
        """Something that happened in the turn."""
        self.put(frame(event_json(event), event_name(event)))

    def reply(self, reply: Reply) -> None:
        """The end of the turn."""
        self.put(frame(reply_json(reply), "reply"))

    def error(self, error: BaseException) -> None:
        """The other end."""
        self.put(frame(error_json(error), "error"))

    def close(self) -> None:
        """Nothing comes after this."""
        self._closed = True
        self._tell()

    async def follow(self, put: Put, *, questions: bool = True) -> None:
        """Everything from the beginning, and then what comes, until the turn is over.

        Questions are for those who can answer them: without `questions` they are left out.
        """
        at = 0
        while True:
            for data in self._frames[max(0, at - self._lost) :]:
                if questions or not data.startswith(_QUESTIONS):
                    put(data)
            at = self._lost + len(self._frames)
            if self._closed:
                return
            await self._news.wait()

    def _forget(self) -> None:
        keep = len(self._frames)
        while keep > 1 and self._size > _MOST_KEPT // 2:
            self._size -= len(self._frames[len(self._frames) - keep])
            keep -= 1
        self._lost += len(self._frames) - keep
        self._frames = self._frames[len(self._frames) - keep :]

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()


class Feeds:
    """The feeds of all turns that are followed, by the turn's id."""

    def __init__(self) -> None:
        self._open: dict[str, Feed] = {}

    def has(self, turn: str) -> bool:
        """Whether that turn's is kept."""
        return turn in self._open

    def of(self, turn: str) -> Feed:
        """That turn's; raises `NotFound` where none is kept."""
        found = self._open.get(turn)
        if found is None:
            raise NotFound(f"turn '{turn}' is not running, or cannot be watched")
        return found

    @contextmanager
    def open(self, turn: str) -> Generator[Feed]:
        """A feed for as long as this lasts; raises `Busy` where there is one already."""
        if turn in self._open:
            raise Busy(f"turn {turn} is running already", retry_after=_RETRY_AFTER)
        feed = self._open[turn] = Feed()
        try:
            yield feed
        finally:
            del self._open[turn]
            feed.close()

    @contextmanager
    def watched(self, turn: str, *, wanted: bool) -> Generator[Feed | None]:
        """The same where it is wanted, and nobody else keeps this turn's feed."""
        if not wanted or turn in self._open:
            yield None
            return
        with self.open(turn) as feed:
            try:
                yield feed
            except Exception as error:
                feed.error(error)
                raise
