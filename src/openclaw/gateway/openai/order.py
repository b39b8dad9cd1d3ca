"""Runs a request to either of OpenAI's interfaces as one turn."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

import orjson
import pybase64
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from openclaw.agent.port import AgentSettings, ClientResult, MessageContext, Reply, TurnListener
from openclaw.core.content import Block, Media, text_of
from openclaw.core.errors import InvalidRequest, ModelUnavailable
from openclaw.core.events import STARTS_OVER, BlockReply, Event, TextDelta
from openclaw.core.ids import random_id
from openclaw.gateway.api.routes import Attachments, new_session
from openclaw.gateway.api.schema import Json
from openclaw.gateway.auth import own_session
from openclaw.gateway.feeds import EventStream, Put, WatchedAnswer
from openclaw.gateway.openai.requests import (
    call_id,
    error_response,
    flag,
    order_index,
    order_text,
    results_of,
    session_of,
)
from openclaw.gateway.state import Gateway
from openclaw.models.options import ModelOptions

_INLINE_BYTES = 2 * 1024 * 1024
_BETWEEN = "\n\n"


class Written:
    """Collects blocks, pieces and the final answer; says what is to be sent next.

    A text of which only the end counts (`last_only`), such as JSON, is sent when it is complete.
    """

    def __init__(self, *, last_only: bool = False) -> None:
        self._parts: list[str] = []  # finished blocks
        self._open = ""  # the block that is being written
        self._last_only = last_only

    def on_event(self, event: Event) -> str:
        if self._last_only:
            return ""
        if isinstance(event, TextDelta):
            return self._add(event.text)
        if isinstance(event, BlockReply):
            return self._close(text_of(event.blocks))
        return ""

    def add_block(self, blocks: tuple[Block, ...]) -> None:
        """A finished block, if pieces are not watched."""
        if not self._last_only:
            self._close(text_of(blocks))

    def start_over(self) -> bool:
        """The current block is void; false if nothing of it was sent."""
        sent, self._open = bool(self._open), ""
        return sent

    def finish(self, reply: Reply) -> str:
        """What is still to be sent once the answer is there."""
        rest = ""
        if not reply.text.startswith(self._open):
            # What was written so far was given up, and the answer says why.
            rest += self._close(self._open)
        rest += self._close(reply.text)
        if not self._last_only:
            for media in reply.media:
                rest += self._close(_shown(media))
        return rest

    @property
    def text(self) -> str:
        return _BETWEEN.join(part for part in self._parts if part)

    def _add(self, piece: str) -> str:
        lead = _BETWEEN if not self._open and any(self._parts) and piece else ""
        self._open += piece
        return lead + piece

    def _close(self, whole: str) -> str:
        """The block is `whole`: send what of it was not sent yet."""
        sent = self._open
        rest = whole[len(sent) :] if whole.startswith(sent) else ""
        out = self._add(rest) if rest else ""
        self._parts.append(self._open)
        self._open = ""
        return out


def _shown(media: Media) -> str:
    name = (media.name or media.mime_type).translate(str.maketrans("", "", "[]()\n"))
    if media.data is not None and media.kind == "image" and len(media.data) <= _INLINE_BYTES:
        encoded = pybase64.b64encode_as_string(media.data)
        return f"![{name}](data:{media.mime_type};base64,{encoded})"
    if media.url is not None:
        return f"[{name}]({media.url})"
    where = f" at {media.path}" if media.path is not None else ""
    return f"[{name}: {media.mime_type}{where}]"


def reason_of(reply: Reply) -> str:
    """Why the answer ended: stop, length, content_filter or tool_calls."""
    if reply.outcome == "limit":
        return "length"
    if reply.calls:
        return "tool_calls"
    return reply.finish_reason if reply.finish_reason in ("length", "content_filter") else "stop"


class Order(ABC):
    """One request: prepared once the answer has begun, so that its files live as long as it does."""

    field: ClassVar[str]  # where the messages are in the request

    def __init__(
        self,
        gateway: Gateway,
        settings: AgentSettings,
        request: Request,
        body: Json,
        messages: Sequence[Json],
        options: ModelOptions,
    ) -> None:
        order_index(messages, self.field)
        self.gateway = gateway
        self.agent = settings.id
        self.body = body
        self.session = ""
        self.turn = random_id()
        self.headers = {"x-openclaw-turn": self.turn}
        self._settings = settings
        self._request = request
        self._messages = messages
        self._options = options
        self._continued = False
        self._results: list[ClientResult] = []

    async def join(self, previous: str | None = None) -> None:
        """Find the session: the one that is named, that is followed, or that waits for a result."""
        waiting = None
        id, results = results_of(self._messages, self.field)
        if id is not None:
            self._results = results
            found = await self.gateway.backend.store.find_sessions(id, self.agent)
            waiting = next((one.key for one in found if one.id == id), None)
            if waiting is None:
                told = "no call with this id is waiting for a result"
                raise InvalidRequest(told, field="tool_call_id")
        if previous is not None and waiting is not None and previous != waiting:
            raise InvalidRequest("the call belongs to another conversation", field="call_id")
        followed = previous or waiting
        named = session_of(self._request) or followed
        if self._results and named != followed:
            raise InvalidRequest("the call belongs to another session", field="tool_call_id")
        self._continued = named is not None
        self.session = named or own_session(self._request.scope, new_session())

    def respond(self) -> Any:
        if flag(self.body, "stream"):
            return EventStream(self.stream, headers=self.headers)
        return WatchedAnswer(self._whole, error_response)

    @abstractmethod
    def rendered(self, text: str, reply: Reply) -> Json:
        """The body of the whole answer."""

    @abstractmethod
    async def stream(self, put: Put) -> None:
        """Put the answer as it is written, to its end or to the error that ended it."""

    async def _whole(self) -> Response:
        written = Written(last_only=self._options.structured)
        reply = await self._answered(TurnListener(on_block_reply=written.add_block))
        written.finish(reply)
        return JSONResponse(self.rendered(written.text, reply), headers=self.headers)

    async def write(
        self, piece: Callable[[str], None], start_over: Callable[[str], None]
    ) -> tuple[str, Reply]:
        """Call `piece` with each piece of the text as it comes; returns all of it and the reply.

        If the last block that was sent is void, `start_over` gets the text before it.
        """
        written = Written(last_only=self._options.structured)

        def on_event(event: Event) -> None:
            if event == STARTS_OVER and written.start_over():
                start_over(written.text)
            if text := written.on_event(event):
                piece(text)

        reply = await self._answered(TurnListener(on_event=on_event))
        if rest := written.finish(reply):
            piece(rest)
        return written.text, reply

    @staticmethod
    def calls(reply: Reply) -> list[tuple[str, str, str]]:
        return [
            (call_id(reply.session_id, call.id), call.name, call.arguments) for call in reply.calls
        ]

    async def _answered(self, listener: TurnListener) -> Reply:
        """The agent's reply; raises if it is not the JSON that was asked for."""
        with ExitStack() as files:
            attachments = Attachments(self.gateway.paths.temp, files, self._settings.transcriber)
            text = await order_text(
                self._messages, self.field, attachments, continued=self._continued
            )
            context = MessageContext(
                text=text,
                session_key=self.session,
                agent_id=self.agent,
                media=tuple(attachments.taken),
                origin="openai",
                idempotency_key=self.turn,
                options=self._options,
                results=tuple(self._results),
            )
            reply = await self.gateway.answer(context, listener)
        if self._options.structured and reason_of(reply) == "stop":  # one that was cut says so
            try:
                orjson.loads(reply.text)
            except orjson.JSONDecodeError as error:
                raise ModelUnavailable(
                    f"the model's answer is not the JSON that was asked for: {error}",
                    hint="ask again, or use a model that supports structured output",
                ) from None
        return reply
