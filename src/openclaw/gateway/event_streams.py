"""The events of running turns, buffered from the start for later watchers."""

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import anyio
import orjson
from starlette.types import Receive, Scope, Send

from openclaw.agent.event_codec import error_json, event_name, record_json, reply_json
from openclaw.agent.port import Reply
from openclaw.core.errors import Busy
from openclaw.core.events import Event

logger = logging.getLogger(__name__)

QUIET_SECONDS = 15.0  # then a comment is sent, so that proxies keep the connection open
_MOST_WAITING = 64 * 1024 * 1024  # bytes buffered for a client that reads too slowly
_PING = b": \n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

Put = Callable[[bytes], None]
Work = Callable[[Put], Awaitable[None]]


def sse_frame(data: Any, event: str | None = None) -> bytes:
    """One event; `data` is JSON, or text that is sent as it is."""
    body = data.encode() if isinstance(data, str) else orjson.dumps(data, default=str)
    name = f"event: {event}\n".encode() if event else b""
    return b"%sdata: %s\n\n" % (name, body)


class EventStream:
    """A response that `work` writes. If the client disconnects, `work` is cancelled."""

    def __init__(self, work: Work, *, headers: dict[str, str] | None = None) -> None:
        self._work = work
        self._headers = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        self._waiting: list[bytes] = []
        self._size = 0
        self._news = anyio.Event()
        self._done = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _HEADERS + self._headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with anyio.create_task_group() as group:
            group.start_soon(_until_gone, receive, group.cancel_scope, name="client watch")
            group.start_soon(self._produce, name="event stream")
            await self._deliver(send)
            group.cancel_scope.cancel()

    async def _produce(self) -> None:
        try:
            await self._work(self._put)
        finally:
            self._done = True
            self._news.set()

    def _put(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        self._news.set()

    async def _deliver(self, send: Send) -> None:
        while True:
            with anyio.move_on_after(QUIET_SECONDS):
                await self._news.wait()
            self._news = anyio.Event()
            if self._size > _MOST_WAITING:
                logger.warning("a stream was ended: its client reads too slowly")
                return
            data, last = b"".join(self._waiting), self._done  # once done, nothing more is put
            self._waiting, self._size = [], 0
            body = data if data or last else _PING
            await send({"type": "http.response.body", "body": body, "more_body": not last})
            if last:
                return


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


@dataclass(frozen=True, slots=True)
class WatchedAnswer:
    """A response that takes a while; if the client disconnects, `make` is cancelled."""

    make: Callable[[], Awaitable[Any]]
    on_error: Callable[[Exception], Any]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: Any = None
        async with anyio.create_task_group() as group:
            group.start_soon(_until_gone, receive, group.cancel_scope, name="client watch")
            try:
                answer = await self.make()
            except Exception as error:  # noqa: BLE001 - every failure is an answer
                answer = self.on_error(error)
            group.cancel_scope.cancel()
        if answer is not None:
            await answer(scope, receive, send)


_MOST_KEPT = 16 * 1024 * 1024  # bytes of one turn; a longer one loses its beginning
_RETRY_AFTER = 5.0
_QUESTIONS = (b"event: question\n", b"event: question_closed\n")


class TurnKey(NamedTuple):
    """A client chooses its turns' ids, so two owners may choose the same one."""

    owner: str
    id: str


class EventFeed:
    def __init__(self, most: int = _MOST_KEPT) -> None:
        self.followers = 0
        self.closed = anyio.Event()
        self._most = most
        self._frames: list[bytes] = []
        self._size = 0
        self._lost = 0  # how many frames were dropped
        self._news = anyio.Event()

    def put(self, data: bytes) -> None:
        self._frames.append(data)
        self._size += len(data)
        if self._size > self._most:
            dropped = 0
            while dropped < len(self._frames) - 1 and self._size > self._most // 2:
                self._size -= len(self._frames[dropped])
                dropped += 1
            del self._frames[:dropped]
            self._lost += dropped
        self._tell()

    def event(self, event: Event) -> None:
        self.put(sse_frame(record_json(event), event_name(event)))

    def reply(self, reply: Reply) -> None:
        self.put(sse_frame(reply_json(reply), "reply"))

    def error(self, error: BaseException) -> None:
        self.put(sse_frame(error_json(error), "error"))

    def close(self) -> None:
        self.closed.set()
        self._tell()

    async def follow(self, put: Put, *, questions: bool = True, past: bool = True) -> None:
        """Put past events, if `past`, and then new ones until the feed is closed.

        Without `questions`, questions are left out, for clients that cannot answer them.
        """
        at = 0 if past else self._lost + len(self._frames)
        self.followers += 1
        try:
            while True:
                for data in self._frames[max(0, at - self._lost) :]:
                    if questions or not data.startswith(_QUESTIONS):
                        put(data)
                at = self._lost + len(self._frames)
                if self.closed.is_set():
                    return
                await self._news.wait()
        finally:
            self.followers -= 1

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()


class TurnFeeds(dict[TurnKey, EventFeed]):
    """The feeds of running turns."""

    def find(self, id: str, may_reach: Callable[[str], bool]) -> EventFeed | None:
        """The feed of the turn with this id, of an owner that `may_reach` accepts."""
        feeds = (feed for key, feed in self.items() if key.id == id and may_reach(key.owner))
        return next(feeds, None)

    @contextmanager
    def open(self, turn: TurnKey) -> Generator[EventFeed]:
        """A feed while the block runs; an error in it ends the feed. Raises `Busy` if one exists."""
        if turn in self:
            raise Busy(f"turn {turn.id} is already running", retry_after=_RETRY_AFTER)
        feed = self[turn] = EventFeed()
        try:
            yield feed
        except Exception as error:
            feed.error(error)
            raise
        finally:
            del self[turn]
            feed.close()
