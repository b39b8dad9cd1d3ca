"""Orders and answers as bytes for the queue, and the events of turns for watchers in any gateway.

Watchers in other gateways get small events in messages. All events are also written to the
database a moment later, or at once if they are too large for a message, so that a watcher can catch
up. Watchers in this gateway get them directly.
"""

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import anyio
import orjson
from pydantic import TypeAdapter

from openclaw.agent import event_codec
from openclaw.agent.port import ClientResult, MessageContext, Reply
from openclaw.core.content import Block, Media, Text
from openclaw.core.errors import InvalidRequest
from openclaw.core.events import Event
from openclaw.media.kinds import in_mb
from openclaw.media.stored_files import OrderFiles, read_regular
from openclaw.models.choose import ModelOptions
from openclaw.sessions.postgres.order_queue import (
    MOST_PAYLOAD_BYTES,
    EventBatch,
    GatewayChannel,
    OrderQueue,
)
from openclaw.sessions.records import StoreError

MOST_MEDIA_BYTES = 64 * 1024 * 1024  # all media of one order or answer
_OPTIONS = TypeAdapter[ModelOptions | None](ModelOptions | None)


def has_media(body: bytes) -> bool:
    return b'"media":[]' not in body


def order_bytes(context: MessageContext, *, streams: bool, callbacks: bool) -> bytes:
    """An order with everything it needs. Reads files, so don't call it on the event loop.

    `streams`: somebody wants events; `callbacks`: whole blocks too.
    """
    found = blocks_held([one.media for one in context.media])
    media = tuple(
        replace(one, media=whole)
        for one, whole in zip(context.media, found, strict=True)
        if isinstance(whole, Media)
    )
    if len(media) < len(found):
        raise InvalidRequest(
            f"the attachments are larger than {in_mb(MOST_MEDIA_BYTES)} together", field="media"
        )
    body = event_codec.message_json(replace(context, media=media))
    body |= {
        "options": asdict(context.options) if context.options is not None else None,
        "results": [asdict(one) for one in context.results],
        "streams": streams,
        "callbacks": callbacks,
    }
    return orjson.dumps(body)


def order_from(body: bytes, files: OrderFiles | None) -> tuple[MessageContext, bool, bool]:
    """The order, with its media in files, and the `streams` and `callbacks` of `order_bytes`.

    Writes files, so don't call it on the event loop.
    """
    item: dict[str, Any] = orjson.loads(body)
    context = event_codec.message_from(item)
    context = replace(
        context,
        media=tuple(map(files.place, context.media)) if files is not None else context.media,
        options=_OPTIONS.validate_python(item.get("options")),
        results=tuple(ClientResult(**one) for one in item.get("results", ())),
    )
    return context, item["streams"], item["callbacks"]


def answer_bytes(result: Reply | BaseException) -> bytes:
    if isinstance(result, Reply):
        media = blocks_held(result.media)
        attachments = tuple(block for block in media if isinstance(block, Media))
        notes = [block.text for block in media if isinstance(block, Text)]
        text = "\n\n".join([result.text, *notes]) if notes else result.text
        return orjson.dumps(
            {"reply": event_codec.reply_json(replace(result, media=attachments, text=text))}
        )
    return orjson.dumps({"error": event_codec.error_json(result)})


def answer_from(body: bytes) -> Reply:
    item: dict[str, Any] = orjson.loads(body)
    if "reply" in item:
        return event_codec.reply_from(item["reply"])
    raise event_codec.error_from(item["error"])


def blocks_held(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Blocks with their media's bytes; media that is too large or gone is only named. Reads files."""
    left = MOST_MEDIA_BYTES
    found: list[Block] = []
    for block in blocks:
        if isinstance(block, Media) and block.url is None:
            name = block.name or (block.path.name if block.path else None)
            data = read_regular(block.path, left) if block.path else block.data or b""
            if data is None or len(data) > left:
                block = Text(f"[{name or block.kind} is too large to be sent along, or is gone]")
            else:
                left -= len(data)
                block = Media(block.mime_type, data=data, name=name)
        found.append(block)
    return tuple(found)


logger = logging.getLogger(__name__)

EPOCH = 1_000_000  # an order's events are numbered from EPOCH times the attempt
TOLD_EVERY_SECONDS = 0.04
KEPT_EVERY_SECONDS = 0.5
_MOST_UNKEPT_BYTES = 32 * 1024 * 1024  # beyond this, unwritten events are dropped
_ENVELOPE_BYTES = 80
_FINISHED = "turn_finished"

# Hands events to watchers in this gateway: the order, the number of the first, the events.
Deliver = Callable[[int, int, list[list[Any]]], None]


_Piece = tuple[int, bytes]  # an event's number, and its name and body as JSON


@dataclass(slots=True, eq=False)
class OrderFeed:
    """The events of one turn. Putting one never blocks."""

    order: int
    number: int
    watchers: list[str]
    owner: "OrderFeeds"
    untold: list[_Piece] = field(default_factory=list[_Piece])
    unkept: list[_Piece] = field(default_factory=list[_Piece])
    kept_at: float = 0.0

    def put(self, name: str, body: Any) -> None:
        if name == _FINISHED:
            return  # watchers learn it from the answer
        self.number += 1
        event = [name, body]
        if self.owner.gateway in self.watchers:
            self.owner.deliver(self.order, self.number, [event])
        piece = (self.number, orjson.dumps(event, default=str))
        self.untold.append(piece)
        self.unkept.append(piece)
        self.owner.mark_changed(self)

    def on_event(self, event: Event) -> None:
        self.put(event_codec.event_name(event), event_codec.record_json(event))

    def add_watcher(self, gateway: str) -> None:
        if gateway not in self.watchers:
            self.watchers.append(gateway)
            self.kept_at = 0.0
            self.owner.mark_changed(self)

    async def flush(self) -> None:
        if self.owner.remote(self) and self.unkept:
            self.owner.tell(self)
            await self.owner.keep([self])


class OrderFeeds:
    def __init__(
        self, gateway: str, queue: OrderQueue, channel: GatewayChannel, deliver: Deliver
    ) -> None:
        self.gateway = gateway
        self.deliver = deliver
        self._queue = queue
        self._channel = channel
        self._stirred: set[OrderFeed] = set()
        self._news = anyio.Event()

    def open(self, order: int, times: int, watchers: Sequence[str]) -> OrderFeed:
        return OrderFeed(order, times * EPOCH, list(watchers), self)

    def close(self, feed: OrderFeed) -> None:
        self._stirred.discard(feed)

    def mark_changed(self, feed: OrderFeed) -> None:
        self._stirred.add(feed)
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            stirred, self._stirred = self._stirred, set()
            await self._round(stirred)
            await anyio.sleep(TOLD_EVERY_SECONDS)

    async def _round(self, stirred: set[OrderFeed]) -> None:
        now = anyio.current_time()
        due: list[OrderFeed] = []
        for feed in stirred:
            large = self.tell(feed)
            if large or now - feed.kept_at >= KEPT_EVERY_SECONDS:
                due.append(feed)
            elif feed.unkept:
                self.mark_changed(feed)
        if due:
            await self.keep(due)

    def remote(self, feed: OrderFeed) -> list[str]:
        return [name for name in feed.watchers if name != self.gateway]

    def tell(self, feed: OrderFeed) -> bool:
        """Send new events in messages; true if one was too large for a message."""
        pieces, feed.untold = feed.untold, []
        remote = self.remote(feed)
        if not remote:
            return False
        batch: list[_Piece] = []
        size, large = _ENVELOPE_BYTES, False
        for piece in pieces:
            length = len(piece[1]) + 1
            if size + length > MOST_PAYLOAD_BYTES:
                self._send(remote, feed, batch)
                batch, size = [], _ENVELOPE_BYTES
            if size + length > MOST_PAYLOAD_BYTES:
                large = True
            else:
                batch.append(piece)
                size += length
        self._send(remote, feed, batch)
        return large

    def _send(self, gateways: list[str], feed: OrderFeed, batch: list[_Piece]) -> None:
        events = [orjson.Fragment(encoded) for _, encoded in batch]
        for gateway in gateways if batch else ():
            self._channel.tell(gateway, {"o": feed.order, "a": batch[0][0], "e": events})

    async def keep(self, feeds: list[OrderFeed]) -> None:
        """Store events that aren't stored yet, and tell watchers that they can be read."""
        batches = [(feed, feed.unkept) for feed in feeds if feed.unkept]
        if not batches:
            return
        for feed, _ in batches:
            feed.unkept = []
            feed.kept_at = anyio.current_time()
        try:
            await self._queue.keep_events([_batch(feed, pieces) for feed, pieces in batches])
        except StoreError as error:
            logger.warning("events of turns could not be stored: %s", error.message)
            for feed, pieces in batches:
                feed.unkept = [*pieces, *feed.unkept]
                if sum(len(encoded) for _, encoded in feed.unkept) > _MOST_UNKEPT_BYTES:
                    feed.unkept = []
            return
        for feed, pieces in batches:
            for gateway in self.remote(feed):
                self._channel.tell(gateway, {"o": feed.order, "f": pieces[-1][0]})


def _batch(feed: OrderFeed, pieces: list[_Piece]) -> EventBatch:
    body = b"[%b]" % b",".join(encoded for _, encoded in pieces)
    return EventBatch(feed.order, pieces[0][0], pieces[-1][0], body)


POLL_SECONDS = 2.0  # how often a watcher that hears nothing checks whether the turn has ended
_GAP_SECONDS = 0.15  # how long a gap may last before the database is asked for what is missing
_MOST_EARLY = 1000

NamedEvent = tuple[int, str, Any]


class OrderWatch:
    def __init__(self, order: int, seen: int = 0) -> None:
        self.order = order
        self.seen = seen
        self.ended = False
        self.ask_log = False
        self.result: Reply | BaseException | None = None
        self._news = anyio.Event()
        self._waiting: dict[int, tuple[str, Any]] = {}

    def put(self, first: int, events: list[list[Any]]) -> None:
        for number, (name, body) in enumerate(events, first):
            if number > self.seen:
                self._waiting[number] = (name, body)
        self._news.set()

    def end(self, result: Reply | BaseException | None = None) -> None:
        self.ended = True
        self.result = self.result or result  # the answer may already have been read
        self._news.set()

    def kept(self, last: int) -> None:
        """The database has the events up to this number: check whether some are missing."""
        if self.seen < last and last not in self._waiting:
            self.look()

    def look(self) -> None:
        self.ask_log = True
        self._news.set()

    async def news(self) -> bool:
        with anyio.move_on_after(_GAP_SECONDS if self._waiting else POLL_SECONDS):
            await self._news.wait()
        heard = self._news.is_set()
        self._news = anyio.Event()
        return heard

    @property
    def gap(self) -> bool:
        return bool(self._waiting)

    def take(self, *, all: bool = False) -> list[NamedEvent]:
        """The events that directly follow those taken; if `all`, also those after a gap."""
        found: list[NamedEvent] = []
        while self._waiting:
            number: int | None = self.seen + 1
            if number not in self._waiting:
                number = min(self._waiting) if all else self._next_attempt()
            if number is None:
                break
            name, body = self._waiting.pop(number)
            self.seen = number
            found.append((number, name, body))
        return found

    def _next_attempt(self) -> int | None:
        """The first event of a later attempt, if one has begun; it ends the earlier ones."""
        begun = (self.seen // EPOCH + 1) * EPOCH
        later = [number for number in self._waiting if number > begun and number % EPOCH == 1]
        if not later:
            return None
        first = min(later)
        self._waiting = {n: event for n, event in self._waiting.items() if n >= first}
        return first


class OrderWatches:
    def __init__(self, queue: OrderQueue) -> None:
        self._queue = queue
        self._watches: dict[int, list[OrderWatch]] = {}
        self._early: OrderedDict[int, list[Callable[[OrderWatch], None]]] = OrderedDict()

    @contextmanager
    def watch(self, order: int, seen: int = 0) -> Generator[OrderWatch]:
        """Watch an order while the block runs; messages from just before aren't lost."""
        watch = OrderWatch(order, seen)
        self._watches.setdefault(order, []).append(watch)
        for notify in self._early.pop(order, ()):
            notify(watch)
        try:
            yield watch
        finally:
            left = self._watches[order]
            left.remove(watch)
            if not left:
                del self._watches[order]

    def tell(self, order: int, what: Callable[[OrderWatch], None]) -> None:
        watches = self._watches.get(order)
        if watches is None:
            self._early.setdefault(order, []).append(what)
            if len(self._early) > _MOST_EARLY:
                self._early.popitem(last=False)
            return
        for watch in watches:
            what(watch)

    def deliver(self, order: int, first: int, events: list[list[Any]]) -> None:
        self.tell(order, lambda watch: watch.put(first, events))

    def look_all(self) -> None:
        for watches in self._watches.values():
            for watch in watches:
                watch.look()

    async def events(self, watch: OrderWatch) -> AsyncGenerator[NamedEvent]:
        while True:
            heard = await watch.news()
            for event in watch.take():
                yield event
            if watch.ended and watch.result is not None and not watch.gap:
                return
            done = (watch.ended or not heard) and await self._is_done(watch)
            if watch.gap or watch.ask_log or not heard or done:
                await self._catch_up(watch)
                for event in watch.take():
                    yield event
            if done:
                for event in watch.take(all=True):  # the missing events no longer exist
                    yield event
                return

    async def _is_done(self, watch: OrderWatch) -> bool:
        if watch.result is None:
            answer = await self._queue.answer(watch.order)
            if answer is None:
                watch.ended = False  # the message was too early
                return False
            try:
                watch.result = answer_from(answer)
            except Exception as error:  # noqa: BLE001 - whatever it was, it is the answer
                watch.result = error
        return True

    async def _catch_up(self, watch: OrderWatch) -> None:
        watch.ask_log = False
        for batch in await self._queue.events_after(watch.order, watch.seen):
            watch.put(batch.first, orjson.loads(batch.body))
