"""Watching a turn that runs anywhere: its events in order, and its answer."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import orjson

from openclaw.agent.context import Reply
from openclaw.runtime.cluster.feeds import EPOCH
from openclaw.sessions.postgres.event_log import EventLog
from openclaw.sessions.postgres.queue import Standing

POLL_SECONDS = 2.0
"""How often a watcher who hears nothing looks whether the turn has ended."""

_GAP_SECONDS = 0.15
"""How long a gap in the events may last before the database is asked for what is missing."""

_MOST_EARLY = 1000

Handlers = Mapping[str, Callable[[Any], None]]
NamedEvent = tuple[int, str, Any]


class Watch:
    """One who watches an order."""

    def __init__(self, order: int, seen: int = 0) -> None:
        self.order = order
        self.seen = seen
        self.ended = False
        self.ask_log = False
        self.result: Reply | BaseException | None = None
        self._news = anyio.Event()
        self._waiting: dict[int, tuple[str, Any]] = {}

    def put(self, first: int, events: list[list[Any]]) -> None:
        """Take events, the first of which has this number; known ones are left out."""
        for number, (name, body) in enumerate(events, first):
            if number > self.seen:
                self._waiting[number] = (name, body)
        self._news.set()

    def end(self, result: Reply | BaseException | None = None) -> None:
        """The turn has ended; with its answer, where that is at hand."""
        self.ended = True
        self.result = self.result or result  # the answer may have been read already
        self._news.set()

    def kept(self, last: int) -> None:
        """The database has the events up to this number: look, where they were not all heard."""
        if self.seen < last and last not in self._waiting:
            self.look()

    def look(self) -> None:
        """There may be more in the database than was heard of."""
        self.ask_log = True
        self._news.set()

    async def news(self) -> bool:
        """Wait for something to do; false where nothing came for a while."""
        with anyio.move_on_after(_GAP_SECONDS if self._waiting else POLL_SECONDS):
            await self._news.wait()
        heard = self._news.is_set()
        self._news = anyio.Event()
        return heard

    @property
    def gap(self) -> bool:
        """True where events are missing between what was seen and what is here."""
        return bool(self._waiting)

    def take(self) -> list[NamedEvent]:
        """The events that follow what was seen, without a gap."""
        found: list[NamedEvent] = []
        while self._waiting:
            number = self.seen + 1
            if number not in self._waiting:
                number = self._next_attempt()
            if number is None:
                break
            name, body = self._waiting.pop(number)
            self.seen = number
            found.append((number, name, body))
        return found

    def _next_attempt(self) -> int | None:
        """The first event of a later attempt, where that has begun: what came before it is over."""
        begun = (self.seen // EPOCH + 1) * EPOCH
        later = [number for number in self._waiting if number > begun and number % EPOCH == 1]
        if not later:
            return None
        first = min(later)
        self._waiting = {n: event for n, event in self._waiting.items() if n >= first}
        return first

    def skip_gap(self) -> None:
        """Give up what is missing: nobody has it any more."""
        if self._waiting:
            self.seen = min(self._waiting) - 1


class Watches:
    """Those who watch orders in this gateway."""

    def __init__(self, log: EventLog, standing: Callable[[int], Awaitable[Standing]]) -> None:
        self._log = log
        self._standing = standing
        self._watches: dict[int, list[Watch]] = {}
        self._early: OrderedDict[int, list[Callable[[Watch], None]]] = OrderedDict()

    @contextmanager
    def watch(self, order: int, seen: int = 0) -> Generator[Watch]:
        """Watch an order while this lasts; what came a moment too early is not lost."""
        watch = Watch(order, seen)
        self._watches.setdefault(order, []).append(watch)
        for told in self._early.pop(order, ()):
            told(watch)
        try:
            yield watch
        finally:
            left = self._watches[order]
            left.remove(watch)
            if not left:
                del self._watches[order]

    def tell(self, order: int, what: Callable[[Watch], None]) -> None:
        """Let everyone know who watches that order."""
        watches = self._watches.get(order)
        if watches is None:
            self._early.setdefault(order, []).append(what)
            if len(self._early) > _MOST_EARLY:
                self._early.popitem(last=False)
            return
        for watch in watches:
            what(watch)

    def deliver(self, order: int, first: int, events: list[list[Any]]) -> None:
        """Events of a turn that runs in this very gateway."""
        self.tell(order, lambda watch: watch.put(first, events))

    def look_all(self) -> None:
        """Messages may have been lost: everybody looks."""
        for watches in self._watches.values():
            for watch in watches:
                watch.look()

    async def events(self, watch: Watch) -> AsyncGenerator[NamedEvent]:
        """The events until the turn has ended."""
        while True:
            heard = await watch.news()
            for event in watch.take():
                yield event
            if watch.ended and watch.result is not None and not watch.gap:
                return
            done: Standing | None = None
            if watch.ended or not heard:
                done = await self._done(watch)
            if watch.gap or watch.ask_log or not heard or done is not None:
                await self._catch_up(watch)
                for event in watch.take():
                    yield event
            if done is not None:
                while watch.gap:  # nobody has what is missing any more
                    watch.skip_gap()
                    for event in watch.take():
                        yield event
                return

    async def _done(self, watch: Watch) -> Standing | None:
        from openclaw.runtime.cluster.carrying import answer_from

        if watch.result is not None:
            return Standing(watch.order, "done", None, None, None, 0)
        standing = await self._standing(watch.order)
        if standing.state != "done":
            watch.ended = False  # it was told before it was true
            return None
        try:
            watch.result = answer_from(standing.reply or b"")
        except Exception as error:  # noqa: BLE001 - whatever it was, it is the answer
            watch.result = error
        return standing

    async def _catch_up(self, watch: Watch) -> None:
        watch.ask_log = False
        for stretch in await self._log.after(watch.order, watch.seen):
            watch.put(stretch.first, orjson.loads(stretch.body))
