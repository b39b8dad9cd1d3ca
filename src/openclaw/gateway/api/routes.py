"""The gateway's own interface under `/api`, for the dashboard, the command line and scripts."""

import logging
import re
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from openclaw.agent import event_codec
from openclaw.agent.port import NO_LISTENER, AgentSettings, MessageContext
from openclaw.core.clock import random_id
from openclaw.core.content import InboundMedia
from openclaw.core.errors import Busy, InvalidRequest, NotFound, OpenClawError, http_status
from openclaw.gateway.api import openapi
from openclaw.gateway.api.folders import checked_folder
from openclaw.gateway.api.openapi import Count, Json, Message, operation, validated
from openclaw.gateway.api.views import check_scope
from openclaw.gateway.auth import is_owner, own_session, require
from openclaw.gateway.event_streams import (
    EventFeed,
    EventStream,
    Put,
    TurnKey,
    WatchedAnswer,
    Work,
    sse_frame,
)
from openclaw.gateway.gateway import Gateway
from openclaw.gateway.owners import (
    ALL,
    NOTHING,
    OWN,
    SESSION,
    TURN,
    TurnTarget,
    require_owner,
)
from openclaw.gateway.pending_questions import GatewayAsker
from openclaw.media import kinds
from openclaw.media.intake import Intake
from openclaw.media.stored_files import OrderFiles, order_files
from openclaw.media.transcription import Transcriber
from openclaw.sessions.records import session_owner

logger = logging.getLogger(__name__)

_RETRY_AFTER = 5.0
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,", re.ASCII)
_TAKEN = kinds.FILE_TYPES + kinds.IMAGE_TYPES


def new_session() -> str:
    return f"http-{random_id()}"


class Attachments:
    def __init__(self, root: Path, stack: ExitStack, transcriber: Transcriber) -> None:
        self._root = root
        self._stack = stack
        self._order_files: OrderFiles | None = None
        self._intake = Intake(transcriber, self._files)
        self.taken: list[InboundMedia] = []

    async def take_url(self, url: Any, field: str, name: str | None = None) -> None:
        """Take a `data:` URL; others are refused, because we fetch nothing for a client."""
        found = _DATA_URL.match(url) if isinstance(url, str) else None
        if found is None:
            raise InvalidRequest("has to be a data: URL with base64", field=field)
        await self.take(found[1], str(url)[found.end() :], field, name)

    async def take(
        self,
        mime_type: str,
        data: str,
        field: str,
        name: str | None = None,
        *,
        of_object: bool = False,
    ) -> None:
        """Take base64 data with its type; `of_object` if they are separate fields of an object."""
        if len(self.taken) >= kinds.MAX_IMAGES + kinds.MAX_FILES:
            raise InvalidRequest("has too many attachments", field=field)
        media = await self._intake.store(
            data, mime_type, _TAKEN, field=field, name=name, of_object=of_object
        )
        self.taken.append(await self._intake.read(media))

    def _files(self) -> OrderFiles:
        if self._order_files is None:  # most messages have no attachment and need no directory
            self._order_files = self._stack.enter_context(order_files(self._root))
        return self._order_files


async def detached(gateway: Gateway, turn: TurnKey, work: Work) -> EventStream:
    """Do `work` even if the client disconnects; the response follows it from the start."""
    assert gateway.background is not None
    if len(gateway.turns.running) >= gateway.settings.limits.max_concurrent:
        raise Busy("too many turns are running", retry_after=_RETRY_AFTER)

    async def carry_out(*, task_status: TaskStatus[EventFeed]) -> None:
        with gateway.feeds.open(turn) as feed:
            task_status.started(feed)
            await work(feed.put)

    feed = await gateway.background.start(carry_out, name=f"turn {turn.id}")
    return EventStream(feed.follow)


@operation("GET /api/turns/{turn}/events", TURN, str, stream=True, needs="orders")
async def turn_events(
    gateway: Gateway,
    request: Request,
    target: TurnTarget,
    questions: bool = False,
    after: Count | None = None,
) -> Any:
    """A running turn's events, from its start to its end.

    `questions`: the client can answer them; `after`: the number of the last event that it has.
    """
    if questions:
        require(request.scope, "admin")
    if target.feed is not None:
        return EventStream(partial(target.feed.follow, questions=questions))
    cluster = gateway.backend.cluster
    if cluster is None or not target.orders:
        raise NotFound(f"turn '{target.id}' cannot be watched")
    text = request.headers.get("last-event-id", "0")
    if not text.isdecimal() or not text.isascii():
        raise InvalidRequest("is not a number", field="Last-Event-ID")
    seen = int(text) if after is None else after

    async def follow(put: Put) -> None:
        """Follow a turn of another gateway; a client can resume by the number of an event."""
        try:
            async with aclosing(cluster.watch_order(target.orders[0], seen)) as events:
                async for number, name, body in events:
                    put(b"id: %d\n%s" % (number, sse_frame(body, name)))
        except OpenClawError as error:
            put(sse_frame(event_codec.error_json(error), "error"))

    return EventStream(follow)


def failed(error: BaseException) -> JSONResponse:
    if not isinstance(error, OpenClawError):
        logger.error("a request failed", exc_info=error)
    return JSONResponse({"error": event_codec.error_json(error)}, http_status(error))


@operation("POST /api/messages", OWN, stream=True, needs="orders")
async def post_message(gateway: Gateway, request: Request, body: Message) -> Any:
    """Run a turn; stream its events, or with stream: false return its reply."""
    settings = await gateway.backend.agent.settings(body.agent)
    session = own_session(request.scope, body.session_key or new_session())
    message = _Message(gateway, settings, body, session)
    if body.scope is not None:
        require_owner(request, "working with your own servers")
    if body.workspace is not None:
        require(request.scope, "admin")
        if not is_owner(request.scope):
            await anyio.to_thread.run_sync(checked_folder, gateway.paths, body.workspace)
    if any(item.path is not None for item in body.media):
        require_owner(request, "naming a file instead of sending its content")
    if body.questions:
        require(request.scope, "admin")  # whoever answers questions decides what the agent may do
    check_scope(gateway, body.scope)
    if body.detached:
        return await detached(gateway, message.turn_key, message.stream)
    if body.stream:
        return EventStream(message.stream)
    return WatchedAnswer(message.whole, failed)


@dataclass
class _Message:
    gateway: Gateway
    settings: AgentSettings
    body: Message
    session: str

    def __post_init__(self) -> None:
        if not self.body.text.strip() and not self.body.media:
            raise InvalidRequest("is empty", field="text")
        self.turn = self.body.idempotency_key or random_id()
        self.turn_key = TurnKey(session_owner(self.session), self.turn)

    async def _context(self, files: ExitStack) -> MessageContext:
        attachments = Attachments(self.gateway.paths.temp, files, self.settings.transcriber)
        body = self.body
        for number, item in enumerate(body.media):
            await self._take(item, f"media[{number}]", attachments)
        return MessageContext(
            text=body.text,
            session_key=self.session,
            agent_id=self.settings.id,
            media=tuple(attachments.taken),
            origin=body.origin or "api",
            idempotency_key=self.turn,
            prompt_calls=body.prompt_calls,
            workspace=Path(body.workspace) if body.workspace is not None else None,
            model=body.model,
            thinking=body.thinking,
            scope=body.scope,
        )

    async def _take(self, item: openapi.Media, field: str, attachments: Attachments) -> None:
        if item.path is not None:
            # Only files that a front end put there for an order; clients may not name others.
            if "\0" in item.path:
                raise InvalidRequest("is not a path", field=f"{field}.path")
            _check_inside(Path(item.path), self.gateway.paths.temp, f"{field}.path")
            read = {**item.model_dump(by_alias=True), "data": None, "url": None}
            attachments.taken.append(event_codec.inbound_from(read))
            return
        if item.data is None:
            raise InvalidRequest("has neither data nor path", field=field)
        await attachments.take(item.mime_type, item.data, field, item.name, of_object=True)

    async def whole(self) -> Response:
        with ExitStack() as files:
            reply = await self.gateway.answer(await self._context(files), NO_LISTENER)
        return JSONResponse({"sessionKey": self.session, **event_codec.reply_json(reply)})

    async def stream(self, put: Put) -> None:
        try:
            await self._streamed(put)
        except Exception as error:
            if not isinstance(error, OpenClawError):
                logger.exception("a turn of session %s failed", self.session)
            put(sse_frame(event_codec.error_json(error), "error"))

    async def _streamed(self, put: Put) -> None:
        def tell(name: str, one: Json) -> None:
            put(sse_frame(one, name))

        body = self.body
        accepted = {
            "turn": self.turn,
            "sessionKey": self.session,
            "agent": self.settings.id,
            "settings": event_codec.settings_json(self.settings),
            "text": body.text,
            "attachments": [item.name or item.mime_type for item in body.media],
        }
        tell("accepted", accepted)
        listener = event_codec.listener_to(tell, events=body.events, callbacks=body.callbacks)
        if body.questions:
            asker = GatewayAsker(self.gateway.questions, tell)
            listener = replace(listener, ask=asker.ask)
        with ExitStack() as files:
            reply = await self.gateway.answer(await self._context(files), listener)
        tell("reply", event_codec.reply_json(reply))


def _check_inside(path: Path, directory: Path, field: str) -> None:
    real = path.resolve()
    if not real.is_relative_to(directory.resolve()) or not real.is_file():
        raise InvalidRequest(
            "is not a file of an order", field=field, hint="send the content as data instead"
        )


@operation("GET /api/turns", ALL, {"turns": list[Json]})
async def list_turns(gateway: Gateway) -> Json:
    """The running turns."""
    turns = [
        {
            "turn": turn.id,
            "agent": turn.agent,
            "sessionKey": turn.session,
            "origin": turn.origin,
            "startedAt": turn.started,
        }
        for turn in gateway.turns.running
    ]
    return {"turns": turns}


@operation("POST /api/turns/{turn}/cancel", TURN, {"cancelled": int}, needs="orders")
async def cancel_turn(gateway: Gateway, target: TurnTarget) -> Json:
    """Stop a turn."""
    cluster = gateway.backend.cluster
    stopped = gateway.turns.cancel(lambda turn: turn in target.running) > 0
    for order in target.orders if cluster is not None and not stopped else ():
        assert cluster is not None
        stopped = await cluster.cancel(order) or stopped
    if not stopped:
        raise NotFound(f"no turn '{target.id}' is running")
    return {"cancelled": 1}


@operation("POST /api/sessions/{key:path}/cancel", SESSION, {"cancelled": int}, needs="orders")
async def cancel_session(gateway: Gateway, target: str, agent: str | None = None) -> Json:
    """Stop the turn that is running in a session."""
    cluster = gateway.backend.cluster
    found = await cluster.cancel_session(target, agent) if cluster is not None else 0
    here = gateway.turns.cancel(lambda one: one.session == target and agent in (None, one.agent))
    return {"cancelled": max(found, here)}


@operation("POST /api/sessions/{key:path}/undo", SESSION, needs="orders")
async def undo(
    gateway: Gateway,
    target: str,
    agent: str | None = None,
    redo: bool = False,
) -> Response:
    """Restore the files that the last turn changed; again, those of the turn before it.

    With `redo`, take back the last undo instead.
    """
    settings = await gateway.backend.agent.settings(agent)
    if not await gateway.backend.store.find_sessions(target, settings.id):
        raise NotFound(f"there is no session '{target}'")
    body = validated(Message, {"text": "/redo" if redo else "/undo", "promptCalls": True})
    return await _Message(gateway, settings, body, target).whole()


@operation("POST /api/reload", NOTHING, {"changed": bool, "waiting": list[str]})
async def reload(gateway: Gateway) -> Json:
    """Read the configuration again."""
    report = await gateway.reload()
    return {"changed": bool(report.changed), "waiting": list(report.waiting)}


@operation("GET /api/events", ALL, str, stream=True)
async def events(gateway: Gateway) -> Any:
    """Events as they happen."""

    async def work(put: Put) -> None:
        put(sse_frame({"startedAt": gateway.started}, "hello"))
        await gateway.all_events.follow(put, past=False)

    return EventStream(work)


_TAIL_BYTES = 1024 * 1024
_MOST_LINES = 5000


@operation("GET /api/logs", ALL, {"lines": list[str]})
async def logs(gateway: Gateway, lines: Count = 200) -> Json:
    """The last lines of the log."""
    if gateway.log_file is None:
        raise NotFound("no log file is written")
    count = min(lines, _MOST_LINES)
    return {"lines": await anyio.to_thread.run_sync(_tail, gateway.log_file, count)}


def _tail(path: Path, count: int) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.splitlines()[-count:] if count > 0 else []
