"""What happens in the turns that run here, for whoever watches them from another gateway.

Small events go by message, many in one, as they come; everything is also kept in the database, a
moment later or where it is too large for a message, so that a watcher can catch up. A watcher in
this gateway hears of it directly.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import orjson

from openclaw.agent.context import OnBlockReply, OnToolResult
from openclaw.core.events import Emit, Event, ToolFinished, TurnFinished
from openclaw.core.tools import ToolResult
from openclaw.gateway.codec import block_json, event_json, event_name, result_json
from openclaw.runtime.cluster.carrying import blocks_held, result_held
from openclaw.sessions.errors import StoreError
from openclaw.sessions.postgres.event_log import EventLog, Stretch
from openclaw.sessions.postgres.wire import MOST_PAYLOAD_BYTES, Wire

logger = logging.getLogger(__name__)

EPOCH = 1_000_000
"""Events are numbered from here on when an order was taken once, from twice this the second time."""

TOLD_EVERY_SECONDS = 0.04
KEPT_EVERY_SECONDS = 0.5
_MOST_UNKEPT_BYTES = 32 * 1024 * 1024
"""Beyond this, what could not be written for so long is given up."""

_ENVELOPE_BYTES = 80

Deliver = Callable[[int, int, list[list[Any]]], None]
"""Hands events to watchers in this gateway: the order, the number of the first, the events."""


@dataclass(slots=True)
class _Piece:
    number: int
    event: list[Any]
    encoded: bytes


@dataclass(slots=True, eq=False)
class Feed:
    """The events of one turn. Its callbacks are for the agent, and never block."""

    order: int
    number: int
    watchers: list[str]
    owner: "Feeds"
    untold: list[_Piece] = field(default_factory=list[_Piece])
    unkept: list[_Piece] = field(default_factory=list[_Piece])
    kept_at: float = 0.0

    def on_event(self, event: Event) -> None:
        """Take an event; the end of the turn is told by the answer itself."""
        if isinstance(event, TurnFinished):
            return
        if isinstance(event, ToolFinished):
            body = event_json(event) | {"result": result_json(result_held(event.result))}
            self._put(event_name(event), body)
            return
        self._put(event_name(event), event_json(event))

    def on_block_reply(self, blocks: Any) -> None:
        """Take blocks of the answer."""
        held = [block_json(block) for block in blocks_held(blocks)]
        self._put("on_block_reply", {"blocks": held})

    def on_tool_result(self, name: str, result: ToolResult) -> None:
        """Take what a tool gave."""
        self._put("on_tool_result", {"name": name, "result": result_json(result_held(result))})

    def callbacks(self, *, streams: bool, callbacks: bool) -> dict[str, Any]:
        """What the agent is to be given, as far as somebody wants it."""
        emit: Emit | None = self.on_event if streams else None
        on_block: OnBlockReply | None = self.on_block_reply if callbacks else None
        on_result: OnToolResult | None = self.on_tool_result if callbacks else None
        return {"on_event": emit, "on_block_reply": on_block, "on_tool_result": on_result}

    def add_watcher(self, gateway: str) -> None:
        """Let one more gateway know; it catches up by itself."""
        if gateway not in self.watchers:
            self.watchers.append(gateway)
            self.kept_at = 0.0
            self.owner.stir(self)

    async def flush(self) -> None:
        """Tell and keep everything before the end of the turn, where others watch."""
        await self.owner.flush(self)

    def _put(self, name: str, body: Any) -> None:
        self.number += 1
        event = [name, body]
        if self.owner.gateway in self.watchers:
            self.owner.deliver(self.order, self.number, [event])
        piece = _Piece(self.number, event, orjson.dumps(event, default=str))
        self.untold.append(piece)
        self.unkept.append(piece)
        self.owner.stir(self)


class Feeds:
    """The feeds of all turns that run in this gateway."""

    def __init__(self, gateway: str, log: EventLog, wire: Wire, deliver: Deliver) -> None:
        self.gateway = gateway
        self.deliver = deliver
        self._log = log
        self._wire = wire
        self._feeds: dict[int, Feed] = {}
        self._stirred: set[Feed] = set()
        self._news = anyio.Event()

    def open(self, order: int, times: int, watchers: tuple[str, ...]) -> Feed:
        """The feed of a turn that begins, or goes on."""
        feed = Feed(order, times * EPOCH, list(watchers), self)
        self._feeds[order] = feed
        return feed

    def close(self, feed: Feed) -> None:
        """The turn has ended here; what was not told yet is in the answer."""
        if self._feeds.get(feed.order) is feed:
            del self._feeds[feed.order]
        self._stirred.discard(feed)

    def find(self, order: int) -> Feed | None:
        """The feed of a turn that runs here."""
        return self._feeds.get(order)

    def stir(self, feed: Feed) -> None:
        """There is something to tell."""
        self._stirred.add(feed)
        self._news.set()

    async def flush(self, feed: Feed) -> None:
        """Tell and keep everything before the end of the turn, where others watch."""
        if self._remote(feed) and feed.unkept:
            self._tell(feed)
            await self._keep([feed])

    async def run(self) -> None:
        """Tell what happens, in batches."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            stirred, self._stirred = self._stirred, set()
            await self._round(stirred)
            await anyio.sleep(TOLD_EVERY_SECONDS)

    async def _round(self, stirred: set[Feed]) -> None:
        now = anyio.current_time()
        due: list[Feed] = []
        for feed in stirred:
            large = self._tell(feed)
            if large or now - feed.kept_at >= KEPT_EVERY_SECONDS:
                due.append(feed)
            elif feed.unkept:
                self.stir(feed)
        if due:
            await self._keep(due)

    def _remote(self, feed: Feed) -> list[str]:
        return [name for name in feed.watchers if name != self.gateway]

    def _tell(self, feed: Feed) -> bool:
        """Send what is new by message; true where something was too large for one."""
        pieces, feed.untold = feed.untold, []
        remote = self._remote(feed)
        if not remote:
            return False
        batch: list[_Piece] = []
        size = large = 0
        for piece in pieces:
            if len(piece.encoded) + _ENVELOPE_BYTES > MOST_PAYLOAD_BYTES:
                self._send(remote, feed, batch)
                batch, size, large = [], 0, large + 1
                continue
            if size + len(piece.encoded) + _ENVELOPE_BYTES > MOST_PAYLOAD_BYTES:
                self._send(remote, feed, batch)
                batch, size = [], 0
            batch.append(piece)
            size += len(piece.encoded) + 1
        self._send(remote, feed, batch)
        return bool(large)

    def _send(self, gateways: list[str], feed: Feed, batch: list[_Piece]) -> None:
        if not batch:
            return
        events = [piece.event for piece in batch]
        for gateway in gateways:
            self._wire.tell(gateway, {"o": feed.order, "a": batch[0].number, "e": events})

    async def _keep(self, feeds: list[Feed]) -> None:
        """Write what is not kept yet, and tell watchers that it can be read."""
        batches = [(feed, feed.unkept) for feed in feeds if feed.unkept]
        if not batches:
            return
        for feed, _ in batches:
            feed.unkept = []
            feed.kept_at = anyio.current_time()
        try:
            await self._log.append([_stretch(feed, pieces) for feed, pieces in batches])
        except StoreError as error:
            logger.warning("events of turns could not be kept: %s", error.message)
            for feed, pieces in batches:
                feed.unkept = _bounded([*pieces, *feed.unkept])
            return
        for feed, pieces in batches:
            for gateway in self._remote(feed):
                self._wire.tell(gateway, {"o": feed.order, "f": pieces[-1].number})


def _stretch(feed: Feed, pieces: list[_Piece]) -> Stretch:
    body = b"[" + b",".join(piece.encoded for piece in pieces) + b"]"
    return Stretch(feed.order, pieces[0].number, pieces[-1].number, body)


def _bounded(pieces: list[_Piece]) -> list[_Piece]:
    size = sum(len(piece.encoded) for piece in pieces)
    return pieces if size <= _MOST_UNKEPT_BYTES else []
